"""A clock that stands still until a test moves it: every timer becomes the test's own decision."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import anyio
import anyio.lowlevel
import anyio.to_thread

__all__ = ["FakeClock"]

_WORKERS = 0.25
"""Most seconds of the machine's clock that worker threads get before time moves on without them."""

_ROUNDS = 40
"""Turns given to other tasks before time moves on; a chain of wake-ups this long is let run to its end."""


class FakeClock:
    """Implements `goalfsm._adapter.Clock`; time passes only in `advance` and `run_until`.

    Args:
        start: the monotonic time at the beginning.
        wall: unix seconds at the beginning.
        patience: seconds of the machine's clock to wait before time moves, for work that goes on in threads of its own
            (a journal in a file); without such work 0 keeps every run the same.
    """

    def __init__(self, start: float = 0.0, wall: float = 1_800_000_000.0, *, patience: float = 0.0) -> None:
        self.patience = patience
        self._now = start
        self._wall = wall - start
        self._order = 0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._now

    def wall(self) -> float:
        """Unix seconds, for people only."""
        return self._wall + self._now

    @property
    def sleeping(self) -> int:
        """How many tasks sleep on this clock."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Return once the test has let `seconds` pass."""
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        self._order += 1
        sleeper = (self._now + seconds, self._order, anyio.Event())
        heapq.heappush(self._sleepers, sleeper)
        try:
            await sleeper[2].wait()
        except BaseException:
            # A cancelled sleeper must not hold up the order of the others.
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)
            raise

    async def settle(self) -> None:
        """Let every task that can run do so, without letting time pass."""
        await self._rounds()
        if self.patience:
            await anyio.sleep(self.patience)
            await self._rounds()
        workers = anyio.to_thread.current_default_thread_limiter()
        if workers.borrowed_tokens:
            with anyio.move_on_after(_WORKERS):
                while workers.borrowed_tokens:  # noqa: ASYNC110  a worker thread sets no event here
                    await anyio.sleep(0.001)
            await self._rounds()

    async def _rounds(self) -> None:
        for _ in range(_ROUNDS):
            await anyio.lowlevel.checkpoint()

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: sleepers wake in the order of their deadlines, and what they cause happens in between."""
        until = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            await self._wake_next()
        self._now = max(self._now, until)
        await self.settle()

    async def run_until(self, done: Callable[[], bool], *, within: float = 60.0, real: float = 5.0) -> None:
        """Let time pass, deadline by deadline, until `done()` holds.

        While nobody sleeps on this clock it waits for the world outside (threads, pipes), at most `real` seconds.

        Args:
            done: asked whenever everything has settled.
            within: most seconds of this clock that may pass.
            real: most seconds of the machine's clock that may pass without progress.

        Raises:
            TimeoutError: it did not come to hold.
        """
        until = self._now + within
        while True:
            await self.settle()
            if done():
                return
            if self._sleepers and self._sleepers[0][0] <= until:
                await self._wake_next()
                continue
            if not await self._outside(done, real):
                raise TimeoutError(f"still not so at {self._now:g} s of the fake clock, {self.sleeping} tasks asleep")

    async def _outside(self, done: Callable[[], bool], real: float) -> bool:
        asleep = self.sleeping
        with anyio.move_on_after(real):
            while not done() and self.sleeping == asleep:  # noqa: ASYNC110  the world outside sets no event here
                await anyio.sleep(0.001)
            return True
        return False

    async def _wake_next(self) -> None:
        due, _, event = heapq.heappop(self._sleepers)
        self._now = max(self._now, due)
        event.set()
        await self.settle()
