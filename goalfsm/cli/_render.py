"""What the commands that show messages have in common: one colour per fate, one table, one way to reach a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from goalfsm.cli import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = ["count", "data_console", "fates_table", "first_words",
 "is_terminal", "labelled", "numbered", "style_of", "talk_console", "told"]

FAILED_STYLE = "red"
_OPEN_STYLE = "cyan"
_STYLES = {
    "delivered": "green",
    "requeued": "yellow",
    "held": "yellow",
    "uncertain": "magenta",
    "discarded": "dim",
    "expired": "dim",
    "completed": "green",
    "interrupted": "yellow",
    "failed": FAILED_STYLE,
}
_HINTS = {
    "queued": "kept; it goes when its turn comes",
    "admitted": "handed to the running goal",
    "delivering": "written to the provider; no answer yet",
    "acknowledged": "the provider says ok: it is in its memory, which proves nothing yet",
    "discarded": "dropped; it will not be sent",
    "expired": "it waited too long and was dropped",
}
_PIPE_WIDTH = 10_000
_WORDS_SHOWN = 48


def style_of(state: str) -> str:
    """Give the colour of a fate; a message whose fate is open has one of its own."""
    return _STYLES.get(state, _OPEN_STYLE)


def is_terminal(stream: object) -> bool:
    """Whether a stream is a terminal that can redraw lines."""
    import os  # noqa: PLC0415  only asked once or twice

    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty()) and os.environ.get("TERM") != "dumb"


def data_console() -> Console:
    """Give the console for data (stdout)."""
    return _console(stderr=False)


def talk_console() -> Console:
    """Give the console for talk (stderr)."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console  # noqa: PLC0415  not needed for --json

    # In a pipe nothing may be wrapped: ids have to stay whole for grep.
    stream = sys.stderr if stderr else sys.stdout
    width = None if is_terminal(stream) else _PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width, soft_wrap=False)


def fates_table(heads: Sequence[str], rows: Iterable[Sequence[str]], fate_at: int) -> Table:
    """Make a table of messages; the cell `fate_at` of each row is the state that colours it."""
    from rich import box  # noqa: PLC0415  not needed for --json
    from rich.table import Table  # noqa: PLC0415  as above
    from rich.text import Text  # noqa: PLC0415  as above

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=number == fate_at)
    for row in rows:
        cells = [Text(printable(cell)) for cell in row]
        cells[fate_at].stylize(style_of(row[fate_at]))
        table.add_row(*cells)
    return table


def told(message_id: str, state: str, evidence: str, reason: str, turns: Mapping[str, int]) -> Text:
    """Say in one line where a message is now, and by what evidence."""
    from rich.text import Text  # noqa: PLC0415  not needed for --json

    why = evidence if state == "delivered" else "; ".join(filter(None, (evidence, reason)))
    return labelled(printable(message_id), Text.assemble((f"{state:<13}", style_of(state)), numbered(_HINTS.get(state, why), turns)))


def labelled(label: str, text: Text | str, style: str = "bold") -> Text:
    """Put a label into the left margin of a line."""
    from rich.text import Text  # noqa: PLC0415  not needed for --json

    return Text.assemble((f"{label:<8} ", style), text)


def numbered(text: str, turns: Mapping[str, int]) -> str:
    """Say `turn 2` where a text for machines names a turn by its id."""
    for turn_id, number in turns.items():
        text = text.replace(turn_id, str(number))
    return printable(text)


def first_words(text: str, limit: int = _WORDS_SHOWN) -> str:
    """Give the beginning of a text on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def count(number: int, word: str) -> str:
    """Give `1 turn`, `2 turns`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
