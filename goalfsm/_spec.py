"""Spec files: a machine is declared in TOML and nowhere else; loading it reports every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import attrs
import msgspec

from goalfsm._check import guard_table, static_problems
from goalfsm._errors import SpecError
from goalfsm._ir import ZERO, EffectDecl, EventDecl, Guard, Problem, Row, Snapshot, Spec, State
from goalfsm._read import read

__all__ = [
    "EffectDecl",
    "EventDecl",
    "Guard",
    "Problem",
    "Row",
    "Snapshot",
    "Spec",
    "State",
    "load_spec",
]

_PYTHON = {"str": str, "int": int, "bool": bool}


def load_spec(
    path: str | Path,
    guards: Mapping[str, Guard] | ModuleType | None = None,
    *,
    snapshot_type: type[Snapshot] | None = None,
) -> Spec:
    """Read a machine from a file and bind its guards.

    Args:
        path: the TOML file.
        guards: the guards by name, or a module whose public functions they are. Without them the spec loads all the
            same (for diagrams and tables); a step that needs one raises.
        snapshot_type: a struct of your own with the machine's data fields; by default one is made.

    Returns:
        The spec, ready for `step`.

    Raises:
        SpecError: with every problem of the file.
        TypeError: the snapshot type lacks a data field of the machine.
    """
    draft, spec = read(path)
    bound = None if guards is None else guard_table(guards)
    if spec is not None:
        spec = static_problems(draft, spec, bound)
    if draft.problems or spec is None:
        raise SpecError(sorted(draft.problems, key=lambda problem: (problem.line, problem.code)))
    used = {name: bound[name] for name in spec.guard_names} if bound is not None else {}
    return attrs.evolve(spec, guards=used, snapshot_type=_snapshot_type(spec, snapshot_type))


def _snapshot_type(spec: Spec, given: type[Snapshot] | None) -> type[Snapshot]:
    if given is not None:
        missing = [field for field in spec.data if field not in given.__struct_fields__]
        if missing:
            raise TypeError(f"{given.__name__} lacks data fields of {spec.machine}: {', '.join(missing)}")
        return given
    fields = [(name, _PYTHON[kind], ZERO[kind]) for name, kind in spec.data.items()]
    name = spec.machine.title().replace("_", "")
    return msgspec.defstruct(name, fields, bases=(Snapshot,), frozen=True, gc=False)  # type: ignore[return-value]
