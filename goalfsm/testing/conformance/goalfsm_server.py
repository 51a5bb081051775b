"""goalfsm's own engine behind the kit's door: the first server that has to pass."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from goalfsm._adapter import Adapter, Clock, Connection, Sink
from goalfsm._engine import Engine
from goalfsm._engine import open as open_engine
from goalfsm._errors import GoalfsmError
from goalfsm._handles import GoalHandle, Thread
from goalfsm._journal import MemoryJournal
from goalfsm._values import Policy
from goalfsm.adapters._rpc import RpcConnection
from goalfsm.testing.conformance._provider import Provider
from goalfsm.testing.conformance._virtual import LoopClock
from goalfsm.testing.conformance.door_inprocess import SystemUnderTest

__all__ = ["GoalfsmServer", "Piped"]

EVERYTHING = frozenset({"start_goal", "submit", "stop", "cancel", "restart", "fates", "lifecycle"})


class Piped:
    """An adapter on the kit's pipes."""

    name = "piped"

    def __init__(self, provider: Any, clock: Clock) -> None:
        self.clock = clock
        self._provider = provider

    async def connect(self, sink: Sink, policy: Policy) -> Connection:
        """Start a process of the provider and complete the handshake."""
        connection: list[RpcConnection] = []

        def feed(line: bytes) -> None:
            connection[0].feed(line)

        def closed(why: str) -> None:
            connection[0].closed(why)

        connection.append(RpcConnection(self._provider.open(feed, closed), sink, policy))
        try:
            await connection[0].handshake()
        except BaseException:
            await connection[0].aclose(0)
            raise
        return connection[0]


class GoalfsmServer(SystemUnderTest):
    """The engine as a server: it reconnects by itself when the provider died, and keeps its journal over a crash.

    Args:
        adapter: makes the adapter for a provider; the default uses the kit's pipes.
        policy: of the engine.
        journal: a file; in memory if None, and then it survives a crash on this object.
    """

    name = "goalfsm"
    offers = EVERYTHING

    def __init__(
        self,
        adapter: Callable[[Provider], Adapter] | None = None,
        policy: Policy | None = None,
        journal: Path | None = None,
    ) -> None:
        self._make_adapter = adapter or (lambda provider: Piped(provider, LoopClock()))
        self._policy = policy or Policy(on_exit="leave")
        self._journal: MemoryJournal | Path = journal or MemoryJournal()
        self._life: AsyncExitStack | None = None
        self._engine: Engine | None = None
        self._thread: Thread | None = None
        self._goal: GoalHandle | None = None
        self._turns: list[tuple[str, str]] = []
        self._tasks: anyio.abc.TaskGroup | None = None

    async def start(self, provider: Provider) -> None:
        """Open the engine; threads that the journal knows are reconciled and go on."""
        self._life = AsyncExitStack()
        self._engine = await self._life.enter_async_context(
            open_engine(self._make_adapter(provider), self._journal, self._policy)
        )
        tasks = self._tasks = await self._life.enter_async_context(_background())
        await self._engine.recover()
        known = self._engine.threads()
        self._thread = await self._engine.resume_thread(known[0].id) if known else await self._engine.start_thread()
        tasks.start_soon(self._reconnect, self._engine)

    async def _reconnect(self, engine: Engine) -> None:
        while self._thread is not None:
            thread = self._thread
            if engine.connection is not None:
                await thread._runtime.changed.wait()  # noqa: SLF001  the host's own notices would do; this is shorter
                continue
            try:
                self._thread = await engine.resume_thread(thread.id)
            except GoalfsmError:
                await anyio.sleep(0.5)

    async def start_goal(self, objective: str) -> None:
        """Start it, and follow its stream."""
        assert self._thread is not None and self._tasks is not None  # noqa: S101, PT018  start() made them
        goal = self._goal = await self._thread.start_goal(objective)
        self._tasks.start_soon(self._follow, goal)

    async def _follow(self, goal: GoalHandle) -> None:
        try:
            async for event in goal.events():
                if event.method in ("turn/started", "turn/completed") and event.source == "provider":
                    self._turns.append((event.method.removeprefix("turn/"), event.params["turn"]["id"]))
        except GoalfsmError:
            return

    async def submit(self, message_id: str, text: str, when: str) -> None:
        """Submit it: durable when this returns."""
        assert self._thread is not None  # noqa: S101  start() made it
        await self._thread.submit(text, id=message_id, when=when)  # type: ignore[arg-type]  # cases hold the three words

    async def stop(self) -> None:
        """Stop the thread."""
        assert self._thread is not None  # noqa: S101  start() made it
        await self._thread.stop()

    async def cancel(self) -> None:
        """Cancel the goal; nothing to do is no error."""
        if self._goal is not None:
            await self._goal.cancel()

    async def fates(self) -> Mapping[str, str]:
        """Every message's state; one whose read-back is in flight is still in flight."""
        if self._thread is None:
            return {}
        return {message.id: _state(message) for message in self._thread.follow_ups(all=True)}

    async def lifecycle(self) -> Sequence[tuple[str, str]]:
        """What the goals' streams showed."""
        return list(self._turns)

    async def crash(self) -> None:
        """Keep what is in the journal now, and drop everything else."""
        kept = copy.deepcopy(self._journal)
        await self._close()
        self._journal = kept
        self._turns.clear()

    async def close(self) -> None:
        """Close the engine."""
        await self._close()

    async def _close(self) -> None:
        life, self._life, self._thread = self._life, None, None
        if life is not None:
            await life.aclose()


def _state(message: Any) -> str:
    looking = message.state == "uncertain" and message._message.looking  # noqa: SLF001  settled() waits for it too
    return "delivering" if looking else str(message.state)


@asynccontextmanager
async def _background() -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        finally:
            tasks.cancel_scope.cancel()
