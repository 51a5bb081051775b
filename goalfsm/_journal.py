"""The append-only history of every thread: what a journal promises, the one in memory, and how a journal is chosen.

A step is journaled before any of its effects is performed (composition 8). Two checks guard every append: the owner's
epoch (surface 28: after a take-over the old owner writes nothing more) and the sequence number (no gap, no overwrite).
"""

from __future__ import annotations

import os
from typing import Protocol

import attrs

from goalfsm._errors import JournalError, StaleOwner

__all__ = ["Journal", "MemoryJournal", "Stored", "check_record", "open_journal", "out_of_sequence"]

_METHODS = ("start", "aclose", "claim", "epoch", "epoch_now", "append", "threads", "read")


@attrs.frozen
class Stored:
    """One record as it was appended.

    Args:
        seq: its number in its thread, from 1, without gaps.
        epoch: the epoch of the owner that appended it.
        record: the bytes, unchanged.
    """

    seq: int
    epoch: int
    record: bytes


class Journal(Protocol):
    """What the engine needs of a journal; anybody's own store can be one.

    A journal belongs to the event loop that started it. An append or a claim whose caller is cancelled is not taken
    back: it happens or fails as if the caller had waited. A caller that must know shields the call, or reads again.
    """

    async def start(self) -> None:
        """Open the journal, creating it where there is none; starting an open journal changes nothing.

        Raises:
            JournalError: it cannot be used; one sentence says why.
        """
        ...

    async def aclose(self) -> None:
        """Finish what is pending, then let go of every thread and file. Idempotent; `start` opens it again."""
        ...

    async def claim(self, thread_id: str, owner: str, *, expected: int) -> int:
        """Make `owner` the owner of a thread under epoch `expected + 1`, durably (decisions 5); give that epoch.

        Args:
            thread_id: the thread; one that nobody claimed yet has epoch 0.
            owner: who claims it, for people to read.
            expected: the epoch that the caller saw.

        Raises:
            StaleOwner: somebody claimed it in between.
            JournalError: the claim could not be stored.
        """
        ...

    async def epoch(self, thread_id: str) -> int:
        """Give the current epoch of a thread; 0 for one that nobody claimed."""
        ...

    def epoch_now(self, thread_id: str) -> int:
        """Give the true current epoch without suspension, other processes' claims included (composition 7)."""
        ...

    async def append(self, thread_id: str, epoch: int, seq: int, record: bytes) -> None:
        """Store the next record of a thread; it is durable when this returns.

        Args:
            thread_id: the thread.
            epoch: the epoch that the writer holds.
            seq: the number after the last one stored.
            record: the bytes to keep.

        Raises:
            StaleOwner: the stored epoch is another one.
            JournalError: `seq` is not the next number, or it could not be stored; nothing of it is visible.
        """
        ...

    async def threads(self) -> list[str]:
        """List every thread that was claimed or written to, in order of their ids."""
        ...

    async def read(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records of a thread that come after number `after`, in order."""
        ...


def out_of_sequence(where: str, thread_id: str, last: int, seq: int) -> JournalError:
    """Build the error for an append that would leave a gap or overwrite a record."""
    return JournalError(
        f"{where}: thread {thread_id} holds {last} records, so only number {last + 1} can be appended, not {seq}"
    )


class MemoryJournal:
    """A journal that lives as long as this object; for tests, simulations and hosts that need no recovery.

    Closing keeps the records, so that a restart can be played within one process. No method suspends.
    """

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._records: dict[str, list[Stored]] = {}
        self._open = False

    def __repr__(self) -> str:
        return f"MemoryJournal({len(self._epochs)} threads)"

    async def start(self) -> None:
        """Open it."""
        self._open = True

    async def aclose(self) -> None:
        """Close it; the records stay."""
        self._open = False

    async def claim(self, thread_id: str, owner: str, *, expected: int) -> int:
        """Take a thread over if its epoch is `expected` (see `Journal.claim`)."""
        current = self.epoch_now(thread_id)
        if current != expected:
            raise StaleOwner(thread_id, expected, current)
        self._epochs[thread_id] = expected + 1
        self._owners[thread_id] = owner
        return expected + 1

    async def epoch(self, thread_id: str) -> int:
        """Give the current epoch."""
        return self.epoch_now(thread_id)

    def epoch_now(self, thread_id: str) -> int:
        """Give the current epoch without suspension."""
        self._check_open()
        return self._epochs.get(thread_id, 0)

    async def append(self, thread_id: str, epoch: int, seq: int, record: bytes) -> None:
        """Store the next record (see `Journal.append`)."""
        check_record(record)
        current = self.epoch_now(thread_id)
        if current != epoch:
            raise StaleOwner(thread_id, epoch, current)
        records = self._records.get(thread_id, [])
        if seq != len(records) + 1:
            raise out_of_sequence("journal in memory", thread_id, len(records), seq)
        self._epochs.setdefault(thread_id, epoch)
        self._records.setdefault(thread_id, records).append(Stored(seq, epoch, record))

    async def threads(self) -> list[str]:
        """List every known thread."""
        self._check_open()
        return sorted(self._epochs)

    async def read(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records after number `after`."""
        self._check_open()
        return self._records.get(thread_id, [])[max(after, 0) :]

    def _check_open(self) -> None:
        if not self._open:
            raise JournalError("the journal in memory is closed; start() opens it")


def check_record(record: object) -> None:
    """Refuse anything but bytes before it is queued.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(record, bytes):
        raise TypeError(f"a record must be bytes, not {type(record).__name__}")


def open_journal(target: str | os.PathLike[str] | Journal | None) -> Journal:
    """Choose the journal: None keeps it in memory, a path means an SQLite file, a `Journal` is used as it is.

    Nothing is opened yet; `start` does that.

    Raises:
        JournalError: the path names no file.
        TypeError: the target is none of these; the message names the methods that are missing.
    """
    if target is None:
        return MemoryJournal()
    if isinstance(target, str | os.PathLike):
        # Imported late: a host without a journal file does not pay for loading SQLite.
        from goalfsm._sqlite import SqliteJournal  # noqa: PLC0415  see above

        return SqliteJournal(target)
    missing = [name for name in _METHODS if not callable(getattr(target, name, None))]
    if missing:
        kind = type(target).__name__
        raise TypeError(f"journal must be None, a path or a Journal; {kind} has no {', '.join(missing)}")
    return target
