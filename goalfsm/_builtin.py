"""The built-in machines: specs/*.toml bound to their guards and snapshot types, loaded on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from goalfsm._errors import UnknownName
from goalfsm._guards import GUARDS
from goalfsm._kernel import Snapshot
from goalfsm._machines import FollowUp, Goal, Operation, Turn
from goalfsm._spec import Spec, load_spec

__all__ = ["builtin_names", "builtin_spec", "spec_path"]

_SNAPSHOTS: Final[dict[str, type[Snapshot]]] = {
    "goal": Goal,
    "turn": Turn,
    "operation": Operation,
    "follow_up": FollowUp,
}


def _folder() -> Path:
    installed = Path(__file__).parent / "specs"
    # In a checkout the specs stand beside the package; in a wheel, inside it.
    return installed if installed.is_dir() else Path(__file__).parent.parent / "specs"


@cache
def builtin_names() -> tuple[str, ...]:
    """List the built-in machines: one per file in specs/, sorted."""
    return tuple(sorted(path.stem for path in _folder().glob("*.toml")))


def spec_path(name: str) -> Path:
    """Give the file of a built-in machine.

    Raises:
        UnknownName: there is no such machine; the message says which is close.
    """
    if name not in builtin_names():
        raise UnknownName("machine", name, "goalfsm", builtin_names())
    return _folder() / f"{name}.toml"


@cache
def builtin_spec(name: str) -> Spec:
    """Load a built-in machine, with its guards: goal, turn, operation or follow_up.

    Raises:
        UnknownName: there is no such machine; the message says which is close.
    """
    return load_spec(spec_path(name), guards=GUARDS, snapshot_type=_SNAPSHOTS.get(name))
