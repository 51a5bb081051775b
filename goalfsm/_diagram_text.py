"""Words of rows for pictures, and how each format is told a text that people chose.

Names, docs and message texts may hold anything. Nothing of it may change the structure of a picture, and a reader must
see what was written: signs with a meaning are written as entities, signs that cannot be seen as escapes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator

from goalfsm._ir import Row, Spec

__all__ = ["arrows", "dot_text", "markdown_text", "mermaid_text", "row_words", "taken_words", "visible", "wrapped"]

_MERMAID_PLAIN = frozenset(" _,.()/='-")
# Mermaid writes entities with these signs while it works, and reads them back in the finished picture.
_MERMAID_OWN = frozenset("ﬂ°¶ß")
_LONG = 3
_MARKDOWN_SPECIAL = frozenset("\\`*[]|~$")


def visible(text: str) -> str:
    """Give a text on one line in which every sign can be seen: white space is one blank, control signs are escapes."""
    return "".join(sign if sign.isprintable() else _escape(sign) for sign in " ".join(text.split()))


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def mermaid_text(text: str) -> str:
    """Give a text for any place in Mermaid where words may stand; whatever could mean something becomes an entity."""
    # Where two of these stand together in the finished picture Mermaid reads an entity, however they were written.
    shown = visible(text).replace("ﬂ°", "ﬂ\u200b°").replace("¶ß", "¶\u200bß")
    return "".join(sign if _is_plain(sign) else f"#{ord(sign)};" for sign in shown)


def _is_plain(sign: str) -> bool:
    if sign.isascii():
        return sign.isalnum() or sign in _MERMAID_PLAIN
    return sign.isprintable() and sign not in _MERMAID_OWN


def dot_text(text: str) -> str:
    """Give a quoted DOT string; an ampersand would begin an HTML entity in there."""
    return '"' + visible(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') + '"'


def markdown_text(text: str) -> str:
    """Give a text for a cell of a Markdown table."""
    shown = visible(text)
    out = []
    for place, sign in enumerate(shown):
        if sign == "_":
            inside = shown[place - 1 : place].isalnum() and shown[place + 1 : place + 2].isalnum()
            out.append(sign if inside else "\\_")
        elif sign in _MARKDOWN_SPECIAL:
            out.append("\\" + sign)
        else:
            out.append({"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(sign, sign))
    return "".join(out)


def row_words(row: Row) -> str:
    """Say one row as on an arrow of a statechart: `event, event [guard] / effect, effect`."""
    guard = "" if row.guard is None else f" [{row.guard}]"
    effects = f" / {', '.join(row.do)}" if row.do else ""
    ignored = "ignored: " if row.kind == "ignore" else ""
    return f"{ignored}{', '.join(row.events)}{guard}{effects}"


def taken_words(row: Row, taken: Collection[Row] | None) -> str:
    """Say one row as `row_words` does, and whether it was never taken, where that is known."""
    return row_words(row) if taken is None or row in taken else f"never taken: {row_words(row)}"


def wrapped(words: Iterable[str], width: int) -> list[str]:
    """Break each of several texts into lines; where there are several, each begins with a bullet."""
    texts = [visible(text) for text in words]
    lines: list[str] = []
    for text in texts:
        bullet = "• " if len(texts) > 1 else ""
        # A slash at the end of a line would look lost: it stays with the effect after it.
        glued = (bullet + text).replace(" / ", " /\0").replace("• ", "•\0")
        # An id stays whole; what no page could hold does not.
        endless = any(len(word) > _LONG * width for word in glued.split())
        broken = textwrap.wrap(glued, width, break_long_words=endless, break_on_hyphens=False) or [""]
        lines += [line.replace("\0", " ") for line in broken]
    return lines


def arrows(spec: Spec, *, ignored: bool) -> Iterator[tuple[str, str | None, list[Row]]]:
    """Give what a picture draws: source, target, and the rows of that arrow in the order they are tried.

    Rows between the same two states share an arrow, or nobody could follow the arrows any more. Rows that stay (target
    None) are written into the box of their state, as in a statechart. A row that re-enters its state is an arrow.
    """
    for source in spec.states:
        grouped: dict[str | None, list[Row]] = {}
        for row in spec.rows:
            if source in row.sources and (ignored or row.kind == "row"):
                grouped.setdefault(row.to, []).append(row)
        for target, rows in grouped.items():
            yield source, target, rows
