"""The scenes of the demo: what the person does, when, and the fate that each message must meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import click
import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from goalfsm import _engine
from goalfsm._errors import GoalfsmError
from goalfsm._handles import FollowUpHandle, GoalHandle, Thread
from goalfsm._values import Outcome, Policy, Result, Timeouts
from goalfsm.cli import printable
from goalfsm.cli._render import data_console, labelled, style_of, told, verdict
from goalfsm.cli._screen import Screen
from goalfsm.cli._scripts import EXPECTED, Expected, FastClock, demo_goals
from goalfsm.cli._tell import fate_record, print_fates
from goalfsm.cli._watch import Watch, first_error

__all__ = ["Scenes"]

_BEAT = 0.6
_ANSWER_SECONDS = 0.8
# Nothing but the lost answer may run into a limit, however fast the clock is.
_TIMEOUTS = Timeouts(
    call=900, start=900, answer=_ANSWER_SECONDS, read_back=900, quiet=0.3, silence=90_000, stop=900, hand_over=900
)
_LIMIT_SECONDS = 60.0


class Scenes:
    """Plays the demo once.

    Args:
        screen: where it is told.
        journal: the journal's file.
        speed: how many times as fast as a person can follow.
    """

    def __init__(self, screen: Screen, journal: str, speed: float) -> None:
        self.screen = screen
        self.journal = journal
        self.clock = FastClock(speed)
        self.provider = demo_goals(self.clock)
        self.fates: list[tuple[FollowUpHandle, Outcome]] = []
        self.seen: dict[str, int] = {}
        self.turns: Mapping[str, int] = {}
        self.results: list[tuple[str, str, Result | None]] = []
        self._thread: Thread
        self._watch: Watch | None = None
        self._tasks: anyio.abc.TaskGroup

    async def play(self) -> list[str]:
        """Play it; give what did not come out as it should.

        Raises:
            GoalfsmError: the journal cannot be used, or the demo hangs.
        """
        self.screen.line(Text("A goal on a simulated coding agent, and what becomes of the messages typed meanwhile."))
        self._say("journal", self.journal, "dim")
        policy = Policy(timeouts=_TIMEOUTS)
        async with _engine.open(self.provider, self.journal, policy) as engine:
            self._thread = await engine.start_thread()
            try:
                with anyio.move_on_after(_LIMIT_SECONDS) as limit:
                    async with anyio.create_task_group() as self._tasks:
                        await self._play()
                        self._tasks.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                raise first_error(group) from group
            self._look()
            if limit.cancelled_caught:
                raise GoalfsmError(
                    f"the demo did not end within {_LIMIT_SECONDS:g} s; its history is in {self.journal}"
                )
        return self._wrong()

    async def _play(self) -> None:
        watch = self._watch = Watch(
            self._thread, on_message=self._on_message, on_turn=self._on_turn, on_run=self._on_run
        )
        self._tasks.start_soon(watch.follow)
        goal = await self._steered()
        await self._held_in_the_gap(goal)
        await self._answer_lost(goal)
        await self._returned_by_a_stop()

    # -- the scenes ---------------------------------------------------------------------------------------------------

    async def _steered(self) -> GoalHandle:
        self._scene("1. A follow-up while a turn runs goes into that turn.")
        goal = await self._start("make the tests green")
        message = await self._type("m1", "also update the changelog")
        await message.settled()
        await self._beat()
        self.provider.release("end of turn 1")
        return goal

    async def _held_in_the_gap(self, goal: GoalHandle) -> None:
        await self._until(lambda: goal.state == "gap")
        self._scene("2. Between two turns there is nothing to steer: a follow-up waits for the next turn.")
        message = await self._type("m2", "keep Python 3.11 working")
        await self._beat()
        self.provider.release("turn 2")
        await message.settled()
        await self._beat()
        self.provider.release("end of turn 2")

    async def _answer_lost(self, goal: GoalHandle) -> None:
        await self._until(lambda: goal.state == "gap")
        self._scene("3. An answer is lost. Sending again could deliver twice, so goalfsm looks instead.")
        self.provider.release("turn 3")
        await self._until(lambda: len(self.turns_now()) == 3)  # noqa: PLR2004  turn 3
        message = await self._type("m3", "and add a test for it")
        await self._until(lambda: message.state == "uncertain")
        await self._beat()
        self._say("", "the turn ends; now the thread can be read back")
        self.provider.release("end of turn 3")
        await self._until(lambda: message.state != "uncertain")
        await self._ended("make the tests green", goal)
        await self._beat()

    async def _returned_by_a_stop(self) -> None:
        self._scene("4. A stop while the agent is busy: what it has not seen comes back.")
        goal = await self._start("release version 2")
        message = await self._type("m4", "tag it as well")
        await self._until(lambda: message.state == "acknowledged" or message.evidence != "")
        await self._beat()
        self._say("stop", "pause the goal, interrupt its turn, wait until nothing runs")
        await self._thread.stop()
        await self._ended("release version 2", goal)
        await message.settled()
        await self._beat()

    # -- what the person does -----------------------------------------------------------------------------------------

    async def _start(self, objective: str) -> GoalHandle:
        self._say("goal", objective)
        goal = await self._thread.start_goal(objective)
        await self._beat()
        return goal

    async def _type(self, message_id: str, text: str) -> FollowUpHandle:
        await self._beat()
        self.screen.line(labelled(message_id, Text(f'"{text}"', style="italic")))
        return await self._thread.submit(text, id=message_id)

    async def _ended(self, objective: str, goal: GoalHandle) -> None:
        result = await goal.result()
        self.results.append((objective, goal.id, result))
        self.screen.line(labelled("goal", Text(str(result.status), style=style_of(result.status))))

    async def _beat(self) -> None:
        await self.clock.sleep(_BEAT)

    async def _until(self, reached: Callable[[], bool]) -> None:
        assert self._watch is not None  # noqa: S101  the play has begun
        await self._watch.until(reached)

    # -- what is told -------------------------------------------------------------------------------------------------

    def _scene(self, text: str) -> None:
        self.screen.line()
        self.screen.line(Text(text, style="bold blue"))

    def _say(self, label: str, text: str, style: str = "") -> None:
        self.screen.line(labelled(label, printable(text), style))

    def turns_now(self) -> Mapping[str, int]:
        """Give the number of each physical turn so far."""
        return {} if self._watch is None else self._watch.turns

    def _on_turn(self, number: int, _turn_id: str) -> None:
        self.screen.line(labelled(f"turn {number}"))

    def _on_message(self, message: FollowUpHandle) -> None:
        # Handed over and written in the same moment is no news; waiting for the next turn is.
        waits = message.state == "accepted" and self._watch is not None and not self._watch.turn_running
        if waits or message.state not in ("queued", "admitted", "accepted", "delivering"):
            self.screen.line(told(message.id, message.state, message.evidence, message.reason, self.turns_now()))

    def _on_run(self, run: GoalHandle) -> None:
        self._tasks.start_soon(self._hear, run)

    async def _hear(self, run: GoalHandle) -> None:
        async for event in run.events():
            if self._watch is not None:
                self._watch.look()
            item = event.params.get("item")
            if event.method == "item/completed" and isinstance(item, Mapping) and item.get("type") == "agentMessage":
                self._say("", str(item.get("text", "")))

    def below(self) -> RenderableType:
        """What the redrawn lines show: each message and where it is now."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row()
        for message, outcome in [] if self._watch is None else self._watch.outcomes():
            grid.add_row(
                Text(message.id, style="bold"), Text(outcome.state, style=style_of(outcome.state)), message.text
            )
        return grid

    # -- the end ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._watch is not None:
            self.fates = self._watch.outcomes()
            self.turns = dict(self._watch.turns)
        self.seen = {message.id: self.provider.server.shown(message.text) for message, _ in self.fates}

    def _wrong(self) -> list[str]:
        wrong = []
        found = {message.id: outcome for message, outcome in self.fates}
        for message_id, expected in EXPECTED.items():
            outcome = found.get(message_id, Outcome(message_id, "missing"))
            turn = self.turns.get(outcome.physical_turn_id, 0)
            now = Expected(
                outcome.state, outcome.evidence[: len(expected.evidence)], turn, self.seen.get(message_id, 0)
            )
            if now != expected:
                wrong.append(f"{message_id} should be {expected}, but is {now}")
        statuses = [str(result.status) for _, _, result in self.results if result is not None]
        if statuses != ["completed", "interrupted"]:
            wrong.append(f"the goals should be completed and interrupted, but are {statuses}")
        return wrong

    def print_table(self) -> None:
        """Print the fates for people."""
        print_fates(self.fates, self.turns, self.seen)
        console = data_console()
        states = [outcome.state for _, outcome in self.fates]
        most = max(self.seen.values(), default=0)
        words = verdict(states.count("delivered"), states.count("requeued"), len(states))
        console.print(f"{words}. The agent saw {'none twice' if most <= 1 else f'one {most} times'}.", style="bold")
        console.print(f"The whole history is in {printable(self.journal)}", style="dim")

    def print_json(self) -> None:
        """Print the fates for programs."""
        goals = [
            {
                "id": goal_id,
                "objective": objective,
                "status": result and str(result.status),
                "final_response": result and result.final_response,
                "duration_ms": result and result.duration_ms,
            }
            for objective, goal_id, result in self.results
        ]
        fates = [{**fate_record(outcome), "seen_by_agent": self.seen[message.id]} for message, outcome in self.fates]
        record: dict[str, Any] = {
            "goal": goals[0] if goals else None,
            "stopped_goal": goals[1] if len(goals) > 1 else None,
            "follow_ups": fates,
            "journal": self.journal,
        }
        click.echo(msgspec.json.encode(record))
