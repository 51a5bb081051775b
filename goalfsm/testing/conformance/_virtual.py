"""Time that passes only where everybody waits: an event loop that jumps to the next deadline, for runs that repeat."""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import anyio

__all__ = ["Hung", "LoopClock", "run"]

T = TypeVar("T")

_EPOCH = 1_800_000_000.0


class Hung(BaseException):
    """Something in this process took more of the machine's time than it may; no handler of `Exception` keeps it."""


class LoopClock:
    """Implements `goalfsm._adapter.Clock` on the running event loop's own time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Unix seconds, for people only."""
        return _EPOCH + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on the loop."""
        await anyio.sleep(max(seconds, 0.0))


class _Jumping(selectors.DefaultSelector):
    """A selector that never waits for time: where nothing is ready, the next deadline is now."""

    def __init__(self, bound: float) -> None:
        super().__init__()
        self.now = 0.0
        self.bound = bound
        self.deadline = time.monotonic() + bound

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if time.monotonic() > self.deadline:
            raise Hung(f"it was still busy after {self.bound:g} s of the machine's time")
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            # Nothing is due, ever: only a thread or a pipe could wake this loop.
            ready = super().select(max(self.deadline - time.monotonic(), 0.0))
            if not ready:
                raise Hung(f"everything waits for something that never comes, {self.bound:g} s long")
            return ready
        self.now += timeout
        return []


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, bound: float) -> None:
        self._jumping = _Jumping(bound)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(work: Callable[[], Awaitable[T]], *, virtual: bool, bound: float) -> T:
    """Run `work` on an event loop of its own.

    Args:
        work: what to run.
        virtual: time passes only where everybody waits; for work without threads and processes.
        bound: most seconds of the machine's time that it may take.

    Raises:
        Hung: it took longer. Where this is called on the main thread, that includes code that blocks the loop.
    """
    options: dict[str, Any] = {}
    if virtual:
        options = {"backend_options": {"loop_factory": lambda: _VirtualLoop(bound)}}

    async def started() -> T:
        return await work()

    with _alarm(bound * 1.5):
        return anyio.run(started, **options)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Hung(f"it blocked for {seconds:g} s of the machine's time")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
