"""The short soak: hosts of the real app-server killed at every named point, and not one message lost, doubled or misjudged.

The long one is `python -m benchmarks.crash_soak --kills 500`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from goalfsm.testing.crash import POINTS

ROOT = Path(__file__).resolve().parents[1]
KILLS = 25


@pytest.mark.app_server
def test_after_kills_at_every_point_no_message_is_lost_doubled_or_misjudged():
    command = [sys.executable, "-m", "benchmarks.crash_soak", "--kills", str(KILLS), "--seed", "7", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert {key: told[key] for key in ("lost", "doubled", "wrong_verdicts", "failures")} == {
        "lost": 0,
        "doubled": 0,
        "wrong_verdicts": 0,
        "failures": [],
    }, done.stderr
    assert done.returncode == 0
    assert told["kills"] >= KILLS
    assert [point for point in POINTS if not told["by_point"][point]["kills"]] == []
    assert told["messages"] > KILLS
    # Where nobody can know, it is said why.
    assert all("looking back did not decide it" in reason for reason in told["why_uncertain"])
