"""Breadth-first search over a bounded world: every interleaving, the shortest way to a broken law, and liveness."""

from __future__ import annotations

from collections import deque

import attrs

from goalfsm.testing._laws import broken, unsettled
from goalfsm.testing._moves import Move, free, last_resort, make, moves
from goalfsm.testing._world import World

__all__ = ["Found", "search"]


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


def search(start: World, *, limit: int = 1_000_000) -> Found:
    """Expand every world reachable from `start`, at most `limit`; stop at the first broken law.

    Liveness: from every world some way of free moves leads to a rest in which everything is settled.
    """
    number = {start: 0}
    came: list[tuple[int, Move]] = [(-1, ())]
    depth = [0]
    freely: list[list[int]] = [[]]
    rests: list[int] = []
    todo = deque([start])
    steps = 0

    def report(problem: str, at: int, *last: Move, exhausted: bool = False) -> Found:
        return Found(len(number), steps, max(depth), exhausted, problem, (*_way(came, at), *last))

    while todo:
        world = todo.popleft()
        here = number[world]
        by_itself = set(free(world)) or set(last_resort(world))
        if not by_itself:
            rests.append(here)
            if open_end := unsettled(world):
                return report(f"rest: {open_end}", here)
        for move in moves(world):
            after, happened = make(world, move)
            steps += 1
            problems = [] if happened is None else broken(happened)
            if problems:
                return report("; ".join(problems), here, move)
            there = number.get(after)
            if there is None:
                there = number[after] = len(came)
                came.append((here, move))
                depth.append(depth[here] + 1)
                freely.append([])
                todo.append(after)
            if move in by_itself:
                freely[there].append(here)
        if len(number) > limit:
            return report("", here)
    stuck = _cannot_reach(freely, rests)
    if stuck is not None:
        return report("no way to a rest", stuck)
    return report("", 0, exhausted=True)


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
