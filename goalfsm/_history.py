"""The history of threads as moments for people: out of a journal file, read-only, or out of recorded traffic."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import attrs

from goalfsm import events as ev
from goalfsm._core import CoreStep
from goalfsm._errors import JournalError, UnknownName
from goalfsm._fold import Record, decode_record
from goalfsm._journal_protocol import Stored
from goalfsm._observed import ObservedThread
from goalfsm._recording import read_recording
from goalfsm._replay import replay
from goalfsm._replay_report import Report
from goalfsm._sequence import Change, Moment
from goalfsm._sqlite_file import explain
from goalfsm._sqlite_rows import Rows
from goalfsm._sqlite_schema import SCHEMA_VERSION, read_as_current, version_of

__all__ = ["JournalStep", "journal_moments", "observed_moments", "read_journal"]

T = TypeVar("T")
_BUSY_SECONDS = 5.0


@attrs.frozen
class JournalStep:
    """One step of a thread as its journal holds it: number, epoch of the owner that wrote it, and the record."""

    seq: int
    epoch: int
    record: Record


def read_journal(path: str | Path, thread: str | None = None) -> dict[str, list[JournalStep]]:
    """Read the steps of every thread of a journal file, or of one; nothing in the file is changed.

    Raises:
        JournalError: it is no journal, of a newer version, damaged, or cannot be read.
        UnknownName: it holds no such thread.
    """
    path = Path(path)
    if not path.is_file():
        raise JournalError(f"journal {path} could not be read: there is no such file")
    try:
        with closing(_connect(path)) as db:
            rows = _rows(db, str(path))
            threads = _whole(rows.threads())
            if thread is not None and thread not in threads:
                raise UnknownName("thread", thread, f"journal {path}", threads)
            wanted = threads if thread is None else [thread]
            return {name: [_step(stored) for stored in _whole(rows.read(name, 0))] for name in wanted}
    except sqlite3.Error as error:
        raise explain(str(path), "read", error) from error


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _rows(db: sqlite3.Connection, path: str) -> Rows:
    version = version_of(db)
    if not version:
        what = "an SQLite database but no" if version is None else "empty: no"
        raise JournalError(f"{path} is {what} goalfsm journal")
    if version > SCHEMA_VERSION:
        raise JournalError(f"journal {path} is of version {version}, this goalfsm reads up to {SCHEMA_VERSION}")
    read_as_current(db, version)
    return Rows(path, db)


def _whole(pausing: Generator[None, None, T]) -> T:
    while True:
        try:
            next(pausing)
        except StopIteration as done:
            found: T = done.value
            return found


def _step(stored: Stored) -> JournalStep:
    return JournalStep(stored.seq, stored.epoch, decode_record(stored.record))


def journal_moments(threads: dict[str, list[JournalStep]]) -> Iterator[Moment]:
    """Give the moments of a journal, thread by thread."""
    for thread, steps in threads.items():
        for step in steps:
            yield _journal_moment(thread, step)


def _journal_moment(thread: str, step: JournalStep) -> Moment:
    record = step.record
    changes = []
    for machine, message, source, target, _event in record.moves:
        told = record.told.get(message, {}) if machine == "follow_up" else {}
        if source != target:
            changes.append(Change(machine, message, source, target, told.get("evidence", ""), told.get("reason", "")))
    return Moment(
        thread,
        f"step {step.seq}",
        record.event,
        _once(changes),
        tuple(record.effects),
        tuple(f"{machine} is {state}, {event}" for machine, _, state, event, _ in record.odd),
        {message: str(content.get("text", "")) for message, content in record.messages.items()},
    )


def _once(changes: list[Change]) -> tuple[Change, ...]:
    # One step may move a message twice; what was told belongs to where it came to rest.
    last = {(change.machine, change.id): number for number, change in enumerate(changes)}
    return tuple(
        change if last[change.machine, change.id] == number else attrs.evolve(change, evidence="", reason="")
        for number, change in enumerate(changes)
    )


def observed_moments(recording: Iterable[str | bytes]) -> tuple[Report, list[Moment]]:
    """Replay a recording and give the moments of each of its threads with the report.

    Raises:
        NotATrace: it is not a readable recording.
    """
    lines = list(recording)
    texts = {seen.line: _said(seen.msg) for seen in read_recording(lines).messages if seen.sent}
    found: dict[str, list[Moment]] = {}

    def watch(thread: ObservedThread, line: int, event: ev.TypedEvent, step: CoreStep) -> None:
        moment = _observed_moment(thread, line, event, step, texts.get(line, ""))
        if moment is not None:
            found.setdefault(thread.id, []).append(moment)

    report = replay(lines, watch=watch)
    return report, [moment for moments in found.values() for moment in moments]


def _said(msg: Any) -> str:
    params = msg.get("params") if isinstance(msg, dict) else None
    parts = params.get("input") if isinstance(params, dict) else None
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return " ".join(text for text in texts if isinstance(text, str))


def _observed_moment(
    thread: ObservedThread, line: int, event: ev.TypedEvent, step: CoreStep, said: str
) -> Moment | None:
    changes = []
    for move in step.moves:
        if move.source != move.target:
            evidence, reason = thread.told(move.id) if move.machine == "follow_up" else ("", "")
            changes.append(Change(move.machine, move.id, move.source, move.target, evidence, reason))
    odd = [f"{j.machine} is {j.state}, {j.event}" for j in step.verdicts if j.verdict in ("anomaly", "stale")]
    alarms = tuple({"name": "alarm", **attrs.asdict(effect)} for effect in step.effects if effect.name == "alarm")
    texts: dict[str, str] = {}
    if isinstance(event, ev.ObservedSend):
        texts = {event.id: said} if said else {}
    elif not (changes or odd or alarms):
        return None
    return Moment(
        thread.id, f"line {line}", ev.encode(event), _once(changes), alarms, tuple(odd), texts, observed=True
    )  # fmt: skip
