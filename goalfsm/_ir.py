"""What a spec file says, as frozen values: the one representation that kernel, checks and renderers share.

Nothing here is kept by hand: names, order and types come out of the file (style 2, habits 12 and 14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
import msgspec

from goalfsm._errors import UnknownName

__all__ = [
    "ZERO",
    "EffectDecl",
    "EventDecl",
    "Guard",
    "Hint",
    "Picture",
    "Problem",
    "Row",
    "Snapshot",
    "Spec",
    "State",
]

Guard = Callable[[Any, Any, Any], bool]
"""A named pure predicate over (snapshot, event, context)."""

ZERO: Mapping[str, str | int | bool] = {"str": "", "int": 0, "bool": False}
"""The value that a data field has at first, and after a `clear`."""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """Where one machine stands: its state, and in subclasses the data that its rows save."""

    state: str


@attrs.frozen
class Problem:
    """One thing that is wrong with a spec.

    Args:
        code: GF1xx, the same for the same kind of mistake.
        path: the file, as it was given.
        line: line in that file, from 1.
        text: what is wrong, with the names.
    """

    code: str
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.path}:{self.line}: {self.text}"


@attrs.frozen
class State:
    """A declared state: wait = durable rest, call = an answer is owed, final; `clear` names fields emptied on entry."""

    name: str
    kind: Literal["wait", "call", "final"] = "wait"
    doc: str = ""
    clear: tuple[str, ...] = ()
    line: int = 0


@attrs.frozen
class EventDecl:
    """A declared event: who may send it (`origin`) and the types of its fields (`str`, `int`, `bool`)."""

    name: str
    origin: str
    fields: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    doc: str = ""
    line: int = 0


@attrs.frozen
class EffectDecl:
    """A declared effect: work that a row asks for by name."""

    name: str
    doc: str = ""
    line: int = 0


@attrs.frozen
class Row:
    """One row of the table; among the rows of a (state, event) pair the first whose guard holds wins.

    Args:
        kind: `row` moves, `ignore` says that the event is known to mean nothing here.
        index: position among the rows of its kind in the file.
        sources: the states it leaves, `*` expanded.
        events: the events it answers.
        to: the state it enters; None stays.
        guard: name of the guard (`if` in the file).
        save: fields of the event that are copied into the snapshot.
        set: literals written into the snapshot.
        clear: fields emptied before save and set.
        do: effects, in order.
        why: the reason, for people.
        line: where it stands in the file.
        everywhere: its sources were written `*`.
    """

    kind: Literal["row", "ignore"]
    index: int
    sources: tuple[str, ...]
    events: tuple[str, ...]
    to: str | None = None
    guard: str | None = None
    save: tuple[str, ...] = ()
    set: Mapping[str, str | int | bool] = attrs.field(factory=dict, hash=False)
    clear: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    why: str = ""
    line: int = 0
    everywhere: bool = False


@attrs.frozen
class Hint:
    """One arrow of the overview picture, from each of `sources` to `to`, and what it says in plain words."""

    sources: tuple[str, ...]
    to: str
    say: str = ""


@attrs.frozen
class Picture:
    """How a machine's overview is drawn for newcomers; the machine itself never reads it.

    Args:
        path: the states of the usual way, drawn large.
        together: states that share one box.
        notes: a few words for the box of a state.
        arrows: the arrows that are drawn; each stands for rows of the table, or the spec is refused.
    """

    path: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    notes: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    arrows: tuple[Hint, ...] = ()


@attrs.frozen(eq=False)
class Spec:
    """A machine as its file declares it, with its guards bound.

    Args:
        machine: its name.
        initial: the state it starts in.
        unlisted: per origin of events, what a pair without any row means: `reject`, `anomaly` or `ignore`.
        states: by name, in declared order; so are events and effects.
        events: see states.
        effects: see states.
        rows: all rows in the order they are tried: rows first, then ignore rows.
        data: type of each field of the snapshot, derived from what rows save and set.
        path: the file.
        digest: short hash of its text, written into journals.
        guards: the bound guards; a row whose guard is missing here raises when it is tried.
        snapshot_type: the class of this machine's snapshots.
        picture: how its overview is drawn, if the file says so.
        cells: the kernel's compiled (state, event) pairs; filled on first use, never part of the value.
    """

    machine: str
    initial: str
    unlisted: Mapping[str, str]
    states: Mapping[str, State]
    events: Mapping[str, EventDecl]
    effects: Mapping[str, EffectDecl]
    rows: tuple[Row, ...]
    data: Mapping[str, str]
    path: str = ""
    digest: str = ""
    guards: Mapping[str, Guard] = attrs.field(factory=dict, repr=False)
    snapshot_type: type[Snapshot] = attrs.field(default=Snapshot, repr=False)
    picture: Picture | None = attrs.field(default=None, repr=False)
    cells: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def guard_names(self) -> tuple[str, ...]:
        """The guards that rows name, in order of first use."""
        return tuple(dict.fromkeys(row.guard for row in self.rows if row.guard is not None))

    def rows_of(self, state: str, event: str) -> tuple[Row, ...]:
        """Give the rows of one pair in the order they are tried."""
        return tuple(row for row in self.rows if state in row.sources and event in row.events)

    def bind(self, guards: Mapping[str, Guard]) -> Spec:
        """Give the same spec with these guards in addition to those it has."""
        return attrs.evolve(self, guards={**self.guards, **guards})

    def snapshot(self, state: str | None = None, **data: str | int | bool) -> Any:
        """Build a snapshot in any state (the initial one by default); fields not given are zero.

        Raises:
            UnknownName: no such state, or no such data field.
        """
        state = self.initial if state is None else state
        if state not in self.states:
            raise UnknownName("state", state, self.machine, self.states)
        fields = self.snapshot_type.__struct_fields__
        for name in data:
            if name not in fields:
                raise UnknownName("field", name, self.machine, fields)
        return self.snapshot_type(state=state, **data)
