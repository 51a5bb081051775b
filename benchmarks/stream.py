"""One provider notification, from the pipe to the host's loop: CPU of this process, beside the published Python SDK.

Both sides start the same child process, which plays the same recorded goal run, and read the run's logical stream to
its end: goalfsm through its engine (core, journal in memory, readers), the SDK through its private goal stream.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time

import attrs
import msgspec

import goalfsm
from benchmarks.measure import Budget
from benchmarks.traffic import Traffic
from goalfsm.adapters.codex import Codex

TURNS, QUICK_TURNS = 600, 60
PACED_TURNS, PACE_MS = 60, 1.0
SERVER = Path(__file__).with_name("stream_server.py")


@attrs.frozen
class Stream:
    """Microseconds of CPU a notification, by name; `paced` where each one arrives alone."""

    us: dict[str, float]
    paced: dict[str, float]
    ratio: float | None
    paced_ratio: float | None
    notifications: int

    def budgets(self) -> list[Budget]:
        return [] if self.ratio is None else [Budget("a notification, wire to host (x SDK)", self.ratio, 0.6)]


@contextmanager
def server(traffic: Traffic, pace_ms: float) -> Iterator[Path]:
    """Give a program that plays the traffic, whatever arguments it gets."""
    thread = {**traffic.answers["thread/start"]["thread"], "status": {"type": "idle"}}
    answers = {
        **traffic.answers,
        "thread/read": {"thread": thread},
        "thread/goal/clear": {"cleared": False},
        "thread/goal/get": {"goal": None},
        "thread/turns/list": {"data": [], "nextCursor": None},
    }
    with tempfile.TemporaryDirectory() as folder:
        plan, program = Path(folder, "plan.json"), Path(folder, "server")
        plan.write_text(json.dumps({"answers": answers, "lines": traffic.lines}), encoding="utf-8")
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S '{SERVER}' '{plan}' {pace_ms}\n")
        program.chmod(0o755)
        yield program


def by_goalfsm(program: Path) -> tuple[float, int]:
    """CPU seconds from the start of the goal to the end of its stream, and how many events the host saw."""

    async def main() -> tuple[float, int]:
        async with goalfsm.open(Codex(binary=program)) as engine:
            thread = await engine.start_thread()
            began = process_time()
            goal = await thread.start_goal("needs 3 continuations")
            seen = 0
            async for _event in goal.events():
                seen += 1
            return process_time() - began, seen

    return asyncio.run(main())


def by_sdk(program: Path) -> tuple[float, int]:
    """The same with the SDK's goal operation and its logical stream."""
    from openai_codex._goal import _GoalNotificationStream  # noqa: PLC0415  only where it is installed
    from openai_codex.client import CodexClient, CodexConfig  # noqa: PLC0415  as above

    with CodexClient(CodexConfig(launch_args_override=(str(program),))) as client:
        client.initialize()
        thread = client.thread_start().thread.id
        began = process_time()
        state, _turn = client.start_goal_operation(thread, "needs 3 continuations")
        stream = _GoalNotificationStream(
            state,
            lambda: client.next_goal_notification(state),
            lambda: client.unregister_goal_operation(state),
            lambda: None,
        )
        seen = sum(1 for _notification in stream)
        return process_time() - began, seen


def decoding(traffic: Traffic) -> dict[str, float]:
    """The floor under both: decoding the lines only."""
    found = {}
    for name, decode in (("json.loads", json.loads), ("msgspec", msgspec.json.Decoder().decode)):
        lines = [line.encode() for line in traffic.lines]
        began = process_time()
        for line in lines:
            decode(line)
        found[name] = (process_time() - began) / len(lines) * 1e6
    return found


def _rounds(turns: int, pace_ms: float, rounds: int, tell: Callable[[str], None]) -> tuple[dict[str, list[float]], int]:
    traffic = Traffic(turns)
    sides = {"goalfsm": by_goalfsm} | ({"openai_codex": by_sdk} if find_spec("openai_codex") else {})
    found: dict[str, list[float]] = {name: [] for name in sides}
    with server(traffic, pace_ms) as program:
        for side in sides.values():
            # What the first run loads and compiles is not what a notification costs.
            side(program)
        for turn in range(rounds):
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                took, seen = sides[name](program)
                if seen < turns:
                    raise RuntimeError(f"{name} saw only {seen} events")
                found[name].append(took / len(traffic.lines) * 1e6)
                tell(name)
    return found, len(traffic.lines)


def _ratio(found: dict[str, list[float]]) -> float | None:
    if "openai_codex" not in found:
        return None
    return median(ours / theirs for ours, theirs in zip(found["goalfsm"], found["openai_codex"], strict=True))


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Stream:
    burst, lines = _rounds(QUICK_TURNS if quick else TURNS, 0, rounds, tell)
    paced, _ = _rounds(QUICK_TURNS if quick else PACED_TURNS, PACE_MS, 1 if quick else rounds, tell)
    us = {name: median(values) for name, values in burst.items()} | decoding(Traffic(QUICK_TURNS))
    return Stream(us, {name: median(values) for name, values in paced.items()}, _ratio(burst), _ratio(paced), lines)


def steps(rounds: int) -> int:
    return rounds * 4
