"""Recorded traffic as it lies on disk: one JSON object a line, each one message that was sent or received."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from goalfsm._errors import GoalfsmError

__all__ = ["NotATrace", "Recorded", "Recording", "read_recording"]

_SHOWN = 60
_BOM = b"\xef\xbb\xbf"


class NotATrace(GoalfsmError, ValueError):
    """This is no recording of traffic; the message says which line shows it.

    Attributes:
        line: number of the line, from 1; 0 if there is none.
    """

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {problem}" if line else problem)


class Recorded(msgspec.Struct, frozen=True):
    """One message on the wire.

    Attributes:
        line: number of its line, from 1.
        conn: name of the connection; empty where the recording has only one.
        sent: whether the recorded client sent it.
        msg: the message; an object, if nobody broke the protocol.
        fresh: an `initialize` that a new process answered, after an earlier one on this connection (surface 31).
    """

    line: int
    conn: str
    sent: bool
    msg: Any
    fresh: bool = False


class Recording(msgspec.Struct, frozen=True):
    """A whole recording, with what is odd about the file itself.

    Attributes:
        messages: everything recorded, in order.
        torn: a sentence about the last line if it was cut off, else empty.
    """

    messages: tuple[Recorded, ...]
    torn: str = ""


class _Line(msgspec.Struct):
    direction: Literal["send", "recv"] = msgspec.field(name="dir")
    msg: Any
    conn: str = ""


def read_recording(source: str | Path | Iterable[str | bytes]) -> Recording:
    """Read a recording from a file, or from its lines.

    Raises:
        NotATrace: a line is not a recorded message, or there is none at all. Only a torn last line is forgiven
            (decisions 28): a recorder that is killed leaves one.
        OSError: the file cannot be read.
    """
    if isinstance(source, str | Path):
        with Path(source).open("rb") as lines:
            return _collect(lines)
    return _collect(source)


def _collect(lines: Iterable[str | bytes]) -> Recording:
    found: list[Recorded] = []
    broken: NotATrace | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
        line = line.removeprefix(_BOM)
        if not line.strip():
            continue
        if broken is not None:
            raise broken
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            broken = NotATrace(number, f"not JSON ({problem}): {_brief(line)}")
            continue
        found.append(_recorded(number, value, line))
    if not found:
        raise broken or NotATrace(0, "it is empty: no recorded traffic")
    torn = "" if broken is None else f"line {broken.line}: the last line is torn and was left out"
    return Recording(tuple(_marked(found)), torn)


def _recorded(number: int, value: Any, line: bytes) -> Recorded:
    try:
        read = msgspec.convert(value, _Line)
    except msgspec.ValidationError as problem:
        words = 'each line needs "dir" (send or recv) and "msg"'
        raise NotATrace(number, f"not a recorded message ({problem}); {words}: {_brief(line)}") from None
    return Recorded(number, read.conn, read.direction == "send", read.msg)


def _brief(line: bytes) -> str:
    text = ascii(line[:_SHOWN].decode("utf-8", "replace").strip())
    return text + "…" if len(line) > _SHOWN else text


def _marked(messages: list[Recorded]) -> Iterator[Recorded]:
    # "Already initialized" is the answer of a process that lives on; any other second initialize met a new one.
    refused = _refused(messages)
    known: set[str] = set()
    for seen in messages:
        if not _initializes(seen):
            yield seen
            continue
        again = seen.conn in known and seen.line not in refused
        known.add(seen.conn)
        yield msgspec.structs.replace(seen, fresh=again)


def _refused(messages: list[Recorded]) -> set[int]:
    asked: dict[tuple[str, Any], int] = {}
    refused: set[int] = set()
    for seen in messages:
        if _initializes(seen):
            asked[seen.conn, _key(seen.msg)] = seen.line
        elif not seen.sent and isinstance(seen.msg, dict) and "method" not in seen.msg:
            line = asked.pop((seen.conn, _key(seen.msg)), 0)
            if line and "error" in seen.msg:
                refused.add(line)
    return refused


def _initializes(seen: Recorded) -> bool:
    return seen.sent and isinstance(seen.msg, dict) and seen.msg.get("method") == "initialize"


def _key(msg: dict[str, Any]) -> str | int | None:
    key = msg.get("id")
    return key if isinstance(key, str | int) else None
