"""Reading a journal file: short statements only, each record compared with its checksum, no record left out unseen.

What may take long is a generator that pauses wherever other work may go on. No statement and no transaction is open at
a pause: it would pin an old view of the file, and `epoch_now` would be untrue.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar
from zlib import crc32

from goalfsm._errors import JournalError
from goalfsm._journal_protocol import Holder, Loaded, Stored
from goalfsm._sqlite_file import explain
from goalfsm._sqlite_schema import checksum, place

__all__ = ["Pausing", "Rows"]

T = TypeVar("T")
Pausing = Generator[None, None, T]

_EPOCH = "SELECT epoch FROM threads WHERE thread_id = ?"
_HOLDER = """
    SELECT threads.owner, epoch, ifnull(beat, 0) FROM threads LEFT JOIN owners ON owners.owner = threads.owner
    WHERE thread_id = ?
"""
_THREADS = "SELECT thread_id FROM threads WHERE thread_id > ? ORDER BY thread_id LIMIT ?"
_READ = "SELECT seq, epoch, record, crc FROM steps WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_SNAPSHOT = "SELECT seq, epoch, data, crc FROM snapshots WHERE thread_id = ?"
_SNAPSHOT_SEQ = "SELECT seq FROM snapshots WHERE thread_id = ?"
_HEADS = """
    SELECT threads.thread_id, threads.epoch, snapshots.seq, snapshots.epoch, data, crc
    FROM threads LEFT JOIN snapshots ON snapshots.thread_id = threads.thread_id
    WHERE threads.thread_id > ? ORDER BY threads.thread_id LIMIT ?
"""
# The order of the joins is the order of the ids: CROSS JOIN is SQLite's word for "in this order".
_TAILS = """
    SELECT steps.thread_id, steps.seq, steps.epoch, steps.record, steps.crc
    FROM threads CROSS JOIN steps ON steps.thread_id = threads.thread_id
        AND steps.seq > ifnull((SELECT seq FROM snapshots WHERE snapshots.thread_id = threads.thread_id), 0)
    WHERE threads.thread_id > ? AND threads.thread_id <= ? ORDER BY threads.thread_id, steps.seq
"""
_READ_CHUNK = 256
_THREADS_CHUNK = 4096
_HEADS_CHUNK = 256
_TAILS_CHUNK = 4096
_TAILS_BYTES = 8 * 1024 * 1024


class Rows:
    """The rows of one connection, as values."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self.path = path
        self.db = db

    def select(self, statement: str, *arguments: Any) -> list[Any]:
        """Run one statement to its end.

        Raises:
            JournalError: SQLite could not.
        """
        try:
            return self.db.execute(statement, arguments).fetchall()
        except sqlite3.Error as error:
            raise explain(self.path, "read", error) from error

    def epoch(self, thread_id: str) -> int:
        """Give the true current epoch: one SELECT outside any transaction, so that every process's commits count."""
        rows = self.select(_EPOCH, thread_id)
        return int(rows[0][0]) if rows else 0

    def holder(self, thread_id: str) -> Holder:
        """Give who holds a thread."""
        rows = self.select(_HOLDER, thread_id)
        return Holder(*rows[0]) if rows else Holder("", 0, 0)

    def threads(self) -> Pausing[list[str]]:
        """List every known thread."""
        found: list[str] = []
        while chunk := self.select(_THREADS, found[-1] if found else "", _THREADS_CHUNK):
            found += [row[0] for row in chunk]
            if len(chunk) < _THREADS_CHUNK:
                break
            yield
        return found

    def read(self, thread_id: str, after: int) -> Pausing[list[Stored]]:
        """Give the records after number `after`; if they are compacted meanwhile, those that are left."""
        found: list[Stored] = []
        after = max(after, 0)
        while True:
            snapshot_seq, chunk = self._part(thread_id, after)
            if chunk and chunk[0].seq != after + 1:
                # A gap is right only where a snapshot stands for what is missing.
                if chunk[0].seq > snapshot_seq + 1:
                    raise self._missing(thread_id, after + 1)
                found = []
            found += chunk
            if len(chunk) < _READ_CHUNK:
                return found
            after = chunk[-1].seq
            yield

    def load(self, thread_id: str) -> Pausing[Loaded]:
        """Give the snapshot of a thread and the records after it, from the start again if both change meanwhile."""
        while True:
            epoch = self.epoch(thread_id)
            snapshot = self.snapshot(thread_id)
            seq, data = (0, None) if snapshot is None else (snapshot.seq, snapshot.record)
            found: list[Stored] = []
            while True:
                after = found[-1].seq if found else seq
                snapshot_seq, chunk = self._part(thread_id, after)
                if snapshot_seq != seq:
                    break
                if chunk and chunk[0].seq != after + 1:
                    raise self._missing(thread_id, after + 1)
                found += chunk
                if len(chunk) < _READ_CHUNK:
                    return Loaded(epoch, data, seq, found)
                yield
            yield

    def load_all(self) -> Generator[list[tuple[str, Loaded]], None, None]:
        """Give every thread with what a restart needs of it, in chunks of bounded size; it pauses after each."""
        after = ""
        while chunk := self.load_some(after):
            after = chunk[-1][0]
            yield chunk

    def load_some(self, after: str) -> list[tuple[str, Loaded]]:
        """Give some threads after one, with what a restart needs of them, as they were at one moment."""
        with self._view():
            loaded: dict[str, Loaded] = {}
            for thread_id, epoch, seq, writer, data, crc in self.select(_HEADS, after, _HEADS_CHUNK):
                if seq is None:
                    loaded[thread_id] = Loaded(epoch, None, 0, [])
                else:
                    snapshot = self.checked(thread_id, seq, writer, data, crc, what="snapshot")
                    loaded[thread_id] = Loaded(epoch, snapshot.record, seq, [])
            if loaded:
                self._fill(loaded, after)
        return list(loaded.items())

    def snapshot(self, thread_id: str) -> Stored | None:
        """Give the snapshot of a thread: its number, the epoch of its writer, its bytes."""
        rows = self.select(_SNAPSHOT, thread_id)
        return self.checked(thread_id, *rows[0], what="snapshot") if rows else None

    def checked(
        self, thread_id: str, seq: int, epoch: int, record: bytes, crc: int | None, *, what: str = "record"
    ) -> Stored:
        """Compare a row with its checksum.

        Raises:
            JournalError: they differ.
        """
        if crc is not None and crc != checksum(thread_id, seq, epoch, record):
            raise self._damaged(thread_id, what, seq)
        return Stored(seq, epoch, record)

    def _part(self, thread_id: str, after: int) -> tuple[int, list[Stored]]:
        """Give some records without a gap between them, and up to where a snapshot stood at that moment."""
        with self._view():
            seqs = self.select(_SNAPSHOT_SEQ, thread_id)
            rows = self.select(_READ, thread_id, after, _READ_CHUNK)
        found = [self.checked(thread_id, *row) for row in rows]
        for before, stored in pairwise(found):
            if stored.seq != before.seq + 1:
                raise self._missing(thread_id, before.seq + 1)
        return (seqs[0][0] if seqs else 0), found

    def _fill(self, loaded: dict[str, Loaded], after: str) -> None:
        """Add the records after the snapshots; if they are many, drop the last threads, for the next chunk to bring."""
        cursor = self.db.execute(_TAILS, (after, next(reversed(loaded))))
        current, expected, thread_crc = "", 0, 0
        records: list[Stored] = []
        size = 0
        for count, (thread_id, seq, epoch, record, crc) in enumerate(cursor):
            if thread_id != current:
                if count >= _TAILS_CHUNK or size >= _TAILS_BYTES:
                    cursor.close()
                    ids = list(loaded)
                    for later in ids[ids.index(thread_id) :]:
                        del loaded[later]
                    return
                current, thread_crc = thread_id, crc32(thread_id.encode())
                records, expected = loaded[thread_id].records, loaded[thread_id].snapshot_seq + 1
            if seq != expected:
                raise self._missing(thread_id, expected)
            if crc is not None and crc != crc32(record, place(thread_crc, seq, epoch)):
                raise self._damaged(thread_id, "record", seq)
            records.append(Stored(seq, epoch, record))
            expected += 1
            size += len(record)

    @contextmanager
    def _view(self) -> Iterator[None]:
        """Read from one moment of the file."""
        try:
            self.db.execute("BEGIN")
            try:
                yield
            finally:
                self.db.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain(self.path, "read", error) from error

    def _damaged(self, thread_id: str, what: str, seq: int) -> JournalError:
        return JournalError(
            f"journal {self.path}: thread {thread_id}, {what} {seq} is damaged: its checksum does not match"
        )

    def _missing(self, thread_id: str, seq: int) -> JournalError:
        return JournalError(f"journal {self.path}: thread {thread_id}, record {seq} is missing, later ones are there")
