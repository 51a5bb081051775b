"""What a journal promises to the engine, and the values that it gives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import attrs
import msgspec

from goalfsm._errors import JournalError

__all__ = [
    "Holder",
    "Journal",
    "Loaded",
    "Stored",
    "check_bytes",
    "out_of_sequence",
    "unfit_snapshot",
]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One record as it was appended; a restart makes very many of them (decisions 23).

    Args:
        seq: its number in its thread, from 1, without gaps.
        epoch: the epoch of the owner that appended it.
        record: the bytes, unchanged.
    """

    seq: int
    epoch: int
    record: bytes


@attrs.frozen
class Loaded:
    """All that a restart needs of one thread.

    Args:
        epoch: the current epoch; 0 for a thread that nobody claimed.
        snapshot: the snapshot, which stands for every record up to `snapshot_seq`; None where there is none.
        snapshot_seq: the number of the last record that it stands for; 0 where there is none.
        records: the records after it, in order, without a gap.
    """

    epoch: int
    snapshot: bytes | None
    snapshot_seq: int
    records: list[Stored]

    @property
    def last_seq(self) -> int:
        """The number of the last record; 0 for a thread that has none."""
        return self.records[-1].seq if self.records else self.snapshot_seq


@attrs.frozen
class Holder:
    """Who holds a thread, and a number that grows as long as he lives (decisions 6).

    Args:
        owner: the owner of the current epoch; empty for a thread that nobody claimed.
        epoch: the current epoch.
        beat: his heartbeats so far; 0 if he never gave one, or retired.
    """

    owner: str
    epoch: int
    beat: int


class Journal(Protocol):
    """What the engine needs of a journal; anybody's own store can be one.

    A journal belongs to the event loop that started it. A write whose caller is cancelled is not taken back: it happens
    or fails as if the caller had waited. A caller that must know shields the call, or reads again.
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
            owner: who claims it; a name that no other process, also none before, goes by (see `beat`).
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
        """Give the records of a thread that come after number `after`, in order; not those that were compacted away."""
        ...

    async def snapshot(self, thread_id: str, epoch: int, seq: int, data: bytes, *, compact: bool = False) -> None:
        """Store the snapshot of a thread, in place of the one before; it is durable when this returns (decisions 22).

        Args:
            thread_id: the thread.
            epoch: the epoch that the writer holds.
            seq: the last record that it stands for; the records up to it are not needed for a restart any more.
            data: the bytes to keep.
            compact: delete those records in the same transaction; `read` gives only the later ones from then on.

        Raises:
            StaleOwner: the stored epoch is another one.
            JournalError: there is no record `seq`, or a later snapshot, or it could not be stored; nothing changed.
        """
        ...

    async def load(self, thread_id: str) -> Loaded:
        """Give what a restart needs of one thread.

        Raises:
            JournalError: something of it is damaged or missing; the thread and the number are named.
        """
        ...

    def load_all(self) -> AsyncIterator[tuple[str, Loaded]]:
        """Give what a restart needs of every thread, in order of their ids, in bounded memory.

        Each thread is consistent in itself; two threads may be seen at different moments. Other tasks go on in between,
        and the iteration may be left at any point.

        Raises:
            JournalError: something is damaged or missing; the thread and the number are named.
        """
        ...

    async def beat(self, owner: str) -> None:
        """Show that an owner lives: whoever observes its threads sees `Holder.beat` grow.

        A lease is what the observer makes of it: no change for some seconds of the observer's own monotonic clock
        (decisions 6). No clock is stored.
        """
        ...

    async def holder(self, thread_id: str) -> Holder:
        """Give who holds a thread now, other processes' claims and heartbeats included."""
        ...

    async def retire(self, owner: str) -> None:
        """Say that an owner is gone and its threads are free to take, without waiting for its lease to run out."""
        ...


def out_of_sequence(where: str, thread_id: str, last: int, seq: int) -> JournalError:
    """Build the error for an append that would leave a gap or overwrite a record."""
    return JournalError(
        f"{where}: thread {thread_id} holds {last} records, so only number {last + 1} can be appended, not {seq}"
    )


def unfit_snapshot(where: str, thread_id: str, held: int, last: int, seq: int) -> JournalError:
    """Build the error for a snapshot of records that are not there, or of fewer than the one that is stored."""
    allowed = f"only one up to number {max(held, 1)} to {last} can be stored" if last else "none can be stored"
    return JournalError(
        f"{where}: thread {thread_id} holds {last} records and a snapshot up to {held}, so {allowed}, not up to {seq}"
    )


def check_bytes(data: object, what: str) -> None:
    """Refuse anything but bytes before it is queued.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"a {what} must be bytes, not {type(data).__name__}")
