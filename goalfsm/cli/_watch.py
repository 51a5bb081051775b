"""Following one thread for a person: every message that changes, every turn and every run, as they become known."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from goalfsm._handles import FollowUpHandle, GoalHandle, Thread
from goalfsm._values import Outcome

__all__ = ["Watch", "first_error"]

# A lost answer is decided within this time of its turn's end (surface 20).
_DECIDED_SECONDS = 20.0


class Watch:
    """Looks at a thread whenever anything of it has changed.

    Unlike a run's stream it also shows what happens between runs, such as a message that is read back after the end.

    Args:
        thread: the thread.
        on_message: called with each message that changed.
        on_turn: called with number (from 1) and id of each physical turn, once.
        on_run: called with each logical turn, once.

    Attributes:
        turns: number of each physical turn by its id.
        last_goal_state: the last state of the goal that was known.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        on_message: Callable[[FollowUpHandle], None],
        on_turn: Callable[[int, str], None],
        on_run: Callable[[GoalHandle], None],
    ) -> None:
        self._thread = thread
        self._runtime = thread._runtime  # noqa: SLF001  a handle's own machinery; the CLI is part of the package
        self._on_message, self._on_turn, self._on_run = on_message, on_turn, on_run
        self._seen: dict[str, tuple[str, str]] = {}
        self._last_run: object = None
        self.turns: dict[str, int] = {}
        self.last_goal_state = "unknown"

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
        if self.goal_state != "unknown":
            self.last_goal_state = self.goal_state
        turn = self._runtime.core.turn
        for turn_id in (*(run.turns if run is not None else ()), turn.turn_id if turn.state == "running" else ""):
            if turn_id and turn_id not in self.turns:
                self.turns[turn_id] = len(self.turns) + 1
                self._on_turn(self.turns[turn_id], turn_id)
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
        """Wait until nothing runs and no message is on its way; what nothing more will be learned of stays as it is."""
        while True:
            await self.until(self._is_still)
            with anyio.move_on_after(_DECIDED_SECONDS) as limit:
                await self.until(lambda: not self._is_still() or not any(map(self._moves, self._thread.follow_ups())))
            if limit.cancelled_caught or self._is_still():
                return

    def _is_still(self) -> bool:
        return self._runtime.quiet() or self._is_cut_off()

    def _is_cut_off(self) -> bool:
        runtime = self._runtime
        return runtime.engine.connection is None or runtime.stale is not None or runtime.broken is not None

    def _moves(self, message: FollowUpHandle) -> bool:
        looking = message._message.looking  # noqa: SLF001  see above
        return not self._is_cut_off() and (message.state not in ("requeued", "held", "uncertain") or looking)


def first_error(error: BaseException) -> BaseException:
    """Give what a person can be told: the first error, free of a task group's wrapping."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
