"""One kernel step (one guard, one effect) against the same table by hand and on other libraries.

The floor, 1.0, is the hand-written table on frozen attrs. Rows that save are measured against the same table's rows
that save: each ratio compares the same work.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import attrs

from benchmarks import peers
from benchmarks.job import PLAIN, SAVING, by_goalfsm, by_hand, rung
from benchmarks.measure import SAMPLE_NS, Budget, Laps, counts, interleaved, ratio

FLOORS = {"goalfsm_saving": "attrs_saving"}
STEPS_A_LAP = 2
LEAST = {"transitions": 17, "automat": 7, "sismic": 125, "python-statemachine": 200}
"""Design 7: how many times slower than goalfsm each peer is expected to be."""


@attrs.frozen
class Kernel:
    """Per name: times the floor, nanoseconds a step, Python calls and bytecodes a step."""

    times_floor: dict[str, float]
    ns: dict[str, float]
    calls: dict[str, float]
    bytecodes: dict[str, float]
    against: dict[str, float]

    def budgets(self) -> list[Budget]:
        out = [
            Budget("kernel step, row that saves nothing (x hand-written)", self.times_floor["goalfsm"], 0.8),
            Budget("kernel step, row that saves (x hand-written)", self.times_floor["goalfsm_saving"], 1.2),
        ]
        return out + [
            Budget(f"kernel step: {name} / goalfsm", self.against[name], least, least=True)
            for name, least in LEAST.items()
            if name in self.against
        ]


def candidates() -> dict[str, Laps]:
    ours = {
        "attrs": by_hand(PLAIN),
        "goalfsm": by_goalfsm(PLAIN),
        "attrs_saving": by_hand(SAVING),
        "goalfsm_saving": by_goalfsm(SAVING),
    }
    return ours | peers.installed(peers.STEPPING)


def check(runs: dict[str, Laps]) -> None:
    """Every candidate really performs one effect a step; a guard or row that is not taken would make it look fast."""
    for name, run in runs.items():
        rung.clear()
        run(1)
        if len(rung) != STEPS_A_LAP:
            raise RuntimeError(f"{name} performed {len(rung)} effects in {STEPS_A_LAP} steps")


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Kernel:
    runs = candidates()
    check(runs)
    found = interleaved(runs, rounds, tell, SAMPLE_NS // 4 if quick else SAMPLE_NS)
    exact = {name: counts(run, 20) for name, run in runs.items()}
    return Kernel(
        times_floor={name: ratio(found, name, FLOORS.get(name, "attrs")) for name in runs},
        ns={name: median(values) / STEPS_A_LAP for name, values in found.items()},
        calls={name: calls / STEPS_A_LAP for name, (calls, _) in exact.items()},
        bytecodes={name: codes / STEPS_A_LAP for name, (_, codes) in exact.items()},
        against={name: ratio(found, name, "goalfsm") for name in runs if name in peers.STEPPING},
    )


def steps(rounds: int) -> int:
    """How many times `measure` tells its progress."""
    return rounds * (4 + len(peers.STEPPING))
