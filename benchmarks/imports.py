"""Milliseconds that `import goalfsm` adds to a bare interpreter, each time a fresh one, and what it must not load."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import attrs

from benchmarks.measure import Budget

STATEMENTS = {
    "goalfsm": "import goalfsm",
    "goalfsm_core": "from goalfsm import ThreadCore, step",
    "goalfsm_engine": "from goalfsm import open",
    "attrs": "import attrs",
    "asyncio": "import asyncio",
    "transitions": "import transitions",
    "automat": "import automat",
    "sismic": "from sismic.interpreter import Interpreter",
    "python-statemachine": "import statemachine",
    "xstate-statemachine": "import xstate_statemachine",
    "openai_codex": "import openai_codex",
}
MOST = 5
"""Rounds at most: the heaviest peer takes seconds."""
QUICK = ("goalfsm", "goalfsm_core", "attrs")
FOREIGN = ("transitions", "codex_cli_bin", "click", "rich", "hypothesis", "pytest", "structlog", "sqlite3")
"""Providers, CLI and test libraries, and what only an engine needs."""
ROOT = str(Path(__file__).resolve().parents[1])


@attrs.frozen
class Imports:
    """Milliseconds by name of the import, and which foreign modules `import goalfsm` loaded."""

    ms: dict[str, float]
    loaded: tuple[str, ...]

    def budgets(self) -> list[Budget]:
        return [
            Budget("import goalfsm (ms)", self.ms["goalfsm"], 150),
            Budget("provider, CLI and test libraries loaded by it", len(self.loaded), 0),
        ]


def _run(code: str) -> tuple[float, str]:
    began = perf_counter()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    took = perf_counter() - began
    if done.returncode:
        raise ModuleNotFoundError(done.stderr.strip().splitlines()[-1])
    return took * 1000, done.stdout


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Imports:
    found: dict[str, list[float]] = {"": []}
    for _ in range(min(rounds, MOST)):
        for name in ("", *(QUICK if quick else STATEMENTS)):
            try:
                took, _out = _run(STATEMENTS.get(name, "pass"))
            except ModuleNotFoundError:
                continue
            finally:
                tell(name or "bare interpreter")
            found.setdefault(name, []).append(took)
    bare = median(found.pop(""))
    code = f"import goalfsm, sys; print(*[name for name in {FOREIGN!r} if name in sys.modules])"
    return Imports({name: max(0.0, median(took) - bare) for name, took in found.items()}, tuple(_run(code)[1].split()))


def steps(rounds: int) -> int:
    return min(rounds, MOST) * (len(STATEMENTS) + 1)
