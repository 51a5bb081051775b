"""The journal in one SQLite file.

All writing happens in one thread of the journal. It takes whatever appends and claims are queued, from however many
tasks, does them in one transaction with one sync to disk, and wakes the event loop once for all of them. Reading is
done on a connection of its own, in the loop's thread, in short statements: a reader never waits for the writer (WAL),
and `epoch_now` must not suspend.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from goalfsm._errors import JournalError
from goalfsm._journal_protocol import Holder, Loaded, Stored, check_bytes
from goalfsm._sqlite_file import connect
from goalfsm._sqlite_rows import Pausing, Rows
from goalfsm._sqlite_tables import Tables
from goalfsm._sqlite_writer import Work, Writer

__all__ = ["SqliteJournal"]

T = TypeVar("T")


class SqliteJournal:
    """A journal in one SQLite file (WAL, synchronous=FULL); several processes may use the same file.

    Args:
        path: the file; it is created, readable by its owner only, where there is none. Its directory must exist.
        busy_timeout: seconds to wait for another process's transaction before giving up.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> None:
        self.path = os.fspath(path)
        if self.path in {"", ":memory:"} or "\0" in self.path:
            raise JournalError(f"journal {self.path!r} names no file; give a path, or None for a journal in memory")
        self._busy_timeout = busy_timeout
        self._writer: Writer | None = None
        self._rows: Rows | None = None

    def __repr__(self) -> str:
        return f"SqliteJournal({self.path!r})"

    async def start(self) -> None:
        """Open the file, or create it.

        Raises:
            JournalError: it is a directory, no database, no journal, of a newer version, damaged, read-only or locked.
        """
        if self._writer is None:
            self._writer = Writer(self.path, self._busy_timeout)
        writer = self._writer
        try:
            failure = await asyncio.shield(writer.ready)
            if failure is None and self._rows is None:
                self._rows = Rows(self.path, connect(self.path, self._busy_timeout))
        except BaseException:
            writer.stop()
            self._writer = None
            raise
        if failure is not None:
            await self.aclose()
            raise failure

    async def aclose(self) -> None:
        """Finish the pending appends, close the file, end the thread. Idempotent, and not interrupted by a cancel."""
        writer = self._writer
        if writer is None:
            return
        self._close_reader()
        writer.stop()
        with anyio.CancelScope(shield=True):
            await asyncio.shield(writer.ended)
        writer.join()
        self._close_reader()  # a start that was under way may have opened it meanwhile
        if self._writer is writer:
            self._writer = None

    async def claim(self, thread_id: str, owner: str, *, expected: int) -> int:
        """Take a thread over if its epoch is `expected` (see `Journal.claim`)."""
        return int(await self._do(Tables.claim, (thread_id, owner, expected)))

    async def append(self, thread_id: str, epoch: int, seq: int, record: bytes) -> None:
        """Store the next record (see `Journal.append`).

        Appends that wait at the same time share one sync to disk; each is checked by itself: a stale one fails alone.
        """
        check_bytes(record, "record")
        await self._do(Tables.append, (thread_id, epoch, seq, record))

    async def epoch(self, thread_id: str) -> int:
        """Give the current epoch."""
        return self.epoch_now(thread_id)

    def epoch_now(self, thread_id: str) -> int:
        """Give the true current epoch: one SELECT outside any transaction, so that every process's commits count."""
        return self._opened().epoch(thread_id)

    async def threads(self) -> list[str]:
        """List every known thread; the loop goes on between chunks."""
        return await self._pausing(self._opened().threads())

    async def read(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records after number `after`; the loop goes on between chunks."""
        return await self._pausing(self._opened().read(thread_id, after))

    async def snapshot(self, thread_id: str, epoch: int, seq: int, data: bytes, *, compact: bool = False) -> None:
        """Store the snapshot (see `Journal.snapshot`); it shares the sync to disk with whatever else waits."""
        check_bytes(data, "snapshot")
        await self._do(Tables.snapshot, (thread_id, epoch, seq, data, compact))

    async def load(self, thread_id: str) -> Loaded:
        """Give what a restart needs of one thread; the loop goes on between chunks."""
        return await self._pausing(self._opened().load(thread_id))

    async def load_all(self) -> AsyncIterator[tuple[str, Loaded]]:
        """Give what a restart needs of every thread (see `Journal.load_all`).

        Nothing is held between two threads: leaving the iteration early, or closing the journal in it, leaks nothing.
        """
        chunks = self._opened().load_all()
        while True:
            self._opened()
            chunk = next(chunks, None)
            if chunk is None:
                return
            for loaded in chunk:
                yield loaded
            await anyio.lowlevel.checkpoint()

    async def beat(self, owner: str) -> None:
        """Count a heartbeat; it shares the sync to disk with whatever else waits."""
        await self._do(Tables.beat, (owner,))

    async def holder(self, thread_id: str) -> Holder:
        """Give who holds a thread now."""
        return self._opened().holder(thread_id)

    async def retire(self, owner: str) -> None:
        """Forget the heartbeats of an owner."""
        await self._do(Tables.retire, (owner,))

    async def vacuum(self) -> int:
        """Give the space back that compaction left unused, and empty the -wal file; give the bytes that were saved.

        For quiet hours: what is appended meanwhile waits, and about twice the file's size must be free. Without it the
        file does not grow either, as long as compaction leaves more than is written.

        Raises:
            JournalError: there is no space for it, or another process writes; the file is as it was.
        """
        return int(await self._do(Tables.vacuum, ()))

    def _close_reader(self) -> None:
        if self._rows is not None:
            self._rows.db.close()
            self._rows = None

    def _opened(self) -> Rows:
        if self._rows is None:
            raise self._closed()
        return self._rows

    async def _pausing(self, work: Pausing[T]) -> T:
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: T = end.value
                return result
            await anyio.lowlevel.checkpoint()
            self._opened()

    async def _do(self, work: Work, arguments: tuple[Any, ...]) -> Any:
        writer = self._writer
        if writer is None or self._rows is None:
            raise self._closed()
        outcome = await writer.ask(work, arguments)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _closed(self) -> JournalError:
        return JournalError(f"journal {self.path} is closed; start() opens it")
