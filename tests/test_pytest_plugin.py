"""The pytest plugin: fixtures that work by themselves, and counterexamples that a person can read and keep."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from goalfsm.testing.conformance import load_cases

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run(tmp_path):
    """Run a test file with the plugin, in a process and a directory of its own."""

    def go(text, *args):
        (tmp_path / "test_it.py").write_text(text)
        path = os.pathsep.join([str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
        plugin = ["-p", "goalfsm.testing.plugin"] if not _installed() else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *args, "test_it.py"]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)

    return go


def _installed():
    return any(point.value == "goalfsm.testing.plugin" for point in entry_points(group="pytest11"))


def test_the_fixtures_give_a_provider_a_double_a_clock_and_a_journal(run):
    done = run(
        """
import anyio
import goalfsm
from goalfsm.adapters.codex import Codex
from goalfsm.adapters.simulated import complete_goal, say, turn

PLAN = turn(say("done"), complete_goal())

async def goal_on(adapter, journal, clock=None):
    async with goalfsm.open(adapter, journal=journal) as engine:
        thread = await engine.start_thread()
        return (await thread.run_goal("x")).status

def test_simulated(goalfsm_simulated, goalfsm_clock):
    async def go():
        done = []
        async with anyio.create_task_group() as tasks:
            async def play():
                done.append(await goal_on(goalfsm_simulated(PLAN), None))
            tasks.start_soon(play)
            await goalfsm_clock.run_until(lambda: bool(done))
        assert done == ["completed"]
    anyio.run(go)

def test_double_and_journal(goalfsm_double, goalfsm_journal):
    double = goalfsm_double(PLAN)
    assert anyio.run(goal_on, Codex(binary=double.binary), goalfsm_journal) == "completed"
    assert double.requests("thread/goal/set") == 1
"""
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


NAIVE = """
from goalfsm.testing.conformance import ServerConformance
from naive_server import NaiveUnderTest

class TestNaive(ServerConformance):
    random_cases = 0
    shrinking = 3

    def make_server(self):
        return NaiveUnderTest()
"""


def test_a_counterexample_is_printed_as_events_and_saved_as_a_regression_file(run, tmp_path):
    done = run(NAIVE, "-k", "answer-lost or cancel-a-goal or message-in-a-turn", "-rs", "--goalfsm-save", "kept")
    assert "2 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "L1: a message is shown to the model at most once" in done.stdout
    assert "model    is shown m1" in done.stdout
    assert "not judged: the server does not offer cancel" in done.stdout
    for python in ("Traceback", "object at 0x", "Fault(", "Move("):
        assert python not in done.stdout
    [case] = load_cases(tmp_path / "kept" / "L1-doubled.jsonl")
    assert case.moves[0].do == "start_goal"


def test_loading_the_plugin_loads_no_provider_and_no_test_library_of_others(run):
    code = "import goalfsm.testing.plugin, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    loaded = set(done.stdout.split())
    assert "goalfsm.testing.plugin" in loaded
    assert not loaded & {"hypothesis", "goalfsm.adapters.codex", "goalfsm.adapters.simulated", "rich", "click"}
