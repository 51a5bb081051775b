"""`python -m benchmarks` gives the shape that its readers rely on; no test looks at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="not a checkout")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_a_quick_run_of_two_sections_prints_one_object_with_just_their_figures():
    done = run("--quick", "--json", "--only", "kernel,imports")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"attrs", "goalfsm", "attrs_saving", "goalfsm_saving"} <= set(found["kernel"])
    assert found["kernel"]["attrs"] == 1.0
    assert all(ratio > 0 for ratio in found["kernel"].values())
    assert found["import_ms"] >= 0
    assert found["import_foreign"] == []
    assert not {"memory_bytes", "scale", "stream_cpu", "journal"} & set(found)
    assert all({"what", "found", "limit", "least", "met"} == set(budget) for budget in found["budgets"])
    assert "kernel" in done.stderr


def test_the_counts_of_a_kernel_step_are_exact():
    first, second = (
        json.loads(run("--quick", "--json", "--rounds", "1", "--only", "kernel").stdout)["kernel_counts"]
        for _ in range(2)
    )
    for name in ("attrs", "goalfsm", "goalfsm_saving"):
        assert first[name] == second[name]


def test_a_section_that_does_not_exist_is_named_with_those_that_do():
    done = run("--only", "kernle")
    assert done.returncode == 2
    assert "no section 'kernle'" in done.stderr
    assert "kernel" in done.stderr


def test_the_page_says_of_every_section_what_was_measured():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for heading in ("Budgets", "Kernel step", "Live machine", "Live cores", "wire to host", "Journal", "Import"):
        assert heading in page
    assert "{{" not in page
