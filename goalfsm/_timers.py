"""Deadlines of the engine: one heap and one task; what comes due is an event in a thread's inbox (decisions 7)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

import anyio

from goalfsm._adapter import Clock

__all__ = ["Timers"]


class Timers:
    """Calls `ring` functions at their time on the engine's clock.

    Args:
        clock: where time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Hashable]] = []
        self._armed: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._numbers = count()
        self._earlier: anyio.CancelScope | None = None
        self._waiting: anyio.Event | None = None

    def arm(self, key: Hashable, seconds: float, ring: Callable[[], None]) -> None:
        """Ring once after `seconds`; arming a key again replaces it."""
        number = next(self._numbers)
        self._armed[key] = (number, ring)
        first = not self._heap or self.clock.monotonic() + seconds < self._heap[0][0]
        heapq.heappush(self._heap, (self.clock.monotonic() + seconds, number, key))
        if self._waiting is not None:
            self._waiting.set()
        if first and self._earlier is not None:
            self._earlier.cancel()

    def disarm(self, key: Hashable) -> None:
        """Forget a key; one that is not armed is no error."""
        self._armed.pop(key, None)

    async def run(self) -> None:
        """Ring what comes due, for ever; cancel to end."""
        while True:
            self._ring_due()
            if not self._heap:
                self._waiting = anyio.Event()
                await self._waiting.wait()
                self._waiting = None
                continue
            with anyio.CancelScope() as self._earlier:
                await self.clock.sleep(max(0.0, self._heap[0][0] - self.clock.monotonic()))
            self._earlier = None

    def _ring_due(self) -> None:
        now = self.clock.monotonic()
        while self._heap:
            due, number, key = self._heap[0]
            current = self._armed.get(key)
            stale = current is None or current[0] != number
            if not stale and due > now:
                return
            heapq.heappop(self._heap)
            if not stale and current is not None:
                del self._armed[key]
                current[1]()
