"""Following one thread for a person: every message that changes, every turn and every run, as they become known."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from goalfsm._handles import FollowUpHandle, GoalHandle, Thread
from goalfsm._values import Outcome

__all__ = ["Watch"]

# A lost answer is decided within this time of its turn's end (surface 20).
_DECIDED_SECONDS = 20.0


class Watch:
    """Looks at a thread whenever anything of it has changed.

    Unlike a run's stream it also shows what happens between runs, such as a message that is read back after the end.

    Args:
        thread: the thread.
        on_message: called with each message that changed.
        on_turn: called with the number of each physical turn, from 1, once.
        on_run: called with each logical turn, once.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        on_message: Callable[[FollowUpHandle], None],
        on_turn: Callable[[int], None],
        on_run: Callable[[GoalHandle], None],
    ) -> None:
        self._thread = thread
        self._runtime = thread._runtime  # noqa: SLF001  a handle's own machinery; the CLI is part of the package
        self._on_message, self._on_turn, self._on_run = on_message, on_turn, on_run
        self._seen: dict[str, tuple[str, str]] = {}
        self._last_run: object = None
        self.turns: dict[str, int] = {}

    async def follow(self) -> None:
        """Look for ever; cancel to end."""
        while True:
            self.look()
            await self._runtime.changed.wait()

    def look(self) -> None:
        """Tell what has changed since the last look."""
        run = self._runtime.run
        if run is not None and run is not self._last_run and run.started.is_set():
            self._last_run = run
            self._on_run(GoalHandle(self._runtime, run))
        turn = self._runtime.core.turn
        for turn_id in (*(run.turns if run is not None else ()), turn.turn_id if turn.state == "running" else ""):
            if turn_id and turn_id not in self.turns:
                self.turns[turn_id] = len(self.turns) + 1
                self._on_turn(self.turns[turn_id])
        for message in self._thread.follow_ups(all=True):
            now = (message.state, message.evidence)
            if self._seen.get(message.id) != now:
                self._seen[message.id] = now
                self._on_message(message)

    @property
    def goal_state(self) -> str:
        """State of the persisted goal."""
        return self._runtime.core.goal.state

    @property
    def operation_state(self) -> str:
        """State of the operation; empty if there was none."""
        operation = self._runtime.core.operation
        return "" if operation is None else operation.state

    @property
    def turn_running(self) -> str:
        """Id of the physical turn that runs, empty if none does."""
        turn = self._runtime.core.turn
        return turn.turn_id if turn.state == "running" else ""

    def outcomes(self) -> list[tuple[FollowUpHandle, Outcome]]:
        """Give every message with what is known of it, in the order of their submission."""
        order = {message_id: place for place, message_id in enumerate(self._runtime.messages)}
        handles = sorted(self._thread.follow_ups(all=True), key=lambda handle: order[handle.id])
        return [(handle, handle.outcome) for handle in handles]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is true of the thread."""
        while not reached():
            await self._runtime.changed.wait()

    async def until_still(self) -> None:
        """Wait until nothing runs and no message is on its way; what nothing more will be learned of is left as it is."""
        while True:
            await self.until(self._runtime.quiet)
            with anyio.move_on_after(_DECIDED_SECONDS) as limit:
                await self.until(lambda: not self._runtime.quiet() or not any(map(self._moves, self._messages())))
            if limit.cancelled_caught or self._runtime.quiet():
                return

    def _messages(self) -> list[FollowUpHandle]:
        return self._thread.follow_ups()

    def _moves(self, message: FollowUpHandle) -> bool:
        looking = message._message.looking  # noqa: SLF001  see above
        return message.state not in ("requeued", "held", "uncertain") or looking
