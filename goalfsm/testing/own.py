"""Explore anybody's own machine: every order of its events, every value of a small domain, every answer of its guards.

Judged without a person's help: a state that owes an answer (`call`) and can never be left, and an event nobody expects
(`anomaly`) where an environment says that it may come. An invariant adds what only the person knows.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs
import msgspec

from goalfsm._errors import GoalfsmError
from goalfsm._ir import Row, Snapshot, Spec
from goalfsm._kernel import Step, Verdict, step
from goalfsm.events import Event

__all__ = ["DOMAIN", "Environment", "Invariant", "SpecExploration", "explore_spec"]

DOMAIN: Final[Mapping[str, tuple[str | int | bool, ...]]] = {
    "str": ("", "a", "b"), "int": (0, 1, 2), "bool": (False, True),
}  # fmt: skip
"""What fields of events hold in the default environment, by type."""

Environment = Callable[[Any], Iterable[Event]]
"""Given a snapshot, the events that may come now."""

Invariant = Callable[[Any, Any, Any], "str | bool | None"]
"""Given (snapshot before, event, kernel step): a sentence or False if something is wrong; None, True or "" if not."""

_Asked = tuple[Event, Mapping[str, bool] | None]


@attrs.frozen
class SpecExploration:
    """What the exploration of one machine found out.

    Args:
        machine: its name.
        verdict: proved, violated or undetermined.
        worlds: how many different snapshots were reached.
        steps: how many events happened.
        depth: the longest shortest way.
        exhausted: whether every snapshot was expanded.
        seconds: how long it took.
        problem: what is wrong, or which bound was hit.
        path: the shortest way there: lines for `goalfsm simulate`.
        unreached: declared states that were never reached.
        untaken: lines of rows that were never taken.
    """

    machine: str
    verdict: Literal["proved", "violated", "undetermined"]
    worlds: int
    steps: int
    depth: int
    exhausted: bool
    seconds: float
    problem: str = ""
    path: tuple[Mapping[str, Any], ...] = ()
    unreached: tuple[str, ...] = ()
    untaken: tuple[int, ...] = ()

    @property
    def worlds_per_s(self) -> float:
        """Snapshots reached per second."""
        return self.worlds / self.seconds if self.seconds else 0.0

    def trace(self) -> str:
        """Give the way as JSON lines for `goalfsm simulate SPEC -`."""
        return "".join(msgspec.json.encode(line).decode() + "\n" for line in self.path)


def explore_spec(
    spec: Spec,
    *,
    environment: Environment | None = None,
    invariant: Invariant | None = None,
    limit: int = 1_000_000,
    seconds: float | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> SpecExploration:
    """Explore one machine from its initial state.

    Args:
        spec: the machine. If all its guards are bound they are asked; else each is answered both ways.
        environment: which events may come; by default every declared one, with every value of `DOMAIN`.
        invariant: what must hold at every step.
        limit: how many snapshots to reach at most.
        seconds: how long to search at most.
        watch: told snapshots, depth and seconds while the search runs.
    """
    search = _Search(spec, environment, invariant)
    began = time.perf_counter()
    while search.todo and not search.problem:
        passed = time.perf_counter() - began
        if len(search.came) > limit or (seconds is not None and passed > seconds):
            break
        search.expand()
        if watch is not None and not search.expanded % 512:
            watch(len(search.came), search.depth[-1], passed)
    return search.report(time.perf_counter() - began)


class _Search:
    def __init__(self, spec: Spec, environment: Environment | None, invariant: Invariant | None) -> None:
        self.spec = spec
        self.asked = all(name in spec.guards for name in spec.guard_names)
        self.environment = environment
        self.invariant = invariant
        start: Snapshot = spec.snapshot()
        self.number = {start: 0}
        self.came: list[tuple[int, Mapping[str, Any]]] = [(-1, {})]
        self.depth = [0]
        self.todo: deque[tuple[int, Snapshot]] = deque([(0, start)])
        self.taken: set[Row] = set()
        self.expanded = self.steps = 0
        self.problem = ""
        self.path: tuple[Mapping[str, Any], ...] = ()
        self.answering: dict[str, Spec] = {}

    def expand(self) -> None:
        here, snapshot = self.todo.popleft()
        self.expanded += 1
        left = False
        for event, answers in self._events(snapshot):
            made = self._step(snapshot, event, answers)
            self.steps += 1
            line = {"name": event.name, **event.fields, **({} if answers is None else {"guards": dict(answers)})}
            if made.row is not None:
                self.taken.add(made.row)
            left = left or made.snapshot.state != snapshot.state
            if wrong := self._wrong(snapshot, event, made):
                self.problem, self.path = wrong, (*self._way(here), line)
                return
            if made.snapshot not in self.number:
                self.number[made.snapshot] = len(self.came)
                self.todo.append((len(self.came), made.snapshot))
                self.came.append((here, line))
                self.depth.append(self.depth[here] + 1)
        if not left and self.spec.states[snapshot.state].kind == "call":
            self.problem = f"{snapshot.state} owes an answer, and nothing that may come leads out of it"
            self.path = self._way(here)

    def _step(self, snapshot: Snapshot, event: Event, answers: Mapping[str, bool] | None) -> Step[Any]:
        try:
            return step(self._bound(answers), snapshot, event)
        except GoalfsmError:
            raise
        except Exception as error:  # a person's guard may raise anything
            what = f"{type(error).__name__}: {error}"
            raise GoalfsmError(
                f"{self.spec.machine}: a guard could not be asked about {event.name} in {snapshot.state} ({what}); "
                "without guards each is answered both ways"
            ) from error

    def _events(self, snapshot: Snapshot) -> Iterator[_Asked]:
        given = self.environment(snapshot) if self.environment is not None else self._any_event()
        for event in given:
            for answers in [None] if self.asked else self._answers(snapshot.state, event.name):
                yield event, answers

    def _any_event(self) -> Iterator[Event]:
        for name, declared in self.spec.events.items():
            for values in itertools.product(*(DOMAIN[kind] for kind in declared.fields.values())):
                yield Event(name, **dict(zip(declared.fields, values, strict=True)))

    def _answers(self, state: str, event: str) -> list[Mapping[str, bool]]:
        # The first guard that holds decides, so each alone and none at all are all the ways there are.
        guards = dict.fromkeys(row.guard for row in self.spec.rows_of(state, event) if row.guard is not None)
        return [*({guard: True} for guard in guards), {}]

    def _bound(self, answers: Mapping[str, bool] | None) -> Spec:
        if answers is None:
            return self.spec
        holds = next(iter(answers), "")
        if holds not in self.answering:
            self.answering[holds] = self.spec.bind(
                {name: (lambda *_, answer=name == holds: answer) for name in self.spec.guard_names}
            )
        return self.answering[holds]

    def _wrong(self, before: Snapshot, event: Event, made: Step[Any]) -> str:
        if self.environment is not None and made.verdict is Verdict.ANOMALY:
            return f"{event.name} may come in {before.state}, and the machine does not expect it"
        if self.invariant is None:
            return ""
        said = self.invariant(before, event, made)
        if said is None or said is True or said == "":
            return ""
        return said if isinstance(said, str) else f"the invariant does not hold after {event.name} in {before.state}"

    def _way(self, at: int) -> tuple[Mapping[str, Any], ...]:
        way: list[Mapping[str, Any]] = []
        while at > 0:
            at, line = self.came[at]
            way.append(line)
        return tuple(reversed(way))

    def report(self, passed: float) -> SpecExploration:
        exhausted = not self.todo and not self.problem
        verdict: Literal["proved", "violated", "undetermined"] = "proved" if exhausted else "undetermined"
        reached = {snapshot.state for snapshot in self.number}
        untaken = [row.line for row in self.spec.rows if row not in self.taken]
        return SpecExploration(
            self.spec.machine, "violated" if self.problem else verdict, len(self.came), self.steps, max(self.depth),
            exhausted, passed, self.problem or ("" if exhausted else "a bound was hit first"), self.path,
            tuple(state for state in self.spec.states if state not in reached), tuple(untaken),
        )  # fmt: skip
