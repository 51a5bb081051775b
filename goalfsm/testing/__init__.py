"""What goalfsm is tested with, for its users to test themselves with. Names are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goalfsm.testing.clock import FakeClock
    from goalfsm.testing.coverage import Coverage, collecting
    from goalfsm.testing.explorer import CONFIGURATIONS, Configuration, Exploration, explore
    from goalfsm.testing.own import SpecExploration, explore_spec
    from goalfsm.testing.specs import running_specs
    from goalfsm.testing.stateful import ThreadLives
    from goalfsm.testing.strategies import cores, events, histories

_HOMES = {
    "clock": ("FakeClock",),
    "coverage": ("Coverage", "collecting"),
    "explorer": ("CONFIGURATIONS", "Configuration", "Exploration", "explore"),
    "own": ("SpecExploration", "explore_spec"),
    "specs": ("running_specs",),
    "stateful": ("ThreadLives",),
    "strategies": ("cores", "events", "histories"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CONFIGURATIONS",
    "Configuration",
    "Coverage",
    "Exploration",
    "FakeClock",
    "SpecExploration",
    "ThreadLives",
    "collecting",
    "cores",
    "events",
    "explore",
    "explore_spec",
    "histories",
    "running_specs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
