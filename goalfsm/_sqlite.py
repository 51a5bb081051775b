"""The journal in one SQLite file.

All writing happens in one thread of the journal. It takes whatever appends and claims are queued, from however many
tasks, does them in one transaction with one sync to disk, and wakes the event loop once for all of them. Reading is
done on a connection of its own, in the loop's thread, in short statements: a reader never waits for the writer (WAL),
and `epoch_now` must not suspend.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import Any

import anyio
import anyio.lowlevel

from goalfsm._errors import JournalError
from goalfsm._journal import Stored, check_record
from goalfsm._sqlite_file import connect, explain
from goalfsm._sqlite_writer import EPOCH, Tables, Work, Writer

__all__ = ["SqliteJournal"]

_READ = "SELECT seq, epoch, record FROM steps WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_THREADS = "SELECT thread_id FROM threads WHERE thread_id > ? ORDER BY thread_id LIMIT ?"
_READ_CHUNK = 256
_THREADS_CHUNK = 4096


class SqliteJournal:
    """A journal in one SQLite file (WAL, synchronous=FULL); several processes may use the same file.

    Args:
        path: the file; it is created, readable by its owner only, where there is none. Its directory must exist.
        busy_timeout: seconds to wait for another process's transaction before giving up.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> None:
        self.path = os.fspath(path)
        if self.path in {"", ":memory:"}:
            raise JournalError(f"journal {self.path!r} names no file; give a path, or None for a journal in memory")
        self._busy_timeout = busy_timeout
        self._writer: Writer | None = None
        self._reader: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"SqliteJournal({self.path!r})"

    async def start(self) -> None:
        """Open the file, or create it.

        Raises:
            JournalError: it is a directory, no database, no journal, of a newer version, read-only or locked.
        """
        if self._writer is None:
            self._writer = Writer(self.path, self._busy_timeout)
        writer = self._writer
        try:
            failure = await asyncio.shield(writer.ready)
            if failure is None and self._reader is None:
                self._reader = connect(self.path, self._busy_timeout)
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
        check_record(record)
        await self._do(Tables.append, (thread_id, epoch, seq, record))

    async def epoch(self, thread_id: str) -> int:
        """Give the current epoch."""
        return self.epoch_now(thread_id)

    def epoch_now(self, thread_id: str) -> int:
        """Give the true current epoch: one SELECT outside any transaction, so that every process's commits count."""
        rows = self._select(EPOCH, (thread_id,))
        return int(rows[0][0]) if rows else 0

    async def threads(self) -> list[str]:
        """List every known thread; the loop goes on between chunks."""
        found: list[str] = []
        while chunk := self._select(_THREADS, (found[-1] if found else "", _THREADS_CHUNK)):
            found += [row[0] for row in chunk]
            if len(chunk) < _THREADS_CHUNK:
                break
            await anyio.lowlevel.checkpoint()
        return found

    async def read(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records after number `after`; the loop goes on between chunks.

        No statement stays open between chunks: it would pin an old view of the file and make `epoch_now` untrue.
        """
        found: list[Stored] = []
        while chunk := self._select(_READ, (thread_id, found[-1].seq if found else after, _READ_CHUNK)):
            found += [Stored(*row) for row in chunk]
            if len(chunk) < _READ_CHUNK:
                break
            await anyio.lowlevel.checkpoint()
        return found

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _select(self, statement: str, arguments: tuple[Any, ...]) -> list[Any]:
        if self._reader is None:
            raise self._closed()
        try:
            return self._reader.execute(statement, arguments).fetchall()
        except sqlite3.Error as error:
            raise explain(self.path, "read", error) from error

    async def _do(self, work: Work, arguments: tuple[Any, ...]) -> Any:
        writer = self._writer
        if writer is None or self._reader is None:
            raise self._closed()
        outcome = await writer.ask(work, arguments)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _closed(self) -> JournalError:
        return JournalError(f"journal {self.path} is closed; start() opens it")
