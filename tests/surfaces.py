"""Both surfaces behind one set of words, so that a situation is written once and tried on each.

The async surface is used as it is. The sync one is called from worker threads, each call from another one if need be,
as a host with threads would; nothing of it knows that a test awaits it.
"""

from __future__ import annotations

import os
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
import anyio.to_thread

import goalfsm
from goalfsm._sync import SyncEngine, SyncFollowUp, SyncGoal, SyncThread
from goalfsm.testing.mock_model import say

LIMIT = 20.0  # seconds after which a test that waits has failed
_PLAIN = ("live", "threads", "follow_ups", "anomalies")
_END = object()


async def in_thread(function, *args, **options):
    return await anyio.to_thread.run_sync(partial(function, *args, **options), abandon_on_cancel=True)


class Blocking:
    """A handle of the sync surface with the async surface's words."""

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return repr(self.inner)

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        if not callable(value):
            return value
        if name in _PLAIN:
            return lambda *args, **options: _wrapped(value(*args, **options))

        async def call(*args, **options):
            return _wrapped(await in_thread(value, *args, **options))

        return call

    async def events(self):
        stream = self.inner.events()
        try:
            while (event := await in_thread(next, stream, _END)) is not _END:
                yield event
        finally:
            with anyio.CancelScope(shield=True):
                await in_thread(stream.close)


def _wrapped(value):
    if isinstance(value, SyncEngine | SyncThread | SyncGoal | SyncFollowUp):
        return Blocking(value)
    return [_wrapped(part) for part in value] if isinstance(value, list) else value


class Surface:
    """One of the two surfaces: `open` is used like `goalfsm.open` on both."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name

    def open(self, adapter, journal=None, policy=None):
        if self.name == "async":
            return goalfsm.open(adapter, journal, policy)
        return _open_sync(adapter, journal, policy)


@asynccontextmanager
async def _open_sync(adapter, journal, policy):
    engine = await in_thread(lambda: goalfsm.open_sync(adapter, journal, policy).__enter__())
    try:
        yield Blocking(engine)
    finally:
        with anyio.CancelScope(shield=True):
            await in_thread(engine.__exit__, None, None, None)


@asynccontextmanager
async def opened(surface, adapter, **options):
    """An engine that a test may use for so long."""
    async with surface.open(adapter, **options) as engine:
        with anyio.fail_after(LIMIT):
            yield engine


def connection_of(engine):
    """The live connection inside an engine of either surface."""
    engine = getattr(engine, "inner", engine)
    return getattr(engine, "_engine", engine).connection


def server_pid(engine):
    return connection_of(engine)._transport.pid


def alive(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def reached(hold):
    assert await in_thread(hold.reached.wait, LIMIT), "the model was not asked"


async def requests(model, count):
    return await in_thread(model.wait_for_requests, count, LIMIT)


async def goal_on_server(engine, thread_id):
    """The goal as the server has it on record now, not as the engine remembers it."""
    inner = getattr(engine, "inner", None)
    if inner is None:
        return await engine.connection.get_goal(thread_id)
    return await in_thread(inner._portal.call, connection_of(engine).get_goal, thread_id)


async def chat_works(engine, thread, model, index):
    """An ordinary turn works: it is request number `index`, with its own input, and nothing else came before it."""
    model.script(say("hello back"))
    result = await thread.run("just a chat")
    assert (result.status, result.final_response) == ("completed", "hello back")
    assert len(model.requests) == index + 1
    assert model.requests[index].user_texts[-1] == "just a chat"
    assert engine.live() == []


class WireGate:
    """Keeps back whatever the server says, from the first line that holds `mark` on, until `open`.

    Attributes:
        shut: set once a line is kept back.
    """

    def __init__(self, connection, mark):
        self.shut = threading.Event()
        self._mark = mark
        self._held = []
        self._transport = connection._transport
        self._feed, self._transport._feed = self._transport._feed, self._take

    def _take(self, line):
        if self._held or self._mark in line:
            self._held.append(line)
            self.shut.set()
        else:
            self._feed(line)

    def open(self):
        """Let everything through, in order; from any thread."""
        self._transport._life.get_loop().call_soon_threadsafe(self._open)

    def _open(self):
        self._transport._feed = self._feed
        for line in self._held:
            self._feed(line)


def when_called(connection, kind):
    """Give an event that is set once the engine makes a call of that kind."""
    called = threading.Event()
    call = connection.call

    def noting(thread_id, asked, number, **options):
        call(thread_id, asked, number, **options)
        if asked == kind:
            called.set()

    connection.call = noting
    return called


def texts(result):
    return [item["text"] for item in result.items if item["type"] == "agentMessage"]
