"""JSON lines with a server's process: one object a command, one object an answer; whatever else comes is nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio
import msgspec

from goalfsm.testing.conformance._door import CannotJudge, Died

__all__ = ["LineTalk", "Talk"]

_SHOWN = 200


class Talk(Protocol):
    """A way to ask a process."""

    async def ready(self) -> Sequence[str]:
        """Return once it is ready; give what it says it offers, if it says so."""
        ...

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for a command; give the answer."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class LineTalk:
    """Speaks JSON lines: `{"n": 1, "do": "submit", …}` is answered by `{"n": 1, "ok": true, …}`.

    The server's first line is `{"ready": [what it offers]}`. Answers may come in any order.
    """

    def __init__(self, popen: subprocess.Popen[bytes], ended: Callable[[], str]) -> None:
        self._popen = popen
        self._ended = ended
        self._number = 0
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._offers: Sequence[str] | None = None
        self._problem = ""
        self._changed = anyio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="conformance-talk", daemon=True).start()

    def _read(self) -> None:
        assert self._popen.stdout is not None  # noqa: S101  it is a pipe
        with contextlib.suppress(ValueError, OSError):
            for line in self._popen.stdout:
                self._hear(self._take, line)
        with contextlib.suppress(Exception):
            self._popen.wait(timeout=2)
        self._hear(self._note, "")

    def _hear(self, take: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the case is over
            self._loop.call_soon_threadsafe(take, *args)

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = None
        if isinstance(message, dict) and isinstance(message.get("ready"), list):
            self._offers = [str(word) for word in message["ready"]]
            self._wake()
        elif isinstance(message, dict) and isinstance(message.get("n"), int):
            self._answers[message["n"]] = message
            self._wake()
        else:
            text = line[:_SHOWN].decode(errors="replace").strip()
            self._note(f"the server speaks nonsense: {text!r} is neither a ready line nor an answer with a number")

    def _note(self, problem: str) -> None:
        self._problem = self._problem or problem or self._ended() or "the server closed its stdout"
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def ready(self) -> Sequence[str]:
        """Wait for the ready line."""
        while self._offers is None:
            if self._problem:
                raise CannotJudge(self._problem)
            await self._changed.wait()
        return self._offers

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write a command, and wait for its answer."""
        self._number += 1
        number = self._number
        assert self._popen.stdin is not None  # noqa: S101  it is a pipe
        try:
            self._popen.stdin.write(msgspec.json.encode({"n": number, "do": word, **params}) + b"\n")
            self._popen.stdin.flush()
        except OSError as problem:
            raise Died(self._ended() or f"the server does not read its stdin: {problem.strerror}") from problem
        while number not in self._answers:
            if self._problem:
                raise Died(self._problem)
            await self._changed.wait()
        return self._answers.pop(number)

    def close(self) -> None:
        """Nothing to let go of: the process takes its pipes along."""
