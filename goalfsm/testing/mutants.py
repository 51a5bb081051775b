"""Every small change of a machine, and what notices it: rows dropped, guards dropped or negated, targets, effects.

A mutant that nothing notices is either a hole in the tests or no change at all; those are declared, with the reason, in
`equivalent.toml` beside this module.
"""

from __future__ import annotations

import random
import signal
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from goalfsm._builtin import builtin_spec, spec_path
from goalfsm._check import static_problems
from goalfsm._errors import GoalfsmError
from goalfsm._ir import Row, Spec
from goalfsm._read import read
from goalfsm.testing._grid import grid
from goalfsm.testing.explorer import Configuration, explore
from goalfsm.testing.specs import running_specs, with_row, without_row

__all__ = ["EXPLORED", "Judged", "Mutant", "equivalents", "judge", "mutants", "sampled"]

Killer = Literal["static", "sequences", "explore", "grid", ""]
Sequences = Callable[[], str]

SECONDS: Final = 30
"""How long one mutant may take before it counts as noticed: a machine that never comes to rest is a broken one."""

WORLDS: Final = 3_000


def _small(rows: Mapping[str, str], budget: str, **more: Any) -> Configuration:
    return Configuration(rows, budget=dict.fromkeys(budget.split(), 1), **{"turns": 1, **more})


EXPLORED: Final = (
    _small({"a": "auto"}, "stop"),
    _small({"a": "auto", "b": "queue"}, "stop lose_answer", start="idle", turns=2),
    _small({}, "start stop refuse", start="idle"),
    _small({"a": "auto"}, "write_twice fence_failed hand_timeout withdraw"),
    _small({"a": "auto"}, "stop fail", echo=False),
    _small({"a": "auto"}, "foreign_word foreign_set"),
    _small({"a": "auto", "b": "auto"}, "refuse release"),
    _small({"a": "auto"}, "stop adopt", start="unread"),
    _small({"a": "auto"}, "death withdraw"),
    _small({"a": "auto"}, "crash release"),
)
"""The small worlds in which a mutant is tried, each up to a few thousand worlds."""


@attrs.frozen
class Mutant:
    """One small change.

    Args:
        name: machine, row and change, in words; the same as long as the row is.
        spec: the changed machine.
        line: where the row stands in its file.
    """

    name: str
    spec: Spec = attrs.field(eq=False, repr=False)
    line: int = 0


@attrs.frozen
class Judged:
    """What became of a mutant: who noticed it (empty: nobody), how, and why it is no change if it is declared so."""

    mutant: Mutant
    killer: Killer
    how: str = ""
    equivalent: str = ""


def mutants(machine: str) -> list[Mutant]:
    """List every mutant of a built-in machine, row by row."""
    spec = builtin_spec(machine)
    found: list[Mutant] = []
    names: set[str] = set()
    for row in spec.rows:
        for change, changed in _changes(spec, row):
            name = f"{machine}: {_label(row)}: {change}"
            while name in names:
                name += " (again)"
            names.add(name)
            found.append(Mutant(name, changed, row.line))
    return found


def _label(row: Row) -> str:
    def some(words: Sequence[str]) -> str:
        return "|".join(words[:2]) + ("|.." if len(words) > 2 else "")  # noqa: PLR2004  two are enough to find it

    kind = "ignore " if row.kind == "ignore" else ""
    return f"{kind}{some(row.sources)} + {some(row.events)}" + (f" [{row.guard}]" if row.guard else "")


def _changes(spec: Spec, row: Row) -> Iterator[tuple[str, Spec]]:
    yield "row dropped", without_row(spec, row)
    if row.guard is not None:
        yield "guard dropped", with_row(spec, row, attrs.evolve(row, guard=None))
        guard = spec.guards[row.guard]
        name = f"not_{row.guard}"
        negated = with_row(spec, row, attrs.evolve(row, guard=name))
        yield "guard negated", negated.bind({name: lambda *asked, guard=guard: not guard(*asked)})
    states = list(spec.states)
    if row.kind == "ignore":
        other = (
            next(state for state in states if state not in row.sources) if len(row.sources) < len(states) else states[0]
        )
        yield f"moves to {other}", with_row(spec, row, attrs.evolve(row, kind="row", to=other))
        return
    if row.to is not None:
        other = states[(states.index(row.to) + 1) % len(states)]
        yield f"to {other} instead of {row.to}", with_row(spec, row, attrs.evolve(row, to=other))
    for effect in row.do:
        left = tuple(name for name in row.do if name != effect)
        yield f"{effect} dropped", with_row(spec, row, attrs.evolve(row, do=left))


def judge(
    mutant: Mutant, *, sequences: Sequences | None = None, explored: Sequence[Configuration] = EXPLORED
) -> Judged:
    """See who notices a mutant: the static check, sequences, small explorations or the pinned grid, in this order.

    Args:
        mutant: the change.
        sequences: runs tests on the machines of the moment, and names the first that fails.
        explored: the bounded worlds.
    """
    killer, how = _noticed(mutant.spec, sequences, explored)
    return Judged(mutant, killer, how, equivalents().get(mutant.name, ""))


def _noticed(spec: Spec, sequences: Sequences | None, explored: Sequence[Configuration]) -> tuple[Killer, str]:
    if found := _static(spec):
        return "static", found
    killer: Killer = "sequences"
    try:
        with running_specs(spec), _hurry():
            if sequences is not None and (name := sequences()):
                return killer, name
            killer = "explore"
            if problem := _violation(explored):
                return killer, problem
    except _TooLongError:
        return killer, f"not at rest after {SECONDS} s"
    except Exception as error:  # noqa: BLE001  a changed machine may break anything, and that is to notice it
        return killer, f"{type(error).__name__}: {error}"
    differs = grid(spec) != grid(builtin_spec(spec.machine))
    return ("grid", "its table differs") if differs else ("", "")


def _violation(explored: Sequence[Configuration]) -> str:
    found = (explore(bounds, limit=WORLDS) for bounds in explored)
    return next((one.problem for one in found if one.verdict == "violated"), "")


def sampled(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw some of the mutants, in their order; the same seed draws the same."""
    chosen = set(random.Random(seed).sample(range(len(found)), min(count, len(found))))  # noqa: S311  no secret
    return [mutant for place, mutant in enumerate(found) if place in chosen]


def _static(spec: Spec) -> str:
    draft, _ = read(spec_path(spec.machine))
    try:
        static_problems(draft, spec, spec.guards)
    except (KeyError, IndexError, GoalfsmError) as error:
        return f"{type(error).__name__}: {error}"
    return str(draft.problems[0].code) if draft.problems else ""


class _TooLongError(BaseException):
    """No test may mistake it for a failure of its own."""


@contextmanager
def _hurry() -> Iterator[None]:
    # Only the main thread of a system with interval timers can be interrupted; elsewhere a mutant may take its time.
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def too_long(_number: int, _frame: Any) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def equivalents() -> dict[str, str]:
    """Give the mutants that are declared to be no change, each with the reason."""
    declared = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text(encoding="utf-8"))
    return {entry["mutant"]: entry["why"] for entry in declared.get("equivalent", [])}
