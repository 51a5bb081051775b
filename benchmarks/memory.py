"""Bytes of one more live machine, definition shared wherever the library can share it.

The three data fields hold one shared text and small numbers, so that only the machine itself is counted. The whole
thread core is counted with everything it owns, texts of its own included: a core that has run a goal and is idle again.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import attrs

from benchmarks import peers
from benchmarks.cores import idle_core
from benchmarks.job import SPEC, TURN, Job
from benchmarks.measure import Budget
from goalfsm._machines import FollowUp

MANY, FEW = 10_000, 300
HEAVY = ("python-statemachine", "xstate-statemachine", "transitions_own")


@attrs.frozen
class Memory:
    """Bytes per live machine, by name."""

    found: dict[str, float]

    def budgets(self) -> list[Budget]:
        return [
            Budget("snapshot of three data fields (bytes)", self.found["goalfsm"], 128),
            Budget("follow-up row (bytes)", self.found["goalfsm_follow_up"], 256),
            Budget("whole idle thread core (bytes)", self.found["goalfsm_thread_core"], 2048),
        ]


def bytes_each(make: Callable[[], Any], n: int) -> float:
    made: list[Any] = [None] * n
    for _ in range(3):
        make()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for at in range(n):
            made[at] = make()
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / n
    finally:
        tracemalloc.stop()


def makers() -> dict[str, Callable[[], Any]]:
    ours: dict[str, Callable[[], Any]] = {
        "attrs": lambda: Job("running", 1, TURN, 1),
        "goalfsm": lambda: SPEC.snapshot("running", gen=1, turn_id=TURN, attempt=1),
        "goalfsm_follow_up": lambda: FollowUp("delivering", 1, "steer", TURN, 1, "g", 1, 1, 1, 1, id=TURN),
        "goalfsm_thread_core": idle_core,
    }
    return ours | peers.installed(peers.LIVING)


def measure(_rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Memory:
    found: dict[str, float] = {}
    for name, make in makers().items():
        many = FEW if name in HEAVY else MANY
        found[name] = bytes_each(make, many // 10 if quick else many)
        tell(name)
    return Memory(found)


def steps(_rounds: int) -> int:
    return 4 + len(peers.LIVING)
