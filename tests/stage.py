"""What the tests on the executable double share: an engine on it, bounded waits, and what the provider was told to do."""

from __future__ import annotations

import contextlib
import os
import signal
from contextlib import asynccontextmanager

import anyio

import goalfsm
from goalfsm import Policy
from goalfsm._journal import MemoryJournal
from goalfsm._values import Timeouts
from goalfsm.adapters.codex import Codex

LIMIT = 20.0  # seconds after which a test that waits has failed
_FATES = tuple(f"follow_up/{word}" for word in ("delivered", "requeued", "held", "uncertain", "discarded", "expired"))
_READS = ("", "initialize", "initialized", "thread/goal/get", "thread/turns/list", "thread/queue/list", "thread/read")
GOAL = ["thread/start", "thread/goal/clear", "thread/goal/set"]  # what starting a goal on a new thread takes


def soon(**times):
    """A policy whose deadlines a test can wait for: the times given, and a short proof of quiet."""
    options = {
        name: times.pop(name)
        for name in list(times)
        if name in ("on_exit", "on_restart", "approvals", "on_goal_complete", "resume_goals")
    }
    return Policy(timeouts=Timeouts(**{"quiet": 0.1, **times}), **options)


@asynccontextmanager
async def on(double, policy=None, journal=None, limit=LIMIT):
    """An engine on a double; the whole block is bounded."""
    with anyio.fail_after(limit):
        async with goalfsm.open(Codex(binary=double.binary), journal=journal, policy=policy or soon()) as engine:
            yield engine


async def until(runtime_of, holds, what="it"):
    """Wait for something to hold, looking again whenever the thread of this handle changed."""
    runtime = runtime_of._runtime
    with anyio.fail_after(LIMIT / 2):
        while not holds():
            await runtime.changed.wait()


async def state(message, *words):
    """Wait until a message is in one of these states."""
    try:
        await until(message, lambda: message.state in words)
    except TimeoutError:
        raise AssertionError(f"{message!r} is not {' or '.join(words)}: {message.evidence} {message.reason}") from None


async def turn_runs(thread, number):
    """Wait until the n-th physical turn of the running operation runs (from 1); give its id."""

    def seen():
        run = thread._runtime.run
        return (
            run is not None and len(run.turns) >= number and thread._runtime.core.turn.turn_id == run.turns[number - 1]
        )

    await until(thread, seen)
    return thread._runtime.run.turns[number - 1]


def acts(double):
    """What the provider was told to do, in order: every request but reads."""
    return [entry["method"] for entry in double.log() if entry["method"] not in _READS]


def pauses(double):
    return sum(e["method"] == "thread/goal/set" and e["params"].get("status") == "paused" for e in double.log())


def steers(double, client_id=""):
    """Parameters of all turn/steer requests (with that client id)."""
    return [e["params"] for e in double.log() if e["method"] == "turn/steer" and client_id in ("", e["client_id"])]


class Tape:
    """Reads a goal's stream from the start, so that a test can wait for what is on it."""

    def __init__(self, goal):
        self.goal = goal
        self.events = []
        self.ended = False
        self.news = anyio.Event()

    async def record(self):
        with contextlib.suppress(goalfsm.GoalfsmError):
            async for event in self.goal.events():
                self.events.append(event)
                self._wake()
        self.ended = True
        self._wake()

    def _wake(self):
        self.news.set()
        self.news = anyio.Event()

    async def has(self, wanted):
        with anyio.fail_after(LIMIT / 2):
            while wanted not in self.words():
                assert not self.ended, f"the stream ended without {wanted!r}: {self.words()}"
                await self.news.wait()

    def words(self):
        """The stream in short: what the model and users said to the end, the logical turn, and fates of messages."""
        return [word for event in self.events if (word := _word(event))]

    def notices(self, kind):
        return [event for event in self.events if event.source == "goalfsm" and event.method == f"follow_up/{kind}"]


def _word(event):
    if event.source == "goalfsm":
        return event.method if event.method in _FATES else ""
    if event.method == "item/completed":
        item = event.params["item"]
        if item["type"] == "agentMessage":
            return item["text"]
        if item["type"] == "userMessage":
            return "user:" + item["content"][0]["text"]
    return event.method if event.method in ("turn/started", "turn/completed") else ""


@asynccontextmanager
async def taped(goal):
    """The tape of a goal, recorded while the block runs."""
    tape = Tape(goal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tape.record)
        yield tape
        tasks.cancel_scope.cancel()


class GatedJournal(MemoryJournal):
    """A journal whose appends wait while the test holds them."""

    def __init__(self):
        super().__init__()
        self.gate = None
        self.waiting = anyio.Event()

    def hold(self):
        self.gate, self.waiting = anyio.Event(), anyio.Event()

    def let_go(self):
        gate, self.gate = self.gate, None
        gate.set()

    async def append(self, thread_id, epoch, seq, record):
        if self.gate is not None:
            self.waiting.set()
            await self.gate.wait()
        await super().append(thread_id, epoch, seq, record)


class Frozen:
    """The double's process stopped by the system: it reads nothing, so a big write fills its pipe."""

    def __init__(self, double):
        self.double = double
        self.pid = double.wait_spawned()

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def thaw(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def __exit__(self, *_):
        self.thaw()


async def fill_pipe(other_thread):
    """Block the pipe for everybody: another thread's message is bigger than what the pipe holds."""
    big = await other_thread.submit("x" * 400_000, id="filler", when="queue")
    await until(big, lambda: big._message.row.written)
    return big
