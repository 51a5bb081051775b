"""The codex app-server as a child process (extra `codex`)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from goalfsm._adapter import Sink
from goalfsm._errors import TransportClosed
from goalfsm._values import Policy
from goalfsm.adapters._process import ProcessTransport
from goalfsm.adapters._rpc import RpcConnection

__all__ = ["Codex"]

_NAME = "codex app-server"


@attrs.define
class Codex:
    """Adapter for the codex app-server: one child process per connection (surface 7).

    Args:
        cwd: default working directory of new threads.
        codex_home: the server's home, as `CODEX_HOME`; made (private) if missing. Default: the server's own.
        binary: the program; default: the one of the `codex` extra, else `codex` on the PATH.
        config: settings, each given as `-c key=value`; nested mappings become dotted keys.
        env: further environment variables.
    """

    cwd: str | os.PathLike[str] | None = None
    codex_home: str | os.PathLike[str] | None = None
    binary: str | os.PathLike[str] | None = None
    config: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    name: str = attrs.field(default="codex", init=False)

    async def connect(self, sink: Sink, policy: Policy) -> RpcConnection:
        """Start the server and complete its handshake.

        Raises:
            TransportClosed: there is no program, it cannot be run, or it ended before the handshake.
        """
        command = [find_binary(self.binary), "app-server", *_arguments(self.config or {})]
        transport = ProcessTransport(command, self._environment(), _NAME)
        cwd = None if self.cwd is None else os.fspath(self.cwd)
        connection = RpcConnection(transport, sink, policy, cwd=cwd, version=_version())
        transport.start(connection.feed, connection.closed)
        try:
            await connection.handshake()
        except BaseException:
            await connection.aclose(policy.timeouts.exit)
            raise
        return connection

    def _environment(self) -> dict[str, str]:
        env = {**os.environ, **(self.env or {})}
        if self.codex_home is not None:
            home = Path(self.codex_home)
            try:
                home.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as problem:
                raise TransportClosed(f"{_NAME}: the home {home} cannot be made: {problem.strerror}") from problem
            env["CODEX_HOME"] = str(home)
        return env


def find_binary(binary: str | os.PathLike[str] | None = None) -> str:
    """Find the codex program: the given one, the one of the `codex` extra, the one on the PATH.

    Raises:
        TransportClosed: there is none, or it is not a program; says what to do.
    """
    if binary is not None:
        word = os.fspath(binary)
        return _checked(word if os.sep in word else shutil.which(word) or word)
    try:
        return _checked(str(import_module("codex_cli_bin").bundled_codex_path()))
    except (ImportError, AttributeError, FileNotFoundError):
        on_path = shutil.which("codex")
    if on_path is None:
        raise TransportClosed("no codex program found; install one with: pip install 'goalfsm[codex]'")
    return on_path


def _checked(word: str) -> str:
    path = Path(word)
    if not path.exists():
        raise TransportClosed(f"{word} does not exist; install codex with: pip install 'goalfsm[codex]'")
    if not path.is_file():
        raise TransportClosed(f"{word} is not a file; it should be the codex program")
    if not os.access(path, os.X_OK):
        raise TransportClosed(f"{word} is not executable; allow it with: chmod +x {word}")
    return word


def _arguments(config: Mapping[str, Any]) -> list[str]:
    return [part for key, value in _flat(config) for part in ("-c", f"{key}={json.dumps(value, ensure_ascii=False)}")]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    # JSON of a string, a number, a boolean or a list of these is TOML too; a table is not, hence dotted keys.
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _version() -> str:
    try:
        return version("goalfsm")
    except PackageNotFoundError:
        return "0"
