"""How everything here is measured: interleaved rounds, CPU time, medians of ratios, and exact counts.

The machine may be shared: an absolute figure means little. Each round measures every candidate once, in an order that
rotates, and a ratio is taken within its round; the median over the rounds is what is told.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from time import process_time_ns
from typing import Any

import attrs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

SAMPLE_NS = 20_000_000
Laps = Callable[[int], object]
"""Does something n times."""


@attrs.frozen
class Budget:
    """What a figure must not exceed (or, with `least`, must reach)."""

    what: str
    found: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        return self.found >= self.limit if self.least else self.found <= self.limit


class Progressing:
    """Live progress on stderr; a no-op where stderr is no terminal, apart from one line per section."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextmanager
    def section(self, title: str, total: int) -> Iterator[Callable[[str], None]]:
        if not self.console.is_terminal:
            self.console.print(f"{title} ...", highlight=False, markup=False)
            yield lambda _what: None
            return
        columns = (TextColumn("{task.description:46}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(title, total=total)

            def tell(what: str) -> None:
                progress.update(task, advance=1, description=f"{title}: {what}")

            yield tell


def laps_for(run: Laps, sample_ns: int = SAMPLE_NS) -> int:
    """Find how many laps make one sample long enough for the clock; warms `run` up on the way."""
    n = 1
    while True:
        took = cpu_ns(run, n)
        if took >= sample_ns / 4:
            return max(1, round(n * sample_ns / took))
        n *= 4


def cpu_ns(run: Laps, n: int) -> int:
    """CPU nanoseconds of n laps, the collector kept out of it."""
    gc.collect()
    gc.disable()
    try:
        began = process_time_ns()
        run(n)
        return process_time_ns() - began
    finally:
        gc.enable()


def interleaved(
    runs: Mapping[str, Laps], rounds: int, tell: Callable[[str], None], sample_ns: int = SAMPLE_NS
) -> dict[str, list[float]]:
    """Nanoseconds a lap of each candidate, one figure a round."""
    names = list(runs)
    laps = {name: laps_for(run, sample_ns) for name, run in runs.items()}
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(cpu_ns(runs[name], laps[name]) / laps[name])
            tell(name)
    return found


def ratio(found: Mapping[str, list[float]], name: str, floor: str) -> float:
    """Median over the rounds of one candidate against another of the same round."""
    return median(ours / theirs for ours, theirs in zip(found[name], found[floor], strict=True))


def counts(run: Laps, n: int) -> tuple[float, float]:
    """Python calls and bytecodes of one lap, exactly: they do not depend on the machine's load."""
    run(1)
    seen = [0, 0]

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            seen[0] += 1
        elif event == "opcode":
            seen[1] += 1
        return trace

    def counted(laps: int) -> tuple[int, int]:
        seen[:] = [0, 0]
        sys.settrace(trace)
        try:
            run(laps)
        finally:
            sys.settrace(None)
        return seen[0], seen[1]

    # What the loop around the laps costs is in both, and in neither after the subtraction.
    one, more = counted(1), counted(n + 1)
    return (more[0] - one[0]) / n, (more[1] - one[1]) / n
