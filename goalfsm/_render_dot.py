"""A machine in Graphviz's language: every row with its guard and effects (decisions 25)."""

from __future__ import annotations

from collections.abc import Collection

from goalfsm._diagram_text import arrows, dot_text, taken_words, wrapped
from goalfsm._ir import Row, Spec, State
from goalfsm._render_mermaid import COLOURS, HIGHLIGHT

__all__ = ["dot"]

_WIDTH = 60
_FONT = 'fontname="Helvetica,Arial,sans-serif"'


def dot(spec: Spec, *, highlight: str = "", ignored: bool = False, taken: Collection[Row] | None = None) -> str:
    """Draw a machine in DOT.

    Args:
        spec: the machine.
        highlight: a state to be painted in a signal colour.
        ignored: draw the ignore rows too.
        taken: the rows that a run took; arrows without any are drawn in a signal colour, dashed.

    Returns:
        The text of the graph, ending in a newline.
    """
    lines = [
        f"digraph {dot_text(spec.machine)} {{",
        f'  graph [label={dot_text(spec.machine)}, labelloc="t", bgcolor="white", {_FONT}];',
        f'  node [shape="box", style="rounded,filled", {_FONT}];',
        f'  edge [fontsize="10", {_FONT}];',
        '  "->" [shape="point", width="0.15", label="", style="filled"];',
    ]
    found = list(arrows(spec, ignored=ignored))
    inside = {source: rows for source, target, rows in found if target is None}
    # Graphviz keeps names that begin with % for itself.
    ids = {
        name: f'"{name}"' if name.isascii() and name.isidentifier() else str(n) for n, name in enumerate(spec.states)
    }
    lines += [
        f"  {ids[state.name]} {_node(state, inside.get(state.name, []), highlight=highlight, taken=taken)};"
        for state in spec.states.values()
    ]
    if spec.initial in spec.states:
        lines.append(f'  "->" -> {ids[spec.initial]};')
    lines += [
        f'  {ids[source]} -> {ids[target]} [label="{_words(rows, taken)}"{_stroke(rows, taken)}];'
        for source, target, rows in found
        if target is not None
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _words(rows: list[Row], taken: Collection[Row] | None) -> str:
    # Each line ends in \\l: Graphviz sets it to the left.
    words = [taken_words(row, taken) for row in rows]
    return "".join(dot_text(line)[1:-1] + "\\l" for line in wrapped(words, _WIDTH))


def _stroke(rows: list[Row], taken: Collection[Row] | None) -> str:
    if taken is None:
        return ""
    if all(row not in taken for row in rows):
        return f', color="{HIGHLIGHT[1]}", fontcolor="{HIGHLIGHT[1]}", style="dashed"'
    return f', color="{COLOURS["final"][1]}", penwidth="2"'


def _node(state: State, inside: list[Row], *, highlight: str, taken: Collection[Row] | None) -> str:
    fill, stroke, text = HIGHLIGHT if state.name == highlight else COLOURS[state.kind]
    width = "4" if state.name == highlight else "1"
    double = ', peripheries="2"' if state.kind == "final" else ""
    paint = f'fillcolor="{fill}", color="{stroke}", fontcolor="{text}", penwidth="{width}"'
    label = dot_text(state.name)[1:-1] + ("\\n" + _words(inside, taken) if inside else "")
    return f'[label="{label}", {paint}{double}]'
