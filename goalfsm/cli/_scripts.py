"""What the simulated provider plays for `demo` and for `run --provider simulated`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio
import attrs

from goalfsm._adapter import Clock
from goalfsm.adapters.simulated import Fault, Script, Simulated, complete_goal, gate, say, tool, turn

__all__ = ["EXPECTED", "Expected", "FastClock", "demo_goals", "small_goal"]


@attrs.frozen
class Expected:
    """The fate that a message must meet, and how often the agent must have seen it."""

    state: str
    evidence: str
    turn: int
    seen: int


EXPECTED = {
    "m1": Expected("delivered", "echo", 1, 1),
    "m2": Expected("delivered", "echo", 2, 1),
    "m3": Expected("delivered", "read_back", 3, 1),
    "m4": Expected("requeued", "read_back: absent", 0, 0),
}


class FastClock:
    """The machine's time, some times as fast; implements `goalfsm._adapter.Clock`."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic() * self.speed

    def wall(self) -> float:
        """Unix seconds, for people only."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""
        await anyio.sleep(max(seconds, 0.0) / self.speed)


def small_goal() -> Simulated:
    """A goal of three turns that leaves time to type."""
    return _simulated(
        Script(
            turns=(
                turn(
                    say("Looking at what there is to do.\n", seconds=1.5), say("The first part is done.", seconds=1.5)
                ),
                turn(say("Going on with the second part.\n", seconds=1.5), say("It is done too.", seconds=1.5)),
                turn(say("Checking everything once more.\n", seconds=1.5), complete_goal(), say("Everything is done.")),
            ),
            user_turn=turn(say("Understood, this too.", seconds=1)),
            gap=0.3,
        )
    )


def demo_goals(clock: Clock) -> Simulated:
    """The two goals of the demo; gates let it show each thing when a person can follow."""
    return _simulated(
        Script(
            turns=(
                turn(say("Reading the failing tests."), gate("end of turn 1")),
                turn(say("Fixing the parser."), gate("end of turn 2"), start_gate="turn 2"),
                turn(
                    say("Running the whole suite."),
                    gate("end of turn 3"),
                    complete_goal(),
                    say("All tests are green."),
                    start_gate="turn 3",
                ),
                turn(say("Rewriting the build script."), tool("make release", gate="never")),
            ),
        ),
        # The answer to m3 never comes, and neither does the news that the agent was shown it.
        (Fault.request("turn/steer", "mute", client_id="m3"), Fault.echo("drop", client_id="m3")),
        clock,
    )


def _simulated(script: Script, faults: Sequence[Fault] = (), clock: Clock | None = None) -> Simulated:
    provider = Simulated(script, faults, clock=clock)
    # Ids of their own for every run, so that one journal can hold many.
    provider.server.disk.counts["id"] = time.time_ns() // 1_000_000
    return provider
