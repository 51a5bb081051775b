"""The history of threads as moments for people: out of a journal file, read-only, or out of recorded traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from goalfsm import events as ev
from goalfsm._core import CoreStep
from goalfsm._errors import UnknownName
from goalfsm._fold import Record, decode_record
from goalfsm._journal_protocol import Stored
from goalfsm._message import Message
from goalfsm._observed import ObservedThread
from goalfsm._recording import read_recording
from goalfsm._replay import replay
from goalfsm._replay_report import Report
from goalfsm._sequence import Change, Moment
from goalfsm._snapshot import Rebuilding, spec_of
from goalfsm._sqlite_reader import JournalReader, open_reader

__all__ = [
    "JournalStep",
    "ThreadHistory",
    "chosen",
    "journal_moments",
    "journal_step",
    "observed_moments",
    "read_journal",
    "read_thread",
    "step_moment",
]


@attrs.frozen
class JournalStep:
    """One step of a thread as its journal holds it: number, epoch of the owner that wrote it, and the record."""

    seq: int
    epoch: int
    record: Record


@attrs.frozen
class ThreadHistory:
    """What a journal still has of a thread.

    Args:
        steps: its steps, oldest first, as far as they are not compacted away.
        before: the number of the last step that is gone; 0 where all are there. A snapshot stands for them.
        as_of: the step as of which `kept` stands.
        kept: every message as the snapshot has it; empty where all steps are there.
        messages: every message as it stands now.
        spec: the version of the specs that judged its newest step; empty if there is none.
    """

    steps: list[JournalStep]
    before: int = 0
    as_of: int = 0
    kept: tuple[Message, ...] = ()
    messages: tuple[Message, ...] = ()
    spec: str = ""


def read_journal(path: str | Path, thread: str | None = None) -> dict[str, ThreadHistory]:
    """Read what a journal file has of every thread, or of one; nothing in the file is changed.

    Raises:
        JournalError: it is no journal, of a newer version, damaged, or cannot be read.
        UnknownName: it holds no such thread.
    """
    with open_reader(path) as reader:
        return {name: read_thread(reader, name) for name in chosen(reader, thread)}


def chosen(reader: JournalReader, thread: str | None) -> list[str]:
    """Give the ids of all threads, or of the one that was asked for.

    Raises:
        UnknownName: there is no such thread.
    """
    threads = reader.threads()
    if thread is not None and thread not in threads:
        raise UnknownName("thread", thread, f"journal {reader.path}", threads)
    return threads if thread is None else [thread]


def read_thread(reader: JournalReader, thread: str) -> ThreadHistory:
    """Read what a journal has of one thread."""
    loaded = reader.load(thread)
    stored = reader.records(thread)
    before = stored[0].seq - 1 if stored else loaded.snapshot_seq
    kept = _messages(loaded.snapshot, []) if before and loaded.snapshot is not None else ()
    steps = [journal_step(one) for one in stored]
    spec = steps[-1].record.spec if steps else "" if loaded.snapshot is None else spec_of(loaded.snapshot)
    return ThreadHistory(steps, before, loaded.snapshot_seq, kept, _messages(loaded.snapshot, loaded.records), spec)


def _messages(snapshot: bytes | None, records: list[Stored]) -> tuple[Message, ...]:
    rebuilding = Rebuilding()
    if snapshot is not None:
        rebuilding.add_snapshot(snapshot)
    for stored in records:
        rebuilding.add_record(stored.record)
    return tuple(rebuilding.messages(rebuilding.core()).values())


def journal_step(stored: Stored) -> JournalStep:
    """Read one stored record.

    Raises:
        JournalError: it is no record.
    """
    return JournalStep(stored.seq, stored.epoch, decode_record(stored.record))


def journal_moments(threads: Mapping[str, ThreadHistory]) -> Iterator[Moment]:
    """Give the moments of a journal, thread by thread."""
    for thread, history in threads.items():
        if history.before:
            yield _kept_moment(thread, history)
        for step in history.steps:
            yield step_moment(thread, step)


def _kept_moment(thread: str, history: ThreadHistory) -> Moment:
    changes = tuple(
        Change("follow_up", message.id, "", message.row.state, message.evidence, message.reason)
        for message in history.kept
    )
    texts = {message.id: message.content.text for message in history.kept}
    event = {"name": "compacted", "reason": f"as of step {history.as_of}"}
    return Moment(thread, f"steps 1 to {history.before}", event, changes, texts=texts)


def step_moment(thread: str, step: JournalStep) -> Moment:
    """Give one step of a journal as a moment."""
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
