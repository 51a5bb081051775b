"""The sync facade: the same names without await, over a blocking portal (surface 30).

The engine runs on an event loop in one background thread. Calls from several threads at once are allowed. A
KeyboardInterrupt while a call waits cancels that call there, waits for its clean-up, and goes on here.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import anyio
import anyio.from_thread

from goalfsm import _engine
from goalfsm._adapter import Adapter
from goalfsm._errors import TransportClosed
from goalfsm._handles import FollowUpHandle, GoalHandle, Receipt, Thread, ThreadStatus
from goalfsm._recovery import Found
from goalfsm._values import Anomaly, GoalView, Outcome, Policy, Result, StreamEvent

__all__ = ["SyncEngine", "SyncFollowUp", "SyncGoal", "SyncThread", "open_sync"]

T = TypeVar("T")


class _Call(Generic[T]):
    """One coroutine on the engine's loop, that its caller can cancel and join.

    The portal's own future counts as done as soon as it is cancelled, while the clean-up still runs; hence `finished`.
    """

    def __init__(self, start: Callable[[], Awaitable[T]]) -> None:
        self._start = start
        self._scope: anyio.CancelScope | None = None
        self._unwanted = False
        self.finished = threading.Event()

    async def run(self) -> T:
        """Run it to its end, clean-up included."""
        try:
            with anyio.CancelScope() as self._scope:
                if not self._unwanted:
                    return await self._start()
            raise InterruptedError("its caller was interrupted and does not look here")
        finally:
            self.finished.set()

    async def cancel(self) -> None:
        """Cancel it, also before it began: the interrupt may come while it is still being handed over."""
        self._unwanted = True
        if self._scope is None:
            self.finished.set()
        else:
            self._scope.cancel()


class _Portal:
    """Runs coroutines on the engine's loop and waits for them here."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal) -> None:
        self._portal = portal
        self.closed = False

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Wait for one coroutine; whatever interrupts the wait cancels it, and its clean-up is finished first.

        Raises:
            TransportClosed: the engine was left, and its loop with it.
        """
        if self.closed:
            raise TransportClosed("the engine is closed")
        call = _Call(partial(function, *args, **options))
        try:
            return self._portal.start_task_soon(call.run).result()
        except BaseException:
            while not call.finished.is_set():
                self._join(call)
            raise

    def _join(self, call: _Call[Any]) -> None:
        # A second interrupt joins the clean-up that already runs; a portal that is gone runs nothing any more.
        try:
            self._portal.start_task_soon(call.cancel)
            call.finished.wait()
        except RuntimeError:
            call.finished.set()
        except KeyboardInterrupt:
            return

    def plain(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function on the engine's loop; once that is gone nothing changes any more, so call it here."""
        if self.closed:
            return function(*args)

        async def task() -> T:
            return function(*args)

        return self.call(task)

    def stream(
        self, stream: AsyncGenerator[T, None], interrupted: Callable[[], Awaitable[None]] | None = None
    ) -> Generator[T, None, None]:
        """Read an async generator from here; closing this one closes that one.

        Args:
            stream: the generator, of the engine's loop.
            interrupted: what a KeyboardInterrupt during a wait calls before it goes on.
        """
        try:
            while True:
                try:
                    yield self.call(stream.__anext__)
                except StopAsyncIteration:
                    return
                except KeyboardInterrupt:
                    if interrupted is not None:
                        self.call(interrupted)
                    raise
        finally:
            # An engine that was left has ended its streams.
            if not self.closed:
                self.call(stream.aclose)


class SyncFollowUp:
    """A message; see `FollowUpHandle`."""

    def __init__(self, portal: _Portal, handle: FollowUpHandle) -> None:
        self._portal = portal
        self._handle = handle

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def id(self) -> str:
        """Its id."""
        return self._handle.id

    @property
    def state(self) -> str:
        """Its state."""
        return self._handle.state

    @property
    def evidence(self) -> str:
        """What was seen and where."""
        return self._handle.evidence

    @property
    def reason(self) -> str:
        """Why it is where it is."""
        return self._handle.reason

    @property
    def position(self) -> int | None:
        """Its place among the waiting messages."""
        return self._handle.position

    @property
    def text(self) -> str:
        """The text as it goes to the provider."""
        return self._handle.text

    @property
    def meta(self) -> Any:
        """The host's own value."""
        return self._handle.meta

    @property
    def outcome(self) -> Outcome:
        """What is known now."""
        return self._handle.outcome

    def settled(self) -> Outcome:
        """Wait for its fate; see `FollowUpHandle.settled`."""
        return self._portal.call(self._handle.settled)

    def withdraw(self) -> None:
        """It is not wanted any more; see `FollowUpHandle.withdraw`."""
        self._portal.call(self._handle.withdraw)

    def edit(self, text: str) -> None:
        """Change the text; see `FollowUpHandle.edit`."""
        self._portal.call(self._handle.edit, text)

    def move(self, position: int) -> None:
        """Change its place; see `FollowUpHandle.move`."""
        self._portal.call(self._handle.move, position)

    def hold(self, reason: str = "") -> None:
        """Pause it in the queue; see `FollowUpHandle.hold`."""
        self._portal.call(self._handle.hold, reason)

    def release(self) -> None:
        """Let it go again; see `FollowUpHandle.release`."""
        self._portal.call(self._handle.release)

    def send_now(self) -> None:
        """Let it go before all others; see `FollowUpHandle.send_now`."""
        self._portal.call(self._handle.send_now)

    def look_again(self) -> Outcome:
        """Read back once more; see `FollowUpHandle.look_again`."""
        return self._portal.call(self._handle.look_again)

    def resolve(self, how: Literal["delivered", "resend", "discard"]) -> None:
        """Decide an uncertain message; see `FollowUpHandle.resolve`."""
        self._portal.call(self._handle.resolve, how)


class SyncGoal:
    """A goal run; see `GoalHandle`."""

    def __init__(self, portal: _Portal, handle: GoalHandle) -> None:
        self._portal = portal
        self._handle = handle

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def id(self) -> str:
        """The logical turn id."""
        return self._handle.id

    @property
    def state(self) -> str:
        """State of the operation."""
        return self._handle.state

    @property
    def meta(self) -> Any:
        """The host's own value."""
        return self._handle.meta

    def steer(self, text: str, *, id: str | None = None) -> Receipt:  # noqa: A002  the surface's word
        """Send a message into the running turn; see `GoalHandle.steer`."""
        return self._portal.call(self._handle.steer, text, id=id)

    def interrupt(self) -> None:
        """Stop it; see `GoalHandle.interrupt`."""
        self._portal.call(self._handle.interrupt)

    def cancel(self) -> None:
        """Stop it if it still runs; see `GoalHandle.cancel`."""
        self._portal.call(self._handle.cancel)

    def events(self) -> Generator[StreamEvent, None, None]:
        """Read the stream; closing the generator detaches this reader only; see `GoalHandle.events`.

        A KeyboardInterrupt while it waits stops the goal, as it does in `result`.
        """
        yield from self._portal.stream(self._handle.events(), self._handle.cancel_joined)

    def result(self) -> Result:
        """Wait for the end; a KeyboardInterrupt here stops the goal first; see `GoalHandle.result`."""
        return self._portal.call(self._handle.result)


class SyncThread:
    """A provider thread; see `Thread`."""

    def __init__(self, portal: _Portal, handle: Thread) -> None:
        self._portal = portal
        self._handle = handle

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def id(self) -> str:
        """The provider's thread id."""
        return self._handle.id

    def start_goal(self, objective: str, *, token_budget: int | None = None, meta: Any = None) -> SyncGoal:
        """Start a goal; see `Thread.start_goal`."""
        begun: list[GoalHandle] = []

        async def start() -> None:
            begun.append(await self._handle.start_goal(objective, token_budget=token_budget, meta=meta))

        try:
            self._portal.call(start)
        except KeyboardInterrupt:
            # The start may have been done just before: nobody would hold the goal that it began.
            for goal in begun:
                self._portal.call(goal.cancel_joined)
            raise
        return SyncGoal(self._portal, begun[0])

    def run_goal(self, objective: str, *, token_budget: int | None = None, meta: Any = None) -> Result:
        """Start a goal and wait for its result; see `Thread.run_goal`."""
        return self._portal.call(self._handle.run_goal, objective, token_budget=token_budget, meta=meta)

    def run(self, text: str, *, attachments: Sequence[Mapping[str, Any]] = (), meta: Any = None) -> Result:
        """Run an ordinary turn; see `Thread.run`."""
        return self._portal.call(self._handle.run, text, attachments=attachments, meta=meta)

    def submit(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002  the surface's word
        attachments: Sequence[Mapping[str, Any]] = (),
        display: Any = None,
        when: Literal["auto", "steer", "queue"] = "auto",
        meta: Any = None,
        expires_in: float | None = None,
    ) -> SyncFollowUp:
        """Submit a follow-up; see `Thread.submit`."""
        handle = self._portal.call(
            self._handle.submit,
            text,
            id=id,
            attachments=attachments,
            display=display,
            when=when,
            meta=meta,
            expires_in=expires_in,
        )
        return SyncFollowUp(self._portal, handle)

    def follow_ups(self, all: bool = False) -> list[SyncFollowUp]:  # noqa: A002  the surface's word
        """List messages; see `Thread.follow_ups`."""
        handles = self._portal.plain(self._handle.follow_ups, all)
        return [SyncFollowUp(self._portal, handle) for handle in handles]

    def notices(self) -> Generator[StreamEvent, None, None]:
        """Read what becomes of this thread's messages; see `Thread.notices`."""
        yield from self._portal.stream(self._handle.notices())

    def goal(self) -> GoalView | None:
        """Give the persisted goal; see `Thread.goal`."""
        return self._portal.call(self._handle.goal)

    def set_goal(
        self, objective: str | None = None, status: str | None = None, token_budget: int | None = None
    ) -> GoalView:
        """Change the persisted goal; see `Thread.set_goal`."""
        return self._portal.call(self._handle.set_goal, objective, status, token_budget)

    def pause_goal(self) -> GoalView:
        """Pause the goal; see `Thread.pause_goal`."""
        return self._portal.call(self._handle.pause_goal)

    def clear_goal(self) -> None:
        """Clear the goal; see `Thread.clear_goal`."""
        self._portal.call(self._handle.clear_goal)

    def stop(self) -> None:
        """Stop whatever runs; see `Thread.stop`."""
        self._portal.call(self._handle.stop)

    def status(self) -> ThreadStatus:
        """Give where the thread stands; see `Thread.status`."""
        return self._portal.call(self._handle.status)


class SyncEngine(AbstractContextManager["SyncEngine"]):
    """An engine for code without await; made by `open_sync`, used as a context manager."""

    def __init__(self, adapter: Adapter, journal: Any = None, policy: Policy | None = None) -> None:
        self._engine = _engine.open(adapter, journal, policy)
        self._own_portal = anyio.from_thread.start_blocking_portal()

    def __enter__(self) -> Self:
        """Start the loop's thread and open the engine; see `Engine.__aenter__` for what it raises."""
        portal = self._own_portal.__enter__()
        self._portal = _Portal(portal)
        try:
            self._entered = portal.wrap_async_context_manager(self._engine)
            self._entered.__enter__()
        except BaseException as error:
            self._own_portal.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Close the engine and end the loop's thread."""
        try:
            return self._entered.__exit__(kind, error, trace)
        finally:
            self._portal.closed = True
            self._own_portal.__exit__(None, None, None)

    def start_thread(self, **params: Any) -> SyncThread:
        """Begin a provider thread; see `Engine.start_thread`."""
        return SyncThread(self._portal, self._portal.call(self._engine.start_thread, **params))

    def resume_thread(self, thread_id: str) -> SyncThread:
        """Load a thread and reconcile it; see `Engine.resume_thread`."""
        return SyncThread(self._portal, self._portal.call(self._engine.resume_thread, thread_id))

    def take_over(self, thread_id: str) -> SyncThread:
        """Own a thread under the next epoch; see `Engine.take_over`."""
        return SyncThread(self._portal, self._portal.call(self._engine.take_over, thread_id))

    def recover(self) -> list[Found]:
        """Replay the journal; see `Engine.recover`."""
        return self._portal.call(self._engine.recover)

    def threads(self) -> list[SyncThread]:
        """List the threads that this engine knows."""
        return [SyncThread(self._portal, thread) for thread in self._portal.plain(self._engine.threads)]

    def live(self) -> list[str]:
        """List the ids of threads whose operation somebody follows."""
        return self._portal.plain(self._engine.live)

    def anomalies(self) -> list[Anomaly]:
        """List everything unexpected so far."""
        return self._portal.plain(self._engine.anomalies)


def open_sync(adapter: Adapter, journal: Any = None, policy: Policy | None = None) -> SyncEngine:
    """Open an engine for code without await; the arguments are those of `goalfsm.open`."""
    return SyncEngine(adapter, journal, policy)
