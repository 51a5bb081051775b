"""Write tests/grid/*.txt: what every event means in every state, for each guard that may hold.

    python tests/regen_grid.py

Run it after a deliberate change of a spec, and read the difference before you keep it.
"""

from __future__ import annotations

from pathlib import Path

from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm.testing._grid import grid

__all__ = ["GRID", "grid"]

GRID = Path(__file__).parent / "grid"


def main() -> None:
    """Write the grid of every built-in machine."""
    GRID.mkdir(exist_ok=True)
    for name in builtin_names():
        spec = builtin_spec(name)
        (GRID / f"{name}.txt").write_text(grid(spec), encoding="utf-8")


if __name__ == "__main__":
    main()
