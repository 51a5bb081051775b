"""The pytest plugin: a provider, a double, a clock and a journal as fixtures, and counterexamples that people can read.

It is loaded by its entry point in every pytest run of an environment that has goalfsm, so it imports nothing of goalfsm
before a test asks for it. All names begin with `goalfsm_`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from goalfsm._journal import Journal
    from goalfsm.adapters.simulated import Simulated
    from goalfsm.testing.clock import FakeClock
    from goalfsm.testing.double import Double

__all__ = [
    "goalfsm_clock",
    "goalfsm_double",
    "goalfsm_journal",
    "goalfsm_save",
    "goalfsm_simulated",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_makereport",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--goalfsm-save` and `--goalfsm-coverage`."""
    group = parser.getgroup("goalfsm")
    group.addoption(
        "--goalfsm-save",
        metavar="DIR",
        default=None,
        help="Save shrunk counterexamples as regression files (JSONL) in this directory.",
    )
    group.addoption(
        "--goalfsm-coverage",
        metavar="DIR",
        nargs="?",
        const="",
        default=None,
        help="Say which rows of the machines no test took; with DIR, draw them there (DOT and Mermaid).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count rows, if that is asked for."""
    if config.getoption("goalfsm_coverage") is None:
        return
    from goalfsm.testing._counting import Counting  # noqa: PLC0415  see the module's docstring

    config.pluginmanager.register(Counting(config), "goalfsm-coverage")


@pytest.fixture
def goalfsm_save(request: pytest.FixtureRequest) -> Path | None:
    """Where counterexamples are saved, if anywhere: the directory of `--goalfsm-save`."""
    wanted = request.config.getoption("goalfsm_save", None)
    return None if wanted is None else Path(wanted)


@pytest.fixture
def goalfsm_clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    from goalfsm.testing.clock import FakeClock  # noqa: PLC0415  see the module's docstring

    return FakeClock()


@pytest.fixture
def goalfsm_simulated(goalfsm_clock: FakeClock) -> Callable[..., Simulated]:
    """Make simulated providers on the test's clock: `goalfsm_simulated(turn(...), faults=(...), gap=0.01)`."""
    from goalfsm.adapters.simulated import Script, Simulated  # noqa: PLC0415  see the module's docstring

    def make(*turns: Any, faults: Any = (), home: Path | None = None, **script: Any) -> Simulated:
        return Simulated(Script(turns=turns, **script), tuple(faults), clock=goalfsm_clock, home=home)

    return make


@pytest.fixture
def goalfsm_double(tmp_path: Path) -> Iterator[Callable[..., Double]]:
    """Make executable doubles of the app-server: `goalfsm_double(turn(...), faults=(...)).binary`."""
    from goalfsm.adapters.simulated import Script  # noqa: PLC0415  see the module's docstring
    from goalfsm.testing.double import Double  # noqa: PLC0415  see the module's docstring

    with ExitStack() as doubles:
        made: list[Double] = []

        def make(*turns: Any, faults: Any = (), **script: Any) -> Double:
            home = tmp_path / f"app-server-{len(made)}"
            made.append(doubles.enter_context(Double(home, Script(turns=turns, **script), tuple(faults))))
            return made[-1]

        yield make


@pytest.fixture
def goalfsm_journal(tmp_path: Path) -> Journal:
    """A journal in a file of its own, not opened yet; `goalfsm.open(..., journal=goalfsm_journal)` opens it."""
    from goalfsm._journal import open_journal  # noqa: PLC0415  see the module's docstring

    return open_journal(tmp_path / "goalfsm.db")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every case of a `ServerConformance`."""
    if "goalfsm_case" not in metafunc.fixturenames:
        return
    found = getattr(metafunc.cls, "pytest_cases", None)
    if found is not None:
        metafunc.parametrize("goalfsm_case", found(), ids=lambda case: case.name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print a counterexample as its sequence of events, instead of the Python objects that lead to it."""
    del item
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if error is not None and type(error).__name__ == "Counterexample" and type(error).__module__.startswith("goalfsm."):
        report.longrepr = str(error)
    return report
