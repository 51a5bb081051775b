"""The door in process: a Python class with a handful of methods stands for somebody's server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from goalfsm.testing.conformance._door import ORDINARY, CannotJudge, Died, Fate, Refused, fate_of
from goalfsm.testing.conformance._provider import Provider

__all__ = ["InProcess", "SystemUnderTest"]


class SystemUnderTest:
    """Somebody's server, in this process. Override what it offers; one instance serves one case.

    What must survive a crash is kept on the instance, or in files under `provider.home`: after `crash`, `start` is
    called again on the same instance.

    Attributes:
        name: how reports call it.
        provider: how it reaches the provider: `pipe` (`provider.open(feed, closed)` gives a pipe of JSON lines) or
            `binary` (it starts `provider.binary` as its `codex app-server`).
        virtual: time passes only where everybody waits, so that every run is the same; False for a server with threads
            or processes of its own. A server on `binary` runs in real time.
        offers: what it can be asked, of start_goal, submit, stop, cancel, restart, fates and lifecycle.
        fate_words: its own words for a fate, and what they mean (`_door.FATES`).
    """

    name: str = "server"
    provider: ClassVar[Literal["pipe", "binary"]] = "pipe"
    virtual: ClassVar[bool] = True
    offers: frozenset[str] = ORDINARY
    fate_words: Mapping[str, str] = {}

    async def start(self, provider: Provider) -> None:
        """Start it on a provider, with one thread; after a crash, start it again on what it kept."""
        raise NotImplementedError

    async def start_goal(self, objective: str) -> None:
        """Start a goal on its thread; return once it runs, or raise to refuse."""
        raise NotImplementedError

    async def submit(self, message_id: str, text: str, when: str) -> None:
        """Take a follow-up; returning means it is the server's now, raising means it was refused."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Stop what runs; return once it is stopped."""
        raise NotImplementedError

    async def cancel(self) -> None:
        """Cancel the goal's run; return once it is over."""
        raise NotImplementedError

    async def fates(self) -> Mapping[str, str]:
        """Say what became of every message, in the words of `_door.FATES` or of `fate_words`."""
        raise NotImplementedError

    async def lifecycle(self) -> Sequence[tuple[str, str]]:
        """Say which logical turns were published: `("started" | "completed", id)`, in order."""
        raise NotImplementedError

    async def crash(self) -> None:
        """Lose the memory, close nothing politely."""
        raise NotImplementedError

    async def close(self) -> None:
        """End it."""


class InProcess:
    """A `Door` on a `SystemUnderTest`."""

    def __init__(self, server: SystemUnderTest) -> None:
        self.server = server
        self.offers = frozenset(server.offers)
        self._host: asyncio.Task[None] | None = None
        self._wishes: asyncio.Queue[tuple[Callable[[], Awaitable[None]], asyncio.Future[None]]] = asyncio.Queue()

    async def _hosted(self, wish: Callable[[], Awaitable[None]]) -> None:
        # A server may open task groups in start() and leave them in close(): both have to be in one task, outside of
        # the kit's own deadlines.
        if self._host is None:
            self._host = asyncio.create_task(self._live())
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wishes.put_nowait((wish, done))
        await asyncio.wait([done, self._host], return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise Died(f"{self.server.name} ended: {self._host.exception()!r}")
        done.result()

    async def _live(self) -> None:
        while True:
            wish, done = await self._wishes.get()
            try:
                await wish()
            except Exception as problem:  # noqa: BLE001  handed to whoever wished
                outcome: Exception | None = problem
            else:
                outcome = None
            if done.cancelled():
                continue
            if outcome is None:
                done.set_result(None)
            else:
                done.set_exception(outcome)

    async def start(self, provider: Provider) -> None:
        """Start it."""
        try:
            await self._hosted(lambda: self.server.start(provider))
        except Exception as problem:
            raise CannotJudge(f"{self.server.name} could not be started: {_said(problem)}") from problem

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the method; whatever it raises is a refusal."""
        server = self.server
        calls: Mapping[str, Callable[[], Awaitable[None]]] = {
            "start_goal": lambda: server.start_goal(params["objective"]),
            "submit": lambda: server.submit(params["id"], params["text"], params["when"]),
            "stop": server.stop,
            "cancel": server.cancel,
        }
        if word not in calls:
            raise CannotJudge(f"no command {word!r}; known: {', '.join(calls)}")
        try:
            await calls[word]()
        except NotImplementedError as problem:
            raise CannotJudge(f"{self.server.name} offers {word} but has no such method") from problem
        except Exception as problem:
            raise Refused(_said(problem)) from problem
        return {}

    async def fates(self) -> Mapping[str, Fate]:
        """Ask it."""
        try:
            said = dict(await self.server.fates())
        except Exception as problem:
            raise Died(f"fates() failed: {_said(problem)}") from problem
        return {name: fate_of(str(word), self.server.fate_words) for name, word in said.items()}

    async def lifecycle(self) -> Sequence[tuple[str, str]]:
        """Ask it."""
        try:
            return [(str(kind), str(turn)) for kind, turn in await self.server.lifecycle()]
        except Exception as problem:
            raise Died(f"lifecycle() failed: {_said(problem)}") from problem

    async def crash(self) -> None:
        """Let it crash."""
        try:
            await self._hosted(self.server.crash)
        except Exception as problem:
            raise CannotJudge(f"crash() failed: {_said(problem)}") from problem

    async def aclose(self) -> None:
        """Close it."""
        try:
            await self._hosted(self.server.close)
        except Exception:  # noqa: BLE001, S110  the case is over; how it ends is not what is judged
            pass
        finally:
            if self._host is not None:
                self._host.cancel()
                await asyncio.wait([self._host], timeout=1)


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
