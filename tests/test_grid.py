"""Every state, every event, every guard: what the machines do is pinned in files that people read."""

from __future__ import annotations

import difflib

import pytest
from regen_grid import GRID, grid

from goalfsm._builtin import builtin_names, builtin_spec


@pytest.mark.parametrize("machine", builtin_names())
def test_every_event_in_every_state_means_what_the_grid_says(machine):
    pinned = (GRID / f"{machine}.txt").read_text(encoding="utf-8")
    now = grid(builtin_spec(machine))
    difference = "\n".join(
        difflib.unified_diff(pinned.splitlines(), now.splitlines(), "pinned", "now", lineterm="", n=0)
    )
    assert not difference, (
        f"{machine} behaves differently; if that is meant, run `python tests/regen_grid.py`:\n{difference}"
    )


@pytest.mark.parametrize("machine", builtin_names())
def test_the_grid_takes_every_row_that_is_not_hidden_by_an_earlier_guard(machine):
    spec = builtin_spec(machine)
    lines = set((GRID / f"{machine}.txt").read_text(encoding="utf-8").splitlines())
    for row in spec.rows:
        where = [f"{state} {event} -> " for state in row.sources for event in row.events]
        guard = f"[{row.guard}] " if row.guard else ""
        verdict = "moved" if row.kind == "row" else "ignored"
        assert any(line.startswith(f"{start}{guard}{verdict}") for line in lines for start in where), row


def test_there_is_a_grid_for_every_machine_and_no_other():
    assert {path.stem for path in GRID.glob("*.txt")} == set(builtin_names())
