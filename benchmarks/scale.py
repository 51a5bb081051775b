"""Nanoseconds an event with many live cores in one process, each event to another core than the last one."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from statistics import median
from time import process_time_ns

import attrs

from benchmarks.measure import Budget
from goalfsm import events as ev
from goalfsm._core import ThreadCore

SIZES = (1_000, 100_000, 1_000_000)
EVENTS = 100_000
"""At least so many events a round, so that a small number of cores is not over before the clock has ticked."""


@attrs.frozen
class Scale:
    """Per number of live cores: nanoseconds an event, and the growth of the process per core in bytes."""

    ns: dict[str, float]
    rss: dict[str, float]

    def budgets(self) -> list[Budget]:
        if str(SIZES[-1]) not in self.ns:
            return []
        return [Budget("live cores in one process", max(map(int, self.ns)), SIZES[-1], least=True)]


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _one_core(number: int) -> ThreadCore:
    core = ThreadCore(epoch=1)
    for event in (ev.GoalCleared(), ev.TurnNone(), ev.Reconciled(0), ev.Submit(f"message-{number}", "steer")):
        core = core.handle(event).core
    return core


def _lap(cores: list[ThreadCore], lap: int, events: int) -> float:
    """A turn of somebody else begins or ends, on one core after the other."""
    began = process_time_ns()
    for at in range(events):
        place = at % len(cores)
        turn = f"turn-{(at // len(cores) + lap) // 2}-{place}"
        slot = cores[place].turn
        event = ev.TurnCompleted(slot.turn_id) if slot.state == "running" else ev.TurnStarted(turn)
        cores[place] = cores[place].handle(event).core
    return (process_time_ns() - began) / events


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Scale:
    ns: dict[str, float] = {}
    rss: dict[str, float] = {}
    for size in SIZES[:2] if quick else SIZES:
        gc.collect()
        before = _peak_bytes()
        cores = [_one_core(number) for number in range(size)]
        rss[str(size)] = max(0, _peak_bytes() - before) / size
        events = min(EVENTS, 2_000) if quick else max(EVENTS, size)
        laps = 1 if quick else min(rounds, 3)
        ns[str(size)] = median(_lap(cores, lap, events) for lap in range(laps))
        tell(f"{size:,} cores")
        del cores
    return Scale(ns, rss)


def steps(_rounds: int) -> int:
    return len(SIZES)
