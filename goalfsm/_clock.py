"""The clock of a real machine."""

from __future__ import annotations

import time

import anyio

__all__ = ["SystemClock"]


class SystemClock:
    """Implements `goalfsm._adapter.Clock` with the machine's own time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wall(self) -> float:
        """Unix seconds, for people only."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed."""
        await anyio.sleep(max(seconds, 0.0))
