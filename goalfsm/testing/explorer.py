"""Explore a bounded world around the core: every interleaving of people, provider and faults, and what comes of it.

Three verdicts: `proved` (every world within the stated bounds was expanded, no law broken, and from each of them
everything can still be settled), `violated` (with the shortest way there), and `undetermined` (a bound of this search
was hit first, which proves nothing).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import attrs
import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._kernel import Verdict
from goalfsm._sequence import Change, Moment, sequence
from goalfsm.testing._configurations import CONFIGURATIONS, Configuration
from goalfsm.testing._faults import FAULTS
from goalfsm.testing._laws import broken
from goalfsm.testing._making import Move, make
from goalfsm.testing._moves import COMMANDS
from goalfsm.testing._search import Found, search
from goalfsm.testing._world import Happened, begin

__all__ = ["BUDGETS", "CONFIGURATIONS", "Configuration", "Exploration", "Told", "explore", "read_trace", "retell"]

BUDGETS: Final = tuple(sorted({*COMMANDS - {"observed_send", "submit"}, *FAULTS, "expire", "submit_auto",
                               "submit_steer", "submit_queue"}))  # fmt: skip
"""What a configuration's budget can name."""

Watch = Callable[[int, int, float], None]


@attrs.frozen
class Told:
    """One move of a way: what happened in the world, and what the core was told and did, if it was told anything."""

    move: Move
    happened: Happened | None


@attrs.frozen
class Exploration:
    """What an exploration found out.

    Args:
        name: the configuration's name, or `custom`.
        configuration: the bounds.
        verdict: proved, violated or undetermined.
        worlds: how many different worlds were reached.
        steps: how many moves were made.
        depth: the longest shortest way.
        exhausted: whether every reachable world was expanded.
        seconds: how long it took.
        problem: how a law was broken, or which bound was hit.
        path: the shortest way to the violation.
    """

    name: str
    configuration: Configuration
    verdict: Literal["proved", "violated", "undetermined"]
    worlds: int
    steps: int
    depth: int
    exhausted: bool
    seconds: float
    problem: str = ""
    path: tuple[Move, ...] = ()

    @property
    def worlds_per_s(self) -> float:
        """Worlds reached per second."""
        return self.worlds / self.seconds if self.seconds else 0.0

    def told(self) -> list[Told]:
        """Walk the way to the violation again, with what the core was told on it."""
        return list(retell(self.configuration, self.path))

    def trace(self) -> str:
        """Give the way as JSON lines that `read_trace` and `goalfsm explore --replay` take."""
        head = {"goalfsm": "explore", "name": self.name, **self.configuration.arguments(), "problem": self.problem}
        return "".join(msgspec.json.encode(line).decode() + "\n" for line in (head, *map(_line, self.told())))

    def diagram(self) -> str:
        """Draw the way as a Mermaid sequence diagram."""
        return sequence(_moments(self.name, self.told()))


def explore(
    configuration: Configuration | str,
    *,
    limit: int = 1_000_000,
    seconds: float | None = None,
    watch: Watch | None = None,
) -> Exploration:
    """Explore one bounded world.

    Args:
        configuration: the bounds, or the name of some in `CONFIGURATIONS`.
        limit: how many worlds to reach at most.
        seconds: how long to search at most; the last look at liveness may take a little longer.
        watch: told worlds, depth and seconds while the search runs.

    Raises:
        UnknownName: there is no such configuration, or a budget names what cannot happen.
    """
    name = configuration if isinstance(configuration, str) else "custom"
    bounds = _named(configuration) if isinstance(configuration, str) else configuration
    for word in bounds.budget:
        if word not in BUDGETS:
            raise UnknownName("fault or command", word, "explore", BUDGETS)
    began = time.perf_counter()

    def go_on(worlds: int, depth: int) -> bool:
        passed = time.perf_counter() - began
        if watch is not None:
            watch(worlds, depth, passed)
        return seconds is None or passed < seconds

    collecting = gc.isenabled()
    # Nothing in a search is cyclic, and millions of small values make every collection long.
    gc.disable()
    try:
        found = search(begin(**bounds.arguments()), limit=limit, go_on=go_on)
    finally:
        if collecting:
            gc.enable()
    return _judged(name, bounds, found, time.perf_counter() - began, limit)


def _named(name: str) -> Configuration:
    try:
        return CONFIGURATIONS[name]
    except KeyError:
        raise UnknownName("configuration", name, "explore", CONFIGURATIONS) from None


def _judged(name: str, bounds: Configuration, found: Found, passed: float, limit: int) -> Exploration:
    verdict: Literal["proved", "violated", "undetermined"] = "proved" if found.exhausted else "undetermined"
    problem = found.problem
    if problem:
        verdict = "violated"
    elif not found.exhausted:
        bound = f"{limit} worlds" if found.worlds > limit else "the time given"
        problem = f"not finished within {bound}"
    return Exploration(
        name, bounds, verdict, found.worlds, found.steps, found.depth, found.exhausted, passed, problem, found.path
    )


# -- ways --------------------------------------------------------------------------------------------------------------


def retell(configuration: Configuration, path: Iterable[Move]) -> Iterator[Told]:
    """Make the moves of a way again, from the first world of a configuration.

    Raises:
        GoalfsmError: a move of it is not possible there.
    """
    world = begin(**configuration.arguments())
    for place, move in enumerate(path, start=1):
        try:
            world, happened = make(world, move)
        except (IndexError, KeyError, TypeError) as error:
            raise GoalfsmError(f"move {place}, {move}, is not possible there") from error
        yield Told(move, happened)


def read_trace(text: str) -> tuple[Configuration, list[Move], list[str]]:
    """Read a trace and make its moves again.

    Returns:
        The bounds, the moves, and the laws that the last of them break.

    Raises:
        GoalfsmError: it is no trace of an exploration.
    """
    try:
        head, *rest = [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        fields = {field.name: head[field.name] for field in attrs.fields(Configuration)}
        moves = [_move(line["move"]) for line in rest]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise GoalfsmError(f"not a trace of `goalfsm explore`: {error}") from error
    configuration = Configuration(**fields)
    problems: list[str] = []
    for told in retell(configuration, moves):
        problems += broken(told.happened) if told.happened is not None else []
    return configuration, moves, problems


def _move(words: list[Any]) -> Move:
    return tuple(ev.decode(word) if isinstance(word, dict) else word for word in words)


def _line(told: Told) -> Mapping[str, Any]:
    words = [ev.encode(word) if isinstance(word, ev.TypedEvent) else word for word in told.move]
    line: dict[str, Any] = {"move": words}
    if told.happened is not None:
        step = told.happened.step
        line["event"] = ev.encode(told.happened.event)
        line["moves"] = [
            [move.machine, move.id, move.source, move.target] for move in step.moves if move.source != move.target
        ]
        line["effects"] = [fx.encode(effect) for effect in step.effects]
    return line


def _moments(name: str, way: list[Told]) -> Iterator[Moment]:
    for place, told in enumerate(way, start=1):
        if told.happened is None:
            continue
        step = told.happened.step
        yield Moment(
            name,
            str(place),
            ev.encode(told.happened.event),
            tuple(Change(m.machine, m.id, m.source, m.target) for m in step.moves if m.source != m.target),
            tuple(fx.encode(effect) for effect in step.effects),
            tuple(
                f"{judged.machine} is {judged.state}, {judged.event}"
                for judged in step.verdicts
                if judged.verdict in (Verdict.ANOMALY, Verdict.STALE)
            ),
        )
