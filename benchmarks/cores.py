"""The whole core of a thread: microseconds an event over a message's life, and a core to count or keep alive."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from statistics import median

import attrs

from benchmarks.job import PLAIN, by_hand
from benchmarks.measure import SAMPLE_NS, Budget, Laps, counts, interleaved, ratio
from goalfsm import events as ev
from goalfsm._core import ThreadCore

EVENTS_A_LAP, STEPS_A_LAP = 8, 2
_numbers = count()


def running_core() -> ThreadCore:
    """A core whose goal runs, between two turns."""
    core = ThreadCore(epoch=1)
    for event in (ev.GoalCleared(), ev.TurnNone(), ev.Reconciled(0), ev.Start()):
        core = core.handle(event).core
    for answer in (ev.ClearOk, ev.SetOk):
        assert core.operation is not None
        core = core.handle(answer(core.operation.call)).core
    core = core.handle(ev.GoalActive("0123456789abcdef")).core
    return one_turn(core, "first-turn", "first-message")


def one_turn(core: ThreadCore, turn: str, message: str) -> ThreadCore:
    """One turn of a goal with one message steered into it: eight events from the outside."""
    core = core.handle(ev.TurnStarted(turn)).core
    core = core.handle(ev.Submit(message)).core
    core = core.handle(ev.Taken(message)).core
    core = core.handle(ev.BeginWrite(message, 1, core.epoch, core.gen)).core
    core = core.handle(ev.SendOk(message, 1, turn)).core
    core = core.handle(ev.Echo(message, "item", turn)).core
    core = core.handle(ev.GoalActive("0123456789abcdef")).core
    return core.handle(ev.TurnCompleted(turn)).core


def idle_core() -> ThreadCore:
    """A core that has run a goal of two turns with two messages, idle again; all its texts are its own."""
    number = next(_numbers)
    core = running_core()
    for turn in range(2):
        core = one_turn(core, f"01a2318e-2283-7f22-a277-{number:08d}-{turn}", f"message-{number:08d}-{turn}")
    core = core.handle(ev.GoalCompleted("0123456789abcdef")).core
    assert core.operation is not None
    assert core.operation.state == "completed"
    return core


def turns() -> Laps:
    start = running_core()

    def run(laps: int) -> None:
        core = start
        for number in range(laps):
            core = one_turn(core, f"turn-{number}", f"message-{number}")

    return run


@attrs.frozen
class Cores:
    """What one external event costs the whole core; `times_floor`: in steps of the hand-written attrs table."""

    us: float
    times_floor: float
    calls: float
    bytecodes: float

    def budgets(self) -> list[Budget]:
        return []


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Cores:
    run = turns()
    found = interleaved({"core": run, "attrs": by_hand(PLAIN)}, rounds, tell, SAMPLE_NS // 4 if quick else SAMPLE_NS)
    calls, codes = counts(run, 20)
    return Cores(
        us=median(found["core"]) / EVENTS_A_LAP / 1000,
        times_floor=ratio(found, "core", "attrs") / EVENTS_A_LAP * STEPS_A_LAP,
        calls=calls / EVENTS_A_LAP,
        bytecodes=codes / EVENTS_A_LAP,
    )


def steps(rounds: int) -> int:
    return rounds * 2
