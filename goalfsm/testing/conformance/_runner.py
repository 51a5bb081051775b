"""Runs one case against one server, on either door, and judges what was seen."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel

from goalfsm.testing.conformance import _virtual
from goalfsm.testing.conformance._case import Case, Move
from goalfsm.testing.conformance._door import CannotJudge, Died, Door, Fate, Refused
from goalfsm.testing.conformance._history import History, marked
from goalfsm.testing.conformance._judging import Judged, judge
from goalfsm.testing.conformance._provider import Provider, now
from goalfsm.testing.conformance._target import Target

__all__ = ["run_case"]

_SETTLED: Final = frozenset({"delivered", "returned", "uncertain", "discarded", "held"})


class _NotOffered(Exception):
    """The server does not offer what the case needs."""


class _NotSo(Exception):
    """What a move waited for did not come."""


class _Run:
    """One case on its way."""

    def __init__(self, target: Target, case: Case, history: History, provider: Provider, door: Door) -> None:
        self.bounds = target.bounds
        self.case = case
        self.history = history
        self.provider = provider
        self.door = door
        self.snapshots: list[tuple[str, Mapping[str, Fate]]] = []
        self.lifecycle: list[tuple[str, str]] | None = None
        self.problem = ""
        self.died = ""
        self.not_offered = ""
        self._open = 0
        self._asking: set[anyio.CancelScope] = set()

    async def go(self, tasks: anyio.abc.TaskGroup) -> None:
        """Do every move, then let everything come to rest and ask for the fates."""
        try:
            self._check_needs()
            await self._start()
            self._check_needs()  # a black box says only now what it offers
            for move in self.case.moves:
                await self._do(move, tasks)
            await self._rest()
        except _NotSo as problem:
            self.problem = str(problem)
            with contextlib.suppress(CannotJudge):
                await self._rest()
        except _NotOffered as missing:
            self.not_offered = str(missing)
        except Died as problem:
            self.died = self.problem = str(problem)
        except CannotJudge as problem:
            self.problem = str(problem)

    def _check_needs(self) -> None:
        missing = self.case.needs - self.door.offers
        if missing:
            raise _NotOffered(f"the server does not offer {', '.join(sorted(missing))}")

    async def _start(self) -> None:
        with anyio.move_on_after(self.bounds.start):
            await self.door.start(self.provider)
            return
        raise CannotJudge(f"the server did not start within {self.bounds.start:g} s")

    # -- moves --------------------------------------------------------------------------------------------------------

    async def _do(self, move: Move, tasks: anyio.abc.TaskGroup) -> None:
        match move.do:
            case "start_goal" | "submit" | "stop" | "cancel":
                if move.answered:
                    await self._ask(move)
                else:
                    self._open += 1
                    tasks.start_soon(self._ask_open, move)
                    await anyio.lowlevel.checkpoint()
            case "fates":
                await self._fates()
            case "restart":
                await self._restart()
            case "release":
                self.history.did("gate", move.name)
                await self.provider.release(move.name)
            case "kill_provider":
                self.history.did("kill")
                ended = self.history.count("ended")
                await self.provider.kill()
                await self.history.until(lambda: self.history.count("ended") > ended, 1.0)
            case "wait":
                await anyio.sleep(self.bounds.answer if move.name == "answer" else move.seconds)
            case _:
                await self._until(move)

    async def _ask(self, move: Move) -> None:
        params: dict[str, Any] = {}
        if move.do == "start_goal":
            params = {"objective": move.text or "make the tests green"}
        elif move.do == "submit":
            params = {"id": move.name, "text": marked(move.name, move.text), "when": move.when}
        ask = self.history.asked(move.do, messages=(move.name,) if move.do == "submit" else (), when=move.when)
        own: dict[str, Any] = {"messages": (move.name,)} if move.do == "submit" else {}
        try:
            with anyio.move_on_after(self.bounds.command):
                await self.door.ask(move.do, params)
                self.history.said("answered", move.do, ask, **own)
                return
        except Refused as refusal:
            self.history.said("refused", move.do, ask, error=str(refusal), **own)
            return
        self.history.said("hung", move.do, ask, **own)
        raise CannotJudge(f"no answer to {move.do} within {self.bounds.command:g} s")

    async def _ask_open(self, move: Move) -> None:
        scope = anyio.CancelScope()
        self._asking.add(scope)
        try:
            with scope:
                await self._ask(move)
        except CannotJudge as problem:
            self.problem = self.problem or str(problem)
            self.died = self.died or (str(problem) if isinstance(problem, Died) else "")
        finally:
            self._asking.discard(scope)
            self._open -= 1

    async def _fates(self) -> Mapping[str, Fate]:
        if "fates" not in self.door.offers:
            return {}
        ask = self.history.asked("fates")
        with anyio.move_on_after(self.bounds.command):
            fates = await self.door.fates()
            self.history.said(
                "answered", "fates", ask, fates={name: fate.raw or fate.state for name, fate in fates.items()}
            )
            self.snapshots.append((ask, fates))
            return fates
        self.history.said("hung", "fates", ask)
        raise CannotJudge(f"no answer to fates within {self.bounds.command:g} s")

    async def _restart(self) -> None:
        self.history.did("crash")
        for scope in tuple(self._asking):
            # What a killed server was asked gets no answer, and that is not what it is judged by.
            scope.cancel()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(self.bounds.command):
            await self.door.crash()
            # Two processes of the provider on one disk is another situation, and nobody asked for it.
            await self.history.until(self._provider_is_gone, 2.0)
            await self._start()
            return
        raise CannotJudge(f"the server did not restart within {self.bounds.command:g} s")

    def _provider_is_gone(self) -> bool:
        return self.history.count("ended") >= self.history.count("spawned")

    async def _until(self, move: Move) -> None:
        history, word = self.history, move.name
        holds: Mapping[str, Callable[[], bool]] = {
            "until_read": lambda: history.count("read", word) >= move.n,
            "until_told": lambda: history.count("told", word) >= move.n,
            "until_turn": lambda: history.count("told", "turn/started") >= move.n,
            "until_ended": lambda: history.count("told", "turn/completed") >= move.n,
            "until_shown": lambda: history.count("shown", message=word) >= move.n,
        }
        if not await history.until(holds[move.do], self.bounds.until):
            refusals = [f"{e.word} was refused: {e.error}" for e in history.entries if e.kind == "refused"]
            raise _NotSo("; ".join([f"{move} did not come to be within {self.bounds.until:g} s", *refusals]))

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        bounds = self.bounds
        for gate in self.case.gates:
            await self.provider.release(gate)
        await self.history.until(lambda: not self._open, bounds.command)
        await self.history.until_quiet(bounds.quiet, bounds.settle)
        with anyio.move_on_after(bounds.settle):
            while not await self._settled():
                await self.history.until_quiet(bounds.quiet / 2, bounds.quiet)
                await anyio.sleep(bounds.quiet / 2)
        await self._fates()
        if "lifecycle" in self.door.offers:
            with anyio.move_on_after(bounds.command):
                self.lifecycle = list(await self.door.lifecycle())

    async def _settled(self) -> bool:
        # Asked without leaving a trace: only what is said last, or where a case asks, is held against the server.
        if "fates" not in self.door.offers:
            return True
        fates = await self.door.fates()
        taken = {m for entry in self.history.entries if entry.kind == "answered" for m in entry.messages}
        return all(fates.get(message, Fate("")).state in _SETTLED for message in taken)


def run_case(target: Target, case: Case) -> Judged:
    """Run a case against a server, bounded in time whatever the server does, and judge it."""
    with tempfile.TemporaryDirectory(prefix="goalfsm-conform-", ignore_cleanup_errors=True) as directory:
        try:
            return _virtual.run(
                lambda: _conduct(target, case, Path(directory)), virtual=target.virtual, bound=target.bounds.real
            )
        except _virtual.Hung as hung:
            return Judged.undetermined(case, f"the server hangs: {hung}")


async def _conduct(target: Target, case: Case, home: Path) -> Judged:
    history = History(_virtual.LoopClock().monotonic if target.virtual else now)
    provider = target.provider(case, home, history.saw)
    try:
        door = target.door(home)
    except CannotJudge as problem:
        await provider.aclose()
        return Judged.undetermined(case, str(problem))
    run = _Run(target, case, history, provider, door)
    try:
        limit = target.bounds.whole(target.virtual)
        with anyio.move_on_after(limit) as scope:
            async with anyio.create_task_group() as tasks:
                await run.go(tasks)
                tasks.cancel_scope.cancel()
        if scope.cancelled_caught:
            run.problem = f"the case took longer than {limit:g} s"
        seen = history.sorted()  # the end that the kit makes of it is no part of it
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(10):
                await door.aclose()
            await provider.aclose()
    if run.not_offered:
        return Judged.not_judged(case, run.not_offered)
    return judge(
        case, seen, run.snapshots, run.lifecycle, offers=door.offers, slack=target.bounds.slack,
        problem=run.problem, died=run.died,
    )  # fmt: skip
