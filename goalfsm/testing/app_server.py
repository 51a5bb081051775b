"""An executable double of `codex app-server`: the scripted server over stdio, in real time, in a process of its own.

    python -m goalfsm.testing.app_server --scenario scenario.json --home DIR

`write_double` makes an executable file that can stand wherever the real binary is expected. The disk of the server
is kept in the home directory, so that a process started after a kill finds what the killed one left (facts 8).
"""

from __future__ import annotations

import argparse
import os
import selectors
import shlex
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from goalfsm.adapters._scripted.faults import Fault, Scenario
from goalfsm.adapters._scripted.records import Disk
from goalfsm.adapters._scripted.script import Script
from goalfsm.adapters._server import ScriptedServer

__all__ = ["main", "write_double"]

LOG_NAME = "received.jsonl"
DISK_NAME = "disk.json"
_CHUNK = 65_536


def write_double(
    path_dir: Path,
    script: Script | None = None,
    faults: Sequence[Fault] = (),
    *,
    control: int | None = None,
    watched: bool = False,
) -> Path:
    """Write a scenario and an executable that plays it, whatever its arguments are.

    Args:
        path_dir: a directory for both, and for everything that the double leaves behind.
        script: what the server and its model do.
        faults: what goes wrong.
        control: a loopback port on which a test listens for it.
        watched: whether it reports everything that it reads and writes there, with the machine's monotonic time.

    Returns:
        The executable's path.
    """
    path_dir.mkdir(parents=True, exist_ok=True)
    scenario = path_dir / "scenario.json"
    scenario.write_bytes(Scenario(script or Script(), tuple(faults)).encode())
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "goalfsm.testing.app_server", "--scenario", str(scenario), "--home", str(path_dir)]
    if control is not None:
        words += ["--control", str(control)]
    if watched:
        words.append("--watched")
    binary = path_dir / "app-server-double"
    binary.write_text(
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(root))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        "export PYTHONPATH\n"
        f'exec {shlex.join(words)} "$@"\n'
    )
    binary.chmod(0o700)
    return binary


class _Process:
    """One process of the double: lines in, lines out, timers and a test's commands in one loop."""

    def __init__(self, scenario: Scenario, home: Path, control: socket.socket | None, watched: bool = False) -> None:
        self.home = home
        self.watched = watched
        self.written: list[bytes] = []
        self.seen: list[dict[str, Any]] = []
        self.control = control
        self.log = (home / LOG_NAME).open("ab", buffering=0)
        self.logged = 0
        disk_file = home / DISK_NAME
        disk = msgspec.json.decode(disk_file.read_bytes(), type=Disk) if disk_file.exists() else Disk()
        for thread in disk.threads.values():
            for turn in thread.turns:
                turn.status = "interrupted" if turn.status == "inProgress" else turn.status
        epoch = time.time() - time.monotonic()
        self.server = ScriptedServer(scenario.script, scenario.faults, epoch=epoch, home=str(home), disk=disk)
        self.server.exited = 0
        self.shown = len(disk.shown)
        self.waits = selectors.DefaultSelector()
        self.lines = _Lines()
        self.commands = _Lines()
        self.reading = False

    def run(self) -> int:
        """Live until the server ends; give the exit code."""
        self.server.spawn(time.monotonic())
        self.report({"spawned": os.getpid()})
        self.watch(spawned=os.getpid())
        if "ignore_term" in self.server.ignores:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.control:
            self.obey(self.commands.complete(self.control))
            self.waits.register(self.control, selectors.EVENT_READ)
        self.waits.register(0, selectors.EVENT_READ)
        self.reading = True
        while True:
            self.flush()
            if self.server.exited is not None:
                return self.server.exited
            due = self.server.next_wakeup()
            timeout = None if due is None else max(due - time.monotonic(), 0.0)
            for key, _ in self.waits.select(timeout):
                if key.fd == 0:
                    self.read_client()
                else:
                    self.read_control()
            self.server.wake(time.monotonic())

    def read_client(self) -> None:
        """Read what the client wrote; its end ends the process (facts 8)."""
        data = os.read(0, _CHUNK)
        if not data:
            self.stop_reading()
            if "ignore_eof" not in self.server.ignores:
                self.server.exit(0)
        for line in self.lines.feed(data):
            self.collect()
            self.watch(read=line)
            self.server.receive_line(line, time.monotonic())
        if self.server.deaf:
            self.stop_reading()

    def stop_reading(self) -> None:
        """Leave whatever the client writes in the pipe."""
        if self.reading:
            self.reading = False
            self.waits.unregister(0)

    def read_control(self) -> None:
        """Read what the test wants; without a test the double goes on alone."""
        control = self.control
        if control is None:
            return
        try:
            data = control.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self.waits.unregister(control)
            control.close()
            self.control = None
        self.obey(self.commands.feed(data))

    def obey(self, lines: Sequence[bytes]) -> None:
        """Do what the test wants, and say so when it was done."""
        now = time.monotonic()
        for line in lines:
            wanted: dict[str, Any] = msgspec.json.decode(line)
            for gate in wanted.get("release", ()):
                self.server.release(gate, now)
            if "push" in wanted:
                self.server.push(wanted["push"], now)
            if "push_line" in wanted:
                self.server.push(wanted["push_line"].encode(), now)
            if wanted.get("deaf"):
                self.server.deaf = True
                self.stop_reading()
            if "exit" in wanted:
                self.server.exit(wanted["exit"])
            self.flush()
            self.report({"done": wanted.get("number", 0)})

    def flush(self) -> None:
        """Write everything out: the log first, then the disk and the records, and last what anybody hears of it."""
        fresh = [{"received": attrs.asdict(received)} for received in self.server.received[self.logged :]]
        self.logged += len(fresh)
        self.log.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in fresh))
        self.collect()
        lines, self.written = self.written, []
        seen, self.seen = self.seen, []
        if not (fresh or lines or seen):
            return
        self.save()
        for path, line in self.server.rollout():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with Path(path).open("ab") as record:
                record.write(line)
        for entry in (*fresh, *seen):
            self.report(entry)
        data = memoryview(b"".join(lines))
        while data:
            data = data[os.write(1, data) :]

    def collect(self) -> None:
        """Take what the server wrote, in the order in which it happened; it is reported once it is on the disk."""
        shown = self.server.disk.shown
        for message in shown[self.shown :]:
            self.watch(shown=message)
        self.shown = len(shown)
        fresh = self.server.outgoing_lines()
        for line in fresh:
            self.watch(told=line)
        self.written += fresh

    def watch(self, **seen: Any) -> None:
        """Note what was seen, if anybody wants to know."""
        if self.watched:
            texts = {
                key: value.decode(errors="replace") if isinstance(value, bytes) else value
                for key, value in seen.items()
            }
            self.seen.append({"seen": {"at": time.monotonic(), **texts}})

    def save(self) -> None:
        """Write the disk so that a kill at any moment leaves a whole one."""
        target = self.home / DISK_NAME
        fresh = target.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(self.server.disk))
        fresh.replace(target)

    def report(self, message: dict[str, Any]) -> None:
        """Tell the test."""
        if self.control is None:
            return
        try:
            self.control.sendall(msgspec.json.encode(message) + b"\n")
        except OSError:
            self.control = None


class _Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Give the lines that are complete now."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        return lines

    def complete(self, source: socket.socket) -> list[bytes]:
        """Read at least one whole line."""
        while True:
            data = source.recv(_CHUNK)
            lines = self.feed(data)
            if lines or not data:
                return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run one process of the double over stdin and stdout; give its exit code."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m goalfsm.testing.app_server", description=about)
    parser.add_argument("--scenario", type=Path, help="JSON file with a script and faults")
    parser.add_argument("--home", type=Path, required=True, help="directory for its disk, its log and its records")
    parser.add_argument("--control", type=int, help="loopback port on which a test listens")
    parser.add_argument("--watched", action="store_true", help="report everything read and written to the test")
    # The real binary is called with words of its own (`app-server`, `-c key=value`), which change nothing here.
    options, _ = parser.parse_known_args(argv)
    scenario = Scenario.decode(options.scenario.read_bytes()) if options.scenario else Scenario()
    options.home.mkdir(parents=True, exist_ok=True)
    control = _reach(options.control)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        code = _Process(scenario, options.home, control, options.watched).run()
    except BrokenPipeError:
        return 0
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


def _reach(port: int | None) -> socket.socket | None:
    if port is None:
        return None
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=None)
    except OSError:
        return None


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
