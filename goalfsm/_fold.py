"""The journal's records: what a step changed, and how the changes rebuild a core (decisions 21).

The changes are folded, never the rules: a later spec cannot change a fate that was settled. Events stay in the record
for people and for verification.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._core import CoreStep, ThreadCore
from goalfsm._errors import JournalError
from goalfsm._kernel import Verdict
from goalfsm._machines import FollowUp, Goal, Operation, Turn

__all__ = [
    "CoreFolding",
    "Folded",
    "Record",
    "decode_folded",
    "decode_record",
    "delta_of",
    "encode_record",
    "record_of",
    "spec_version",
]

_TYPES: dict[str, type[Goal | Turn]] = {"goal": Goal, "turn": Turn}
_MACHINES = tuple(_TYPES)
_PLAIN = tuple(field for field in ThreadCore.__struct_fields__ if field not in ("goal", "turn", "operation", "rows"))
_plain = attrgetter(*_PLAIN)
_replace = msgspec.structs.replace
_values = msgspec.structs.astuple


class Record(msgspec.Struct, omit_defaults=True):
    """One step of one thread, as it stands in the journal.

    Attributes:
        at: unix seconds, for people; no verdict rests on it.
        spec: version of the specs that judged the step.
        event: the external event.
        delta: what changed in the core.
        moves: (machine, message id, from, to, internal or external event) of every row that was taken.
        effects: what the step asked of the runtime.
        odd: (machine, message id, state, event, verdict) of every anomaly and stale verdict.
        messages: content of messages that this step brought or changed, by id.
        told: what a person is told of messages that moved, by id.
    """

    at: float
    spec: str
    event: dict[str, Any]
    delta: dict[str, Any] = {}
    moves: list[tuple[str, str, str, str, str]] = []
    effects: list[dict[str, Any]] = []
    odd: list[tuple[str, str, str, str, str]] = []
    messages: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}


class Folded(msgspec.Struct):
    """The part of a record that a restart needs; the rest of it is for people and is not even read then."""

    at: float
    delta: dict[str, Any] = {}
    messages: dict[str, dict[str, Any]] = {}
    told: dict[str, dict[str, Any]] = {}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_folded_decoder = msgspec.json.Decoder(Folded)


def encode_record(record: Record) -> bytes:
    """Turn a record into the bytes that the journal keeps (JSON)."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Turn journal bytes back into a record.

    Raises:
        JournalError: the bytes are no record.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"a journal record cannot be read: {error}") from error


def decode_folded(data: bytes) -> Folded:
    """Read of a record what a restart needs.

    Raises:
        JournalError: the bytes are no record.
    """
    try:
        return _folded_decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"a journal record cannot be read: {error}") from error


@cache
def spec_version() -> str:
    """Give one short word for the specs in force; every record carries it (requirements 4.8)."""
    return "-".join(builtin_spec(name).digest[:6] for name in builtin_names())


def record_of(before: ThreadCore, step: CoreStep, event: ev.TypedEvent, at: float) -> Record:
    """Build the record of a step; the caller adds what only the runtime knows."""
    odd = (Verdict.ANOMALY, Verdict.STALE)
    return Record(
        at=at,
        spec=spec_version(),
        event=ev.encode(event),
        delta=delta_of(before, step.core),
        moves=[(move.machine, move.id, move.source, move.target, move.event) for move in step.moves],
        effects=[fx.encode(effect) for effect in step.effects],
        odd=[(j.machine, j.id, j.state, j.event, str(j.verdict)) for j in step.verdicts if j.verdict in odd],
    )


def _changed(before: Any, after: Any) -> dict[str, Any]:
    pairs = zip(after.__struct_fields__, _values(before), _values(after), strict=True)
    return {field: now for field, was, now in pairs if was != now}


def delta_of(before: ThreadCore, after: ThreadCore) -> dict[str, Any]:
    """Give what changed between two cores, as JSON-ready values that `CoreFolding` takes."""
    pairs = zip(_PLAIN, _plain(before), _plain(after), strict=True)
    delta: dict[str, Any] = {field: now for field, was, now in pairs if was != now}
    for machine in _MACHINES:
        was, now = getattr(before, machine), getattr(after, machine)
        if was is not now and (changed := _changed(was, now)):
            delta[machine] = changed
    operation = after.operation
    if operation is not None and operation is not before.operation:
        same = before.operation is not None and before.operation.id == operation.id
        changed = _changed(before.operation if same else Operation(""), operation)
        if changed:
            delta["operation"] = changed
    if after.rows != before.rows:
        old = {row.id: row for row in before.rows}
        rows = {row.id: _changed(old.get(row.id, FollowUp("")), row) for row in after.rows}
        delta["rows"] = {message_id: changed for message_id, changed in rows.items() if changed}
        order = [row.id for row in after.rows]
        if order != [row.id for row in before.rows]:
            delta["order"] = order
    return delta


class CoreFolding:
    """Folds the changes of a thread's records, oldest first, and builds the core once at the end.

    Very many records are folded at a restart: changes are merged as plain values, and nothing is built in between.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._order: list[str] = []
        self._parts: dict[str, dict[str, Any]] = {machine: {} for machine in _MACHINES}
        self._operation: dict[str, Any] = {}
        self._plain: dict[str, Any] = {}

    def add(self, delta: dict[str, Any]) -> None:
        """Fold the changes of one record, or of a snapshot, which differs from a core that knows nothing."""
        for part, change in delta.items():
            if part == "rows":
                for message_id, fields in change.items():
                    self.rows.setdefault(message_id, {}).update(fields)
            elif part == "order":
                self._order = change
            elif part == "operation":
                # A new operation is written whole.
                self._operation = change if "id" in change else self._operation | change
            elif part in self._parts:
                self._parts[part].update(change)
            else:
                self._plain[part] = change

    def core(self, **constants: Any) -> ThreadCore:
        """Build the core; `constants` are this process's own, not the journal's."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in self._plain.items()}
        parts: dict[str, Any] = {
            machine: _TYPES[machine](**{"state": "unknown"} | fields) for machine, fields in self._parts.items()
        }
        operation = Operation(**self._operation) if self._operation else None
        rows = tuple(self.row(message_id) for message_id in self._order)
        return ThreadCore(**{**parts, **plain, **constants}, operation=operation, rows=rows)

    def row(self, message_id: str) -> FollowUp:
        """Build one message's row, also one that the core keeps no longer."""
        return FollowUp(**self.rows[message_id])
