"""Compacting a journal file from outside: threads at rest keep their fates as a snapshot, and lose their steps.

It writes under the epoch that is stored, so nobody loses a thread by it: a holder that was taken for gone by mistake
goes on appending after the snapshot, and one that claims a thread meanwhile makes it fail for that thread alone.
"""

from __future__ import annotations

import os

import anyio
import attrs

from goalfsm._adapter import Clock
from goalfsm._clock import SystemClock
from goalfsm._core import ThreadCore
from goalfsm._errors import JournalError, StaleOwner
from goalfsm._guards import FINAL_FOLLOW_UP, IN_LANE, live
from goalfsm._journal_protocol import Holder, Loaded
from goalfsm._lease import await_lease
from goalfsm._snapshot import Rebuilding, encode_snapshot
from goalfsm._sqlite import SqliteJournal
from goalfsm._values import Timeouts

__all__ = ["Compacted", "Compaction", "compact_journal"]


@attrs.frozen
class Compacted:
    """What became of one thread.

    Args:
        thread_id: the thread.
        dropped: how many steps were deleted.
        fates: how many messages the snapshot keeps, whose fate is settled.
        waiting: how many it keeps that are not.
        left: why nothing was done, empty if it was.
    """

    thread_id: str
    dropped: int = 0
    fates: int = 0
    waiting: int = 0
    left: str = ""


@attrs.frozen
class Compaction:
    """What became of a file: its threads, the bytes that were saved, and why the space could not be given back."""

    threads: list[Compacted]
    saved: int
    not_vacuumed: str = ""


async def compact_journal(
    path: str | os.PathLike[str], threads: list[str], *, lease: float | None = None, clock: Clock | None = None
) -> Compaction:
    """Compact threads that are at rest and that no living owner holds, then give back the space.

    Args:
        path: the file; one of an older version is brought up first.
        threads: the threads to look at.
        lease: seconds without a heartbeat after which a holder counts as gone; None for the policy's default.
        clock: the observer's own; None for the machine's.

    Raises:
        JournalError: the file cannot be written.
    """
    journal = SqliteJournal(path)
    await journal.start()
    try:
        alive = await _living_owners(journal, threads, clock or SystemClock(), lease or Timeouts().lease)
        done = [await _compact(journal, thread_id, alive) for thread_id in threads]
        try:
            return Compaction(done, await journal.vacuum())
        except JournalError as error:
            return Compaction(done, 0, str(error))
    finally:
        await journal.aclose()


async def _living_owners(journal: SqliteJournal, threads: list[str], clock: Clock, lease: float) -> set[str]:
    """Look at every owner once, all at the same time: many threads have few owners."""
    holders: dict[str, tuple[str, Holder]] = {}
    for thread_id in threads:
        holder = await journal.holder(thread_id)
        holders.setdefault(holder.owner, (thread_id, holder))
    alive: set[str] = set()

    async def look(owner: str, thread_id: str) -> None:
        try:
            await await_lease(journal, clock, thread_id, "", lease)
        except StaleOwner:
            alive.add(owner)

    async with anyio.create_task_group() as tasks:
        for owner, (thread_id, holder) in holders.items():
            if holder.beat:
                tasks.start_soon(look, owner, thread_id)
    return alive


async def _compact(journal: SqliteJournal, thread_id: str, alive: set[str]) -> Compacted:
    holder = await journal.holder(thread_id)
    if holder.owner in alive:
        return Compacted(thread_id, left="its owner lives")
    try:
        loaded = await journal.load(thread_id)
        steps = len(await journal.read(thread_id))
        if not steps:
            return Compacted(thread_id, left="there are no steps to drop")
        core, data, settled = _snapshot(loaded)
        if why := _unrest(core):
            return Compacted(thread_id, left=why)
        await journal.snapshot(thread_id, loaded.epoch, loaded.last_seq, data, compact=True)
    except StaleOwner:
        return Compacted(thread_id, left="somebody took it meanwhile")
    except JournalError as error:
        return Compacted(thread_id, left=str(error))
    return Compacted(thread_id, steps, settled.count(True), settled.count(False))


def _snapshot(loaded: Loaded) -> tuple[ThreadCore, bytes, list[bool]]:
    rebuilding = Rebuilding()
    if loaded.snapshot is not None:
        rebuilding.add_snapshot(loaded.snapshot)
    for stored in loaded.records:
        rebuilding.add_record(stored.record)
    core = rebuilding.core()
    messages = rebuilding.messages(core).values()
    settled = [message.row.state in FINAL_FOLLOW_UP for message in messages]
    return core, encode_snapshot(core, messages, SystemClock().wall()), settled


def _unrest(core: ThreadCore) -> str:
    """Say why a thread is not at rest; empty if it is."""
    if live(core) and core.operation is not None:
        return f"its operation is {core.operation.state}"
    moving = [row for row in core.rows if row.state in IN_LANE]
    return f"message {moving[0].id} is {moving[0].state}" if moving else ""
