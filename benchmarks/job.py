"""The job of job.toml by hand and by goalfsm: the same guard, the same effect, the same verdicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import attrs

from goalfsm import load_spec, step

rung: deque[str] = deque(maxlen=4)
sink: Callable[[str], None] = rung.append
"""The work of every effect, for everybody: one call with the effect's name."""

TURN = "01a2318e-2283-7f22-a277-f2601ce00932"


def current(job: Any, event: Any, _context: Any = None) -> bool:
    """The guard, for everybody: not of an older generation."""
    return event.gen >= job.gen


SPEC = load_spec(Path(__file__).with_name("job.toml"), {"current": current})


@attrs.frozen
class Start:
    name: ClassVar[str] = "start"
    gen: int


@attrs.frozen
class Stop:
    name: ClassVar[str] = "stop"
    gen: int


@attrs.frozen
class Take:
    name: ClassVar[str] = "take"
    gen: int
    turn_id: str
    attempt: int


@attrs.frozen
class Give:
    name: ClassVar[str] = "give"
    gen: int
    turn_id: str
    attempt: int


PLAIN = (Start(1), Stop(1))
SAVING = (Take(1, TURN, 1), Give(1, TURN, 1))


# -- by hand: what a careful person writes, as fast as frozen attrs allows --------------------------------------------


@attrs.frozen
class Job:
    state: str
    gen: int = 0
    turn_id: str = ""
    attempt: int = 0


@attrs.frozen
class Outcome:
    job: Job
    effects: tuple[str, ...]
    verdict: str


def _start(job: Job, event: Start) -> Outcome:
    if not current(job, event):
        return Outcome(job, (), "stale")
    return Outcome(Job("running", job.gen, job.turn_id, job.attempt), ("ring",), "moved")


def _stop(job: Job, event: Stop) -> Outcome:
    if not current(job, event):
        return Outcome(job, (), "stale")
    return Outcome(Job("idle", job.gen, job.turn_id, job.attempt), ("ring",), "moved")


def _take(job: Job, event: Take) -> Outcome:
    if not current(job, event):
        return Outcome(job, (), "stale")
    return Outcome(Job("running", event.gen, event.turn_id, event.attempt), ("ring",), "moved")


def _give(job: Job, event: Give) -> Outcome:
    if not current(job, event):
        return Outcome(job, (), "stale")
    return Outcome(Job("idle", event.gen, event.turn_id, event.attempt), ("ring",), "moved")


_TABLE: dict[tuple[str, type], Callable[[Job, Any], Outcome]] = {
    ("idle", Start): _start,
    ("running", Stop): _stop,
    ("idle", Take): _take,
    ("running", Give): _give,
}


def handle(job: Job, event: Any) -> Outcome:
    handler = _TABLE.get((job.state, type(event)))
    if handler is None:
        return Outcome(job, (), "anomaly")
    return handler(job, event)


# -- one lap = there and back -----------------------------------------------------------------------------------------


def by_hand(events: tuple[Any, Any]) -> Callable[[int], object]:
    there, back = events

    def run(laps: int) -> Job:
        job = Job("idle")
        for _ in range(laps):
            outcome = handle(job, there)
            for effect in outcome.effects:
                sink(effect)
            outcome = handle(outcome.job, back)
            for effect in outcome.effects:
                sink(effect)
            job = outcome.job
        return job

    return run


def by_goalfsm(events: tuple[Any, Any]) -> Callable[[int], object]:
    there, back = events

    def run(laps: int) -> Any:
        job = SPEC.snapshot()
        for _ in range(laps):
            outcome = step(SPEC, job, there)
            for effect in outcome.effects:
                sink(effect)
            outcome = step(SPEC, outcome.snapshot, back)
            for effect in outcome.effects:
                sink(effect)
            job = outcome.snapshot
        return job

    return run
