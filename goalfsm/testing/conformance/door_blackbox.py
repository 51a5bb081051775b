"""The black box: a command that starts any server, asked over its stdin and stdout or over HTTP on loopback.

The server finds the stand-in for `codex app-server` in three ways, whichever suits it: the word `{app_server}` in its
command, the environment variable `APP_SERVER`, or a program called `codex` that comes first on the PATH.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread
import msgspec

from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._describe import Description
from goalfsm.testing.conformance._door import CannotJudge, Died, Door, Fate, Refused, check_offers, fate_of
from goalfsm.testing.conformance._http import HttpTalk
from goalfsm.testing.conformance._provider import DoubleProvider, Provider
from goalfsm.testing.conformance._talk import LineTalk, Talk

__all__ = ["BlackBox", "BlackBoxTarget", "Process"]

_SHOWN = 400


class Process:
    """The server's process, with everything it says on stderr kept for the reports."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], *, talks: bool) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        try:
            self.popen = subprocess.Popen(  # noqa: S603  it is the command that the user asked to judge
                list(command),
                env=dict(env),
                stdin=pipe,
                stdout=pipe if talks else self._said,
                stderr=self._said,
                start_new_session=True,
            )
        except OSError as problem:
            self._said.close()
            raise CannotJudge(f"{command[0]!r} could not be started: {problem.strerror or problem}") from problem

    def ended(self) -> str:
        """Say how it ended, with its last words; empty while it runs."""
        code = self.popen.poll()
        if code is None:
            return ""
        return f"the server ended with status {code}{self.last_words()}"

    def last_words(self) -> str:
        """Give the end of its stderr."""
        with contextlib.suppress(ValueError, OSError):
            self._said.seek(0, os.SEEK_END)
            self._said.seek(max(self._said.tell() - _SHOWN, 0))
            text = self._said.read().decode(errors="replace").strip()
            if text:
                return f"; it said: …{text}" if len(text) >= _SHOWN else f"; it said: {text}"
        return ""

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill it with everything that it started, as a machine that loses power does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, how)

    def close(self) -> None:
        """Kill it, and free everything."""
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=5)
        for stream in (self.popen.stdin, self.popen.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class BlackBox:
    """A `Door` on a command."""

    def __init__(self, command: Sequence[str], description: Description, home: Path) -> None:
        self._command = tuple(command)
        self._description = description
        self._home = home / "server"
        self._home.mkdir(parents=True, exist_ok=True)
        self._process: Process | None = None
        self._talk: Talk | None = None
        self.offers = frozenset(description.offers) or frozenset(
            {"start_goal", "submit", "stop", "cancel", "restart", "fates", "lifecycle"}
        )

    async def start(self, provider: Provider) -> None:
        """Start the command, and wait until it is ready."""
        port = _free_port() if self._description.transport == "http" else 0
        words = {"app_server": str(provider.binary), "home": str(self._home), "port": str(port)}
        command = [_filled(word, words) for word in self._command]
        self._process = process = Process(command, self._environment(provider.binary, words), talks=not port)
        self._talk = (
            HttpTalk(self._description, port, process.ended) if port else LineTalk(process.popen, process.ended)
        )
        offers = await self._talk.ready()
        if not self._description.offers:
            if not offers:
                raise CannotJudge(
                    'the server does not say what it offers: {"ready": [...]} first, or `offers` in the description'
                )
            self.offers = check_offers(offers)

    def _environment(self, binary: Path, words: Mapping[str, str]) -> dict[str, str]:
        bin_dir = self._home.parent / "bin"
        bin_dir.mkdir(exist_ok=True)
        link = bin_dir / "codex"
        if not link.exists():
            link.symlink_to(binary)
        own = {name: _filled(value, words) for name, value in self._description.env.items()}
        return {
            **os.environ,
            "PATH": f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}",
            "APP_SERVER": str(binary),
            "GOALFSM_HOME": str(self._home),
            "PYTHONUNBUFFERED": "1",
            **own,
        }

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for a command."""
        if word not in self.offers:
            raise CannotJudge(f"the server does not offer {word}")
        answer = await self._asked(word, params)
        if answer.get("ok") is False:
            raise Refused(str(answer.get("error", "refused")))
        return answer

    async def _asked(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._talk is None or self._process is None:
            raise Died("the server was not started")
        return await self._talk.ask(word, params)

    async def fates(self) -> Mapping[str, Fate]:
        """Ask what became of every message."""
        answer = await self._asked("fates", {})
        fates = answer.get("fates")
        if not isinstance(fates, dict):
            raise Died(f'no "fates" in the answer {_brief(answer)}: an object from message id to a word')
        return {str(name): fate_of(str(word), self._description.fates) for name, word in fates.items()}

    async def lifecycle(self) -> Sequence[tuple[str, str]]:
        """Ask for the logical turns."""
        answer = await self._asked("lifecycle", {})
        try:
            return [(str(kind), str(turn)) for kind, turn in answer["lifecycle"]]
        except (KeyError, TypeError, ValueError) as problem:
            raise Died(f'no "lifecycle" in {_brief(answer)}: a list of ["started" or "completed", id]') from problem

    async def crash(self) -> None:
        """Kill the server, and with it whatever it started."""
        await self.aclose()

    async def aclose(self) -> None:
        """Kill it; nothing of it is left."""
        process, self._process = self._process, None
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()
        if process is not None:
            await anyio.to_thread.run_sync(process.close)


class BlackBoxTarget:
    """A command to judge.

    Args:
        command: the command; `{app_server}`, `{home}` and `{port}` in its words are filled in.
        description: how to ask it.
    """

    virtual = False

    def __init__(self, command: Sequence[str], description: Description | None = None) -> None:
        self.name = " ".join(Path(word).name if os.sep in word else word for word in command)
        self.command = tuple(command)
        self.description = description or Description()
        self.bounds = self.description.bounds

    def provider(self, case: Case, home: Path, watch: Callable[[Mapping[str, Any]], None]) -> Provider:
        """Make the executable double."""
        return DoubleProvider(case, home, watch)

    def door(self, home: Path) -> Door:
        """Make the door."""
        return BlackBox(self.command, self.description, home)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return text


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _brief(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
