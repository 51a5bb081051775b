"""The kernel: one pure step of one machine. Every guard sees (snapshot, event, context); nothing else moves a state.

All-or-nothing: a step that does not move gives the same snapshot and no effects, and one that raises changes nothing
(style 2, habits 3 and 5). Pairs are compiled on first use and kept with the spec, so a step is a look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._ir import ZERO, Guard, Row, Snapshot, Spec

__all__ = ["Possibility", "Snapshot", "Step", "Verdict", "enabled", "step", "table"]

S = TypeVar("S", bound=Snapshot)
_write = msgspec.structs.force_setattr


class Verdict(StrEnum):
    """What became of an event: it moved, or one of the four ways of not moving (composition 2)."""

    MOVED = "moved"
    IGNORED = "ignored"
    STALE = "stale"
    REJECTED = "rejected"
    ANOMALY = "anomaly"


class Step(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """The outcome of one event.

    Attributes:
        snapshot: where the machine stands now; the same object unless the verdict is `moved`.
        effects: names of the effects of the row, in order.
        verdict: what became of the event.
        row: the row that was taken (also an ignore row), None where none was.
    """

    snapshot: S
    effects: tuple[str, ...]
    verdict: Verdict
    row: Row | None = None

    @property
    def why(self) -> str:
        """The row's reason, empty where no row was taken."""
        return "" if self.row is None else self.row.why


_Candidate = tuple[Guard | None, Callable[[Any, Any], Any] | None, tuple[str, ...], Verdict, Row, "Step[Any] | None"]
_Cell = tuple[tuple[_Candidate, ...], Verdict]

_POLICY = {"reject": Verdict.REJECTED, "anomaly": Verdict.ANOMALY, "ignore": Verdict.IGNORED}


def step(spec: Spec, snapshot: S, event: Any, context: Any = None) -> Step[S]:
    """Let one event happen to one machine.

    Args:
        spec: the machine.
        snapshot: where it stands.
        event: a `goalfsm.Event`, or any object with `name` and the event's fields as attributes.
        context: passed to the guards, unread here.

    Returns:
        The new snapshot, the effects' names and the verdict.

    Raises:
        UnknownName: the spec does not know the event, or the snapshot's state.
        GoalfsmError: a guard that is asked for is not bound, or the event lacks a field that the row saves.
    """
    candidates: tuple[_Candidate, ...]
    try:
        candidates, otherwise = spec.cells[snapshot.state][event.name]
    except KeyError:
        candidates, otherwise = _compile(spec, snapshot.state, event.name)
    for guard, build, effects, verdict, row, ready in candidates:
        if guard is None or guard(snapshot, event, context):
            if ready is not None:
                return ready
            try:
                return Step(snapshot if build is None else build(snapshot, event), effects, verdict, row)
            except AttributeError:
                _explain(spec, row, event)
                raise
    return Step(snapshot, (), otherwise)


def _explain(spec: Spec, row: Row, event: Any) -> None:
    for field in row.save:
        if not hasattr(event, field):
            raise GoalfsmError(
                f"{spec.machine}: event {event.name!r} has no field {field!r}, which the row at "
                f"{spec.path}:{row.line} saves; nothing was changed"
            ) from None


def _compile(spec: Spec, state: str, event: str) -> _Cell:
    if state not in spec.states:
        raise UnknownName("state", state, spec.machine, spec.states)
    if event not in spec.events:
        raise UnknownName("event", event, spec.machine, spec.events)
    rows = spec.rows_of(state, event)
    origin = spec.events[event].origin
    if not rows:
        otherwise = _POLICY[spec.unlisted[origin]]
    else:
        otherwise = Verdict.REJECTED if origin == "command" else Verdict.STALE
    cell = tuple(_candidate(spec, state, row) for row in rows), otherwise
    spec.cells.setdefault(state, {})[event] = cell
    return cell


def _candidate(spec: Spec, state: str, row: Row) -> _Candidate:
    guard = None if row.guard is None else spec.guards.get(row.guard) or _unbound(spec, row.guard, row.line)
    verdict = Verdict.MOVED if row.kind == "row" else Verdict.IGNORED
    build = _builder(spec, state, row)
    ready = None
    if build is not None and len(spec.snapshot_type.__struct_fields__) == 1:
        ready = Step(build(spec.snapshot(state), None), row.do, verdict, row)
    return guard, build, row.do, verdict, row, ready


def _unbound(spec: Spec, name: str, line: int) -> Guard:
    def refuse(_snapshot: Any, _event: Any, _context: Any) -> NoReturn:
        where = f"{spec.path}:{line}"
        raise GoalfsmError(f"{spec.machine}: guard {name!r} ({where}) is not bound: load the spec with guards=")

    return refuse


def _builder(spec: Spec, state: str, row: Row) -> Callable[[Any, Any], Any] | None:
    """Give the function that makes the row's new snapshot, or None where the row leaves it as it is."""
    constants: dict[str, Any] = {}
    if row.to is not None:
        # A row may re-enter its own state: entry clears then, too.
        constants |= {field: ZERO[spec.data[field]] for field in spec.states[row.to].clear}
    constants |= {field: ZERO[spec.data[field]] for field in row.clear}
    constants = {field: value for field, value in constants.items() if field not in row.save} | dict(row.set)
    if row.to is not None and row.to != state:
        constants["state"] = row.to
    return _replacer(constants, row.save)


def _replacer(constants: dict[str, Any], save: tuple[str, ...]) -> Callable[[Any, Any], Any] | None:
    # A copy that nobody has seen yet is written field by field: a third of what keywords for `replace` cost.
    if not constants and not save:
        return None
    written = tuple(constants.items())
    if len(written) == 1 and not save:
        ((only, literal),) = written

        def move(snapshot: Any, _event: Any) -> Any:
            made = snapshot.__copy__()
            _write(made, only, literal)
            return made

        return move

    def build(snapshot: Any, event: Any) -> Any:
        made = snapshot.__copy__()
        for field, value in written:
            _write(made, field, value)
        for field in save:
            _write(made, field, getattr(event, field))
        return made

    return build


class Possibility(msgspec.Struct, frozen=True):
    """What one event would do in one state, if `guard` holds (empty: always, or for the last resort of the pair)."""

    event: str
    origin: str
    verdict: Verdict
    guard: str = ""
    to: str = ""
    effects: tuple[str, ...] = ()
    why: str = ""
    line: int = 0


def table(spec: Spec, state: str) -> tuple[Possibility, ...]:
    """List what each declared event would do in a state: one line per row in the order they are tried.

    A pair whose rows are all guarded ends with the verdict that stands when no guard holds.

    Raises:
        UnknownName: no such state.
    """
    if state not in spec.states:
        raise UnknownName("state", state, spec.machine, spec.states)
    out: list[Possibility] = []
    for name, event in spec.events.items():
        candidates, otherwise = _compile(spec, state, name)
        for _, _, _, verdict, row, _ in candidates:
            to = row.to or (state if row.kind == "row" else "")
            out.append(Possibility(name, event.origin, verdict, row.guard or "", to, row.do, row.why, row.line))
        if not candidates or candidates[-1][4].guard is not None:
            out.append(Possibility(name, event.origin, otherwise))
    return tuple(out)


def enabled(spec: Spec, snapshot: Snapshot) -> tuple[str, ...]:
    """List the events that can move the machine from here, if their guards hold: what a refusal says is allowed."""
    possible = (line.event for line in table(spec, snapshot.state) if line.verdict is Verdict.MOVED)
    return tuple(dict.fromkeys(possible))
