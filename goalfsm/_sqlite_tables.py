"""The tables of a journal file as its writer uses them."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from zlib import crc32

from goalfsm._errors import StaleOwner
from goalfsm._journal_protocol import out_of_sequence, unfit_snapshot
from goalfsm._sqlite_file import vacuum
from goalfsm._sqlite_schema import checksum, place

__all__ = ["Tables"]

_EPOCH = "SELECT epoch FROM threads WHERE thread_id = ?"
# After compaction the last record may be known only by its snapshot.
_LAST = """
    SELECT max(
        ifnull((SELECT max(seq) FROM steps WHERE thread_id = ?1), 0),
        ifnull((SELECT seq FROM snapshots WHERE thread_id = ?1), 0)
    )
"""
_APPEND = "INSERT INTO steps (thread_id, seq, epoch, record, crc) VALUES (?, ?, ?, ?, ?)"
_OWN = """
    INSERT INTO threads (thread_id, epoch, owner) VALUES (?, ?, ?)
    ON CONFLICT (thread_id) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner
"""
_SNAPSHOT_SEQ = "SELECT seq FROM snapshots WHERE thread_id = ?"
_SNAPSHOT = """
    INSERT INTO snapshots (thread_id, seq, epoch, data, crc) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (thread_id) DO UPDATE
        SET seq = excluded.seq, epoch = excluded.epoch, data = excluded.data, crc = excluded.crc
"""
_COMPACT = "DELETE FROM steps WHERE thread_id = ? AND seq <= ?"
_BEAT = "INSERT INTO owners (owner, beat) VALUES (?, 1) ON CONFLICT (owner) DO UPDATE SET beat = beat + 1"
_RETIRE = "DELETE FROM owners WHERE owner = ?"
_HEADS_KEPT = 10_000


class Tables:
    """The tables as the writer uses them, inside its transaction.

    Of recently used threads the epoch, the last number and the checksum of the id are remembered, and forgotten as soon
    as SQLite says that another connection committed anything (`data_version`, asked under the write lock): so every
    check holds across processes.
    """

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self._path = path
        self._where = f"journal {path}"
        self._db = db
        self._cursor = db.cursor()
        self._execute = self._cursor.execute
        self._heads: dict[str, tuple[int, int, int]] = {}
        self._version = -1

    def begin(self) -> None:
        """Take the write lock."""
        self._execute("BEGIN IMMEDIATE")
        (version,) = self._execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self._heads) > _HEADS_KEPT:
            self._heads.clear()
            self._version = version

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        self._execute("COMMIT")

    def roll_back(self) -> bool:
        """Undo everything since `begin`; False if the connection cannot even do that."""
        self._heads.clear()
        try:
            if self._db.in_transaction:
                self._execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True

    def close(self) -> None:
        """Let go of the file."""
        with suppress(sqlite3.Error):
            self._db.close()

    def append(self, thread_id: str, epoch: int, seq: int, record: bytes) -> None:
        """Store the next record (see `Journal.append`)."""
        current, last, thread_crc = self._heads.get(thread_id) or self._look_up(thread_id)
        if current != epoch:
            raise StaleOwner(thread_id, epoch, current)
        if seq != last + 1:
            raise out_of_sequence(self._where, thread_id, last, seq)
        self._execute(_APPEND, (thread_id, seq, epoch, record, crc32(record, place(thread_crc, seq, epoch))))
        if seq == 1 and epoch == 0:
            self._execute(_OWN, (thread_id, 0, ""))
        self._heads[thread_id] = (epoch, seq, thread_crc)

    def claim(self, thread_id: str, owner: str, expected: int) -> int:
        """Take a thread over if its epoch is `expected` (see `Journal.claim`)."""
        current, last, thread_crc = self._look_up(thread_id)
        if current != expected:
            raise StaleOwner(thread_id, expected, current)
        self._execute(_OWN, (thread_id, expected + 1, owner))
        self._heads[thread_id] = (expected + 1, last, thread_crc)
        return expected + 1

    def snapshot(self, thread_id: str, epoch: int, seq: int, data: bytes, compact: bool) -> None:
        """Store the snapshot (see `Journal.snapshot`)."""
        current, last, _ = self._look_up(thread_id)
        if current != epoch:
            raise StaleOwner(thread_id, epoch, current)
        row = self._execute(_SNAPSHOT_SEQ, (thread_id,)).fetchone()
        held = row[0] if row else 0
        if not max(held, 1) <= seq <= last:
            raise unfit_snapshot(self._where, thread_id, held, last, seq)
        self._execute(_SNAPSHOT, (thread_id, seq, epoch, data, checksum(thread_id, seq, epoch, data)))
        if compact:
            self._execute(_COMPACT, (thread_id, seq))

    def beat(self, owner: str) -> None:
        """Count a heartbeat."""
        self._execute(_BEAT, (owner,))

    def retire(self, owner: str) -> None:
        """Forget the heartbeats of an owner."""
        self._execute(_RETIRE, (owner,))

    def vacuum(self) -> int:
        """Give unused space back; outside any transaction."""
        return vacuum(self._path, self._db)

    def _look_up(self, thread_id: str) -> tuple[int, int, int]:
        row = self._execute(_EPOCH, (thread_id,)).fetchone()
        (last,) = self._execute(_LAST, (thread_id,)).fetchone()
        return (row[0] if row else 0, last, crc32(thread_id.encode()))
