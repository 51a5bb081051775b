"""The engine: the only place with I/O. It opens a provider and a journal, and runs one pump per thread (design 2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc

from goalfsm import events as ev
from goalfsm._adapter import Adapter, Clock, Connection, Notification
from goalfsm._clock import SystemClock
from goalfsm._core import ThreadCore
from goalfsm._errors import GoalfsmError, JournalError, TransportClosed
from goalfsm._handles import Thread
from goalfsm._journal import Journal, Loaded, open_journal
from goalfsm._lease import await_lease, new_owner
from goalfsm._log import get_logger
from goalfsm._recovery import Found, fold, reconcile, reread, resume, without_collections
from goalfsm._thread import ThreadRuntime
from goalfsm._timers import Timers
from goalfsm._values import Anomaly, ApprovalRequest, GoalView, Policy

__all__ = ["Engine", "open"]

ODD_KEPT = 1000
BEATS_PER_LEASE = 4


class Engine:
    """One provider, one journal, any number of threads. Made by `goalfsm.open`; use it as an async context manager.

    All methods are called on the event loop that opened it.
    """

    def __init__(self, adapter: Adapter, journal: Journal, policy: Policy) -> None:
        self.adapter = adapter
        self.journal = journal
        self.policy = policy
        self.clock: Clock = getattr(adapter, "clock", None) or SystemClock()
        self.timers = Timers(self.clock)
        self.owner = new_owner()
        self.connection: Connection | None = None
        self.log = get_logger()
        self.closed = False
        self._entered = False
        self._runtimes: dict[str, ThreadRuntime] = {}
        self._taking_over: set[str] = set()
        self._odd: list[Anomaly] = []
        self._odd_dropped = 0
        self._tasks: anyio.abc.TaskGroup | None = None
        self._connecting = anyio.Lock()

    # -- opening and closing ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the journal, then start or reach the provider.

        Raises:
            GoalfsmError: it was entered before.
            JournalError: the journal cannot be used; nothing was started.
            TransportClosed: the provider could not be reached; the message says what to do.
        """
        if self._entered:
            raise GoalfsmError("an engine is entered once; goalfsm.open() makes another")
        self._entered = True
        try:
            await self.journal.start()
        except BaseException:
            self._entered = False
            raise
        try:
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
            try:
                await self.journal.beat(self.owner)
                self._tasks.start_soon(self.timers.run)
                self._tasks.start_soon(self._show_life)
                await self.ensure_connection()
            except BaseException:
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(None, None, None)
                raise
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._leave_journal()
            # Nothing was started: a host may try the same engine again.
            self._tasks, self._entered = None, False
            raise
        return self

    async def _leave_journal(self) -> None:
        try:
            await self.journal.retire(self.owner)
        except JournalError as error:
            self.journal_failed("", error)
        finally:
            await self.journal.aclose()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Pause what runs (if the policy says so), end the provider's process, close the journal; within 5 s."""
        if self.closed or self._tasks is None:
            # Left already, or never entered: nothing is open.
            return None
        with anyio.CancelScope(shield=True):
            await self._pause_all()
            self.closed = True
            if self.connection is not None:
                await self.connection.aclose(self.policy.timeouts.exit)
            with anyio.move_on_after(1.0):
                for runtime in list(self._runtimes.values()):
                    await runtime.drain()
            self._tasks.cancel_scope.cancel()
            for runtime in self._runtimes.values():
                runtime.close()
            await self._leave_journal()
        if isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._tasks.__aexit__(kind, error, trace)
        # The host's own error goes on as it is: handed to the group it would come back wrapped.
        await self._tasks.__aexit__(None, None, None)
        return None

    async def _show_life(self) -> None:
        """Give heartbeats: whoever wants a thread of ours sees that we live (decisions 6)."""
        while True:
            # Real time, also under a simulated clock: that this process lives is not simulated.
            await anyio.sleep(self.policy.timeouts.lease / BEATS_PER_LEASE)
            if self.closed:
                # A heartbeat after the farewell would make us look alive for one more lease.
                return
            try:
                await self.journal.beat(self.owner)
            except JournalError as error:
                self.journal_failed("", error)

    async def await_lease(self, thread_id: str) -> int:
        """Wait until a thread is free to take; give the epoch under which it is.

        Raises:
            StaleOwner: its holder lives.
        """
        if thread_id in self._taking_over:
            self._taking_over.discard(thread_id)
            return await self.journal.epoch(thread_id)
        return await await_lease(self.journal, self.clock, thread_id, self.owner, self.policy.timeouts.lease)

    async def _pause_all(self) -> None:
        running = [r for r in self._runtimes.values() if r.core.goal.state == "active" and r.is_ours()]
        connection = self.connection
        if self.policy.on_exit != "pause" or connection is None or not running:
            return

        async def pause(runtime: ThreadRuntime) -> None:
            try:
                await connection.set_goal(runtime.id, status="paused")
            except GoalfsmError as error:
                self.odd(runtime.id, "exit_pause_failed", str(error))

        with anyio.move_on_after(1.0):
            async with anyio.create_task_group() as tasks:
                for runtime in running:
                    tasks.start_soon(pause, runtime)

    async def ensure_connection(self) -> Connection:
        """Give the live connection, reaching the provider anew if it was lost.

        Raises:
            TransportClosed: the engine is not open, so that nobody would end what is started; or nobody answers.
        """
        if self.closed:
            raise TransportClosed("the engine is closed")
        if self._tasks is None:
            raise TransportClosed("the engine is not open yet; use it as an async context manager")
        async with self._connecting:
            if self.connection is None:
                self.connection = await self.adapter.connect(self, self.policy)
            return self.connection

    # -- the surface ------------------------------------------------------------------------------

    async def start_thread(self, **params: Any) -> Thread:
        """Begin a provider thread; `params` are passed through (`cwd=…`, `ephemeral=True`).

        Raises:
            ProviderRefused: with the provider's words.
            TransportClosed: the provider is gone.
        """
        connection = self.require_connection()
        info = await connection.start_thread(params)
        runtime = await self._adopt(info.id)
        runtime.info = info
        runtime.resumed = True
        runtime.put(ev.GoalCleared(), ev.TurnNone(), ev.Reconciled(runtime.core.gen))
        await runtime.settle_inbox()
        return Thread(runtime)

    async def resume_thread(self, thread_id: str) -> Thread:
        """Load a thread that the provider has on record: reconcile before anything is sent (rules P10, surface 27).

        The goal is paused while the thread is not loaded, then the thread is resumed, goal, turn and uncertain messages
        are read back, and only then queued messages go on.

        Raises:
            ProviderRefused: the provider does not know the thread, or another process writes to it.
            TransportClosed: the provider is gone.
        """
        return Thread(await resume(self, thread_id))

    async def take_over(self, thread_id: str) -> Thread:
        """Own a thread under the next epoch; its former owner's next command raises `StaleOwner` (surface 28)."""
        runtime = self._runtimes.pop(thread_id, None)
        if runtime is not None:
            if runtime.run is not None and not runtime.run.how:
                # To who follows it, its thread has another owner now; the engine is as open as before.
                runtime.run.end("detached")
            runtime.close()
        self._taking_over.add(thread_id)
        try:
            return Thread(await resume(self, thread_id))
        finally:
            # One that failed is no leave for a later resume_thread to take the thread from an owner that lives.
            self._taking_over.discard(thread_id)

    async def recover(self) -> list[Found]:
        """Replay the journal: what was found, per message that is not settled (surface 27).

        Threads that this engine already uses are left alone. Nothing is sent before `resume_thread`.
        """
        found: list[Found] = []
        with without_collections():
            async for thread_id, loaded in self.journal.load_all():
                if thread_id not in self._runtimes:
                    fold(self, thread_id, loaded)
                found += Found.of(self._runtimes[thread_id])
        return found

    def threads(self) -> list[Thread]:
        """List the threads that this engine knows, resumed or not, in the order they became known."""
        return [Thread(runtime) for runtime in self._runtimes.values()]

    def live(self) -> list[str]:
        """List the ids of threads whose operation somebody follows (decisions 8)."""
        return [r.id for r in self._runtimes.values() if r.live() and r.run is not None and r.run.routed]

    def anomalies(self) -> list[Anomaly]:
        """List everything unexpected so far, oldest first (a bounded tail): shown, never fatal."""
        return list(self._odd)

    # -- threads ----------------------------------------------------------------------------------

    def runtime(self, thread_id: str) -> ThreadRuntime | None:
        """Give what is known of a thread in this process."""
        return self._runtimes.get(thread_id)

    def remember(self, runtime: ThreadRuntime) -> None:
        """Take a runtime in; its pump starts with the first item of its inbox."""
        self._runtimes[runtime.id] = runtime

    def forget(self, thread_id: str) -> None:
        """Drop a runtime that never came to life."""
        self._runtimes.pop(thread_id, None)

    async def _adopt(self, thread_id: str) -> ThreadRuntime:
        runtime = ThreadRuntime(self, thread_id, ThreadCore(**self.constants()))
        self.remember(runtime)
        await runtime.settle_inbox()
        return runtime

    def reread(self, runtime: ThreadRuntime, loaded: Loaded) -> None:
        """Let a runtime begin again from what the journal holds now."""
        reread(runtime, loaded)

    def constants(self) -> dict[str, Any]:
        """What a core takes from the policy and the provider of this process, and not from the journal."""
        echo = self.connection is None or self.connection.capabilities.echo
        return {"echo": echo, "queue_after_goal": self.policy.on_goal_complete == "start"}

    def require_connection(self) -> Connection:
        """Give the live connection, or say why there is none.

        Raises:
            TransportClosed: the engine is closed, or the provider is gone.
        """
        if self.closed:
            raise TransportClosed("the engine is closed")
        if self._tasks is None:
            raise TransportClosed("the engine is not open yet; use it as an async context manager")
        if self.connection is None:
            raise TransportClosed("the connection to the provider ended; resume_thread() starts it anew")
        return self.connection

    # -- for the runtimes -------------------------------------------------------------------------

    def spawn(self, task: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Run a task until the engine closes."""
        assert self._tasks is not None  # noqa: S101  only an open engine has runtimes
        self._tasks.start_soon(task, *args)

    def position(self, thread_id: str) -> int | None:
        """Size of the provider's own record of a thread, for the fence (decisions 1)."""
        return None if self.connection is None else self.connection.position(thread_id)

    def after_step(self, runtime: ThreadRuntime) -> None:
        """Adopt goal turns that nobody owns, so that waiting messages have a turn to go to (surface 15)."""
        core = runtime.core
        if core.goal.state == "active" and core.turn.state == "running" and core.recon and not runtime.live():
            runtime.put(ev.Adopt())

    def watch_silence(self, runtime: ThreadRuntime) -> None:
        """End an operation of which nothing was heard within the limit."""
        limit = self.policy.timeouts.silence

        def ring() -> None:
            rest = runtime.last_heard + limit - self.clock.monotonic()
            if rest > 0:
                self.timers.arm((runtime.id, "silence"), rest, ring)
            else:
                runtime.put(ev.Silence())

        runtime.last_heard = self.clock.monotonic()
        self.timers.arm((runtime.id, "silence"), limit, ring)

    def reconcile_soon(self, runtime: ThreadRuntime, gen: int) -> None:
        """Read a quarantined thread back on the live connection."""
        self.spawn(reconcile, self, runtime, gen)

    def journal_failed(self, thread_id: str, error: JournalError) -> None:
        """Show that a step waits for the journal."""
        self.odd(thread_id, "journal", str(error))

    # -- the sink: what the connection hears ------------------------------------------------------

    def facts(self, thread_id: str, *events: ev.TypedEvent) -> None:
        """Facts about one thread, in wire order; a thread that nobody uses here has no inbox."""
        runtime = self._runtimes.get(thread_id)
        if runtime is not None:
            runtime.last_heard = self.clock.monotonic()
            runtime.put(*events)

    def notify(self, thread_id: str, notification: Notification) -> None:
        """A raw notification, for readers."""
        runtime = self._runtimes.get(thread_id)
        if runtime is not None:
            runtime.last_heard = self.clock.monotonic()
            runtime.put_note(notification)

    def goal(self, thread_id: str, view: GoalView | None) -> None:
        """The goal as the provider just told it."""
        runtime = self._runtimes.get(thread_id)
        if runtime is not None:
            runtime.goal_view = view

    def odd(self, thread_id: str, kind: str, detail: str) -> None:
        """Something unexpected: counted and shown."""
        self._odd.append(Anomaly(thread_id, kind, detail))
        if len(self._odd) > ODD_KEPT:
            del self._odd[0]
            self._odd_dropped += 1
        self.log.warning(kind, thread=thread_id, detail=detail)

    def lost(self, reason: str) -> None:
        """The connection ended: every thread learns it in its own order."""
        self.connection = None
        for runtime in self._runtimes.values():
            runtime.goal_view = None
            runtime.resumed = False
            runtime.put(ev.TransportLost(reason))

    async def approve(self, request: ApprovalRequest) -> Mapping[str, Any]:
        """Answer a request of the provider by the policy (decisions 27)."""
        policy = self.policy.approvals
        decision: Any = policy(request) if callable(policy) else policy
        if isinstance(decision, Awaitable):
            decision = await decision
        if decision == "decline" and not callable(policy):
            self.odd(request.thread_id, "declined", f"{request.method}: declined by Policy(approvals='decline')")
        return decision if isinstance(decision, Mapping) else {"decision": str(decision)}


def open(  # noqa: A001  the surface's word
    adapter: Adapter, journal: Any = None, policy: Policy | None = None
) -> Engine:
    """Open an engine on a provider.

    Args:
        adapter: the provider, such as `Codex(...)` or `Simulated(...)`.
        journal: a path for a SQLite file, None for memory, or a `Journal` of your own.
        policy: what the host decides once; the default pauses goals on exit and declines approvals.

    Returns:
        An async context manager that gives the engine.

    Raises:
        TypeError: an argument is of another type.
    """
    if not callable(getattr(adapter, "connect", None)):
        raise TypeError(f"adapter must be a provider such as Codex(...), not {type(adapter).__name__}")
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, not {type(policy).__name__}")
    return Engine(adapter, open_journal(journal), policy or Policy())
