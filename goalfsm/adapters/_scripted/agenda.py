"""Time, gates and told methods for a sans-I/O server: what is due, what waits, and nothing that reads a clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import attrs

__all__ = ["Agenda", "Entry"]

_NOW = 1e-9
"""Due within this many seconds is due now: sums of floats must not leave a wake-up that never comes."""


@attrs.define(eq=False)
class Entry:
    """Something that will be done once; cancelling it is allowed at any time."""

    action: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Never do it."""
        self.cancelled = True

    def fire(self) -> None:
        """Do it now, unless it was done or cancelled."""
        if not self.cancelled:
            self.cancelled = True
            self.action()


@attrs.define(eq=False)
class Agenda:
    """What a server is waiting for.

    Args:
        now: the time last heard of, in seconds.
        open_gates: gates that were released; they stay open.
    """

    now: float = 0.0
    open_gates: set[str] = attrs.field(factory=set)
    _due: list[tuple[float, int, Entry]] = attrs.field(factory=list)
    _gated: dict[str, list[Entry]] = attrs.field(factory=dict)
    _told: dict[str, list[Entry]] = attrs.field(factory=dict)
    _order: int = 0

    def wait(self, action: Callable[[], None], *, seconds: float = 0.0, gate: str = "", after: str = "") -> Entry:
        """Do `action` once `seconds` have passed, then `gate` is open, then `after` was told; at once without any."""
        entry = Entry(action)
        self._pass_time(entry, seconds, gate, after)
        return entry

    def _pass_time(self, entry: Entry, seconds: float, gate: str, after: str) -> None:
        if seconds <= 0:
            self._pass_gate(entry, gate, after)
            return
        self._order += 1
        step = Entry(lambda: None if entry.cancelled else self._pass_gate(entry, gate, after))
        heapq.heappush(self._due, (self.now + seconds, self._order, step))

    def _pass_gate(self, entry: Entry, gate: str, after: str) -> None:
        if not gate or gate in self.open_gates:
            self._pass_told(entry, after)
            return
        step = Entry(lambda: None if entry.cancelled else self._pass_told(entry, after))
        self._gated.setdefault(gate, []).append(step)

    def _pass_told(self, entry: Entry, after: str) -> None:
        if after:
            self._told.setdefault(after, []).append(entry)
        else:
            entry.fire()

    def release(self, gate: str) -> None:
        """Open `gate` for good and let pass whatever waits for it, in the order of arrival."""
        self.open_gates.add(gate)
        for entry in self._gated.pop(gate, []):
            entry.fire()

    def told(self, method: str) -> None:
        """Note that a notification of `method` was sent."""
        for entry in self._told.pop(method, []):
            entry.fire()

    @property
    def waiting_gates(self) -> tuple[str, ...]:
        """Names of the gates that something waits for."""
        return tuple(self._gated)

    def next_wakeup(self) -> float | None:
        """Give the time of the first thing that is due, None if nothing is."""
        return self._due[0][0] if self._due else None

    def run(self, now: float) -> None:
        """Let time come to `now` and do everything due by then, in order; each sees the time at which it was due."""
        while self._due and self._due[0][0] <= now + _NOW:
            due, _, entry = heapq.heappop(self._due)
            self.now = max(self.now, due)
            entry.fire()
        self.now = max(self.now, now)

    def clear(self) -> None:
        """Forget everything that waits, as a dying process does; open gates stay open."""
        for _, _, entry in self._due:
            entry.cancel()
        for waiting in (self._gated, self._told):
            for entries in waiting.values():
                for entry in entries:
                    entry.cancel()
        self._due.clear()
        self._gated.clear()
        self._told.clear()
