"""Where a running goal is told: lines that stay, and at a terminal a few lines below them that are redrawn."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from goalfsm.cli import printable
from goalfsm.cli._render import labelled, talk_console

__all__ = ["Screen"]

_TAIL_LINES = 3


class Screen:
    """Talk on stderr. Use as a context manager; the redrawn lines vanish at its end.

    Args:
        live: redraw lines below (a terminal), or only append whole lines.
        quiet: say nothing at all.

    Attributes:
        below: gives what the redrawn lines show; asked at every `refresh`.
    """

    def __init__(self, *, live: bool, quiet: bool = False) -> None:
        self.console = talk_console()
        self.console.quiet = quiet
        self.below: Callable[[], RenderableType] | None = None
        self._speaking: dict[str, str] = {}
        self._live: Live | None = None
        if live and not quiet:
            # What the program itself prints goes through this console, in order; nothing needs to be captured.
            self._live = Live(
                console=self.console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
            self.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the redrawn lines vanish; from now on lines are only appended. Idempotent."""
        self.end_all_speech()
        if self._live is not None:
            self._live.update(Text(""), refresh=False)
            self._live.stop()
            self._live = None

    @property
    def is_live(self) -> bool:
        """Whether lines are redrawn."""
        return self._live is not None

    def line(self, text: RenderableType = "") -> None:
        """Append a line that stays."""
        self.console.print(text)
        self.refresh()

    def refresh(self) -> None:
        """Draw the lines below anew."""
        if self._live is not None:
            parts = [labelled("", tail) for speech in self._speaking.values() if (tail := _tail(speech))]
            if self.below is not None:
                parts.append(self.below())
            self._live.update(Group(*parts), refresh=True)

    # -- what the agent says, as it comes ------------------------------------------------------------------------------

    def speech(self, item: str, piece: str) -> None:
        """Add a piece of what the agent says; each line stays once it is whole."""
        *whole, rest = (self._speaking.get(item, "") + piece).split("\n")
        for text in whole:
            self._said(text)
        self._speaking[item] = rest
        self.refresh()

    def end_of_speech(self, item: str, text: str = "") -> None:
        """The agent has ended a message; `text` is all of it, for one that came without pieces."""
        rest = self._speaking.pop(item, None)
        for line in (text if rest is None else rest).split("\n"):
            if line.strip() or rest is None:
                self._said(line)
        self.refresh()

    def end_all_speech(self) -> None:
        """Whatever the agent was saying was cut."""
        for item in list(self._speaking):
            self.end_of_speech(item)

    def _said(self, text: str) -> None:
        self.console.print(labelled("", printable(text.expandtabs(4))))


def _tail(text: str) -> str:
    return printable(text[-80 * _TAIL_LINES :])
