// Reads {kind, text} per line and answers with what the real parser understood of the text, or with its complaint.
import { createInterface } from "node:readline";
import { JSDOM } from "jsdom";

const page = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
globalThis.window = page.window;
globalThis.document = page.window.document;
const { default: mermaid } = await import("mermaid");
const { Graphviz } = await import("@hpcc-js/wasm-graphviz");
const graphviz = await Graphviz.load();
mermaid.initialize({ startOnLoad: false });

// What a reader sees in the end: Mermaid turns entities back at the very end of drawing, and breaks into lines.
const entities = page.window.document.createElement("textarea");
function seen(text) {
  const lines = [].concat(text ?? "").join("\n").split(/<br ?\/?>/).join("\n");
  // Twice, as in a browser: once for the label, once for the whole picture.
  return decoded(decoded(lines).replace(/&/g, "&amp;")).replace(/\u200b/g, "");
}

function decoded(text) {
  const back = text.replace(/ﬂ°°/g, "&#").replace(/ﬂ°/g, "&").replace(/¶ß/g, ";");
  entities.innerHTML = back.replace(/</g, "&lt;");
  return entities.value;
}

function understood({ type, db }) {
  if (type === "sequence") {
    return {
      actors: [...db.getActors().values()].map((actor) => seen(actor.description)),
      messages: db.getMessages().map((m) => ({ from: m.from, to: m.to, text: seen(m.message) })),
    };
  }
  const data = db.getData();
  return {
    nodes: data.nodes.map((node) => ({ id: node.id, lines: [node.label, node.description].flat().map(seen), classes: node.cssClasses ?? "" })),
    edges: data.edges.map((edge) => ({ from: edge.start, to: edge.end, label: seen(edge.label), thick: edge.thickness === "thick" })),
  };
}

async function read({ kind, text }) {
  try {
    if (kind === "dot") return { graph: JSON.parse(graphviz.dot(text, "json0")), canon: graphviz.dot(text, "canon") };
    await mermaid.parse(text);
    const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
    return { type: diagram.type, ...understood(diagram) };
  } catch (problem) {
    return { error: String(problem?.message ?? problem) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await read(JSON.parse(line))) + "\n");
}
