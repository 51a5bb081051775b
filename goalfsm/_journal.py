"""The append-only history of every thread: how a journal is chosen, and the one in memory.

A step is journaled before any of its effects is performed (composition 8). Two checks guard every append: the owner's
epoch (surface 28: after a take-over the old owner writes nothing more) and the sequence number (no gap, no overwrite).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import anyio.lowlevel

from goalfsm._errors import JournalError, StaleOwner
from goalfsm._journal_protocol import Holder, Journal, Loaded, Stored, check_bytes, out_of_sequence, unfit_snapshot

__all__ = ["Holder", "Journal", "Loaded", "MemoryJournal", "Stored", "open_journal"]

_METHODS = (
    "start",
    "aclose",
    "claim",
    "epoch",
    "epoch_now",
    "append",
    "threads",
    "read",
    "snapshot",
    "load",
    "load_all",
    "beat",
    "holder",
    "retire",
)
_WHERE = "journal in memory"
_LOAD_CHUNK = 256


class MemoryJournal:
    """A journal that lives as long as this object; for tests, simulations and hosts that need no recovery.

    Closing keeps the records, so that a restart can be played within one process. Only `load_all` suspends.
    """

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._records: dict[str, list[Stored]] = {}
        self._snapshots: dict[str, tuple[int, bytes]] = {}
        self._beats: dict[str, int] = {}
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
        self._check_epoch(thread_id, expected)
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
        check_bytes(record, "record")
        self._check_epoch(thread_id, epoch)
        last = self._last(thread_id)
        if seq != last + 1:
            raise out_of_sequence(_WHERE, thread_id, last, seq)
        self._epochs.setdefault(thread_id, epoch)
        self._records.setdefault(thread_id, []).append(Stored(seq, epoch, record))

    async def threads(self) -> list[str]:
        """List every known thread."""
        self._check_open()
        return sorted(self._epochs)

    async def read(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records after number `after`."""
        self._check_open()
        records = self._records.get(thread_id, [])
        return records[max(after + 1 - records[0].seq, 0) :] if records else []

    async def snapshot(self, thread_id: str, epoch: int, seq: int, data: bytes, *, compact: bool = False) -> None:
        """Store the snapshot (see `Journal.snapshot`)."""
        check_bytes(data, "snapshot")
        self._check_epoch(thread_id, epoch)
        last = self._last(thread_id)
        held, _ = self._snapshots.get(thread_id, (0, b""))
        if not max(held, 1) <= seq <= last:
            raise unfit_snapshot(_WHERE, thread_id, held, last, seq)
        self._snapshots[thread_id] = (seq, data)
        if compact:
            self._records[thread_id] = await self.read(thread_id, seq)

    async def load(self, thread_id: str) -> Loaded:
        """Give what a restart needs of one thread."""
        epoch = self.epoch_now(thread_id)
        seq, data = self._snapshots.get(thread_id, (0, None))
        return Loaded(epoch, data, seq, await self.read(thread_id, seq))

    async def load_all(self) -> AsyncIterator[tuple[str, Loaded]]:
        """Give what a restart needs of every thread; the loop goes on every few of them."""
        for number, thread_id in enumerate(await self.threads(), 1):
            yield thread_id, await self.load(thread_id)
            if number % _LOAD_CHUNK == 0:
                await anyio.lowlevel.checkpoint()

    async def beat(self, owner: str) -> None:
        """Count a heartbeat."""
        self._check_open()
        self._beats[owner] = self._beats.get(owner, 0) + 1

    async def holder(self, thread_id: str) -> Holder:
        """Give who holds a thread."""
        epoch = self.epoch_now(thread_id)
        owner = self._owners.get(thread_id, "")
        return Holder(owner, epoch, self._beats.get(owner, 0))

    async def retire(self, owner: str) -> None:
        """Forget the heartbeats of an owner."""
        self._check_open()
        self._beats.pop(owner, None)

    def _last(self, thread_id: str) -> int:
        if records := self._records.get(thread_id):
            return records[-1].seq
        return self._snapshots.get(thread_id, (0, b""))[0]

    def _check_epoch(self, thread_id: str, epoch: int) -> None:
        current = self.epoch_now(thread_id)
        if current != epoch:
            raise StaleOwner(thread_id, epoch, current)

    def _check_open(self) -> None:
        if not self._open:
            raise JournalError(f"the {_WHERE} is closed; start() opens it")


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
