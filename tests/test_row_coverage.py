"""Which rows a run took is seen from outside, named where none was, and painted."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from goalfsm import Event, builtin_spec, diagrams, load_spec
from goalfsm._core import ThreadCore
from goalfsm._machines import Goal, Turn
from goalfsm.events import Stop, Submit, TurnStarted
from goalfsm.testing.coverage import Coverage, collecting

ROOT = Path(__file__).resolve().parents[1]


def lives():
    core = ThreadCore(goal=Goal("none"), turn=Turn("idle"), epoch=1, recon=True)
    for event in (TurnStarted("t1"), Submit("a"), Stop()):
        core = core.handle(event).core


def test_rows_are_counted_while_the_block_runs_and_not_after_it():
    with collecting() as coverage:
        lives()
    taken = {covered.machine: covered.taken for covered in coverage.machines()}
    lives()
    assert taken == {covered.machine: covered.taken for covered in coverage.machines()}
    assert (taken["turn"], taken["operation"]) == (2, 0)


def test_what_was_never_taken_is_named_with_its_line():
    with collecting() as coverage:
        lives()
    (goal,) = [covered for covered in coverage.machines() if covered.machine == "goal"]
    assert (goal.taken, len(goal.never)) == (0, goal.rows)
    assert any("goal_active" in words and words.startswith("line ") for words in goal.never)
    assert f"0 of  {goal.rows} rows" in coverage.report()


def test_a_machine_of_ones_own_is_counted_too(tmp_path):
    path = tmp_path / "lamp.toml"
    path.write_text(
        'schema = 1\nmachine = "lamp"\ninitial = "dark"\nunlisted = { command = "reject" }\n[states]\n'
        'dark = { doc = "off" }\nlit = { doc = "on" }\n[events]\npress = { origin = "command", doc = "p" }\n'
        '[transitions]\nrows = [\n{ from = ["dark"], event = ["press"], to = "lit", why = "on" },\n'
        '{ from = ["lit"], event = ["press"], to = "dark", why = "off" },\n]\n'
    )
    spec = load_spec(path)
    with collecting() as coverage:
        from goalfsm._kernel import step  # noqa: PLC0415  as a module does that is imported later

        step(spec, spec.snapshot(), Event("press"))
    (lamp,) = [covered for covered in coverage.machines() if covered.machine == "lamp"]
    assert (lamp.taken, lamp.rows) == (1, 2)
    drawn = diagrams.dot(spec, taken=coverage.taken(spec))
    assert drawn.count("dashed") == 1
    assert diagrams.mermaid(spec, taken=coverage.taken(spec)).count("never taken") == 1


def test_counts_of_two_processes_add_up():
    with collecting() as one:
        lives()
    both = Coverage()
    both.add(one.numbers())
    both.add(one.numbers())
    assert both.taken(builtin_spec("turn")) == one.taken(builtin_spec("turn"))
    row = next(iter(one.taken(builtin_spec("turn"))))
    assert both.count("turn", row) == 2 * one.count("turn", row)


def test_drawn_machines_are_as_ever_when_nothing_is_counted():
    for name in ("goal", "turn"):
        assert "never taken" not in diagrams.dot(builtin_spec(name))


def test_pytest_says_what_no_test_took_and_draws_it(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "from goalfsm._core import ThreadCore\nfrom goalfsm.events import GoalActive\n\n\n"
        "def test_one():\n    ThreadCore().handle(GoalActive('g'))\n"
    )
    installed = any(point.value == "goalfsm.testing.plugin" for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "goalfsm.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "--goalfsm-coverage=drawn"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "goalfsm: rows taken" in done.stdout
    goal = len(builtin_spec("goal").rows)
    assert f"goal           1 of {goal:3} rows taken" in done.stdout
    assert "never: line" in done.stdout
    assert (tmp_path / "drawn" / "goal.dot").read_text().startswith("digraph")
