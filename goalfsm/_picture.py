"""The overview of a machine for somebody who has never seen it: few boxes, plain words, the usual way drawn large."""

from __future__ import annotations

from itertools import pairwise

from goalfsm._diagram_text import markdown_text, mermaid_text
from goalfsm._ir import Hint, Picture, Spec
from goalfsm._render_mermaid import COLOURS, state_ids

__all__ = ["legend", "overview"]

_ASIDE = ("#f6f8fa", "#656d76", "#1f2328")
_EVENTS_SHOWN = 3


def overview(spec: Spec) -> str:
    """Draw the overview of a machine as a Mermaid flowchart.

    What the spec's `[picture]` declares is drawn, and that is checked against the rows when the spec is loaded. Without
    one every pair of states is drawn, with the names of a few events, and no way is the usual one.

    Returns:
        The text of the diagram, ending in a newline.
    """
    picture = spec.picture or _derived(spec)
    boxes = _boxes(spec, picture)
    ids = {box: state_ids(spec)[box[0]] for box in boxes}
    at = {state: box for box in boxes for state in box}
    lines = ["flowchart TB", f"  accTitle: {mermaid_text(spec.machine)} at a glance"]
    lines += [_node(spec, picture, box, ids[box]) for box in boxes]
    if spec.initial in at:
        lines += ['  begin((" "))', f"  begin ==> {ids[at[spec.initial]]}"]
    usual = {(at[source], at[target]) for source, target in pairwise(picture.path)}
    for (source, target), words in _merged(picture, at).items():
        line = "==>" if (source, target) in usual else "-->"
        label = "<br/>".join(map(mermaid_text, words))
        lines.append(f"  {ids[source]} {line}" + (f'|"{label}"| ' if label else " ") + ids[target])
    return "\n".join([*lines, *_paint(spec, picture, ids)]) + "\n"


def legend(spec: Spec) -> str:
    """Say in one Markdown line how to read the overview, and how much of the machine it leaves out."""
    picture = spec.picture or _derived(spec)
    kinds = {state.kind for state in spec.states.values() if state.name in (picture.path or spec.states)}
    parts = ["Thick: the usual way"] if picture.path else []
    parts += [words for kind, words in _KINDS.items() if kind in kinds]
    parts += ["grey and dashed: aside from it"] if picture.path else []
    ways = {(s, row.to) for row in spec.rows if row.to is not None for s in row.sources if row.to != s}
    shown = {(source, hint.to) for hint in picture.arrows for source in hint.sources}
    shown |= set(pairwise(picture.path))
    left = len(ways - shown)
    rest = (
        f" Left out: {left} rarer ways of {len(ways)} between states of {markdown_text(spec.machine)}." if left else ""
    )
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}.{rest}"


_KINDS = {"wait": "blue: at rest", "call": "yellow: an answer is owed", "final": "green: the end"}


def _boxes(spec: Spec, picture: Picture) -> list[tuple[str, ...]]:
    """Give the boxes in declared order, those of the usual way first, so that the layout puts them in a column."""
    shared = {state: box for box in picture.together for state in box if state in spec.states}
    drawn = {state for hint in picture.arrows for state in (*hint.sources, hint.to)} | set(picture.path)
    order = [*picture.path, *(state for state in spec.states if state in drawn)]
    return list(dict.fromkeys(shared.get(state, (state,)) for state in order))


def _node(spec: Spec, picture: Picture, box: tuple[str, ...], name: str) -> str:
    lines = []
    for state in box:
        note = picture.notes.get(state, "")
        shown = f"<b>{mermaid_text(state)}</b>"
        lines.append(f"{shown}<br/>{mermaid_text(note)}" if note else shown)
    final = all(spec.states[state].kind == "final" for state in box)
    opening, closing = ("([", "])") if final else ("(", ")")
    return f'  {name}{opening}"{"<br/>".join(lines)}"{closing}'


def _merged(
    picture: Picture, at: dict[str, tuple[str, ...]]
) -> dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]]:
    """Give the words of each arrow between boxes; the usual way first, so that it becomes the spine."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {
        (at[source], at[target]): [] for source, target in pairwise(picture.path)
    }
    for hint in picture.arrows:
        for source in hint.sources:
            words = found.setdefault((at[source], at[hint.to]), [])
            if hint.say and hint.say not in words:
                words.append(hint.say)
    return {ends: words for ends, words in found.items() if ends[0] != ends[1]}


def _paint(spec: Spec, picture: Picture, ids: dict[tuple[str, ...], str]) -> list[str]:
    lines = []
    for kind, (fill, stroke, text) in COLOURS.items():
        lines.append(f"  classDef {kind}State fill:{fill},stroke:{stroke},color:{text},stroke-width:2px")
    fill, stroke, text = _ASIDE
    lines.append(f"  classDef aside fill:{fill},stroke:{stroke},color:{text},stroke-dasharray:4 3")
    lines += [f"  classDef start fill:{stroke},stroke:{stroke}", "  class begin start"]
    for box, name in ids.items():
        usual = not picture.path or any(state in picture.path for state in box)
        lines.append(f"  class {name} {spec.states[box[0]].kind + 'State' if usual else 'aside'}")
    return lines


def _derived(spec: Spec) -> Picture:
    events: dict[tuple[str, str], dict[str, None]] = {}
    for row in spec.rows:
        for source in row.sources:
            if row.kind == "row" and row.to is not None and row.to != source:
                events.setdefault((source, row.to), {}).update(dict.fromkeys(row.events))
    hints = tuple(Hint((source,), target, _few(list(words))) for (source, target), words in events.items())
    return Picture(arrows=hints)


def _few(events: list[str]) -> str:
    more = len(events) - _EVENTS_SHOWN
    return ", ".join(events[:_EVENTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
