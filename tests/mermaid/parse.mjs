// Reads [{kind, text}] from stdin and prints what the real parsers understood of each text, or their complaint.
import { JSDOM } from "jsdom";

const page = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
globalThis.window = page.window;
globalThis.document = page.window.document;
const { default: mermaid } = await import("mermaid");
const { Graphviz } = await import("@hpcc-js/wasm-graphviz");
const graphviz = await Graphviz.load();
mermaid.initialize({ startOnLoad: false });

// As the renderer does at its very end: entities become the signs that a reader sees.
const seen = (text) => {
  const box = page.window.document.createElement("textarea");
  box.innerHTML = String(text ?? "").replace(/ﬂ°°/g, "&#").replace(/ﬂ°/g, "&").replace(/¶ß/g, ";")
    .replace(/</g, "&lt;").replace(/&lt;br ?\/?&gt;/g, "\n");
  return box.value;
};

function understood(diagram) {
  const db = diagram.db;
  if (diagram.type.startsWith("state")) {
    const data = db.getData();
    return {
      nodes: data.nodes.map((n) => ({ id: n.id, label: seen([].concat(n.label).join(" ")), classes: n.cssClasses ?? "" })),
      edges: data.edges.map((e) => ({ from: e.start, to: e.end, label: seen(e.label) })),
    };
  }
  if (diagram.type.startsWith("flowchart")) {
    const data = db.getData();
    return {
      nodes: data.nodes.map((n) => ({ id: n.id, label: seen(n.label), group: n.parentId ?? "", isGroup: n.isGroup })),
      edges: data.edges.map((e) => ({ from: e.start, to: e.end, label: seen(e.label), thick: e.thickness })),
    };
  }
  return {
    actors: [...db.getActors().values()].map((a) => ({ id: a.name, label: seen(a.description) })),
    messages: db.getMessages().map((m) => ({ from: m.from ?? "", to: m.to ?? "", text: seen(m.message?.text ?? m.message), type: m.type })),
  };
}

async function read({ kind, text }) {
  try {
    if (kind === "dot") return { canon: graphviz.dot(text, "canon"), json: JSON.parse(graphviz.dot(text, "json0")) };
    await mermaid.parse(text);
    const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
    return { type: diagram.type, ...understood(diagram) };
  } catch (problem) {
    return { error: String(problem?.message ?? problem) };
  }
}

let input = "";
for await (const chunk of process.stdin) input += chunk;
const answers = [];
for (const asked of JSON.parse(input)) answers.push(await read(asked));
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
