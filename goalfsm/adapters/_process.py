"""A child process that speaks lines on its pipes: written to at once, read in big pieces, ended without leftovers.

The pipes are raw and non-blocking, because a granted message must be on its way before anything else can happen
(composition §7): `write` is an `os.write` right now.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import anyio

from goalfsm._errors import TransportClosed

__all__ = ["ProcessTransport"]

_CHUNK = 1 << 18
_TAIL_LINES = 20
# Last words that say nothing: blank lines and the frames of a stack.
_FRAME = re.compile(r"\s*(?:\d+: .*|at .*|Stack backtrace:)?\s*")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_TAIL_BYTES = 8192
_EXIT_POLL = 0.05
# After its end of output a server has this long to exit by itself, so that its return code can be told.
_LINGER = 2.0


class ProcessTransport:
    """Implements `Transport` over a child process in a group of its own, so that none of its children outlives it.

    Args:
        command: program and arguments.
        env: the whole environment.
        name: what to call it in reasons.

    Raises:
        TransportClosed: it cannot be started.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], name: str) -> None:
        self._name = name
        try:
            # A session of its own also keeps a terminal's Ctrl-C away: pausing first is our part.
            self._process = subprocess.Popen(  # noqa: S603  the host chose the program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                bufsize=0,
                start_new_session=True,
            )
        except OSError as problem:
            raise TransportClosed(f"{name} could not be started: {command[0]}: {problem.strerror}") from problem
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        self._backlog = bytearray()
        self._flushed = anyio.Event()
        self._flushed.set()
        self._flusher: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._err_rest = b""
        self._rest = bytearray()
        self._over = False
        self._asked_to_end = False
        self._feed: Callable[[bytes], None] = lambda _line: None
        self._closed: Callable[[str], None] = lambda _reason: None
        self._life: asyncio.Task[None] | None = None
        self._exited = anyio.Event()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def start(self, feed: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        """Begin to read: every line goes to `feed`, the end to `closed`, once and after the last line."""
        self._feed, self._closed = feed, closed
        # A plain task: the process lives until `aclose`, longer than any scope it could be started in.
        self._life = asyncio.get_running_loop().create_task(self._live())

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, line: bytes) -> None:
        """Write now as much as the pipe takes; the rest goes out in the background, in order."""
        if self._over or self._in < 0:
            raise TransportClosed(f"{self._name} is not running")
        if self._backlog:
            self._backlog += line
            return
        try:
            sent = os.write(self._in, line)
        except BlockingIOError:
            sent = 0
        except OSError as problem:
            raise TransportClosed(f"{self._name} takes no more input: {problem.strerror}") from problem
        if sent < len(line):
            self._backlog += line[sent:]
            self._flushed = anyio.Event()
            self._flusher = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._backlog:
                await anyio.wait_writable(self._in)
                with contextlib.suppress(BlockingIOError):
                    del self._backlog[: os.write(self._in, self._backlog[:_CHUNK])]
        except (OSError, ValueError, anyio.ClosedResourceError, anyio.BusyResourceError):
            # The reader sees the end too, and reports it; what was in flight is uncertain by then.
            self._backlog.clear()
        finally:
            self._flushed.set()

    async def drain(self) -> None:
        """Return once nothing is left to flush, or nothing can be."""
        await self._flushed.wait()

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read, self._err, self._take_err)
                group.start_soon(self._follow)
                await self._wait_exit()
                group.cancel_scope.cancel()
        finally:
            # Also when the event loop is torn down under us: no child may stay.
            await self._stop_flusher()
            self._finish()

    async def _follow(self) -> None:
        await self._read(self._out, self._take)
        # No output, no server: it may finish by itself, but not for ever.
        await anyio.sleep(_LINGER)
        self._signal(signal.SIGKILL)

    async def _read(self, fd: int, take: Callable[[bytes], None]) -> None:
        ended = anyio.Event()

        def ready() -> None:
            data = _read_some(fd)
            if data == b"":
                ended.set()
            elif data is not None:
                take(data)

        # Registered once: to wait anew for every piece costs two system calls and a turn of the loop more.
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, ready)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(fd)

    def _take(self, data: bytes) -> None:
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._rest:
                self._rest += data[start:end]
                line, self._rest = bytes(self._rest), bytearray()
            else:
                line = data[start:end]
            start = end + 1
            self._feed(line)
        self._rest += data[start:]

    def _take_err(self, data: bytes) -> None:
        *lines, self._err_rest = (self._err_rest + data).split(b"\n")
        self._err_rest = self._err_rest[-_TAIL_BYTES:]
        self._tail.extend(line[-_TAIL_BYTES:].decode(errors="replace") for line in lines if line.strip())

    async def _wait_exit(self) -> None:
        if hasattr(os, "pidfd_open"):
            fd = os.pidfd_open(self._process.pid)
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
        else:
            while not self._has_exited():  # noqa: ASYNC110  where there is no pidfd nothing tells
                await anyio.sleep(_EXIT_POLL)

    def _has_exited(self) -> bool:
        # Looked at but not reaped, so that its group id stays its own.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _finish(self) -> None:
        # Not reaped yet, so its group id cannot be anybody else's.
        self._signal_group(signal.SIGKILL)
        code = self._process.wait()
        for fd, take in ((self._out, self._take), (self._err, self._take_err)):
            while data := _read_some(fd):
                take(data)
        if self._rest:
            line, self._rest = bytes(self._rest), bytearray()
            self._feed(line)
        self._over = True
        self._close_pipes()
        self._exited.set()
        self._closed(self._reason(code))

    def _reason(self, code: int) -> str:
        if self._asked_to_end:
            return f"{self._name} was ended by this side"
        if code < 0:
            # What it said before says nothing about why somebody killed it.
            return f"{self._name} was killed by signal {signal.Signals(-code).name}"
        how = f"ended with return code {code}"
        said = [*self._tail, self._err_rest.decode(errors="replace")]
        words = [_COLOUR.sub("", line).strip() for line in said if not _FRAME.fullmatch(line)]
        last = words[-1] if words else ""
        return f"{self._name} {how}{': ' + last if last else ''}"

    # -- ending -------------------------------------------------------------------------------------------------------

    async def aclose(self, timeout: float) -> None:
        """Close its input, then terminate, then kill, all within `timeout` seconds; idempotent."""
        if self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live())
        with anyio.CancelScope(shield=True):
            self._asked_to_end = self._asked_to_end or not self._over
            await self._stop_flusher()
            self._close_input()
            for share, number in ((0.5, signal.SIGTERM), (0.4, signal.SIGKILL)):
                with anyio.move_on_after(timeout * share):
                    await self._exited.wait()
                if self._exited.is_set():
                    break
                self._signal(number)
            await asyncio.wait([self._life])

    def _signal(self, number: signal.Signals) -> None:
        # Not through Popen, which would reap it on the way.
        if not self._over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _stop_flusher(self) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()
            await asyncio.wait([flusher])
        self._backlog.clear()
        self._flushed.set()

    def _close_input(self) -> None:
        self._in = -1
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _close_pipes(self) -> None:
        self._close_input()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _read_some(fd: int) -> bytes | None:
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
