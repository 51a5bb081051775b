"""Everything that can be known to be wrong with a spec without running it (style 4): all problems, not the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType, ModuleType

import attrs

from goalfsm._draft import Draft
from goalfsm._errors import did_you_mean
from goalfsm._ir import Guard, Problem, Row, Spec
from goalfsm._pictured import picture_problems
from goalfsm._read import read

__all__ = ["check_spec", "check_specs", "guard_table", "static_problems"]


_UNKNOWN = {"initial state": "GF104", "state": "GF105", "event": "GF106", "effect": "GF108"}


def check_spec(path: str | Path, guards: Mapping[str, Guard] | ModuleType | None = None) -> list[Problem]:
    """List every problem of one spec file; with `guards`, also unbound and unused ones."""
    return check_specs([path], guards)


def check_specs(paths: Sequence[str | Path], guards: Mapping[str, Guard] | ModuleType | None = None) -> list[Problem]:
    """List every problem of several specs that share their guards, file by file, in line order."""
    bound = None if guards is None else guard_table(guards)
    used: set[str] = set()
    problems: list[Problem] = []
    for path in paths:
        draft, spec = read(path)
        if spec is not None:
            used.update(static_problems(draft, spec, bound).guard_names)
        problems += sorted(draft.problems, key=lambda problem: (problem.line, problem.code))
    where = ", ".join(str(path) for path in paths)
    for name in bound or ():
        if name not in used:
            problems.append(Problem("GF119", where, 1, f"guard {name!r} is given, but no row uses it"))
    return problems


def guard_table(guards: Mapping[str, Guard] | ModuleType) -> dict[str, Guard]:
    """Give guards by name: a mapping, a module's `GUARDS` mapping, or else the public functions a module defines."""
    if isinstance(guards, ModuleType):
        named = getattr(guards, "GUARDS", None)
        if isinstance(named, Mapping):
            return dict(named)
        return {
            name: value
            for name, value in vars(guards).items()
            if isinstance(value, FunctionType) and value.__module__ == guards.__name__ and not name.startswith("_")
        }
    return dict(guards)


def static_problems(draft: Draft, spec: Spec, guards: Mapping[str, Guard] | None) -> Spec:
    """Add all problems of a readable spec to its draft.

    Returns:
        The spec with its data types filled in, and with misspelt names replaced by what was most likely meant, so that
        one slip is not reported again by the checks that follow it.
    """
    spec = _names(draft, spec, guards)
    spec = attrs.evolve(spec, data=_data(draft, spec))
    _fields(draft, spec)
    _whys(draft, spec)
    _order(draft, spec)
    _unused(draft, spec)
    _graph(draft, spec)
    if spec.picture is not None:
        picture_problems(draft, spec, spec.picture)
    return spec


def _at(row: Row, *key: str | int) -> tuple[str | int, ...]:
    return ("transitions", "rows" if row.kind == "row" else "ignore", row.index, *key)


def _label(row: Row) -> str:
    return f"{row.kind} {row.index + 1}"


def _names(draft: Draft, spec: Spec, guards: Mapping[str, Guard] | None) -> Spec:
    def one(kind: str, name: str, names: Iterable[str], *where: str | int, who: str = "") -> str:
        names = tuple(names)
        if name in names:
            return name
        draft.report(_UNKNOWN[kind], f"{who}unknown {kind} {name!r}{did_you_mean(name, names)}", *where)
        return next(iter(get_close_matches(name, names, n=1)), name)

    def several(kind: str, row: Row, key: str, given: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
        meant = [one(kind, name, names, *_at(row, key, n), who=f"{_label(row)}: ") for n, name in enumerate(given)]
        # A misspelt name beside the right one would look like a row that repeats itself.
        return tuple(new for old, new in zip(given, meant, strict=True) if new == old or new not in given)

    rows = []
    for row in spec.rows:
        sources = several("state", row, "from", row.sources, spec.states)
        events = several("event", row, "event", row.events, spec.events)
        to = None if row.to is None else one("state", row.to, spec.states, *_at(row, "to"), who=f"{_label(row)}: ")
        do = several("effect", row, "do", row.do, spec.effects)
        if row.guard is not None:
            _guard(draft, row, row.guard, guards)
        rows.append(attrs.evolve(row, sources=sources, events=events, to=to, do=do))
    if not spec.initial:
        draft.report("GF104", "no 'initial' state is named")
        return attrs.evolve(spec, rows=tuple(rows))
    initial = one("initial state", spec.initial, spec.states, "initial")
    return attrs.evolve(spec, rows=tuple(rows), initial=initial)


def _guard(draft: Draft, row: Row, name: str, guards: Mapping[str, Guard] | None) -> None:
    draft.identifier(f"{_label(row)}: guard", name, *_at(row, "if"))
    if guards is not None and name not in guards:
        text = f"{_label(row)}: guard {name!r} is not bound{did_you_mean(name, guards)}"
        draft.report("GF109", text, *_at(row, "if"))


def _data(draft: Draft, spec: Spec) -> dict[str, str]:
    """Derive the snapshot's fields; the first row that writes one decides its type."""
    data: dict[str, str] = {}

    def write(row: Row, key: str, field: str, kind: str, source: str) -> None:
        if data.setdefault(field, kind) != kind:
            text = f"{_label(row)}: field {field!r} is {data[field]} elsewhere, but {kind} {source}"
            draft.report("GF112", text, *_at(row, key))

    for row in spec.rows:
        for event in row.events:
            declared = spec.events[event].fields if event in spec.events else {}
            for field in row.save:
                if field in declared:
                    write(row, "save", field, declared[field], f"in event {event!r}")
        for field, value in row.set.items():
            draft.identifier(f"{_label(row)}: field", field, *_at(row, "set"))
            if field == "state":
                draft.report("GF123", f"{_label(row)}: field 'state' has a reserved name: write 'to'", *_at(row, "set"))
            write(row, "set", field, type(value).__name__, "as a literal")
    data.pop("state", None)
    return data


def _fields(draft: Draft, spec: Spec) -> None:
    for row in spec.rows:
        for event in row.events:
            declared = spec.events[event].fields if event in spec.events else row.save
            for field in row.save:
                if field not in declared:
                    text = f"event {event!r} has no field {field!r} to save{did_you_mean(field, declared)}"
                    draft.report("GF110", f"{_label(row)}: {text}", *_at(row, "save"))
        for field in row.set:
            if field in row.save:
                draft.report("GF111", f"{_label(row)}: field {field!r} is both saved and set", *_at(row, "set"))
        for field in row.clear:
            if field in row.save or field in row.set:
                text = f"{_label(row)}: field {field!r} is cleared, but written by the same row"
                draft.report("GF111", text, *_at(row, "clear"))
        _clears(draft, spec, _label(row), row.clear, *_at(row, "clear"))
    for state in spec.states.values():
        _clears(draft, spec, f"state {state.name!r}", state.clear, "states", state.name, "clear")


def _clears(draft: Draft, spec: Spec, who: str, fields: Iterable[str], *where: str | int) -> None:
    for field in fields:
        if field not in spec.data:
            text = f"{who}: clears {field!r}, which no row writes{did_you_mean(field, spec.data)}"
            draft.report("GF122", text, *where)


def _whys(draft: Draft, spec: Spec) -> None:
    for row in spec.rows:
        if not row.why:
            draft.report("GF121", f"{_label(row)}: no 'why': say the reason", *_at(row))


def _order(draft: Draft, spec: Spec) -> None:
    """Find rows that can never be taken: the same guard, or none, stands before them."""
    seen: dict[tuple[str, str], list[Row]] = {}
    for row in spec.rows:
        dead: dict[tuple[str, Row], list[str]] = {}
        pairs = [(state, event) for state in row.sources for event in row.events]
        for pair in pairs:
            earlier = seen.setdefault(pair, [])
            same = next((other for other in earlier if other.guard == row.guard), None)
            open_ = next((other for other in earlier if other.guard is None), None)
            if same is not None and (same.kind == row.kind or row.guard is not None):
                dead.setdefault(("GF113", same), []).append(f"{pair[0]} {pair[1]}")
            elif open_ is not None:
                dead.setdefault(("GF114", open_), []).append(f"{pair[0]} {pair[1]}")
            earlier.append(row)
        if row.everywhere and sum(map(len, dead.values())) < len(pairs):
            continue  # `*` means every other state: what earlier rows answer is theirs
        for (code, other), where in dead.items():
            how = "repeats" if code == "GF113" else "is dead behind the unguarded"
            text = f"{_label(row)} {how} {_label(other)} (line {other.line}) for {', '.join(where)}"
            draft.report(code, text, *_at(row))


def _unused(draft: Draft, spec: Spec) -> None:
    if draft.broken_rows:
        return
    events = {event for row in spec.rows for event in row.events}
    effects = {effect for row in spec.rows for effect in row.do}
    for name in spec.effects:
        if name not in effects:
            draft.report("GF117", f"effect {name!r} is used by no row", "effects", name)
    for name in spec.events:
        if name not in events:
            draft.report("GF118", f"event {name!r} is answered by no row", "events", name)


def _reach(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    front = list(start)
    while front:
        state = front.pop()
        if state not in reached:
            reached.add(state)
            front += edges.get(state, ())
    return reached


def _graph(draft: Draft, spec: Spec) -> None:
    final = [state.name for state in spec.states.values() if state.kind == "final"]
    forward: dict[str, set[str]] = {}
    backward: dict[str, set[str]] = {}
    saved: set[str] = set()
    for row in spec.rows:
        origins = {spec.events[event].origin for event in row.events if event in spec.events}
        for source in row.sources:
            if row.to is None or row.to == source:
                continue
            if source in final:
                text = f"{_label(row)}: leaves the final state {source!r} for {row.to!r}"
                draft.report("GF115", text, *_at(row, "to"))
            forward.setdefault(source, set()).add(row.to)
            backward.setdefault(row.to, set()).add(source)
            if origins & {"host", "clock"}:
                saved.add(source)
    if not draft.broken_rows:  # a row that could not be read may be the missing way
        reached = _reach([spec.initial], forward) if spec.initial in spec.states else set(spec.states)
        ending = _reach(final, backward) if final else set(spec.states)
        _strays(draft, spec, reached, ending, saved)


def _strays(draft: Draft, spec: Spec, reached: set[str], ending: set[str], saved: set[str]) -> None:
    for state in spec.states.values():
        where = ("states", state.name)
        if state.name not in reached:
            draft.report("GF107", f"state {state.name!r} is unreachable", *where)
        if state.name not in ending:
            draft.report("GF116", f"state {state.name!r} reaches no final state", *where)
        if state.kind == "call" and state.name not in saved:
            text = f"call state {state.name!r} has no way out on a host or clock event: a lost answer would strand it"
            draft.report("GF120", text, *where)
