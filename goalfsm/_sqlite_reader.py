"""Reading a journal file beside its writer: no write lock, no change to the file, no file of its own beside it.

While the file is in use its -wal file holds the newest commits, and SQLite reads both. Where there is none nobody uses
the file, and it is read as it lies there (`immutable`), also from a medium that cannot be written. SQLite then takes no
locks, so the reader looks for itself whether a writer came meanwhile, and asks again if so.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import attrs

from goalfsm._errors import JournalError
from goalfsm._journal_protocol import Holder, Loaded, Stored
from goalfsm._sqlite_file import connect, damage, explain, left_open, vacuum
from goalfsm._sqlite_rows import Pausing, Rows
from goalfsm._sqlite_schema import SCHEMA_VERSION, read_as_current, version_of

__all__ = ["Change", "JournalReader", "open_reader", "vacuum_file"]

T = TypeVar("T")

_LAST_ID = "SELECT ifnull(max(id), 0) FROM steps"
_CHANGES = "SELECT id, thread_id, seq, epoch, record, crc FROM steps WHERE id > ? ORDER BY id LIMIT ?"
_TRIES = 5
_EFFECTIVE = os.access in os.supports_effective_ids


@attrs.frozen
class Change:
    """One record in the order in which the file got them.

    Args:
        id: what to ask `JournalReader.changes` with for those after it.
        thread_id: the thread.
        stored: the record.
    """

    id: int
    thread_id: str
    stored: Stored


class JournalReader:
    """A view of a journal file that may be in use, of any version so far; every call sees what is committed by then.

    Not for the engine: it blocks. It belongs to the thread that opened it, and closes when its `with` block ends.
    """

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.path = path
        self.version = SCHEMA_VERSION
        self._busy_timeout = busy_timeout
        self._rows: Rows | None = None
        self._opened_at: tuple[object, ...] = ()
        self._idle: tuple[int, int] | None = None
        self._again()

    def __repr__(self) -> str:
        return f"JournalReader({self.path!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._rows is not None:
            self._rows.db.close()
            self._rows = None

    def threads(self) -> list[str]:
        """List every thread, in order of their ids."""
        return self._ask(lambda rows: _to_the_end(rows.threads()))

    def records(self, thread_id: str, after: int = 0) -> list[Stored]:
        """Give the records of a thread after number `after`, as far as they are not compacted away.

        Raises:
            JournalError: one is damaged or missing; the thread and the number are named.
        """
        return self._ask(lambda rows: _to_the_end(rows.read(thread_id, after)))

    def snapshot(self, thread_id: str) -> Stored | None:
        """Give the snapshot of a thread: the number up to which it stands, its writer's epoch, and its bytes."""
        return self._ask(lambda rows: rows.snapshot(thread_id))

    def load(self, thread_id: str) -> Loaded:
        """Give what a restart would need of a thread."""
        return self._ask(lambda rows: _to_the_end(rows.load(thread_id)))

    def load_all(self) -> Iterator[tuple[str, Loaded]]:
        """Give what a restart would need of every thread, in order of their ids, in bounded memory."""
        after = ""
        while chunk := self._ask(partial(Rows.load_some, after=after)):
            yield from chunk
            after = chunk[-1][0]

    def holder(self, thread_id: str) -> Holder:
        """Give who holds a thread; two looks some seconds apart tell whether its heartbeat goes on (decisions 6)."""
        return self._ask(lambda rows: rows.holder(thread_id))

    def last_id(self) -> int:
        """Give the id of the newest record: where to begin if only what is new from now on counts."""
        return self._ask(lambda rows: int(rows.select(_LAST_ID)[0][0]))

    def changes(self, since: int = 0, limit: int = 1000) -> list[Change]:
        """Give the records that came after id `since`, of all threads, oldest first; an empty list if there are none.

        To follow a file, ask again with the last id. Asking while nothing was committed is cheap. A record that is
        compacted away before it was asked for is not seen.

        Raises:
            JournalError: a record is damaged; the thread and the number are named.
        """

        def some(rows: Rows) -> list[Change]:
            now = (int(rows.select("PRAGMA data_version")[0][0]), since)
            if now == self._idle:
                return []
            found = [Change(row[0], row[1], rows.checked(*row[1:])) for row in rows.select(_CHANGES, since, limit)]
            self._idle = None if found else now
            return found

        return self._ask(some)

    def problems(self) -> list[str]:
        """Check the whole file: its structure, every checksum, every gap. Takes seconds a gigabyte; empty if sound."""
        try:
            found = self._ask(lambda rows: damage(rows.db))
        except sqlite3.Error as error:
            return [str(explain(self.path, "read", error))]
        for thread_id in [] if found else self.threads():
            try:
                self.load(thread_id)
                self.records(thread_id)
            except JournalError as error:
                found.append(str(error))
        return found

    def _ask(self, question: Callable[[Rows], T]) -> T:
        """Ask, and ask again if the file was read without locks and somebody used it meanwhile."""
        for _ in range(_TRIES):
            if self._rows is None:
                raise JournalError(f"journal {self.path} is closed; open_reader() opens it")
            if self._opened_at != self._lies_still():
                self._again()
            try:
                answer = question(self._rows)
            except (JournalError, sqlite3.Error):
                if self._opened_at == self._lies_still():
                    raise
            else:
                if self._opened_at == self._lies_still():
                    return answer
        raise JournalError(f"journal {self.path} could not be read: it is opened and closed all the time")

    def _lies_still(self) -> tuple[object, ...]:
        """Describe a file that nobody uses, so that any use since shows; one in use needs no such care."""
        if left_open(self.path):
            return ()
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise JournalError(f"journal {self.path} could not be read: {error.strerror}") from error
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def _again(self) -> None:
        self.close()
        self._idle = None
        self._opened_at = self._lies_still()
        how = "immutable=1" if self._opened_at else "mode=ro"
        uri = f"{Path(self.path).resolve().as_uri()}?{how}"
        try:
            db = sqlite3.connect(uri, uri=True, timeout=self._busy_timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise explain(self.path, "read", error) from error
        try:
            self.version = _readable(self.path, db)
            db.execute("PRAGMA temp_store = MEMORY")
            read_as_current(db, self.version)
        except BaseException as error:
            db.close()
            raise self._unreadable(error) from error
        self._rows = Rows(self.path, db)

    def _unreadable(self, error: BaseException) -> BaseException:
        if not isinstance(error, sqlite3.Error):
            return error
        if not self._opened_at and not os.access(Path(self.path).resolve().parent, os.W_OK, effective_ids=_EFFECTIVE):
            return JournalError(
                f"journal {self.path} could not be read: its -wal file needs a -shm file in a directory that cannot be "
                "written; copy the file together with its -wal file to one that can"
            )
        return explain(self.path, "read", error)


def open_reader(path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> JournalReader:
    """Open a journal file for reading only, also one that another process writes at the same time.

    Args:
        path: the file.
        busy_timeout: seconds to wait where a writer is just opening or closing it.

    Raises:
        JournalError: there is no such file, or it is no journal, or a newer one.
    """
    name = os.fspath(path)
    if not Path(name).exists():
        raise JournalError(f"there is no journal {name}")
    if Path(name).is_dir():
        raise JournalError(f"journal {name} is a directory; name a file in it")
    return JournalReader(name, busy_timeout)


def vacuum_file(path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> int:
    """Give back the space that compaction left unused in a file; give the bytes that were saved.

    Raises:
        JournalError: it is no current journal, or it is in use or read-only, or there is no space to rewrite it.
    """
    with open_reader(path, busy_timeout=busy_timeout) as reader:
        if reader.version != SCHEMA_VERSION:
            raise JournalError(f"journal {path} is of version {reader.version}; opening it to write brings it up first")
    db = connect(os.fspath(path), busy_timeout)
    try:
        return vacuum(os.fspath(path), db)
    finally:
        db.close()


def _readable(path: str, db: sqlite3.Connection) -> int:
    version = version_of(db)
    if version is None:
        raise JournalError(f"{path} is an SQLite database but no goalfsm journal")
    if version == 0:
        raise JournalError(f"{path} is empty, so it is no goalfsm journal yet")
    if version > SCHEMA_VERSION:
        raise JournalError(f"journal {path} is of version {version}, this goalfsm reads up to {SCHEMA_VERSION}")
    return version


def _to_the_end(work: Pausing[T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
