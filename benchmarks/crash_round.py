"""One round of the soak: children on one home and one journal, killed one after the other, then the truth.

What the model was shown is the parent's own log, so it survives every kill. After the last one the thread is opened in
the parent, and a last ordinary turn is run: its request holds everything that the model remembers.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from threading import Timer
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import msgspec

import goalfsm
from benchmarks.crash_child import TIMES, Job, adapter, load, run_child, text_of, wait_at_rest
from benchmarks.crash_fates import Kill, Round
from goalfsm import GoalfsmError, Policy
from goalfsm.testing.mock_model import Hold, MockModel, ModelRequest, Reply, complete_goal, say, shell, write_codex_home

CHILDREN = get_context("forkserver")
CHILDREN.set_forkserver_preload(["benchmarks.crash_child"])

PATIENCE = 180.0
"""Seconds for a child's life, and for opening what is left; a busy machine is no failure."""
_GOAL = re.compile(r"goal \d+, (\d+) turns")
_TOOL_SHARE, _SLOW_SHARE, _LONGEST = 0.15, 0.6, 0.15
_FREQUENT = ("before_append", "after_append")
_UNKNOWN = 255  # what multiprocessing says where it missed how a process ended


class _Model:
    """Scripts the mock model by what it is shown: some slow replies, some tools, and so many turns as the goal says."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._turns: Counter[str] = Counter()

    def respond(self, request: ModelRequest) -> Reply:
        rng = self._rng
        if request.asks_goal and not request.answers_tool:
            text = request.user_texts[-1]
            wanted = _GOAL.search(text)
            objective = wanted[0] if wanted else ""
            self._turns[objective] += 1
            if wanted is None or self._turns[objective] > int(wanted[1]):
                return complete_goal("done", hold=self._slow())
            if rng.random() < _TOOL_SHARE:
                return shell("sleep 0.1")
        return say("working", hold=self._slow())

    def _slow(self) -> Hold | None:
        if self._rng.random() > _SLOW_SHARE:
            return None
        hold = Hold()
        timer = Timer(self._rng.random() * _LONGEST, hold.release)
        timer.daemon = True
        timer.start()
        return hold


class Rounds:
    """Runs rounds; it remembers how long an undisturbed child takes, so that random kills hit all of its life."""

    def __init__(self, told: Callable[[Kill], None] = lambda _kill: None) -> None:
        self._told = told
        self._span = 1.5

    async def run(self, number: int, seed: int, kills: list[Kill], home: Path, folder: Path) -> Round:
        """Make these kills, one child each, then open what is left and judge."""
        rng = Random(seed)
        found = Round(number, seed)
        key = f"soak-{number}-{rng.randrange(16**6):06x}"
        with MockModel(respond=_Model(rng.randrange(2**32)).respond) as model:
            env = write_codex_home(home, model.port)
            for index, kill in enumerate(kills):
                job = Job(
                    key=key,
                    number=index,
                    seed=rng.randrange(2**32),
                    home=home,
                    env=env,
                    journal=folder / "journal.db",
                    point=kill.point,
                    nth=rng.randint(1, 24 if kill.point in _FREQUENT else 2),
                    strike=kill.strike,
                    messages=rng.randint(2, 5),
                    linger=not kill.point,
                )
                if await self._child(job, kill, found, rng):
                    found.made.append(kill)
                    self._told(kill)
                else:
                    found.missed.append(kill)
            try:
                with anyio.fail_after(PATIENCE):
                    policy = Policy(timeouts=TIMES, on_restart=rng.choice(("continue", "hold")))
                    async with goalfsm.open(adapter(home, env), folder / "journal.db", policy) as engine:
                        await _reopen(engine, found, f"{key} last")
                for fate in found.fates.values():
                    fate.shown = model.shown(text_of(fate.id))
            except (GoalfsmError, TimeoutError) as problem:
                found.failure = f"{type(problem).__name__}: {problem}"
            await anyio.to_thread.run_sync(model.stop)
        return found

    # -- one child ----------------------------------------------------------------------------------------------------

    async def _child(self, job: Job, kill: Kill, found: Round, rng: Random) -> bool:
        """Run a child to its death or its end; True if the kill was made."""
        ours, theirs = CHILDREN.Pipe(duplex=False)
        child = CHILDREN.Process(target=run_child, args=(job, theirs), daemon=True)
        await anyio.to_thread.run_sync(child.start)
        theirs.close()
        life = _Life(child.pid or 0)
        try:
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    if not kill.point:
                        tasks.start_soon(self._kill_at_some_moment, life, kill, rng.random())
                    await self._listen(ours, life, kill, found)
                    tasks.cancel_scope.cancel()
        except TimeoutError:
            found.failure = f"child {job.number} did not end"
        finally:
            child.kill()
            await anyio.to_thread.run_sync(child.join)
            ours.close()
        if child.exitcode not in (0, -signal.SIGKILL, _UNKNOWN) and not found.failure:
            found.failure = f"child {job.number} ended with {child.exitcode}"
        return life.struck or (bool(kill.point) and not life.done.is_set()) or life.servers > 1

    async def _listen(self, pipe: Connection, life: _Life, kill: Kill, found: Round) -> None:
        while True:
            await anyio.wait_readable(pipe.fileno())
            try:
                words: dict[str, Any] = msgspec.json.decode(pipe.recv_bytes())
            except (EOFError, ConnectionResetError):
                return
            life.hear(words)
            found.hear(words, kill)
            if life.done.is_set():
                self._span += (monotonic() - life.opened - self._span) / 4

    async def _kill_at_some_moment(self, life: _Life, kill: Kill, when: float) -> None:
        await life.open.wait()
        with anyio.move_on_after(when * self._span):
            await life.done.wait()
        if kill.strike in ("server", "both") and life.server:
            with contextlib.suppress(ProcessLookupError):
                os.kill(life.server, signal.SIGKILL)
        if kill.strike == "server":
            # Its host has to notice, load the thread anew and come to rest; then it is killed as well.
            await life.done.wait()
        os.kill(life.pid, signal.SIGKILL)
        life.struck = True


async def _reopen(engine: goalfsm.Engine, found: Round, last: str) -> None:
    """Load what is left, let its queue run, show the model all that it remembers, and take down what is stated."""
    for each in await engine.recover():
        if each.id in found.fates and each.state == "uncertain":
            found.fates[each.id].in_flight = True
    for thread in engine.threads():
        if await load(engine, thread):
            await wait_at_rest(thread)
            await thread.run(last)
        for message in thread.follow_ups(all=True):
            if message.id in found.fates:
                fate = found.fates[message.id]
                fate.state, fate.evidence, fate.reason = message.state, message.evidence, message.reason


class _Life:
    """A child's process as its parent sees it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.server = 0
        self.servers = 0
        self.opened = 0.0
        self.struck = False
        self.open = anyio.Event()
        self.done = anyio.Event()

    def hear(self, words: dict[str, Any]) -> None:
        """Take in what it says of itself."""
        match words:
            case {"server": pid}:
                self.server = pid
                self.servers += 1
            case {"open": _}:
                self.opened = monotonic()
                self.open.set()
            case {"done": _}:
                self.done.set()
