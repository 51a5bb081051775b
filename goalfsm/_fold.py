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
from goalfsm._machines import FollowUp, Operation

__all__ = ["Record", "apply", "decode_record", "delta_of", "encode_record", "record_of", "spec_version"]

_MACHINES = ("goal", "turn")
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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


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
    """Give what changed between two cores, as JSON-ready values that `apply` takes."""
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


def apply(core: ThreadCore, delta: dict[str, Any]) -> ThreadCore:
    """Apply the changes of one record to a core."""
    changed: dict[str, Any] = {}
    for field in _PLAIN:
        if field in delta:
            value = delta[field]
            changed[field] = tuple(value) if isinstance(value, list) else value
    for machine in _MACHINES:
        if machine in delta:
            changed[machine] = _replace(getattr(core, machine), **delta[machine])
    if "operation" in delta:
        new = "id" in delta["operation"]
        base = Operation("") if new or core.operation is None else core.operation
        changed["operation"] = _replace(base, **delta["operation"])
    if "rows" in delta or "order" in delta:
        changed["rows"] = _rows(core, delta)
    return _replace(core, **changed) if changed else core


def _rows(core: ThreadCore, delta: dict[str, Any]) -> tuple[FollowUp, ...]:
    rows = {row.id: row for row in core.rows}
    for message_id, fields in delta.get("rows", {}).items():
        rows[message_id] = _replace(rows.get(message_id, FollowUp("", id=message_id)), **fields)
    order = delta.get("order", list(rows))
    return tuple(rows[message_id] for message_id in order)
