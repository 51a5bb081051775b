"""The thread that writes a journal file: group commit, and one wake-up of the event loop for a whole batch."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from goalfsm._errors import GoalfsmError, JournalError
from goalfsm._sqlite_file import connect, explain, open_file
from goalfsm._sqlite_tables import Tables

__all__ = ["Work", "Writer"]

# Failures of one statement, over a value that SQLite cannot take; any other failure is the file's.
_ALONE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    TypeError,
    ValueError,
)

# What the writer is asked to do, and with which arguments; the future gets the result, or the error as a result
# (an error *set* on a future whose caller was just cancelled would be reported as never retrieved).
Work = Callable[..., Any]
_Op = tuple["asyncio.Future[Any]", Work, tuple[Any, ...]]


class Writer:
    """The one thread that writes. Everything it is asked for is answered, in order, until `stop`."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Op | None] = SimpleQueue()
        self._tables: Tables | None = None
        self._identity: tuple[int, int] | None = None
        self.ready: asyncio.Future[JournalError | None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        # A daemon: a host that forgets to close must still be able to exit; what was acknowledged is on disk.
        self._thread = threading.Thread(target=self._run, name=f"goalfsm-journal {path}", daemon=True)
        self._thread.start()

    def ask(self, work: Work, arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Queue one piece of work; cancelling the future does not take it back."""
        future = self._loop.create_future()
        self._queue.put((future, work, arguments))
        return future

    def stop(self) -> None:
        """End after what is queued now."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the last instructions of a thread that has `ended`."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._tables = Tables(self._path, open_file(self._path, self._busy_timeout))
        except JournalError as error:
            self._tell([(self.ready, error)])
        else:
            self._identity = self._file()
            self._tell([(self.ready, None)])
            while self._turn():
                pass
            if self._tables is not None:
                self._tables.close()
        self._tell([(self.ended, None)])

    def _turn(self) -> bool:
        batch: list[_Op] = []
        op = self._queue.get()
        with suppress(Empty):
            while op is not None and op[1] is not Tables.vacuum:
                batch.append(op)
                op = self._queue.get_nowait()
        if batch:
            self._tell(self._commit(batch))
        if op is not None and op[1] is Tables.vacuum:
            self._tell([(op[0], self._vacuum())])
        return op is not None

    def _vacuum(self) -> int | JournalError:
        """Do the one piece of work that no transaction may hold."""
        try:
            return self._connected().vacuum()
        except Exception as error:  # noqa: BLE001  whatever it is, the caller must get an answer
            self._roll_back()
            return explain(self._path, "vacuumed", error)

    def _connected(self) -> Tables:
        if self._tables is None:
            self._tables = Tables(self._path, connect(self._path, self._busy_timeout))
        return self._tables

    def _commit(self, batch: list[_Op]) -> list[tuple[asyncio.Future[Any], Any]]:
        """Do a batch in one transaction; if that fails, nothing of it is visible and everyone hears why."""
        outcomes: list[tuple[asyncio.Future[Any], Any]] = []
        if self._file() != self._identity:
            # SQLite would go on writing a file that no restart will ever find.
            gone = JournalError(f"journal {self._path} was deleted or replaced while it was open; nothing was written")
            return [(future, gone) for future, _, _ in batch]
        try:
            tables = self._connected()
            tables.begin()
            for future, work, arguments in batch:
                try:
                    outcomes.append((future, work(tables, *arguments)))
                except GoalfsmError as error:
                    outcomes.append((future, error))
                except _ALONE as error:
                    # Only this one is wrong: SQLite undid its statement and kept the transaction.
                    outcomes.append((future, explain(self._path, "written", error)))
            tables.commit()
        except Exception as error:  # noqa: BLE001  whatever it is, every caller must get an answer
            self._roll_back()
            return [(future, explain(self._path, "written", error)) for future, _, _ in batch]
        return outcomes

    def _file(self) -> tuple[int, int] | None:
        """Which file stands at the path now."""
        try:
            found = Path(self._path).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _roll_back(self) -> None:
        """Leave no transaction open; a connection that cannot even roll back is replaced."""
        if self._tables is not None and not self._tables.roll_back():
            self._tables.close()
            self._tables = None

    def _tell(self, outcomes: list[tuple[asyncio.Future[Any], Any]]) -> None:
        # The loop may be gone if the host was stopped hard; then nobody is left to tell.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in outcomes:
        if not future.done():
            future.set_result(outcome)
