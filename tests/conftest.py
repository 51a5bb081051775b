"""What several test files share: a model on loopback, the real server on it, and the two surfaces."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import entry_points

import pytest
from real_parsers import install
from surfaces import Surface

from goalfsm.adapters.codex import Codex
from goalfsm.adapters.simulated import Script
from goalfsm.testing.double import Double
from goalfsm.testing.mock_model import MockModel, write_codex_home

# An installed goalfsm brings its plugin along; a mere checkout does not.
_installed = any(point.value == "goalfsm.testing.plugin" for point in entry_points(group="pytest11"))
pytest_plugins = () if _installed else ("goalfsm.testing.plugin",)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["async", "sync"])
def surface(request):
    return Surface(request.param)


@pytest.fixture
def model():
    with MockModel() as model:
        yield model


@pytest.fixture
def codex(model, tmp_path):
    home = tmp_path / "home"
    return Codex(cwd=tmp_path, codex_home=home, env=write_codex_home(home, model.port))


@pytest.fixture
def make_double(tmp_path):
    """Doubles of the app-server: `make_double(turn(...), faults=(...), gap=...)` gives one, in a directory of its own."""
    with ExitStack() as doubles:

        def make(*turns, faults=(), **script):
            home = tmp_path / f"double-{len(made)}"
            made.append(doubles.enter_context(Double(home, Script(turns=turns, **script), faults)))
            return made[-1]

        made = []
        yield make


@pytest.fixture(scope="session")
def parsers(request):
    """The real parsers of the diagrams' formats."""
    parsers = install(request.config.cache.mkdir("mermaid"))
    yield parsers
    parsers.close()
