"""Lines that a person types while a goal runs: whole lines from a pipe, or edited here, below redrawn output."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel

__all__ = ["Typed", "stdin_fd"]

_CHUNK = 65_536
_ESCAPE = "\x1b"
_END = "\x04"


class Typed:
    """Lines from a file descriptor, read as they come and never ahead of need.

    Args:
        fd: where to read.
        edited: it is a terminal whose echo would spoil redrawn lines: switch that off and edit here.
        changed: called whenever the line being edited changed.
    """

    def __init__(self, fd: int | None, *, edited: bool, changed: Callable[[], None] = lambda: None) -> None:
        self._fd = fd
        self.edited = edited and fd is not None
        self.text = ""
        self._changed = changed
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self._ended = fd is None
        self._saved: Any = None
        self._on_continue: Any = None

    def __enter__(self) -> Self:
        if self.edited:
            import termios  # noqa: PLC0415  only where there are terminals

            self._saved = termios.tcgetattr(self._terminal)
            self._silence()
            # Whoever brings the program back to the foreground has given the terminal its usual mode again.
            self._on_continue = signal.signal(signal.SIGCONT, lambda *_: self._silence())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._saved is not None:
            import termios  # noqa: PLC0415  as above

            signal.signal(signal.SIGCONT, self._on_continue)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._saved)

    async def lines(self) -> AsyncIterator[str]:
        """Give each line without its end, until the input ends."""
        while not self._ended:
            await self._readable()
            for line in self._read():
                yield line

    def rest(self) -> list[str]:
        """Give the lines that are there already, without waiting."""
        lines: list[str] = []
        while not self._ended and _ready(self._terminal):
            lines += self._read()
        return lines

    @property
    def _terminal(self) -> int:
        assert self._fd is not None  # noqa: S101  without one it has ended
        return self._fd

    def _silence(self) -> None:
        import termios  # noqa: PLC0415  as above
        import tty  # noqa: PLC0415  as above

        with contextlib.suppress(termios.error):
            # Ctrl-C and Ctrl-Z stay signals.
            tty.setcbreak(self._terminal, termios.TCSADRAIN)

    async def _readable(self) -> None:
        try:
            await anyio.wait_readable(self._terminal)
        except (OSError, ValueError):
            # A regular file cannot be waited for, and never needs to be.
            await anyio.lowlevel.checkpoint()

    def _read(self) -> list[str]:
        try:
            data = os.read(self._terminal, _CHUNK)
        except OSError:
            data = b""
        if not data:
            self._ended = True
        text = self._decoder.decode(data, final=not data)
        return self._edit(text) if self.edited else self._cut(text)

    def _cut(self, text: str) -> list[str]:
        *lines, self.text = (self.text + text).split("\n")
        if self._ended and self.text:
            lines.append(self.text)
            self.text = ""
        return [line.removesuffix("\r") for line in lines]

    def _edit(self, text: str) -> list[str]:
        lines: list[str] = []
        for sign in text:
            if self._escape or sign == _ESCAPE:
                self._pass_over(sign)
            elif sign in "\r\n":
                lines.append(self.text)
                self.text = ""
            elif sign == _END and not self.text:
                self._ended = True
            else:
                self._type(sign)
        self._changed()
        return lines

    def _type(self, sign: str) -> None:
        if sign in "\x7f\b":
            self.text = self.text[:-1]
        elif sign == "\x15":
            self.text = ""
        elif sign == "\x17":
            self.text = self.text.rstrip().rpartition(" ")[0]
        elif sign.isprintable():
            self.text += sign

    def _pass_over(self, sign: str) -> None:
        """Leave out what an arrow or function key sends: ESC [ ... letter, ESC O letter, ESC letter."""
        self._escape += sign
        body = self._escape[1:]
        if body and not (body in ("[", "O") or (body[0] == "[" and not "@" <= sign <= "~")):
            self._escape = ""


def _ready(fd: int) -> bool:
    try:
        return bool(select.select([fd], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def stdin_fd() -> int | None:
    """Give the descriptor of stdin, or None if this program has none."""
    try:
        return None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):
        return None
