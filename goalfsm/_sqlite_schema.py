"""The format of a journal file, version by version (docs/journal-format.md), and the checksum of what is in it."""

from __future__ import annotations

import sqlite3
from zlib import crc32

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "checksum", "migrate", "place", "read_as_current", "version_of"]

APPLICATION_ID = 0x676F616C  # "goal"

# Entry n brings a file from version n to n + 1, in one transaction; a new file goes through all of them. An entry that
# was released is never changed: files that it made exist.
_MIGRATIONS = (
    (
        """CREATE TABLE threads (
            thread_id TEXT NOT NULL PRIMARY KEY,
            epoch INTEGER NOT NULL,
            owner TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE steps (
            thread_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            record BLOB NOT NULL,
            PRIMARY KEY (thread_id, seq)
        ) STRICT""",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
    (
        "ALTER TABLE steps RENAME TO steps_1",
        # AUTOINCREMENT: compaction and VACUUM must not give an id a second time, or who follows the file misses a step.
        """CREATE TABLE steps (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            thread_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            record BLOB NOT NULL,
            crc INTEGER,
            UNIQUE (thread_id, seq)
        ) STRICT""",
        """INSERT INTO steps (thread_id, seq, epoch, record, crc)
            SELECT thread_id, seq, epoch, record, checksum(thread_id, seq, epoch, record)
            FROM steps_1 ORDER BY rowid""",
        "DROP TABLE steps_1",
        """CREATE TABLE snapshots (
            thread_id TEXT NOT NULL PRIMARY KEY,
            seq INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            data BLOB NOT NULL,
            crc INTEGER NOT NULL
        ) STRICT""",
        "CREATE TABLE owners (owner TEXT NOT NULL PRIMARY KEY, beat INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    ),
)
SCHEMA_VERSION = len(_MIGRATIONS)

# Odd numbers far apart: neighbours in a history, and successive owners, start from quite different values.
_SEQ_STEP = 0x9E3779B1
_EPOCH_STEP = 0x85EBCA77

# A reader changes nothing in the file: it sees an old version through views with the current names.
_VIEWS = {
    1: (
        "CREATE TEMP VIEW steps AS SELECT rowid AS id, thread_id, seq, epoch, record, NULL AS crc FROM main.steps",
        "CREATE TEMP TABLE snapshots (thread_id TEXT PRIMARY KEY, seq, epoch, data, crc)",
        "CREATE TEMP TABLE owners (owner TEXT PRIMARY KEY, beat)",
    ),
    SCHEMA_VERSION: (),
}


def checksum(thread_id: str, seq: int, epoch: int, data: bytes) -> int:
    """Give the CRC-32 of a record or a snapshot together with its place, so that one in a wrong place shows too."""
    return crc32(data, place(crc32(thread_id.encode()), seq, epoch))


def place(thread_crc: int, seq: int, epoch: int) -> int:
    """Give what the CRC-32 of a record starts from; it is part of the format."""
    return (thread_crc + seq * _SEQ_STEP + epoch * _EPOCH_STEP) & 0xFFFFFFFF


def version_of(db: sqlite3.Connection) -> int | None:
    """Give the version of a journal file, 0 for an empty file, None for somebody else's database."""
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID:
        return int(version)
    return None if tables or application or version else 0


def migrate(db: sqlite3.Connection) -> None:
    """Bring a journal to the current version, one transaction a version; what is current already is only locked once.

    The write lock is taken even if there is nothing to do: what cannot be written is refused here and not later.
    """
    db.create_function("checksum", 4, checksum, deterministic=True)
    while True:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Asked under the lock: another process may be doing the same.
            version = version_of(db) or 0
            if version < SCHEMA_VERSION:
                for statement in _MIGRATIONS[version]:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if version >= SCHEMA_VERSION:
            return


def read_as_current(db: sqlite3.Connection, version: int) -> None:
    """Let a connection that must not write read a file of an older version with the current statements."""
    for statement in _VIEWS[version]:
        db.execute(statement)
