"""Breadth-first search over a bounded world: every interleaving, the shortest way to a broken law, and liveness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import msgspec

from goalfsm.testing._laws import broken, unsettled
from goalfsm.testing._making import Move, make
from goalfsm.testing._memo import Key, Memo
from goalfsm.testing._moves import budgeted, by_itself
from goalfsm.testing._world import World

__all__ = ["Found", "search"]

_replace = msgspec.structs.replace

BREATH: Final = 512
GoOn = Callable[[int, int], bool]


@attrs.frozen
class Found:
    """What a search saw.

    Args:
        worlds: how many different worlds were reached.
        steps: how many moves were made.
        depth: the longest shortest way.
        exhausted: whether every reachable world was expanded.
        problem: how a law was broken; empty if none was.
        path: the shortest way there.
    """

    worlds: int
    steps: int
    depth: int
    exhausted: bool
    problem: str = ""
    path: tuple[Move, ...] = ()


class _Map:
    """The worlds reached so far, numbered, with the way to each and the free moves into each."""

    def __init__(self, start: World) -> None:
        self.memo = Memo()
        start = _replace(start, memo=self.memo)
        key = self.memo.key(start)
        self.numbers = {key: 0}
        self.came: list[tuple[int, Move]] = [(-1, ())]
        self.depth = [0]
        self.freely: list[list[int]] = [[]]
        self.rests: list[int] = []
        self.todo = deque([(0, key, self.memo.settle(start, key))])
        self.steps = 0

    def reach(self, key: Key, world: World, here: int, move: Move, *, by_itself: bool) -> None:
        self.steps += 1
        there = self.numbers.setdefault(key, len(self.came))
        if there == len(self.came):
            self.came.append((here, move))
            self.depth.append(self.depth[here] + 1)
            self.freely.append([])
            self.todo.append((there, key, self.memo.settle(world, key)))
        if by_itself:
            self.freely[there].append(here)

    def report(self, problem: str = "", at: int = 0, *last: Move, exhausted: bool = False) -> Found:
        path = (*_way(self.came, at), *last) if problem else ()
        return Found(len(self.came), self.steps, max(self.depth), exhausted, problem, path)


def search(start: World, *, limit: int = 1_000_000, go_on: GoOn | None = None) -> Found:
    """Expand every world reachable from `start`, at most `limit`; stop at the first broken law.

    Liveness: from every world some way of free moves leads to a rest in which everything is settled.

    Args:
        start: the first world.
        limit: how many worlds to reach at most.
        go_on: told the worlds reached and the depth every few hundred worlds; False ends the search.
    """
    seen = _Map(start)
    key_after = seen.memo.key_after
    expanded = 0
    while seen.todo:
        expanded += 1
        if len(seen.came) > limit or (
            go_on is not None and not expanded % BREATH and not go_on(len(seen.came), seen.depth[-1])
        ):
            return seen.report()
        here, key, world = seen.todo.popleft()
        freely = by_itself(world)
        if not freely:
            seen.rests.append(here)
            if open_end := unsettled(world):
                return seen.report(f"rest: {open_end}", here)
        for number, move in enumerate([*freely, *budgeted(world)]):
            after, happened = make(world, move)
            if happened is not None and (problems := broken(happened)):
                return seen.report("; ".join(problems), here, move)
            seen.reach(key_after(after, world, key), after, here, move, by_itself=number < len(freely))
    stuck = _cannot_reach(seen.freely, seen.rests)
    return seen.report(exhausted=True) if stuck is None else seen.report("no way to a rest", stuck)


def _way(came: list[tuple[int, Move]], at: int) -> tuple[Move, ...]:
    way: list[Move] = []
    while at > 0:
        at, move = came[at]
        way.append(move)
    return tuple(reversed(way))


def _cannot_reach(freely: list[list[int]], rests: list[int]) -> int | None:
    seen = set(rests)
    todo = list(rests)
    while todo:
        for before in freely[todo.pop()]:
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return next((world for world in range(len(freely)) if world not in seen), None)
