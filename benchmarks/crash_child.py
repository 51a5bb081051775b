"""A host that will be killed: it runs goals with follow-ups on the real app-server, and reports every word it is given.

What it has been told goes to the parent through a pipe before anything else, so that the parent knows what was
acknowledged when the process is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio
import attrs
import msgspec

import goalfsm
from goalfsm import GoalfsmError, GoalStatus, Policy, ProviderRefused, Timeouts, TransportClosed
from goalfsm._sqlite import SqliteJournal
from goalfsm.adapters.codex import Codex
from goalfsm.testing.crash import CrashAdapter, CrashJournal, CrashPlan, Strike

Tell = Callable[..., None]
TIMES = Timeouts(call=10.0, read_back=20.0, quiet=0.5)
"""Long enough for a machine that is busy with other children; the limits themselves are tested elsewhere."""

_WHEN: tuple[Literal["auto", "steer", "queue"], ...] = ("auto", "auto", "auto", "auto", "steer", "queue")
_STRAY = 0.15
_PATIENCE = 20.0
_AGAIN = 0.05

# How the provider says that it died before it had put the thread on record.
_NOT_ON_RECORD = ("not found", "no rollout found", ".jsonl is empty")


@attrs.frozen
class Job:
    """What one child does.

    Args:
        key: marks every text of its round.
        number: which child of the round it is; its messages carry it.
        seed: decides its moments and choices.
        home: the app-server's home.
        env: its environment.
        journal: the journal's file.
        point: the crash point that it dies at; empty if the parent kills it.
        nth: which hit of the point.
        strike: what dies there.
        messages: how many it submits.
        linger: whether it waits to be killed once it has nothing left to do.
    """

    key: str
    number: int
    seed: int
    home: Path
    env: Mapping[str, str]
    journal: Path
    point: str
    nth: int
    strike: Strike
    messages: int
    linger: bool


def adapter(home: Path, env: Mapping[str, str]) -> Codex:
    return Codex(cwd=home.parent, codex_home=home, env=env)


def text_of(message_id: str) -> str:
    return f"a message that nobody else wrote: {message_id}"


def run_child(job: Job, pipe: Connection) -> None:
    """Be the child: the target of its process."""

    def tell(**words: Any) -> None:
        pipe.send_bytes(msgspec.json.encode(words))

    anyio.run(_work, job, tell)


async def _work(job: Job, tell: Tell) -> None:
    rng = Random(job.seed)
    plan = CrashPlan(job.point, job.nth, job.strike)
    provider = CrashAdapter(adapter(job.home, job.env), plan, lambda pid: tell(server=pid))
    journal = CrashJournal(SqliteJournal(job.journal), plan)
    policy = Policy(timeouts=TIMES, on_restart=rng.choice(("continue", "hold")), resume_goals=rng.random() < 0.5)
    async with goalfsm.open(provider, journal=journal, policy=policy) as engine:
        tell(uncertain=[found.id for found in await engine.recover() if found.state == "uncertain"])
        known = [thread for thread in engine.threads() if await load(engine, thread)]
        thread = known[0] if known else await engine.start_thread()
        tell(open=thread.id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_mend, engine, thread, rng.random() < 0.5)
            await _talk(job, rng, thread, tell, tasks)
            with anyio.move_on_after(_PATIENCE):
                await wait_at_rest(thread)
            tell(done=dict(plan.hits))
            if job.linger:
                await anyio.sleep_forever()
            tasks.cancel_scope.cancel()


async def load(engine: goalfsm.Engine, thread: goalfsm.Thread) -> bool:
    """Load a thread after a restart or a loss; False if it died before the provider put it on record."""
    while True:
        try:
            await engine.resume_thread(thread.id)
        except ProviderRefused as refused:
            if any(words in refused.message for words in _NOT_ON_RECORD):
                return False
            raise
        except TransportClosed:
            # The server was killed while it was asked; the engine reaches a new one.
            await anyio.sleep(_AGAIN)
        else:
            return True


async def _mend(engine: goalfsm.Engine, thread: goalfsm.Thread, go_on: bool) -> None:
    """Load the thread anew after each loss of the server."""
    runtime = thread._runtime  # noqa: SLF001  no public word for either
    while True:
        if not runtime.resumed and await load(engine, thread):
            view = await thread.goal()
            if go_on and view is not None and view.status is GoalStatus.PAUSED:
                await _try(thread.set_goal, status="active")
        await runtime.changed.wait()


async def _talk(job: Job, rng: Random, thread: goalfsm.Thread, tell: Tell, tasks: Any) -> None:
    """Start a goal and submit messages, some of them before it, at moments that suit nobody."""
    early = rng.randint(0, 1)
    for number in range(job.messages):
        if number == early:
            if rng.random() < 1 - _STRAY:
                tasks.start_soon(_try, thread.start_goal, f"{job.key} goal {job.number}, {rng.randint(1, 5)} turns")
            await anyio.sleep(rng.random() * 0.3)
        message_id = f"{job.key}-{job.number}-{number}"
        tell(trying=message_id)
        message = await thread.submit(text_of(message_id), id=message_id, when=rng.choice(_WHEN))
        tell(acknowledged=message_id)
        tasks.start_soon(_watch, message, tell)
        await anyio.sleep(rng.random() ** 2 * 0.25)
    for message in thread.follow_ups():
        if message.state == "requeued" and rng.random() < 0.5:
            await _try(message.release)


async def _watch(message: goalfsm.FollowUpHandle, tell: Tell) -> None:
    outcome = await message.settled()
    tell(settled=outcome.id, state=outcome.state)


async def _try(what: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Ask for something that the situation may well forbid."""
    try:
        await what(*args, **options)
    except (GoalfsmError, ValueError):
        return


async def wait_at_rest(thread: goalfsm.Thread) -> None:
    """Wait until nothing of the thread goes on by itself."""
    runtime = thread._runtime  # noqa: SLF001  no public word for either
    while not (runtime.resumed and runtime.quiet() and _nothing_comes(runtime.core)):
        await runtime.changed.wait()


def _nothing_comes(core: goalfsm.ThreadCore) -> bool:
    return core.goal.state != "active" and all(row.state != "queued" for row in core.rows)
