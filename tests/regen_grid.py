"""Write tests/grid/*.txt: what every event means in every state, for each guard that may hold.

    python tests/regen_grid.py

Run it after a deliberate change of a spec, and read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._kernel import step
from goalfsm._spec import Spec
from goalfsm.events import Event

GRID = Path(__file__).parent / "grid"
ZERO = {"str": "", "int": 0, "bool": False}


def grid(spec: Spec) -> str:
    """Give the text of a machine's grid: one line per state, event and answer of its guards, sorted.

    Each guard of the pair is tried as the only one that holds (so the rows behind an earlier guard show as well), then
    none of them. The steps are really taken: this is what the kernel does, not what the file says.
    """
    lines = []
    for state in spec.states:
        for name in spec.events:
            guards = dict.fromkeys(row.guard for row in spec.rows_of(state, name) if row.guard)
            lines += [_line(spec, state, name, holds) for holds in (*guards, "")]
    return "\n".join(sorted(lines)) + "\n"


def _line(spec: Spec, state: str, name: str, holds: str) -> str:
    answered = spec.bind({guard: lambda *_, guard=guard: guard == holds for guard in spec.guard_names})
    fields = {field: ZERO[kind] for field, kind in spec.events[name].fields.items()}
    made = step(answered, answered.snapshot(state), Event(name, **fields))
    line = f"{state} {name} -> {f'[{holds}] ' if holds else ''}{made.verdict}"
    if made.verdict == "moved":
        line += f" {made.snapshot.state} {' '.join(made.effects)}".rstrip()
    return line


def main() -> None:
    """Write the grid of every built-in machine."""
    GRID.mkdir(exist_ok=True)
    for name in builtin_names():
        spec = builtin_spec(name)
        (GRID / f"{name}.txt").write_text(grid(attrs.evolve(spec)), encoding="utf-8")


if __name__ == "__main__":
    main()
