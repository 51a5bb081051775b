"""Crash points: wrap a journal and an adapter so that a process, its server or both die exactly there, or wait there.

The product has no hooks for this. A plan names one point and which of its hits counts; the wrappers report every hit.
The points lie on both sides of six things (composition 8):

- append: any record is made durable; fence: one that holds a message's fence; settle: one that settles a message
- write: the bytes of a message go out (the last check has been passed)
- answer: the provider answers a send; echo: the provider shows a message
"""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import anyio

from goalfsm import events as ev
from goalfsm._adapter import Adapter, Connection, Notification, Outgoing, Sink
from goalfsm._fold import decode_record
from goalfsm._journal import Journal
from goalfsm._values import ApprovalRequest, GoalView, Policy

__all__ = ["POINTS", "CrashAdapter", "CrashJournal", "CrashPlan", "Strike"]

POINTS = tuple(
    f"{side}_{what}"
    for what in ("append", "fence", "write", "answer", "echo", "settle")
    for side in ("before", "after")
)
"""Every point that a plan can name, in the order in which one message passes them."""

Strike = Literal["process", "server", "both", "stop"]
_ANSWERS = (ev.SendOk, ev.SendRefused, ev.SendMoved)


class CrashPlan:
    """What happens at which hit of which point, once.

    Args:
        point: one of `POINTS`; empty for nowhere, which only counts.
        nth: which hit of it counts, from 1.
        strike: SIGKILL to this `process`, to its app-`server`, or to `both`; `stop` waits there for `release`.

    Attributes:
        hits: how often each point was passed.
        struck: whether it has happened.
        server: process id of the app-server, 0 while there is none.
        reached: set once something waits at the point.

    Raises:
        ValueError: there is no such point.
    """

    def __init__(self, point: str = "", nth: int = 1, strike: Strike = "process") -> None:
        if point and point not in POINTS:
            raise ValueError(f"there is no crash point {point!r}; there are {', '.join(POINTS)}")
        self.point, self.nth, self.strike = point, nth, strike
        self.hits: Counter[str] = Counter()
        self.struck = False
        self.server = 0
        self.reached = anyio.Event()
        self._released = anyio.Event()
        self._held: Callable[[], None] | None = None

    def passes(self, point: str) -> bool:
        """Count a hit and strike if this is the one; True means that whoever came here has to wait."""
        self.hits[point] += 1
        if self.struck or point != self.point or self.hits[point] != self.nth:
            return False
        self.struck = True
        if self.strike == "stop":
            self.reached.set()
            return True
        if self.strike in ("server", "both") and self.server:
            os.kill(self.server, signal.SIGKILL)
        if self.strike in ("process", "both"):
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    def release(self) -> None:
        """Let whatever waits at the point go on."""
        self._released.set()
        if self._held is not None:
            self._held()

    async def wait(self) -> None:
        """Wait for `release`."""
        await self._released.wait()

    def then(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` at the release; for places that cannot suspend."""
        self._held = go_on


class CrashJournal:
    """A journal that reports append, fence and settle; everything else is the inner one's.

    Args:
        inner: the journal that keeps the records.
        plan: where to strike.
    """

    def __init__(self, inner: Journal, plan: CrashPlan) -> None:
        self._inner = inner
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, thread_id: str, epoch: int, seq: int, record: bytes) -> None:
        """Store the next record (see `Journal.append`)."""
        effects = {effect["name"] for effect in decode_record(record).effects}
        what = ["append"]
        what += [word for word, effect in (("fence", "write_fence"), ("settle", "settle")) if effect in effects]
        await self._pass("before", what)
        await self._inner.append(thread_id, epoch, seq, record)
        await self._pass("after", what)

    async def _pass(self, side: str, what: list[str]) -> None:
        for word in what:
            if self._plan.passes(f"{side}_{word}"):
                await self._plan.wait()


class CrashAdapter:
    """An adapter that reports write, answer and echo; everything else is the inner one's.

    A `stop` before or after the write holds the write section; one at an answer or an echo holds back everything that
    the provider says from there on, in order.

    Args:
        inner: the adapter that reaches the provider.
        plan: where to strike; `plan.server` is kept up to date where the provider is a child process.
        told: gets the server's process id whenever one was started.
    """

    def __init__(self, inner: Adapter, plan: CrashPlan, told: Callable[[int], None] = lambda _pid: None) -> None:
        self.name = inner.name
        self._inner = inner
        self._plan = plan
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def connect(self, sink: Sink, policy: Policy) -> Connection:
        """Reach the provider through the inner adapter (see `Adapter.connect`)."""
        self._plan.server = 0
        inner = await self._inner.connect(_CrashSink(sink, self._plan), policy)
        pid = getattr(getattr(inner, "_transport", None), "pid", 0)
        self._plan.server = pid
        self._told(pid)
        return cast("Connection", _CrashConnection(inner, self._plan))


class _CrashConnection:
    """A connection that reports the write."""

    def __init__(self, inner: Connection, plan: CrashPlan) -> None:
        self._inner = inner
        self._plan = plan
        self._wrote = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the write lock; stops lie here, since nothing may suspend between the last check and the bytes."""
        plan = self._plan
        async with self._inner.writing():
            if plan.strike == "stop" and plan.passes("before_write"):
                await plan.wait()
            self._wrote = False
            yield
            if plan.strike == "stop" and self._wrote and plan.passes("after_write"):
                await plan.wait()

    def send(self, thread_id: str, message: Outgoing) -> None:
        """Write the message now (see `Connection.send`)."""
        if self._plan.strike != "stop":
            self._plan.passes("before_write")
        self._inner.send(thread_id, message)
        self._wrote = True
        if self._plan.strike != "stop":
            self._plan.passes("after_write")


class _CrashSink:
    """A sink that reports answers and echoes, and can hold everything back in order."""

    def __init__(self, inner: Sink, plan: CrashPlan) -> None:
        self._inner = inner
        self._plan = plan
        self._held: deque[Callable[[], None]] | None = None

    def facts(self, thread_id: str, *events: ev.TypedEvent) -> None:
        """Facts about one thread, in wire order."""
        what = [word for word, kinds in (("answer", _ANSWERS), ("echo", ev.Echo)) if _any(events, kinds)]
        self._pass("before", what)
        self._say(lambda: self._inner.facts(thread_id, *events))
        self._pass("after", what)

    def notify(self, thread_id: str, notification: Notification) -> None:
        """A raw notification, for readers."""
        self._say(lambda: self._inner.notify(thread_id, notification))

    def goal(self, thread_id: str, view: GoalView | None) -> None:
        """The goal as the provider just told it."""
        self._say(lambda: self._inner.goal(thread_id, view))

    def odd(self, thread_id: str, kind: str, detail: str) -> None:
        """Something unexpected on the wire."""
        self._say(lambda: self._inner.odd(thread_id, kind, detail))

    def lost(self, reason: str) -> None:
        """The transport ended."""
        self._plan.server = 0
        self._say(lambda: self._inner.lost(reason))

    def approve(self, request: ApprovalRequest) -> Awaitable[Mapping[str, Any]]:
        """Ask the host's policy."""
        return self._inner.approve(request)

    def _pass(self, side: str, what: list[str]) -> None:
        for word in what:
            if self._plan.passes(f"{side}_{word}"):
                self._held = deque()
                self._plan.then(self._let_go)

    def _say(self, words: Callable[[], None]) -> None:
        if self._held is None:
            words()
        else:
            self._held.append(words)

    def _let_go(self) -> None:
        held, self._held = self._held or deque(), None
        while held:
            held.popleft()()


def _any(events: tuple[ev.TypedEvent, ...], kinds: Any) -> bool:
    return any(isinstance(event, kinds) for event in events)
