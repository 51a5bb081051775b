"""Opening a journal file: what may be opened, how it is made, and what went wrong in words a person can act on."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from goalfsm._errors import JournalError
from goalfsm._sqlite_schema import APPLICATION_ID, SCHEMA_VERSION, migrate, version_of

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "connect", "damage", "explain", "left_open", "open_file", "vacuum"]

# SQLite leaves its -wal file behind exactly when the last user of a file did not close it.
_WAL = "-wal"
# A check costs 1.5 to 4 ms a MiB: small files are always checked, big ones after a crash. For what is bigger still the
# checksums must do, which are compared whenever a record is read.
_ALWAYS_CHECKED = 4 * 1024 * 1024
_CHECKED_AFTER_A_CRASH = 256 * 1024 * 1024
_PROBLEMS_TOLD = 3
_WAL_KEPT = 64 * 1024 * 1024
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
        # What a migration or a vacuum made the -wal file grow to is given back at the next checkpoint.
        db.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT}")
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
    crashed = left_open(path)
    db = connect(path, busy_timeout)
    try:
        _prepare(db, path, busy_timeout, crashed=crashed)
    except sqlite3.Error as error:
        db.close()
        raise explain(path, "opened", error) from error
    except BaseException:
        db.close()
        raise
    return db


def explain(path: str, what: str, error: Exception) -> JournalError:
    """Turn any failure into a `JournalError` that names the file and the cause; `what` is opened, read, ..."""
    if isinstance(error, JournalError):
        return JournalError(*error.args)
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _BUSY:
        reason = "it is locked by another writer"
    elif code == sqlite3.SQLITE_NOTADB:
        reason = "it is not an SQLite database"
    elif code is not None and code & 0xFF == sqlite3.SQLITE_CORRUPT:
        reason = f"it is damaged ({error})"
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


def left_open(path: str) -> bool:
    """Tell whether somebody has the file open, or left without closing it."""
    try:
        return Path(f"{Path(path).resolve()}{_WAL}").stat().st_size > 0
    except OSError:
        return False


def damage(db: sqlite3.Connection) -> list[str]:
    """Ask SQLite what is wrong with the structure of a file; an empty list if nothing is.

    Raises:
        sqlite3.Error: so much is wrong that it cannot say.
    """
    rows = db.execute(f"PRAGMA quick_check({_PROBLEMS_TOLD})").fetchall()
    said = [" ".join(line.split()) for (text,) in rows for line in str(text).splitlines()]
    return [line for line in said if line != "ok" and not line.startswith("***")]


def vacuum(path: str, db: sqlite3.Connection) -> int:
    """Rewrite a journal without what compaction left empty, and empty its -wal file; give the bytes that were saved.

    Nobody can write meanwhile; it needs free space of about twice the file's size.

    Raises:
        JournalError: it could not be done; the file is as it was.
    """
    before = _size(path)
    try:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise explain(path, "vacuumed", error) from error
    return before - _size(path)


def _size(path: str) -> int:
    return sum(file.stat().st_size for file in (Path(path), Path(f"{Path(path).resolve()}{_WAL}")) if file.exists())


def _prepare(db: sqlite3.Connection, path: str, busy_timeout: float, *, crashed: bool) -> None:
    """Check what the file is before the first write to it, then bring it into the journal's mode and schema."""
    version = version_of(db)
    if version is None:
        raise JournalError(f"{path} is an SQLite database but no goalfsm journal")
    if version > SCHEMA_VERSION:
        raise JournalError(f"journal {path} is of version {version}, this goalfsm reads up to {SCHEMA_VERSION}")
    mode = _to_wal(db, busy_timeout)
    if mode != "wal":
        raise JournalError(f"journal {path} could not be opened: its file system does not support WAL (got {mode})")
    if version and Path(path).stat().st_size <= (_CHECKED_AFTER_A_CRASH if crashed else _ALWAYS_CHECKED):
        problems = damage(db)
        if problems:
            raise JournalError(f"journal {path} could not be opened: it is damaged ({'; '.join(problems)})")
    migrate(db)


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
