"""News: everybody who waits is woken, and whoever waits afterwards waits for the next."""

from __future__ import annotations

import asyncio

__all__ = ["Pulse"]


class Pulse:
    """Wakes those who wait at this moment.

    Check, then wait, without a suspension in between: `while not done: await pulse.wait()`. One object for life, because
    a fresh event for every change of a busy thread costs more than most changes do.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def fire(self) -> None:
        """Wake everybody who waits now."""
        self._event.set()
        self._event.clear()

    async def wait(self) -> None:
        """Return at the next `fire`."""
        await self._event.wait()
