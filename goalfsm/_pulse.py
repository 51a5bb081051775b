"""News: everybody who waits is woken, and whoever waits afterwards waits for the next."""

from __future__ import annotations

import asyncio

__all__ = ["Pulse"]


class Pulse:
    """Wakes those who wait at this moment.

    Check, then wait, without a suspension in between: `while not done: await pulse.wait()`. One object for life: a
    fresh event for every change of a busy thread costs more than most changes do.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        # Made for the first who waits: most of very many idle threads have nobody.
        self._event: asyncio.Event | None = None

    def fire(self) -> None:
        """Wake everybody who waits now."""
        if self._event is not None:
            self._event.set()
            self._event.clear()

    async def wait(self) -> None:
        """Return at the next `fire`."""
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()
