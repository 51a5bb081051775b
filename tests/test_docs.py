"""What the pages say is true: named tests exist, code in them runs as it stands, and so do the examples."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from goalfsm.adapters.simulated import Script, gate, turn
from goalfsm.cli import COMMANDS, main
from goalfsm.testing.double import Double

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUARANTEES = ROOT / "docs" / "guarantees.md"
SECONDS = 60
_NAMED = re.compile(r"`(test_\w+)::(test_\w+)`")
_FILES = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def functions_of(module):
    path = ROOT / "tests" / f"{module}.py"
    assert path.is_file(), f"there is no tests/{module}.py"
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def run(*command, cwd, **env):
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, input="", capture_output=True, text=True, timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page):
    for module, name in _NAMED.findall(page.read_text(encoding="utf-8")):
        assert name in functions_of(module), f"{page.name} names {module}::{name}"


def test_every_promise_names_a_test_that_shows_it():
    promises = GUARANTEES.read_text(encoding="utf-8").partition("## What is not guaranteed")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| promise ")]
    assert len(rows) >= 20
    assert [row for row in rows if not _NAMED.search(row.rpartition(" | ")[2] or row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_exists(page):
    text = page.read_text(encoding="utf-8")
    assert [name for name in _FILES.findall(text) if not (page.parent / name).exists()] == []


def test_the_readmes_python_runs_as_pasted(tmp_path):
    blocks = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for number, block in enumerate(blocks):
        script = tmp_path / f"block{number}.py"
        script.write_text(block, encoding="utf-8")
        done = run(script, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "delivered - echo of item" in done.stdout


def test_every_command_that_the_readme_lists_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `goalfsm (\w+)", text, re.MULTILINE))
    assert listed <= set(COMMANDS)


def test_the_machine_of_ones_own_is_right_and_runs(tmp_path):
    done = run(ROOT / "examples" / "own_machine.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[3:5] for line in done.stdout.splitlines()] == [
        ["moved", "locked"],
        ["moved", "unlocked"],
        ["moved", "locked"],
    ]
    checked = CliRunner().invoke(main, ["check", str(ROOT / "examples" / "turnstile.toml")])
    assert checked.exit_code == 0


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "examples").glob("*.py") if p.name != "own_machine.py"))
def test_an_example_driver_starts_on_a_provider_and_ends_with_its_input(tmp_path, name):
    if "openai_codex" in (ROOT / "examples" / name).read_text(encoding="utf-8"):
        pytest.importorskip("openai_codex")
    with Double(tmp_path / "double", Script(turns=(turn(gate("never")),))) as double:
        home = tmp_path / "home"
        home.mkdir()
        done = run(ROOT / "examples" / name, cwd=tmp_path, APP_SERVER=str(double.binary), GOALFSM_HOME=str(home))
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
