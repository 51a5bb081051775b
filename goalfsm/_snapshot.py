"""A thread at rest as one journal value: it stands for every record so far, so that a restart stays short.

A snapshot holds what folding the records would give: the core, and of each message its content, what a person was told,
and its row. Fates that were settled are in it, also once the records behind it are compacted away (decisions 18, 22).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from goalfsm._core import ThreadCore
from goalfsm._errors import JournalError
from goalfsm._fold import apply, delta_of, spec_version
from goalfsm._machines import FollowUp
from goalfsm._message import Message, content_from

__all__ = ["decode_snapshot", "encode_snapshot"]


class _Told(msgspec.Struct, omit_defaults=True):
    """One message: `row` only where the core keeps it no longer."""

    id: str
    content: dict[str, Any]
    told: dict[str, Any] = {}
    expires_at: float | None = None
    row: dict[str, Any] | None = None


class _Snapshot(msgspec.Struct, omit_defaults=True):
    """The whole value; `core` is what differs from a core that knows nothing."""

    at: float
    spec: str
    core: dict[str, Any] = {}
    messages: list[_Told] = []


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Snapshot)
_FIELDS = FollowUp.__struct_fields__
_BLANK = FollowUp("")


def encode_snapshot(core: ThreadCore, messages: Iterable[Message], at: float) -> bytes:
    """Turn a thread at rest into the bytes that the journal keeps (JSON).

    Args:
        core: the core, as the journal's records give it.
        messages: every message of the thread.
        at: unix seconds, for people.
    """
    kept = {row.id for row in core.rows}
    told = [
        _Told(
            message.id,
            message.content.record(),
            message.told_record(),
            message.expires_at,
            None if message.id in kept else _row_record(message.row),
        )
        for message in messages
    ]
    return _encoder.encode(_Snapshot(at, spec_version(), delta_of(ThreadCore(), core), told))


def _row_record(row: FollowUp) -> dict[str, Any]:
    values = {field: getattr(row, field) for field in _FIELDS}
    return {field: value for field, value in values.items() if value != getattr(_BLANK, field)}


def decode_snapshot(data: bytes) -> tuple[ThreadCore, list[Message]]:
    """Turn journal bytes back into a core and its messages.

    Raises:
        JournalError: the bytes are no snapshot.
    """
    try:
        snapshot = _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"a journal snapshot cannot be read: {error}") from error
    core = apply(ThreadCore(), snapshot.core)
    rows = {row.id: row for row in core.rows}
    messages = []
    for told in snapshot.messages:
        row = rows.get(told.id) or FollowUp(**(told.row or {"state": "discarded", "id": told.id}))
        message = Message(told.id, content_from(told.content), row)
        message.take_told(told.told)
        message.expires_at = told.expires_at
        messages.append(message)
    return core, messages
