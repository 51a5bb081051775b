"""A test's side of the executable double: gates, the log of what it read, and commands, over a loopback socket."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import anyio.to_thread
import msgspec

from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.records import Disk
from goalfsm.adapters._scripted.script import Script
from goalfsm.testing.app_server import DISK_NAME, LOG_NAME, write_double

__all__ = ["Double"]

_PATIENCE = 10.0


class Double:
    """An app-server double that a test holds the strings of; a context manager.

    Its process is started by whoever runs `binary`; it connects back here before it reads its first line, also when it
    is started anew after it ended. Gates released before a process starts are open in it.

    Args:
        path_dir: an empty directory for everything it leaves behind.
        script: what the server and its model do.
        faults: what goes wrong.
        watch: is called, on a thread of its own, with everything that a process reads, writes and shows its model:
            `at` (the machine's monotonic time) and one of `read`, `told`, `shown`, `spawned`, `ended`.

    Attributes:
        binary: the executable to run as the app-server.
        home: where its disk, its log and the threads' records are.
    """

    def __init__(
        self,
        path_dir: Path,
        script: Script | None = None,
        faults: Sequence[Fault] = (),
        *,
        watch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.home = Path(path_dir)
        self._watch = watch
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.binary = write_double(self.home, script, faults, control=port, watched=watch is not None)
        self._changed = threading.Condition()
        self._gates: list[str] = []
        self._pids: list[int] = []
        self._received: dict[tuple[str, str], int] = {}
        self._done: set[int] = set()
        self._number = 0
        self._process: socket.socket | None = None
        self._closed = False
        threading.Thread(target=self._accept, name="app-server-double", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what it read ------------------------------------------------------------------------------------------------

    def log(self) -> list[dict[str, Any]]:
        """Give everything that all processes read, in order: method, params, id, client_id, n (also after a kill)."""
        path = self.home / LOG_NAME
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line)["received"] for line in lines]

    def requests(self, method: str, client_id: str = "") -> int:
        """Count the requests of `method` read, with that client id if one is given."""
        return sum(
            entry["method"] == method and (not client_id or entry["client_id"] == client_id) for entry in self.log()
        )

    def writes(self, client_id: str) -> int:
        """Count how often a message with this client id was read, by turn/steer or turn/start."""
        return self.requests("turn/steer", client_id) + self.requests("turn/start", client_id)

    def disk(self) -> Disk:
        """Give the server's disk: threads, what the model was shown and asked, decisions."""
        path = self.home / DISK_NAME
        return msgspec.json.decode(path.read_bytes(), type=Disk) if path.exists() else Disk()

    def shown(self, text: str) -> int:
        """Count how often the scripted model was shown a user message with exactly this text."""
        return sum(entry["text"] == text for entry in self.disk().shown)

    def wait_received(self, method: str, n: int = 1, timeout: float = _PATIENCE, *, client_id: str = "") -> None:
        """Return once the n-th request of `method` has been read (with that client id), over all processes.

        Raises:
            TimeoutError: it was not within `timeout` seconds.
        """
        key = (method, client_id)
        self._wait(lambda: self._received.get(key, 0) >= n, timeout, f"request {n} of {method} {client_id}".strip())

    async def received(self, method: str, n: int = 1, timeout: float = _PATIENCE, *, client_id: str = "") -> None:
        """Do the same as `wait_received` without blocking an event loop."""
        await anyio.to_thread.run_sync(lambda: self.wait_received(method, n, timeout, client_id=client_id))

    def wait_spawned(self, n: int = 1, timeout: float = _PATIENCE) -> int:
        """Return the process id of the n-th process once it runs.

        Raises:
            TimeoutError: it did not within `timeout` seconds.
        """
        self._wait(lambda: len(self._pids) >= n, timeout, f"process {n}")
        return self._pids[n - 1]

    # -- commands ----------------------------------------------------------------------------------------------------

    def release(self, *gates: str) -> None:
        """Open gates of the script or of faults, for good; returns when the running process has done so."""
        with self._changed:
            self._gates.extend(gates)
        self._command(release=gates)

    def push(self, message: Mapping[str, Any] | str) -> None:
        """Let the server write any message; a text is written as a line of its own, JSON or not."""
        if isinstance(message, str):
            self._command(push_line=message + "\n")
        else:
            self._command(push=message)

    def stop_reading(self) -> None:
        """Let the server read no further line."""
        self._command(deaf=True)

    def exit(self, code: int = 1) -> None:
        """End the running process with an exit code; a negative one is a signal."""
        self._command(exit=code)

    def kill(self) -> None:
        """Kill the running process: nothing is told, nothing is cleaned up."""
        os.kill(self._pids[-1], signal.SIGKILL)

    def close(self) -> None:
        """Let go of the strings; a running process goes on until its stdin is closed."""
        self._closed = True
        # A listener that is only closed may leave its thread in accept.
        for end in (self._listener, self._process):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    # -- the wire to the process -------------------------------------------------------------------------------------

    def _command(self, **wanted: Any) -> None:
        with self._changed:
            process = self._process
            if process is None:
                if "release" in wanted:
                    return
                raise RuntimeError(f"no process of the double runs: {', '.join(wanted)} needs one")
            self._number += 1
            number = self._number
            try:
                process.sendall(msgspec.json.encode({**wanted, "number": number}) + b"\n")
            except OSError:
                return
        self._wait(lambda: number in self._done or self._process is not process, _PATIENCE, "the command's end")

    def _wait(self, done: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(done, timeout):
                counts = {f"{method} {client}".strip(): n for (method, client), n in self._received.items()}
                raise TimeoutError(f"no {what} within {timeout} s; read so far: {counts}")

    def _accept(self) -> None:
        while not self._closed:
            try:
                process, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                process.sendall(msgspec.json.encode({"release": self._gates}) + b"\n")
                self._process = process
            threading.Thread(target=self._hear, args=(process,), name="app-server-double", daemon=True).start()

    def _hear(self, process: socket.socket) -> None:
        with process, process.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
            for line in lines:
                self._note(msgspec.json.decode(line))
        if self._watch is not None:
            self._watch({"at": time.monotonic(), "ended": None})
        with self._changed:
            if self._process is process:
                self._process = None
            self._changed.notify_all()

    def _note(self, message: Mapping[str, Any]) -> None:
        if "seen" in message and self._watch is not None:
            seen = dict(message["seen"])
            for way in ("read", "told"):
                if way in seen:
                    seen[way] = _value(seen[way])
            self._watch(seen)
        with self._changed:
            if "spawned" in message:
                self._pids.append(message["spawned"])
            if "done" in message:
                self._done.add(message["done"])
            if "received" in message:
                entry = message["received"]
                for client_id in {"", entry["client_id"]}:
                    key = (entry["method"], client_id)
                    self._received[key] = self._received.get(key, 0) + 1
            self._changed.notify_all()


def _value(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line
