"""Run a thread's core with other machines than the built-in ones: to see what a row or a guard is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from goalfsm._builtin import builtin_spec
from goalfsm._core import commands_of
from goalfsm._ir import Row, Spec
from goalfsm.testing._patching import replaced

__all__ = ["running_specs", "with_row", "without_guard", "without_row"]


@contextmanager
def running_specs(*specs: Spec) -> Iterator[None]:
    """Let every `ThreadCore` of this process run these specs in the place of the built-in ones of their names.

    For tests in one thread: engines that are open see the change too.

    Args:
        specs: whole machines; their guards must be bound.
    """
    given = {spec.machine: spec for spec in specs}
    every = given | {
        name: builtin_spec(name) for name in ("follow_up", "goal", "operation", "turn") if name not in given
    }
    original: Callable[[str], Spec] = builtin_spec

    def builtin_spec_(name: str) -> Spec:
        found = every.get(name)
        return original(name) if found is None else found

    builtin_spec_.__name__ = "builtin_spec"
    with replaced(original, builtin_spec_):
        commands_of.cache_clear()
        try:
            yield
        finally:
            commands_of.cache_clear()


def with_row(spec: Spec, old: Row, new: Row) -> Spec:
    """Give a spec with one row changed."""
    return attrs.evolve(spec, rows=tuple(new if row is old else row for row in spec.rows))


def without_row(spec: Spec, old: Row) -> Spec:
    """Give a spec with one row dropped."""
    return attrs.evolve(spec, rows=tuple(row for row in spec.rows if row is not old))


def without_guard(spec: Spec, name: str, *, answer: bool = True) -> Spec:
    """Give a spec whose guard of that name always answers the same."""
    return spec.bind({name: lambda _snapshot, _event, _context: answer})
