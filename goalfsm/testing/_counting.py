"""`pytest --goalfsm-coverage`: count the rows that a test run takes, in every worker, and report them at its end."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from goalfsm.testing.coverage import Coverage, collecting

__all__ = ["Counting"]

_KEY = "goalfsm_coverage"


class Counting:
    """The hooks of a run that counts."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.coverage = Coverage()
        self._open = ExitStack()
        self._open.enter_context(collecting(self.coverage))

    def pytest_sessionfinish(self) -> None:
        """Stop; a worker of pytest-xdist hands its counts on."""
        self._open.close()
        output: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = self.coverage.numbers()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the counts of a worker of pytest-xdist."""
        self.coverage.add(getattr(node, "workeroutput", {}).get(_KEY, []))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was taken, and draw it if there is a directory for it."""
        folder = self.config.getoption("goalfsm_coverage")
        terminalreporter.section("goalfsm: rows taken")
        terminalreporter.write_line(self.coverage.report())
        if folder:
            for path in self.coverage.draw(Path(folder)):
                terminalreporter.write_line(f"written: {path}")
