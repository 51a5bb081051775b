"""A `goalfsm` command as a real process: what it prints, line by line, and what a person does to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 30.0
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "TERM": "xterm-256color", **more}


class Program:
    """One process with pipes; use it as a context manager."""

    def __init__(self, *words, env=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "goalfsm", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**(env or {})),
        )
        self.out, self.err = [], []
        self._more = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def _read(self, pipe, lines):
        for raw in pipe:
            with self._more:
                lines.append(raw.decode().rstrip("\n"))
                self._more.notify_all()

    def wait_for(self, text, lines=None, timeout=LIMIT):
        """Return the first line of stderr (or of `lines`) that holds `text`."""
        lines = self.err if lines is None else lines

        def found():
            return next((line for line in lines if text in line), None)

        with self._more:
            assert self._more.wait_for(found, timeout), f"no {text!r} in:\n" + "\n".join(self.err + self.out)
            return found()

    def type(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def ctrl_c(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout=LIMIT):
        """Close its stdin, wait for its end, give its exit code."""
        self.process.stdin.close()
        return self.wait(timeout)

    def wait(self, timeout=LIMIT):
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    @property
    def stdout(self):
        return "\n".join(self.out)

    @property
    def stderr(self):
        return "\n".join(self.err)


class Terminal:
    """One process in a pseudo-terminal; `shown` is everything it ever wrote there, without control codes."""

    def __init__(self, *words, env=None, size=(60, 110)):
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "goalfsm", *map(str, words)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**(env or {})),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  one call, no lock is held
        )
        os.close(theirs)
        self.raw = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._own)

    @property
    def shown(self):
        return CONTROLS.sub("", self.raw)

    def _read(self, until):
        while (left := until - time.monotonic()) > 0:
            if select.select([self._own], [], [], left)[0]:
                try:
                    data = os.read(self._own, 65536)
                except OSError:
                    return False
                self.raw += data.decode(errors="replace")
                return bool(data)
        raise AssertionError(f"too slow; shown so far:\n{self.shown}")

    def wait_for(self, text, timeout=LIMIT):
        until = time.monotonic() + timeout
        while text not in self.shown:
            assert self._read(until), f"it ended without {text!r}:\n{self.shown}"

    def type(self, keys):
        os.write(self._own, keys.encode())

    def wait(self, timeout=LIMIT):
        until = time.monotonic() + timeout
        while self._read(until):
            pass
        return self.process.wait(timeout)
