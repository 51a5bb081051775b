"""A machine as Markdown tables: states, events, effects, and every row with its why, ignore rows included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from goalfsm._diagram_text import markdown_text
from goalfsm._ir import Row, Spec

__all__ = ["table"]

_Names = Callable[[Iterable[str]], str]


def table(spec: Spec, *, highlight: str = "") -> str:
    """Write a machine as Markdown tables; a highlighted state is bold.

    Returns:
        The text, ending in a newline: states, events, effects, rows, ignored events, and what an unlisted pair means.
    """

    def names(words: Iterable[str]) -> str:
        return ", ".join(f"**{markdown_text(word)}**" if word == highlight else markdown_text(word) for word in words)

    parts = [
        f"# {markdown_text(spec.machine)}",
        f"Begins in {names([spec.initial])}.",
        "## States",
        _states(spec, names),
    ]
    if spec.events:
        parts += ["## Events", _events(spec)]
    if spec.effects:
        parts += ["## Effects", _effects(spec)]
    parts += ["## Rows", "The first row whose guard holds is taken; rows without a target stay.", _rows(spec, names)]
    ignored = [row for row in spec.rows if row.kind == "ignore"]
    if ignored:
        heads = ("from", "event", "guard", "why")
        cells = [(_sources(row, names), names(row.events), _guard(row), markdown_text(row.why)) for row in ignored]
        parts += ["## Ignored", "Known to mean nothing there.", _grid(heads, cells)]
    parts += ["## Everything else", _grid(("origin", "an event without a row"), sorted(spec.unlisted.items()))]
    return "\n\n".join(parts) + "\n"


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _states(spec: Spec, names: _Names) -> str:
    cells = [
        (names([state.name]), state.kind, ", ".join(map(markdown_text, state.clear)), markdown_text(state.doc))
        for state in spec.states.values()
    ]
    return _grid(("state", "kind", "clears", "meaning"), cells)


def _events(spec: Spec) -> str:
    cells = [
        (
            markdown_text(event.name),
            event.origin,
            ", ".join(f"{markdown_text(field)}: {kind}" for field, kind in event.fields.items()),
            markdown_text(event.doc),
        )
        for event in spec.events.values()
    ]
    return _grid(("event", "origin", "fields", "meaning"), cells)


def _effects(spec: Spec) -> str:
    cells = [(markdown_text(effect.name), markdown_text(effect.doc)) for effect in spec.effects.values()]
    return _grid(("effect", "meaning"), cells)


def _rows(spec: Spec, names: _Names) -> str:
    cells = [
        (
            _sources(row, names),
            names(row.events),
            _guard(row),
            "" if row.to is None else names([row.to]),
            _writes(row),
            ", ".join(map(markdown_text, row.do)),
            markdown_text(row.why),
        )
        for row in spec.rows
        if row.kind == "row"
    ]
    return _grid(("from", "event", "guard", "to", "writes", "effects", "why"), cells)


def _sources(row: Row, names: _Names) -> str:
    return "any" if row.everywhere else names(row.sources)


def _guard(row: Row) -> str:
    return "" if row.guard is None else markdown_text(row.guard)


def _writes(row: Row) -> str:
    parts = [*row.save]
    parts += [
        f"{field} = {str(value).lower() if isinstance(value, bool) else value!r}" for field, value in row.set.items()
    ]
    parts += [f"{field} cleared" for field in row.clear]
    return ", ".join(map(markdown_text, parts))
