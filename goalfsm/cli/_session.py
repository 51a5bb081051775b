"""One `goalfsm run`: a goal, the lines typed meanwhile, Ctrl-C, and what is left at the end."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import attrs

from goalfsm import _engine
from goalfsm._adapter import Adapter
from goalfsm._errors import GoalFailed, GoalfsmError
from goalfsm._handles import FollowUpHandle, GoalHandle, Thread
from goalfsm._values import Policy, Result, StreamEvent, When
from goalfsm.cli._commands import Commands
from goalfsm.cli._render import count
from goalfsm.cli._tell import Teller, fate_record, status_line
from goalfsm.cli._typed import Typed
from goalfsm.cli._watch import Watch, first_error

__all__ = ["Session"]

PROVEN = {"delivered", "requeued", "discarded", "expired"}
_TICK_SECONDS = 0.5
_LEAVE_SECONDS = 1.0


class Session:
    """Runs one goal to its end.

    Args:
        adapter: the provider.
        policy: what the host decides.
        journal: a file, or empty for memory.
        tell: where everything is told.
        typed: where lines come from.
    """

    def __init__(self, adapter: Adapter, policy: Policy, journal: str, tell: Teller, typed: Typed) -> None:
        self.adapter = adapter
        self.policy = policy
        self.journal = journal
        self.tell = tell
        self.typed = typed
        self.objective = ""
        self.token_budget: int | None = None
        self.goal: GoalHandle | None = None
        self.result: Result | None = None
        self.error = ""
        self.signalled = 0
        self._code = 0
        self._unended = ""
        self.stopping = False
        self._began = time.monotonic()
        self._thread: Thread | None = None
        self._watch: Watch | None = None
        self._commands: Commands | None = None
        self._leave = anyio.Event()
        self._started = anyio.Event()
        self._opening: anyio.CancelScope | None = None
        self._tasks: anyio.abc.TaskGroup

    async def run(self, objective: str, token_budget: int | None) -> int:
        """Run the goal; give the exit code.

        Raises:
            GoalfsmError: the provider or the journal could not be opened, or the goal could not be started.
        """
        self.objective, self.token_budget = objective, token_budget
        failure: BaseException | None = None
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            # Everything that may outlast the engine is a task out here, so that leaving waits for nothing.
            try:
                async with anyio.create_task_group() as self._tasks:
                    self._tasks.start_soon(self._listen, signals)
                    await self._work()
                    self._tasks.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                failure = first_error(group)
        if failure is not None:
            raise failure
        return self._end()

    async def _work(self) -> None:
        self._opening = opening = anyio.CancelScope()
        with opening:
            async with _engine.open(self.adapter, self.journal or None, self.policy) as engine:
                thread = self._thread = await engine.start_thread()
                self._opening = None
                self.tell.started(self.objective, thread.id, self.journal)
                watch = self._watch = Watch(
                    thread, on_message=self._on_message, on_turn=self.tell.turn, on_run=self._on_run
                )
                self._commands = Commands(thread, watch, self.tell, self.stop)
                self._tasks.start_soon(watch.follow)
                self._tasks.start_soon(self._tick)
                self._tasks.start_soon(self._leaving, self._goal_and_rest)
                self._tasks.start_soon(self._take_lines)
                await self._leave.wait()
                self._unended = watch.turn_running
                if self.signalled > 1:
                    engine.policy = attrs.evolve(
                        engine.policy, timeouts=attrs.evolve(engine.policy.timeouts, exit=_LEAVE_SECONDS)
                    )

    async def _leaving(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._leave.set()

    # -- the goal -----------------------------------------------------------------------------------------------------

    async def _goal_and_rest(self) -> None:
        assert self._thread is not None  # noqa: S101  started after it
        assert self._watch is not None  # noqa: S101  as above
        if not self.stopping:
            await self._run_goal(self._thread)
        if self.signalled > 1:
            return
        if self.goal is not None and self._commands is not None and not self.typed.edited:
            completed = self.result is not None and self.result.status == "completed"
            for line in self.typed.rest():
                # After a goal that did not complete nothing should begin by itself any more.
                await self._commands.obey(line, When.AUTO if completed else When.STEER)
        await self._watch.until_still()
        self._watch.look()

    async def _run_goal(self, thread: Thread) -> None:
        try:
            self.goal = await thread.start_goal(self.objective, token_budget=self.token_budget)
            self._started.set()
            self.result = await self.goal.result()
        except GoalFailed as error:
            self.result, self.error = error.result, error.message
        except GoalfsmError as error:
            if not self.stopping:
                self.error = str(error)

    def _on_run(self, run: GoalHandle) -> None:
        self._tasks.start_soon(self._hear, run)

    async def _hear(self, run: GoalHandle) -> None:
        try:
            async for event in run.events():
                self._on_event(event)
        except GoalfsmError:
            # Told by whoever waits for the result.
            return

    def _on_event(self, event: StreamEvent) -> None:
        if self._watch is not None:
            self._watch.look()
        self.tell.heard(event)

    def _on_message(self, message: FollowUpHandle) -> None:
        assert self._watch is not None  # noqa: S101  it is the one who calls
        self.tell.changed(message, self._watch.turns)

    async def _take_lines(self) -> None:
        await self._started.wait()
        if self._commands is not None:
            async for line in self.typed.lines():
                await self._commands.obey(line)

    # -- stopping -----------------------------------------------------------------------------------------------------

    async def _listen(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for number in signals:
            # Who ends the program or closes its terminal will not wait.
            self.signalled += 1 if number is signal.SIGINT else 2
            self._code = self._code or 128 + number
            if self._opening is not None:
                self._opening.cancel()
            elif self.signalled == 1:
                self._tasks.start_soon(self._stop_quietly)
            else:
                self.tell.note("leave", "not waiting any longer")
                self._leave.set()

    async def _stop_quietly(self) -> None:
        try:
            await self.stop()
        except GoalfsmError as error:
            self.error = str(error)
            self.tell.note("stop", str(error), "red")
            self._leave.set()

    async def stop(self) -> None:
        """Pause the goal, interrupt its turn, hold the queue."""
        if self.stopping or self._thread is None:
            return
        self.stopping = True
        self.tell.note("stop", "pausing the goal, then interrupting its turn; Ctrl-C again leaves without waiting")
        await self._thread.stop()
        if self._watch is not None and not self._leave.is_set():
            self.tell.note("stop", f"nothing runs any more; the goal is {self._watch.goal_state}")

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> int:
        watch = self._watch
        if watch is None:
            self.tell.note("stop", "nothing was started")
            return self._code
        if self.goal is None and not self.stopping and self.signalled == 0:
            raise GoalfsmError(self.error or "the goal did not start")
        fates = watch.outcomes()
        record = self._record(watch, [fate_record(outcome) for _, outcome in fates])
        if self.signalled > 1:
            self._tell_left(watch)
        self.tell.ended(record, self.result, fates, watch.turns)
        if self.signalled:
            return self._code
        proven = all(outcome.state in PROVEN for _, outcome in fates)
        # A turn can end well although its goal was given up, or ran out of its budget.
        reached = self._status() == "completed" and watch.last_goal_state == "complete"
        return 0 if reached and proven else 1

    def _status(self) -> str:
        if self.result is not None:
            return str(self.result.status)
        if self.signalled > 1:
            return "left"
        return "interrupted" if self.stopping else "failed"

    def _record(self, watch: Watch, fates: list[dict[str, str | None]]) -> dict[str, Any]:
        result = self.result
        return {
            "goal": {
                "id": self.goal.id if self.goal is not None else None,
                "thread_id": self._thread.id if self._thread is not None else None,
                "objective": self.objective,
                "status": self._status(),
                "goal_status": watch.last_goal_state,
                "error": self.error or None,
                "final_response": result.final_response if result is not None else None,
                "turns": len(watch.turns),
                "usage": attrs.asdict(result.usage) if result is not None and result.usage else None,
                "duration_ms": result.duration_ms if result is not None else None,
            },
            "follow_ups": fates,
            "journal": self.journal or None,
        }

    def _tell_left(self, watch: Watch) -> None:
        number = watch.turns.get(self._unended)
        running = f"turn {number} was not seen to end" if number else "no turn was running"
        thread = "" if self._thread is None else f"; its thread is {self._thread.id}"
        self.tell.note("left", f"the goal is {watch.last_goal_state}, {running}{thread}")

    # -- the redrawn lines --------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while self.tell.screen.is_live:
            self.tell.screen.refresh()
            await anyio.sleep(_TICK_SECONDS)

    def below(self) -> Any:
        """What the redrawn lines show now."""
        watch, seconds = self._watch, int(time.monotonic() - self._began)
        clock = f"{seconds // 60}:{seconds % 60:02}"
        typed = self.typed.text if self.typed.edited else None
        width = self.tell.screen.console.width
        if watch is None:
            return status_line(["starting the provider", clock], None, width)
        waiting = sum(outcome.state not in PROVEN for _, outcome in watch.outcomes())
        turn = f"turn {watch.turns[watch.turn_running]}" if watch.turn_running in watch.turns else watch.operation_state
        messages = f"{count(waiting, 'message')} open" if waiting else ""
        return status_line([f"goal {watch.goal_state}", turn, messages, clock, "Ctrl-C stops"], typed, width)
