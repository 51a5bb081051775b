"""Diagrams and tables say every declared row and nothing else, judged by the formats' own parsers."""

from __future__ import annotations

import random
import re
import shutil
from html import unescape
from itertools import pairwise
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

import goalfsm
from goalfsm import diagrams
from goalfsm._builtin import builtin_names
from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._ir import EffectDecl, EventDecl, Hint, Picture, Row, Spec, State
from goalfsm.cli import main

ROOT = Path(__file__).parent.parent
TURNSTILE = ROOT / "examples" / "turnstile.toml"
KEYWORDS = ("end", "state", "note", "class", "style", "graph", "node", "subgraph", "default", "direction", "click")


def keyword_machine():
    states = {name: State(name) for name in (*KEYWORDS, "größe", "_x_")}
    names = list(states)
    rows = [
        Row("row", index, (source,), ("end",), to=target, do=("graph",), why="w")
        for index, (source, target) in enumerate(zip(names, [*names[1:], names[0]], strict=True))
    ]
    rows.append(Row("ignore", 0, tuple(names), ("state",), guard="note", why="w"))
    events = {name: EventDecl(name, "command") for name in ("end", "state")}
    effects = {"graph": EffectDecl("graph")}
    return Spec("subgraph", "end", {"command": "reject"}, states, events, effects, tuple(rows), {})


MACHINES = {name: goalfsm.builtin_spec(name) for name in builtin_names()}
MACHINES |= {"turnstile": goalfsm.load_spec(TURNSTILE), "keywords": keyword_machine()}
every_machine = pytest.mark.parametrize("name", list(MACHINES))


def words(row):
    """What a picture must say of a row."""
    guard = f" [{row.guard}]" if row.guard else ""
    effects = f" / {', '.join(row.do)}" if row.do else ""
    return ("ignored: " if row.kind == "ignore" else "") + ", ".join(row.events) + guard + effects


def expected(spec, *, ignored):
    """(source, target or None) -> the words of its rows, in the order they are tried."""
    found = {}
    for row in spec.rows:
        if ignored or row.kind == "row":
            for source in row.sources:
                found.setdefault((source, row.to), []).append(words(row))
    return found


def bullets(text):
    """The rows that a label lists: one line of text, or one bullet each."""
    parts = [" ".join(part.split()) for part in text.split("• ")]
    return [part for part in parts if part]


# -- every row in every picture ----------------------------------------------------------------------------------------


def drawn_in_mermaid(spec, answer):
    nodes = {node["id"]: node["lines"] for node in answer["nodes"]}
    names = {key: lines[0] for key, lines in nodes.items()}
    found = {}
    for key, lines in nodes.items():
        if lines[1:] and not key.startswith("root_"):
            found[names[key], None] = bullets("\n".join(lines[1:]))
    for edge in answer["edges"]:
        if not edge["from"].startswith("root_") and not edge["to"].startswith("root_"):
            assert (names[edge["from"]], names[edge["to"]]) not in found, "one arrow per pair"
            found[names[edge["from"]], names[edge["to"]]] = bullets(edge["label"])
    return found, set(names.values())


@every_machine
@pytest.mark.parametrize("ignored", [False, True], ids=["moves", "with-ignored"])
def test_mermaid_shows_every_row_with_guard_and_effects(parsers, name, ignored):
    spec = MACHINES[name]
    (answer,) = parsers.read("mermaid", diagrams.mermaid(spec, ignored=ignored))
    found, names = drawn_in_mermaid(spec, answer)
    assert found == expected(spec, ignored=ignored)
    assert set(spec.states) <= names


@every_machine
@pytest.mark.parametrize("ignored", [False, True], ids=["moves", "with-ignored"])
def test_dot_shows_every_row_with_guard_and_effects(parsers, name, ignored):
    spec = MACHINES[name]
    (answer,) = parsers.read("dot", diagrams.dot(spec, ignored=ignored))
    nodes = {}
    found = {}
    for node in answer["graph"]["objects"]:
        head, _, rest = node["label"].partition("\\n")
        nodes[node["_gvid"]] = head or node["name"]
        if rest:
            found[head, None] = bullets(rest.replace("\\l", "\n"))
    for edge in answer["graph"]["edges"]:
        ends = nodes[edge["tail"]], nodes[edge["head"]]
        if ends[0] != "->":
            found[ends] = bullets(edge["label"].replace("\\l", "\n"))
    assert found == expected(spec, ignored=ignored)


def tables(text):
    """Every table of a Markdown text: rows of cells, as a reader sees them."""
    markdown = MarkdownIt("commonmark").enable("table")
    html = markdown.render(text)
    assert "<script" not in html
    found = []
    for table in re.findall(r"<table>(.*?)</table>", html, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        found.append(
            [
                [
                    unescape(re.sub(r"</?strong>", "", cell))
                    for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)
                ]
                for row in rows
            ]
        )
    return {tuple(table[0]): table[1:] for table in found}


@every_machine
def test_tables_list_every_row_and_every_ignore_row_with_its_why(name):
    spec = MACHINES[name]
    found = tables(diagrams.table(spec))
    moves = found["from", "event", "guard", "to", "writes", "effects", "why"]
    rows = [row for row in spec.rows if row.kind == "row"]
    for cells, row in zip(moves, rows, strict=True):
        sources = "any" if row.everywhere else ", ".join(row.sources)
        assert [*cells[:4], *cells[5:]] == [
            sources,
            ", ".join(row.events),
            row.guard or "",
            row.to or "",
            ", ".join(row.do),
            row.why,
        ]
        assert all(word in cells[4] for word in (*row.save, *row.set, *row.clear))
    ignored = found.get(("from", "event", "guard", "why"), [])
    quiet = [row for row in spec.rows if row.kind == "ignore"]
    assert [cells[1:] for cells in ignored] == [[", ".join(row.events), row.guard or "", row.why] for row in quiet]
    assert [cells[0] for cells in found["state", "kind", "clears", "meaning"]] == list(spec.states)
    assert [cells[0] for cells in found["event", "origin", "fields", "meaning"]] == list(spec.events)


@every_machine
def test_a_highlighted_state_is_painted_in_every_format(parsers, name):
    spec = MACHINES[name]
    state = list(spec.states)[-1]
    (answer,) = parsers.read("mermaid", diagrams.mermaid(spec, highlight=state))
    painted = [node["lines"][0] for node in answer["nodes"] if "highlighted" in node["classes"]]
    assert painted == [state]
    assert diagrams.dot(spec, highlight=state).count('penwidth="4"') == 1
    assert diagrams.table(spec, highlight=state) != diagrams.table(spec)


def test_a_state_that_does_not_exist_cannot_be_highlighted():
    with pytest.raises(UnknownName, match="did you mean 'uncertain'"):
        diagrams.mermaid(MACHINES["follow_up"], highlight="uncertian")


# -- the overview ------------------------------------------------------------------------------------------------------


@every_machine
def test_the_overview_is_read_by_mermaid_and_draws_only_ways_that_rows_make(parsers, name):
    spec = MACHINES[name]
    (answer,) = parsers.read("mermaid", diagrams.overview(spec))
    ways = {(source, row.to) for row in spec.rows for source in row.sources if row.to}
    boxes = {
        node["id"]: {
            state
            for state in spec.states
            if state in node["lines"][0].replace("<b>", "\n").replace("</b>", "\n").split("\n")
        }
        for node in answer["nodes"]
    }
    for edge in answer["edges"]:
        if edge["from"] != "begin":
            assert any((a, b) in ways for a in boxes[edge["from"]] for b in boxes[edge["to"]]), edge
    assert [boxes[edge["to"]] for edge in answer["edges"] if edge["from"] == "begin"] == [{spec.initial}]


def test_the_follow_ups_usual_way_is_drawn_large(parsers):
    (answer,) = parsers.read("mermaid", diagrams.overview(MACHINES["follow_up"]))
    thick = [(edge["from"], edge["to"]) for edge in answer["edges"] if edge["thick"]]
    way = ["begin", "s_queued", "s_admitted", "s_accepted", "s_delivering", "s_acknowledged", "s_delivered"]
    assert thick == list(pairwise(way))
    assert "rarer ways" in diagrams.legend(MACHINES["follow_up"])


# -- texts that people chose -------------------------------------------------------------------------------------------

HOSTILE = [
    'say "hi" \'there\'', "a\nb\r\n\tc", "x --> y", "%% gone", "%%{init: {}}%%", "one; two", "<script>alert(1)</script>",
    "`code`", "a | b", "größe ß ﬂ°°60¶ß 😀 日本", "\x00\x1b[31m\x7f", "\u202egnp.exe", "#35; #lt; &lt; &amp;", '\\N\\l\\"',
    "end", "note right of x", "[*]", "{{x}}", "1. one", "**bold** _it_ ~~no~~ $x$", "</textarea><b>", "<br/>", "-- comment",
    "--- ", "wrap: x", "a,b", ":::x", "style a:#;", "classDef x:#y;", "@{shape: rect}", "", "\ud800",
]  # fmt: skip


def shown(text):
    """How a text may look to a reader: every sign visible, white space run together."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in " ".join(text.split())
    )


def hostile_machine(texts):
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    states = {text: State(text, "final" if n % 3 == 2 else "wait", doc=text) for n, text in enumerate(texts)}
    events = {text: EventDecl(text, "command", {text: "str"}, doc=text) for text in texts}
    effects = {text: EffectDecl(text, text) for text in texts}
    rows = [
        Row(
            "row",
            n,
            (text,),
            (text,),
            to=texts[(n + 1) % len(texts)],
            guard=text,
            save=(text,),
            set={text: text},
            do=(text,),
            why=text,
        )
        for n, text in enumerate(texts)
    ]
    rows += [Row("row", len(texts) + n, (text,), (text,), why=text) for n, text in enumerate(texts)]
    rows += [Row("ignore", n, (text,), (text,), guard=text, why=text) for n, text in enumerate(texts)]
    hints = tuple(Hint((row.sources[0],), row.to, row.why) for row in rows if row.to)
    picture = Picture(tuple(texts[:3]), (), {text: text for text in texts}, hints)
    return Spec(texts[0], texts[0], {"command": "reject"}, states, events, effects, tuple(rows), {}, picture=picture)


def hostile_row_labels(spec):
    """What each arrow and box must say, with texts that may themselves look like bullets."""
    return {key: [shown(text) for text in lines] for key, lines in expected(spec, ignored=True).items()}


def test_hostile_texts_in_a_state_diagram_stay_texts(parsers):
    spec = hostile_machine(HOSTILE)
    (answer,) = parsers.read("mermaid", diagrams.mermaid(spec, highlight=HOSTILE[0], ignored=True))
    names = {
        f"s_{name}" if re.fullmatch(r"[A-Za-z0-9_]+", name) else f"s_{n}": name for n, name in enumerate(spec.states)
    }
    nodes = {node["id"]: node for node in answer["nodes"] if not node["id"].startswith("root_")}
    assert {key: node["lines"][0] for key, node in nodes.items()} == {key: shown(name) for key, name in names.items()}
    rows = hostile_row_labels(spec)
    for key, node in nodes.items():
        assert flat("".join(node["lines"][1:])) == flat("".join(f"• {line}" for line in rows[names[key], None]))
    edges = [
        edge for edge in answer["edges"] if not edge["from"].startswith("root_") and not edge["to"].startswith("root_")
    ]
    assert len(edges) == len(nodes)
    for edge in edges:
        assert flat(edge["label"]) == flat("".join(rows[names[edge["from"]], names[edge["to"]]]))


def plain(label):
    """What Graphviz draws of a label: breaks, then escaped signs, then entities."""
    broken = re.sub(r"\\(.)", lambda found: {"n": "\n", "l": "\n"}.get(found[1], found[1]), label)
    return unescape(broken)


def flat(text):
    return re.sub(r"\s+", "", text)


def test_hostile_texts_in_an_overview_stay_texts(parsers):
    spec = hostile_machine(HOSTILE)
    (answer,) = parsers.read("mermaid", diagrams.overview(spec))
    labels = {flat(node["lines"][0]) for node in answer["nodes"]}
    assert labels >= {flat(f"<b>{shown(name)}</b>{shown(name)}") for name in spec.states}
    assert {flat(edge["label"]) for edge in answer["edges"]} >= {flat(shown(name)) for name in spec.states}


def test_hostile_texts_in_a_graph_stay_texts(parsers):
    spec = hostile_machine(HOSTILE)
    (answer,) = parsers.read("dot", diagrams.dot(spec, highlight=HOSTILE[0], ignored=True))
    labels = [flat(plain(node["label"])) for node in answer["graph"]["objects"] if node["name"] != "->"]
    rows = hostile_row_labels(spec)
    assert labels == [flat(shown(name) + "".join(f"• {line}" for line in rows[name, None])) for name in spec.states]
    arrows = [flat(plain(edge["label"])) for edge in answer["graph"]["edges"] if edge.get("label")]
    assert arrows == [flat(lines[0]) for (_, target), lines in rows.items() if target]


def test_hostile_texts_in_tables_stay_texts():
    spec = hostile_machine(HOSTILE)
    found = tables(diagrams.table(spec, highlight=HOSTILE[0]))
    seen = [shown(name) for name in spec.states]
    assert [[cells[0], cells[3]] for cells in found["state", "kind", "clears", "meaning"]] == [
        [name, name] for name in seen
    ]
    assert found["effect", "meaning"] == [[name, name] for name in seen]
    moves = found["from", "event", "guard", "to", "writes", "effects", "why"]
    assert [[c[0], c[1], c[2], c[5], c[6]] for c in moves[: len(seen)]] == [[name] * 5 for name in seen]
    assert [cells[3] for cells in found["from", "event", "guard", "why"]] == seen


def test_random_texts_stay_texts(parsers):
    chance = random.Random(7)
    signs = "abc -->:;#%{}[]()<>\"'`|\\/&~*_\n\t\x07é→ß¶°ﬂ😀=+.,@!?^$"
    texts = ["".join(chance.choices(signs, k=chance.randint(1, 30))) for _ in range(150)]
    spec = hostile_machine(texts)
    answer, overview = parsers.read("mermaid", diagrams.mermaid(spec), diagrams.overview(spec))
    names = [node["lines"][0] for node in answer["nodes"] if not node["id"].startswith("root_")]
    assert names == [shown(name) for name in spec.states]
    assert len(overview["nodes"]) == len(spec.states) + 1
    assert [cells[0] for cells in tables(diagrams.table(spec))["effect", "meaning"]] == names
    parsers.read("dot", diagrams.dot(spec))


# -- the command -------------------------------------------------------------------------------------------------------


def command(*words):
    result = CliRunner().invoke(main, ["diagram", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("machine", [*builtin_names(), pytest.param(str(TURNSTILE), id="turnstile")])
@pytest.mark.parametrize("kind", ["mermaid", "overview", "dot", "table"])
def test_the_command_prints_every_text_format_for_our_machines_and_for_ones_own_file(machine, kind):
    spec = MACHINES["turnstile"] if machine == str(TURNSTILE) else MACHINES[machine]
    result = command(machine, "--format", kind)
    assert (result.exit_code, result.stdout) == (0, getattr(diagrams, kind)(spec))


def test_the_command_writes_a_file(tmp_path):
    result = command("turn", "--ignored", "--highlight", "idle", "-o", tmp_path / "turn.mmd")
    assert (result.exit_code, result.stdout) == (0, "")
    text = diagrams.mermaid(MACHINES["turn"], highlight="idle", ignored=True)
    assert (tmp_path / "turn.mmd").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["folow_up"], "did you mean 'follow_up'"),
        (["turn", "--highlight", "idel"], "did you mean 'idle'"),
        (["turn", "--format", "gif"], "'gif' is not one of"),
        (["turn", "-o", "no/such/folder/x"], "cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_drawn_is_exit_2_with_a_reason(arguments, text):
    result = command(*arguments)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_without_graphviz_an_image_is_refused_with_advice(monkeypatch, tmp_path, kind):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = command("turn", "--format", kind)
    assert result.exit_code == 1
    assert "needs Graphviz" in result.stderr
    assert "mermaid" in result.stderr


def fake_dot(folder, script):
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_with_graphviz_the_image_is_what_dot_makes_of_the_graph(monkeypatch, tmp_path):
    fake_dot(tmp_path, 'echo "$1"; cat')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    result = command("turn", "--format", "svg", "--highlight", "idle")
    assert result.stdout == "-Tsvg\n" + diagrams.dot(MACHINES["turn"], highlight="idle")


def test_what_dot_complains_about_is_told(monkeypatch, tmp_path):
    fake_dot(tmp_path, "echo 'no layout today' >&2; exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(GoalfsmError, match="exit code 3: no layout today"):
        diagrams.image(MACHINES["turn"], "svg")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize(("kind", "sign"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_the_real_graphviz_draws_every_machine(kind, sign):
    for spec in MACHINES.values():
        assert sign in diagrams.image(spec, kind)


# -- the picture of transitions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_names())
def test_transitions_live_graph_colours_where_the_machine_stands(parsers, name):
    machine = goalfsm.to_transitions(MACHINES[name], graph=True)
    spec = MACHINES[name]
    event = next(
        row.events[0] for row in spec.rows if spec.initial in row.sources and row.to and row.to != spec.initial
    )
    before = machine.get_graph().draw(None)
    row = next(row for row in spec.rows if spec.initial in row.sources and event in row.events)
    bound = {guard: (lambda *_: True) for guard in spec.guard_names}
    moved = goalfsm.to_transitions(spec, graph=True, guards=bound)
    moved.model.trigger(
        event,
        **{field: {"str": "", "int": 0, "bool": False}[kind] for field, kind in spec.events[event].fields.items()},
    )
    after = moved.get_graph().draw(None)
    assert f"Class {spec.initial} s_active" in before
    assert f"Class {row.to} s_active" in after
    parsers.read("mermaid", before, after)


# -- generated files ---------------------------------------------------------------------------------------------------


def gen(*arguments):
    result = CliRunner().invoke(main, ["gen", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_generated_files_of_this_project_are_what_the_specs_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    result = gen("--check")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    passage = "# Hello\n\n<!-- generated: overview turn -->\nold\n<!-- end generated -->\n\nbye\n"
    (tmp_path / "README.md").write_text(passage, encoding="utf-8")
    assert gen().exit_code == 0
    return tmp_path


def test_generating_twice_changes_nothing_and_what_a_person_wrote_stays(project):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert len(before) == 1 + 3 * len(builtin_names())
    assert gen().exit_code == 0
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    readme = before[project / "README.md"].decode()
    assert readme.startswith("# Hello\n\n<!-- generated: overview turn -->\n```mermaid\n")
    assert readme.endswith("<!-- end generated -->\n\nbye\n")
    assert diagrams.overview(MACHINES["turn"]) in readme


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("diagrams/turn.md", "is not what the specs say"),
        ("diagrams/goal.dot", "is not what the specs say"),
        ("README.md", "is not what the specs say"),
        ("diagrams/operation.mmd", "is missing"),
        ("diagrams/old.mmd", "is generated from no spec any more"),
    ],
)
def test_check_names_any_difference_and_writes_nothing(project, path, text):
    changed = project / path
    if text == "is missing":
        changed.unlink()
    elif "no spec" in text:
        changed.write_bytes((project / "diagrams/turn.mmd").read_bytes())
    else:
        changed.write_bytes(changed.read_bytes().replace(b"idle", b"idel").replace(b"none", b"nune"))
    before = changed.read_bytes() if changed.exists() else None
    result = gen("--check")
    assert (result.exit_code, result.stdout) == (1, f"{path}: {text}\n")
    assert "run `goalfsm gen`" in result.stderr
    assert (changed.read_bytes() if changed.exists() else None) == before
    assert gen().exit_code == 0
    assert gen("--check").exit_code == 0


def test_a_file_of_a_person_in_the_folder_is_left_alone(project):
    (project / "diagrams" / "notes.md").write_text("mine\n")
    assert gen("--check").exit_code == 0
    assert gen().exit_code == 0
    assert (project / "diagrams" / "notes.md").read_text() == "mine\n"


def test_ones_own_machine_gets_its_pages_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(TURNSTILE, tmp_path)
    (tmp_path / "page.md").write_text("<!-- generated: table turnstile.toml -->\n<!-- end generated -->\n")
    assert gen("turnstile.toml", "--into", "out", "--page", "page.md").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "turnstile.dot",
        "turnstile.md",
        "turnstile.mmd",
    ]
    assert "too little, or already open" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<!-- generated: overview turn -->\n", "1 passages are opened, but only 0"),
        ("<!-- generated: poem turn -->\n<!-- end generated -->", "cannot generate 'poem'"),
        ("<!-- generated: table nope -->\n<!-- end generated -->", "'nope' is neither a file nor a built-in machine"),
        (
            "<!-- generated: table turn -->\n<!-- generated: table goal -->\n<!-- end generated -->",
            "has no '<!-- end generated -->'",
        ),
    ],
)
def test_a_passage_that_cannot_be_generated_is_named_and_nothing_is_written(tmp_path, monkeypatch, page, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text(page)
    result = gen()
    assert result.exit_code in (1, 2)
    assert text in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_the_banner_cannot_be_broken_by_the_name_of_a_file(tmp_path, monkeypatch, parsers):
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "a --> b.toml"
    shutil.copy(TURNSTILE, odd)
    assert gen(odd.name).exit_code == 0
    page = (tmp_path / "diagrams" / "turnstile.md").read_text()
    assert page.index("-->") == page.index(" -->\n\n# turnstile") + 1
    parsers.read("mermaid", (tmp_path / "diagrams" / "turnstile.mmd").read_text())
    parsers.read("dot", (tmp_path / "diagrams" / "turnstile.dot").read_text())


@every_machine
def test_output_depends_on_the_spec_alone(name):
    spec = MACHINES[name]
    again = attrs.evolve(spec, path="elsewhere.toml", digest="0")
    assert diagrams.mermaid(spec) == diagrams.mermaid(again)
    assert diagrams.table(spec) == diagrams.table(again)
    assert diagrams.dot(spec) == diagrams.dot(again)
