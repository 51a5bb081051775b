"""Which rows of which machines were taken while something ran: seen from outside, at the one place that takes rows.

with collecting() as coverage:
    ...
print(coverage.report())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from goalfsm import _kernel
from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._ir import Row, Spec
from goalfsm.diagrams import dot, mermaid
from goalfsm.testing._patching import replaced

__all__ = ["Coverage", "Covered", "collecting"]


@attrs.frozen
class Covered:
    """How much of one machine was taken.

    Args:
        machine: its name.
        rows: how many rows it has, ignore rows included.
        taken: how many of them were taken at least once.
        never: the others, by line and in words.
    """

    machine: str
    rows: int
    taken: int
    never: tuple[str, ...] = ()


class Coverage:
    """How often each row was taken, by machine and row. Runs can be added to one another."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._specs: dict[str, Spec] = {name: builtin_spec(name) for name in builtin_names()}

    def note(self, spec: Spec, row: Row) -> None:
        """Count one row."""
        self._specs.setdefault(spec.machine, spec)
        self._counts[spec.machine, row.kind, row.index] += 1

    def count(self, machine: str, row: Row) -> int:
        """Give how often a row was taken."""
        return self._counts[machine, row.kind, row.index]

    def taken(self, spec: Spec) -> frozenset[Row]:
        """Give the rows of a machine that were taken."""
        return frozenset(row for row in spec.rows if self.count(spec.machine, row))

    def machines(self) -> Iterator[Covered]:
        """Give the machines, the built-in ones always, with the rows that were never taken."""
        for name, spec in sorted(self._specs.items()):
            never = [row for row in spec.rows if not self.count(name, row)]
            yield Covered(name, len(spec.rows), len(spec.rows) - len(never), tuple(map(_words, never)))

    def report(self, *, never: bool = True) -> str:
        """Say it for people: one line for each machine, then the rows that were never taken."""
        lines = []
        for covered in self.machines():
            lines.append(f"{covered.machine:12} {covered.taken:3} of {covered.rows:3} rows taken")
            if never:
                lines += [f"  never: {words}" for words in covered.never]
        return "\n".join(lines)

    def draw(self, folder: Path) -> list[Path]:
        """Write each machine as DOT and Mermaid with what was never taken marked; give the files."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for name, spec in sorted(self._specs.items()):
            for ending, text in (
                ("dot", dot(spec, taken=self.taken(spec))),
                ("mmd", mermaid(spec, taken=self.taken(spec))),
            ):
                written.append(folder / f"{name}.{ending}")
                written[-1].write_text(text, encoding="utf-8")
        return written

    def numbers(self) -> list[list[Any]]:
        """Give the counts as JSON-ready values, for another process to `add`."""
        return [[*row, count] for row, count in sorted(self._counts.items())]

    def add(self, numbers: list[list[Any]]) -> None:
        """Add the counts of another process; machines that only it knows are counted, not reported."""
        for machine, kind, index, count in numbers:
            self._counts[str(machine), str(kind), int(index)] += int(count)


def _words(row: Row) -> str:
    guard = f" [{row.guard}]" if row.guard else ""
    target = "ignored" if row.kind == "ignore" else f"-> {row.to}" if row.to else "stays"
    return f"line {row.line}: {', '.join(row.sources)} + {', '.join(row.events)}{guard} {target}"


@contextmanager
def collecting(coverage: Coverage | None = None) -> Iterator[Coverage]:
    """Count the rows that every machine of this process takes while the block runs.

    Args:
        coverage: what to add to; a new one by default.
    """
    found = Coverage() if coverage is None else coverage
    original: Any = _kernel.step
    note = found.note

    def step(spec: Spec, snapshot: Any, event: Any, context: Any = None) -> Any:
        made = original(spec, snapshot, event, context)
        if made.row is not None:
            note(spec, made.row)
        return made

    with replaced(original, step):
        yield found
