"""A machine as a Mermaid state diagram: every row with its guard and effects (decisions 25)."""

from __future__ import annotations

from collections.abc import Collection

from goalfsm._diagram_text import arrows, mermaid_text, taken_words, wrapped
from goalfsm._ir import Row, Spec

__all__ = ["COLOURS", "HIGHLIGHT", "mermaid", "state_ids"]

# Fill, stroke and text by kind of state; with the text's colour named they can be read on a light and on a dark page.
COLOURS = {
    "wait": ("#ddf4ff", "#0969da", "#0a3069"),
    "call": ("#fff8c5", "#9a6700", "#4d2d00"),
    "final": ("#dafbe1", "#1a7f37", "#0f3d1d"),
}
HIGHLIGHT = ("#ffb3c7", "#cf222e", "#4c0014")
_WIDTH = 30


def state_ids(spec: Spec) -> dict[str, str]:
    """Give each state a name that Mermaid takes for nothing else: `end`, `state` or `note` would be words to it."""
    return {
        name: f"s_{name}" if name.isascii() and name.replace("_", "").isalnum() else f"s_{number}"
        for number, name in enumerate(spec.states)
    }


def mermaid(spec: Spec, *, highlight: str = "", ignored: bool = False, taken: Collection[Row] | None = None) -> str:
    """Draw a machine as a Mermaid state diagram.

    Args:
        spec: the machine.
        highlight: a state to be painted in a signal colour.
        ignored: draw the ignore rows too.
        taken: the rows that a run took; the others are marked in words, as Mermaid cannot paint an arrow of a state.

    Returns:
        The text of the diagram, ending in a newline.
    """
    ids = state_ids(spec)
    lines = ["stateDiagram-v2", f"  accTitle: {mermaid_text(spec.machine)}"]
    lines += [f'  state "{mermaid_text(name)}" as {ids[name]}' for name in spec.states]
    if spec.initial in ids:
        lines.append(f"  [*] --> {ids[spec.initial]}")
    for source, target, rows in arrows(spec, ignored=ignored):
        words = "<br/>".join(mermaid_text(line) for line in wrapped([taken_words(row, taken) for row in rows], _WIDTH))
        lines.append(f"  {ids[source]} : {words}" if target is None else f"  {ids[source]} --> {ids[target]} : {words}")
    lines += [f"  {ids[state.name]} --> [*]" for state in spec.states.values() if state.kind == "final"]
    lines += _paint(spec, ids, highlight)
    return "\n".join(lines) + "\n"


def _paint(spec: Spec, ids: dict[str, str], highlight: str) -> list[str]:
    lines = []
    for kind, (fill, stroke, text) in COLOURS.items():
        names = [ids[state.name] for state in spec.states.values() if state.kind == kind and state.name != highlight]
        if names:
            lines.append(f"  classDef {kind}State fill:{fill},stroke:{stroke},color:{text}")
            lines.append(f"  class {','.join(names)} {kind}State")
    if highlight:
        fill, stroke, text = HIGHLIGHT
        lines.append(f"  classDef highlighted fill:{fill},stroke:{stroke},color:{text},stroke-width:4px")
        lines.append(f"  class {ids[highlight]} highlighted")
    return lines
