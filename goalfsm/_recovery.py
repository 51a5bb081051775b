"""Restart and reconnect: replay the journal, then reconcile before anything is sent (composition 9).

The order is the facts': pause the goal while its thread is not loaded, resume, read goal, turn and uncertain messages
back, and only then let queued messages go on.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import attrs

from goalfsm import _words
from goalfsm import events as ev
from goalfsm._adapter import Connection, Look, ThreadInfo
from goalfsm._core import ThreadCore, commands_of
from goalfsm._errors import GoalfsmError, ProviderRefused, TransportClosed
from goalfsm._guards import FINAL_FOLLOW_UP
from goalfsm._journal import Loaded
from goalfsm._machines import FollowUp
from goalfsm._snapshot import Rebuilding
from goalfsm._thread import ThreadRuntime
from goalfsm._values import GoalStatus

if TYPE_CHECKING:
    from goalfsm._engine import Engine

__all__ = ["Found", "fold", "fold_thread", "reconcile", "reread", "resume", "without_collections"]

WRITER_RETRY_SECONDS = 0.25


@attrs.frozen
class Found:
    """One message that a restart found unsettled.

    Args:
        thread_id: its thread.
        id: its id.
        state: where it stands now; what was on its way is uncertain.
        evidence: what is known of it.
        reason: a sentence for people.
        choices: the commands that a person has.
    """

    thread_id: str
    id: str
    state: str
    evidence: str
    reason: str
    choices: tuple[str, ...]

    @classmethod
    def of(cls, runtime: ThreadRuntime) -> list[Found]:
        """List the messages of a thread that are not settled, in queue order."""
        open_rows = [row for row in runtime.core.rows if row.state not in FINAL_FOLLOW_UP]
        return [
            cls(
                runtime.id,
                row.id,
                row.state,
                message.evidence,
                _words.not_readable(message.reason, message.unread),
                commands_of("follow_up", row.state),
            )
            for row in open_rows
            if (message := runtime.messages.get(row.id)) is not None
        ]


@contextmanager
def without_collections() -> Iterator[None]:
    """Build very many long-lived values at once; every full collection meanwhile would walk them all in vain."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


async def fold_thread(engine: Engine, thread_id: str) -> ThreadRuntime:
    """Rebuild a thread from the journal; it is not owned, and nothing of it is sent, before its first command."""
    return fold(engine, thread_id, await engine.journal.load(thread_id))


def fold(engine: Engine, thread_id: str, loaded: Loaded) -> ThreadRuntime:
    """Rebuild a thread from its snapshot and the records after it (decisions 21, 22)."""
    runtime = ThreadRuntime(engine, thread_id, ThreadCore())
    reread(runtime, loaded)
    engine.remember(runtime)
    return runtime


def reread(runtime: ThreadRuntime, loaded: Loaded) -> None:
    """Begin again from what the journal holds; handles that somebody has of its messages stay good."""
    rebuilding = Rebuilding()
    if loaded.snapshot is not None:
        rebuilding.add_snapshot(loaded.snapshot)
    for stored in loaded.records:
        rebuilding.add_record(stored.record)
    core = rebuilding.core(**runtime.engine.constants())
    runtime.core = runtime.journaled = core
    runtime.snapshot_seq = loaded.snapshot_seq
    runtime.seq = loaded.last_seq
    known = runtime.messages
    runtime.messages = {
        message_id: known[message_id].become(message) if message_id in known else message
        for message_id, message in rebuilding.messages(core).items()
    }
    if runtime.seq:
        _restart(runtime)
    runtime.wake()


def _restart(runtime: ThreadRuntime) -> None:
    """What was in flight when the process ended is uncertain; in memory only, until the thread is owned."""
    event = ev.Restarted()
    runtime.restart = runtime.core.handle(event)
    runtime.core = runtime.restart.core
    for row in runtime.core.rows:
        message = runtime.messages.get(row.id)
        if message is not None and message.row is not row:
            message.row = row
            message.evidence = _words.evidence(row, event)
            message.reason = _words.reason(row, event, "")


async def resume(engine: Engine, thread_id: str) -> ThreadRuntime:
    """Load a thread: own it, reconcile it, and let its queue go on (surface 27)."""
    try:
        return await _resume(engine, thread_id)
    except ProviderRefused as error:
        runtime = engine.runtime(thread_id)
        if runtime is not None:
            runtime.not_readable(f"the provider does not load the thread: {error.message}")
        raise


async def _resume(engine: Engine, thread_id: str) -> ThreadRuntime:
    connection = await engine.ensure_connection()
    runtime = engine.runtime(thread_id)
    if runtime is not None and runtime.resumed and runtime.is_ours():
        return runtime
    if runtime is not None and runtime.owned and not runtime.is_ours():
        runtime.taken_away()
    was_active = await _goal_is_active(connection, thread_id)
    if runtime is None or runtime.stale is not None:
        runtime = await fold_thread(engine, thread_id)
    await runtime.settle_inbox()
    if was_active:
        await connection.set_goal(thread_id, status="paused")
    runtime.info = await _resume_when_free(engine, connection, thread_id)
    await _read_everything(engine, connection, runtime, runtime.info, after_resume=True)
    if engine.policy.on_restart == "hold" and runtime.restart is not None:
        for row in runtime.core.rows:
            if row.state == "queued":
                await runtime.command(ev.Hold(row.id, "a restart"))
    runtime.restart = None
    for row in runtime.core.waiting():
        runtime.arm_expiry(runtime.messages[row.id])
    runtime.put(ev.Reconciled(runtime.core.gen))
    await runtime.settle_inbox()
    runtime.resumed = True
    if was_active and engine.policy.resume_goals:
        await connection.set_goal(thread_id, status="active")
    return runtime


async def reconcile(engine: Engine, runtime: ThreadRuntime, gen: int) -> None:
    """Read a quarantined thread back on the live connection; it stays closed if that fails."""
    connection = engine.connection
    if connection is None:
        return
    try:
        if await _goal_is_active(connection, runtime.id):
            await connection.set_goal(runtime.id, status="paused")
        info = await connection.resume_thread(runtime.id)
        await _read_everything(engine, connection, runtime, info, after_resume=False)
        runtime.put(ev.Reconciled(gen))
    except GoalfsmError as error:
        engine.odd(runtime.id, "reconcile_failed", str(error))


async def _goal_is_active(connection: Connection, thread_id: str) -> bool:
    try:
        view = await connection.get_goal(thread_id)
    except ProviderRefused as error:
        if "goal" in error.message:
            # Goals are switched off, or this thread cannot have one: nothing can start by itself.
            return False
        raise
    return view is not None and view.status is GoalStatus.ACTIVE


async def _resume_when_free(engine: Engine, connection: Connection, thread_id: str) -> ThreadInfo:
    """Resume; while the old server still lives and writes, wait for it (composition 9)."""
    give_up = engine.clock.monotonic() + engine.policy.timeouts.stop
    while True:
        try:
            return await connection.resume_thread(thread_id)
        except ProviderRefused as error:
            if "active writer" not in error.message or engine.clock.monotonic() > give_up:
                raise
        await engine.clock.sleep(WRITER_RETRY_SECONDS)


async def _read_everything(
    engine: Engine, connection: Connection, runtime: ThreadRuntime, info: ThreadInfo, *, after_resume: bool
) -> None:
    try:
        await connection.get_goal(runtime.id)
    except ProviderRefused:
        runtime.put(ev.GoalCleared())
    runtime.put(ev.TurnNamed(info.running_turn) if info.running_turn else ev.TurnNone())
    await runtime.settle_inbox()
    uncertain = [row for row in runtime.core.rows if row.state == "uncertain" and row.id in runtime.messages]
    if not uncertain or not connection.capabilities.read_back:
        return
    for row in uncertain:
        runtime.messages[row.id].looking = True
    looks = [_look(runtime, row, after_resume=after_resume) for row in uncertain]
    limit = engine.policy.timeouts.read_back
    try:
        connection.look(runtime.id, looks, limit)
    except TransportClosed as error:
        runtime.put(*(ev.ReadFailed(look.id, look.attempt, str(error)) for look in looks))
    with anyio.move_on_after(limit + 1.0):
        while any(runtime.messages[look.id].looking for look in looks):
            await runtime.changed.wait()


def _look(runtime: ThreadRuntime, row: FollowUp, *, after_resume: bool) -> Look:
    message = runtime.messages[row.id]
    return Look(
        row.id,
        row.attempt,
        row.turn_id,
        runtime.core.gen,
        message.content.text,
        message.position,
        after_resume,
    )
