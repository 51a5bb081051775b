"""What the commands that show messages have in common: one colour per fate, one table, one way to reach a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from goalfsm.cli import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "count",
    "data_console",
    "fates_table",
    "first_words",
    "is_terminal",
    "labelled",
    "numbered",
    "style_of",
    "talk_console",
    "told",
    "verdict",
]

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
    "paused": "yellow",
    "blocked": FAILED_STYLE,
    "usage limited": FAILED_STYLE,
    "budget limited": FAILED_STYLE,
    "failed": FAILED_STYLE,
}
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ID_SHOWN = 6
_PIPE_WIDTH = 10_000
_MARGIN = 9
_WORDS_SHOWN = 28


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


def fates_table(heads: Sequence[str], rows: Iterable[Sequence[str]], fate_at: int, *, whole: int = 0) -> Table:
    """Make a table of messages.

    Args:
        heads: the columns' heads.
        rows: their cells.
        fate_at: the cell of each row that is the state and colours it.
        whole: how many columns, from the left, are never wrapped.
    """
    from rich import box  # noqa: PLC0415  not needed for --json
    from rich.table import Table  # noqa: PLC0415  as above
    from rich.text import Text  # noqa: PLC0415  as above

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=number == fate_at or number < whole)
    for row in rows:
        cells = [Text(printable(cell)) for cell in row]
        cells[fate_at].stylize(style_of(row[fate_at]))
        table.add_row(*cells)
    return table


def told(message_id: str, state: str, evidence: str, reason: str, turns: Mapping[str, int]) -> RenderableType:
    """Say in one line where a message is now, and by what evidence."""
    from rich.text import Text  # noqa: PLC0415  not needed for --json

    fate = Text.assemble((f"{state:<13}", style_of(state)), numbered(evidence or reason, turns))
    return labelled(message_id, fate)


def labelled(label: str, text: Text | str = "", style: str = "") -> RenderableType:
    """Put a label into the left margin of a text; what does not fit on one line stays right of the margin."""
    from rich.table import Table  # noqa: PLC0415  not needed for --json
    from rich.text import Text  # noqa: PLC0415  as above

    if not text:
        return Text(printable(label), style=style or "bold")
    line = Table.grid()
    line.add_column(width=_MARGIN, no_wrap=True, style="bold")
    line.add_column(overflow="fold")
    line.add_row(Text(printable(label)), Text(text) if isinstance(text, str) else text, style=style)
    return line


def numbered(text: str, turns: Mapping[str, int]) -> str:
    """Make a text that names turns and items by their ids readable: turns get their number, other ids are cut."""
    for turn_id, number in turns.items():
        text = text.replace(turn_id, str(number))
    return printable(_UUID.sub(lambda found: f"..{found[0][-_ID_SHOWN:]}", text))


def first_words(text: str, limit: int = _WORDS_SHOWN) -> str:
    """Give the beginning of a text on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def verdict(delivered: int, returned: int, total: int) -> str:
    """Sum up the fates of some messages."""
    return f"{count(total, 'message')}: {delivered} delivered, {returned} returned with proof"


def count(number: int, word: str) -> str:
    """Give `1 turn`, `2 turns`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
