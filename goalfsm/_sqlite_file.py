"""Opening a journal file: what may be opened, how it is made, and what went wrong in words a person can act on."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from goalfsm._errors import JournalError

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "connect", "explain", "open_file"]

APPLICATION_ID = 0x676F616C  # "goal"
SCHEMA_VERSION = 1

_SCHEMA = (
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
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_RETRY_EVERY = 0.02


def connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection with the journal's durability; nothing is written.

    Raises:
        JournalError: the file cannot be opened.
    """
    try:
        db = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise explain(path, "opened", error) from error
    try:
        # FULL: in WAL mode anything less may forget acknowledged commits when the machine loses power.
        db.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        db.close()
        raise explain(path, "opened", error) from error
    return db


def open_file(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open a journal for writing; make it, private to its owner, where there is none.

    Raises:
        JournalError: one sentence that names the file and says why it cannot be used.
    """
    _create(path)
    db = connect(path, busy_timeout)
    try:
        _prepare(db, path, busy_timeout)
    except sqlite3.Error as error:
        db.close()
        raise explain(path, "opened", error) from error
    except BaseException:
        db.close()
        raise
    return db


def explain(path: str, what: str, error: Exception) -> JournalError:
    """Turn any failure into a `JournalError` that names the file and the cause; `what` is opened, read or written."""
    if isinstance(error, JournalError):
        return JournalError(*error.args)
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _BUSY:
        reason = "it is locked by another writer"
    elif code == sqlite3.SQLITE_NOTADB:
        reason = "it is not an SQLite database"
    elif code is not None and code & 0xFF == sqlite3.SQLITE_READONLY:
        reason = f"it is read-only ({error})"
    else:
        reason = str(error)
    explained = JournalError(f"journal {path} could not be {what}: {reason}")
    explained.__cause__ = error
    return explained


def _create(path: str) -> None:
    file = Path(path).resolve()
    if file.is_dir():
        raise JournalError(f"journal {path} is a directory; name a file in it")
    if not file.parent.is_dir():
        raise JournalError(f"journal {path} could not be created: there is no directory {file.parent}")
    # SQLite gives its -wal and -shm files the mode of the database, so one private file makes all three private.
    # A file that is there already is not touched: closing it again would drop this process's own locks on it.
    try:
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise JournalError(f"journal {path} could not be created: {error.strerror}") from error


def _prepare(db: sqlite3.Connection, path: str, busy_timeout: float) -> None:
    """Check what the file is before the first write to it, then bring it into the journal's mode and schema."""
    _check(db, path)
    mode = _to_wal(db, busy_timeout)
    if mode != "wal":
        raise JournalError(f"journal {path} could not be opened: its file system does not support WAL (got {mode})")
    # The write lock is taken even if there is nothing to make: what cannot be written is refused here, not later.
    db.execute("BEGIN IMMEDIATE")
    try:
        if _check(db, path):
            for statement in _SCHEMA:
                db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _check(db: sqlite3.Connection, path: str) -> bool:
    """Refuse what is no journal, or a newer one; give whether the file is still empty."""
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not tables and not application and not version:
        return True
    if application != APPLICATION_ID:
        raise JournalError(f"{path} is an SQLite database but no goalfsm journal")
    if version > SCHEMA_VERSION:
        raise JournalError(f"journal {path} is of version {version}, this goalfsm reads up to {SCHEMA_VERSION}")
    return False


def _to_wal(db: sqlite3.Connection, busy_timeout: float) -> str:
    """Switch to WAL; where two processes create one file at once SQLite says "locked" without waiting, so wait here."""
    give_up = time.monotonic() + busy_timeout
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > give_up:
                raise
            time.sleep(_RETRY_EVERY)
        else:
            return str(mode)
