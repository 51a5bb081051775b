"""The stand-in for `codex app-server` with the kit's hands on it: on pipes in this process, or an executable double."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread
import msgspec

from goalfsm._errors import TransportClosed
from goalfsm.adapters._server import ScriptedServer
from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._history import Seen
from goalfsm.testing.double import Double

__all__ = ["DoubleProvider", "Pipe", "PipeProvider", "Provider", "decoded"]

Watch = Callable[[Seen], None]


class Provider(Protocol):
    """What the kit does with the provider; a server under test uses `binary` or `open`."""

    home: Path

    @property
    def binary(self) -> Path:
        """The executable that stands for `codex`, where the provider is a program."""
        ...

    def open(self, feed: Callable[[bytes], None], closed: Callable[[str], None] = ...) -> Pipe:
        """Start a process in this one, where the provider is on pipes."""
        ...

    async def release(self, gate: str) -> None:
        """Open a gate, for good."""
        ...

    async def kill(self) -> None:
        """Kill the process that runs, if one does."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


class Pipe:
    """A server's side of the pipes to one process of the provider; also a transport for goalfsm's own connection."""

    def __init__(self, provider: PipeProvider, feed: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        self._provider = provider
        self.feed = feed
        self.closed = closed
        self.lines: list[bytes] = []
        self.why_closed = ""

    def write(self, line: bytes) -> None:
        """Write one JSON line; the provider reads it a moment later.

        Raises:
            TransportClosed: the process has ended; no byte was written.
        """
        if self.why_closed:
            raise TransportClosed(self.why_closed)
        self.lines.append(line)
        self._provider.kick()

    async def drain(self) -> None:
        """Return once everything written is in the pipe, which is at once."""

    async def aclose(self, timeout: float = 0.0) -> None:
        """Close it; the process ends, as a real one does when its stdin is closed (facts 8)."""
        del timeout
        self.close()

    def close(self) -> None:
        """Do the same without waiting."""
        if not self.why_closed:
            self._provider.end(self, 0, "closed by the server under test")


class PipeProvider:
    """The scripted app-server in this process, on the running loop's time.

    Args:
        case: its script and faults.
        home: where the server under test and the threads' records have their files.
        watch: gets everything that it notes.
    """

    def __init__(self, case: Case, home: Path, watch: Watch) -> None:
        self.home = home
        self.server = ScriptedServer(case.script, case.faults, home=str(home / "provider"))
        self.server.exited = 0
        self._watch = watch
        self._pipe: Pipe | None = None
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._shown = 0

    # -- for the server under test ------------------------------------------------------------------------------------

    @property
    def binary(self) -> Path:
        """There is none here.

        Raises:
            RuntimeError: always; a server that starts the provider's program says `provider = "binary"`.
        """
        raise RuntimeError(
            'this provider has no program: set provider = "binary" on the SystemUnderTest, or use open()'
        )

    def open(self, feed: Callable[[bytes], None], closed: Callable[[str], None] = lambda _why: None) -> Pipe:
        """Start a process; a former one is killed.

        Args:
            feed: gets each line that the process writes, newline included.
            closed: is told, once, why the process ended.
        """
        if self._pipe is not None:
            self.end(self._pipe, -9, "replaced by a new process")
        self.server.spawn(self._now())
        self._watch({"at": self._now(), "spawned": 0})
        self._pipe = Pipe(self, feed, closed)
        self.kick()
        return self._pipe

    # -- for the kit --------------------------------------------------------------------------------------------------

    async def release(self, gate: str) -> None:
        """Open a gate, for good."""
        self.server.release(gate, self._now())
        self.kick()

    async def kill(self) -> None:
        """Kill the process that runs."""
        if self._pipe is not None:
            self.end(self._pipe, -9, "the provider was killed")

    async def aclose(self) -> None:
        """End what runs."""
        if self._pipe is not None:
            self.end(self._pipe, 0, "the case is over")
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()

    # -- for the pipe -------------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Look at the server in the loop's next round."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._round)

    def end(self, pipe: Pipe, code: int, why: str) -> None:
        """End the process of a pipe: its memory is lost, what it wrote before is still read."""
        if pipe is not self._pipe:
            return
        self.server.exit(code)
        self._pipe = None
        self._carry(pipe)
        pipe.why_closed = why
        self._watch({"at": self._now(), "ended": code})
        asyncio.get_running_loop().call_soon(pipe.closed, why)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _round(self) -> None:
        self._soon = None
        pipe = self._pipe
        if pipe is None:
            return
        lines, pipe.lines = pipe.lines, []
        for line in lines:
            self._watch({"at": self._now(), "read": decoded(line)})
            self.server.receive_line(line, self._now())
            self._note_shown()
        self.server.wake(self._now())
        if self.server.exited is not None:
            self.end(pipe, self.server.exited, f"the provider ended with code {self.server.exited}")
            return
        self._carry(pipe)
        self._set_alarm()

    def _carry(self, pipe: Pipe) -> None:
        self._note_shown()
        self._write_records()
        for line in self.server.outgoing_lines():
            self._watch({"at": self._now(), "told": decoded(line)})
            pipe.feed(line)

    def _note_shown(self) -> None:
        fresh = self.server.disk.shown[self._shown :]
        self._shown += len(fresh)
        for shown in fresh:
            self._watch({"at": self._now(), "shown": shown})

    def _write_records(self) -> None:
        for path, line in self.server.rollout():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with Path(path).open("ab") as record:
                record.write(line)

    def _set_alarm(self) -> None:
        if self._later is not None:
            self._later.cancel()
        due = self.server.next_wakeup()
        self._later = None if due is None else asyncio.get_running_loop().call_at(due, self.kick)


class DoubleProvider:
    """The executable double, for servers that start the provider's program.

    Args:
        case: its script and faults.
        home: where the server under test has its files; the double's are beside it.
        watch: gets everything that it notes, on the event loop.
    """

    def __init__(self, case: Case, home: Path, watch: Watch) -> None:
        self.home = home
        loop = asyncio.get_running_loop()

        def hear(seen: Seen) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the case is over
                loop.call_soon_threadsafe(watch, seen)

        self._double = Double(home / "provider", case.script, case.faults, watch=hear)

    @property
    def binary(self) -> Path:
        """The executable that stands for `codex`."""
        return self._double.binary

    def open(self, feed: Callable[[bytes], None], closed: Callable[[str], None] = lambda _why: None) -> Pipe:
        """There are no pipes in this process.

        Raises:
            RuntimeError: always.
        """
        del feed, closed
        raise RuntimeError("this provider is a program: run `binary`")

    async def release(self, gate: str) -> None:
        """Open a gate, for good; returns when the running process has done so."""
        await anyio.to_thread.run_sync(self._double.release, gate)

    async def kill(self) -> None:
        """Kill the process that runs."""
        with contextlib.suppress(IndexError, ProcessLookupError):
            self._double.kill()

    async def aclose(self) -> None:
        """Let go of the strings; the process ends with the server under test."""
        self._double.close()


def decoded(line: bytes) -> Any:
    """Give a line's JSON value, or its text where it is none."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line.decode(errors="replace")


def now() -> float:
    """Give the machine's time, which the double's process shares."""
    return time.monotonic()
