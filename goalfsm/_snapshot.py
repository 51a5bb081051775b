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
from goalfsm._fold import CoreFolding, decode_folded, delta_of, spec_version
from goalfsm._machines import FollowUp
from goalfsm._message import Message, content_from

__all__ = ["Rebuilding", "encode_snapshot", "spec_of"]


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


def _decoded(data: bytes) -> _Snapshot:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise JournalError(f"a journal snapshot cannot be read: {error}") from error


def spec_of(data: bytes) -> str:
    """Give the version of the specs under which a snapshot was taken (requirements 4.8).

    Raises:
        JournalError: the bytes are no snapshot.
    """
    return _decoded(data).spec


class Rebuilding:
    """Rebuilds a thread from its snapshot and the records after it (decisions 21, 22)."""

    def __init__(self) -> None:
        self._core = CoreFolding()
        self._contents: dict[str, dict[str, Any]] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._expires: dict[str, float] = {}

    def add_snapshot(self, data: bytes) -> None:
        """Begin with a snapshot.

        Raises:
            JournalError: the bytes are no snapshot.
        """
        snapshot = _decoded(data)
        self._core.add(snapshot.core)
        for message in snapshot.messages:
            self._contents[message.id] = message.content
            self._told[message.id] = message.told
            if message.expires_at is not None:
                self._expires[message.id] = message.expires_at
            if message.row is not None:
                self._core.rows[message.id] = message.row

    def add_record(self, data: bytes) -> None:
        """Go on with the next record.

        Raises:
            JournalError: the bytes are no record.
        """
        record = decode_folded(data)
        self._core.add(record.delta)
        for message_id, content in record.messages.items():
            if message_id not in self._contents and content.get("expires_in") is not None:
                self._expires[message_id] = record.at + content["expires_in"]
            self._contents[message_id] = content
        self._told.update(record.told)

    def core(self, **constants: Any) -> ThreadCore:
        """Give the core as the journal has it; `constants` are this process's own."""
        return self._core.core(**constants)

    def messages(self, core: ThreadCore) -> dict[str, Message]:
        """Give every message; `core` is the one that was rebuilt."""
        rows = {row.id: row for row in core.rows}
        return {message_id: self._message(message_id, rows) for message_id in self._contents}

    def _message(self, message_id: str, rows: dict[str, FollowUp]) -> Message:
        row = rows.get(message_id) or self._core.row(message_id)
        message = Message(message_id, content_from(self._contents[message_id]), row)
        told = self._told.get(message_id)
        if told:
            message.take_told(told)
        message.expires_at = self._expires.get(message_id)
        return message
