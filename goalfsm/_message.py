"""One follow-up as the runtime keeps it: its content, its row in the core, and what a person is told of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from goalfsm._errors import Unjournalable
from goalfsm._machines import FollowUp
from goalfsm._values import When

__all__ = ["Content", "Message", "check_journalable", "content_from", "content_of"]

_INT_RANGE = range(-(2**63), 2**64)
_DEPTH_LIMIT = 100
_WHEN = {str(when): when for when in When}


def check_journalable(value: Any, path: str) -> None:
    """Refuse a value that the journal could not give back unchanged (requirements 4.5).

    Args:
        value: what is to be kept.
        path: its name; the error names the part, such as `attachments[0].data`.

    Raises:
        Unjournalable: some part is not text, a finite number, a boolean, None, a list, or a dict with text keys, or it
            is nested too deep, as one that holds itself is.
    """
    _check(value, path, 0)


def _check(value: Any, path: str, depth: int) -> None:
    check = _CHECKS.get(type(value))
    if check is None:
        raise Unjournalable(path, value)
    if depth > _DEPTH_LIMIT:
        raise Unjournalable(path, value, f"it is nested more than {_DEPTH_LIMIT} deep")
    check(value, path, depth)


def _check_text(value: str, path: str, _depth: int) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unjournalable(path, value, "it holds a lone surrogate") from None


def _check_int(value: int, path: str, _depth: int) -> None:
    if value not in _INT_RANGE:
        raise Unjournalable(path, value, "it needs more than 64 bits")


def _check_float(value: float, path: str, _depth: int) -> None:
    if not math.isfinite(value):
        raise Unjournalable(path, value, f"{value} is no JSON number")


def _check_list(value: list[Any], path: str, depth: int) -> None:
    for index, part in enumerate(value):
        _check(part, f"{path}[{index}]", depth + 1)


def _check_dict(value: dict[Any, Any], path: str, depth: int) -> None:
    for key, part in value.items():
        if type(key) is not str:
            raise Unjournalable(f"{path}[{key!r}]", key, "keys must be text")
        _check_text(key, f"{path}[{key!r}]", depth)
        _check(part, f"{path}.{key}", depth + 1)


_CHECKS: dict[type, Callable[[Any, str, int], None]] = {
    type(None): lambda _value, _path, _depth: None,
    bool: lambda _value, _path, _depth: None,
    str: _check_text,
    int: _check_int,
    float: _check_float,
    list: _check_list,
    dict: _check_dict,
}


class Content(msgspec.Struct, frozen=True):
    """What a person wrote, and what goes with it; a restart makes very many of them (decisions 23).

    Attributes:
        text: goes to the provider verbatim, as one text input.
        attachments: further provider input items.
        display: what views and notices show instead of the text; never sent.
        meta: the host's own, stored and given back, never read (decisions 17).
        when: auto, steer or queue.
        expires_in: seconds it may rest in the queue, None for no limit.
    """

    text: str
    attachments: tuple[Mapping[str, Any], ...] = ()
    display: Any = None
    meta: Any = None
    when: When = When.AUTO
    expires_in: float | None = None

    def same_message(self, other: Content) -> bool:
        """Whether the provider would be shown the same (surface 18)."""
        return self.text == other.text and list(self.attachments) == list(other.attachments)

    def record(self) -> dict[str, Any]:
        """Give it for the journal; parts that stand at their default are left out."""
        fields = self.__struct_fields__[1:]
        changed = {f: v for f, d in zip(fields, self.__struct_defaults__, strict=True) if (v := getattr(self, f)) != d}
        return {"text": self.text, **changed}

    @property
    def shown(self) -> Any:
        """What views and notices show."""
        return self.text if self.display is None else self.display


def content_of(
    text: str,
    *,
    attachments: Sequence[Mapping[str, Any]] = (),
    display: Any = None,
    meta: Any = None,
    when: str = "auto",
    expires_in: float | None = None,
) -> Content:
    """Check what a host submits and make it a value.

    Raises:
        TypeError: an argument is of another type, or a value cannot be journaled (then `Unjournalable`, with its path).
        ValueError: `when` is not auto, steer or queue, or `expires_in` is not positive.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, not {type(text).__name__}")
    check_journalable(text, "text")
    if isinstance(attachments, str | Mapping) or not isinstance(attachments, Sequence):
        raise TypeError(f"attachments must be a list of provider input items, not {type(attachments).__name__}")
    items = list(attachments)
    check_journalable(items, "attachments")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise TypeError(f"attachments[{index}] must be a provider input item (a dict), not {type(item).__name__}")
    check_journalable(display, "display")
    check_journalable(meta, "meta")
    if when not in tuple(When):
        raise ValueError(f"when must be one of {', '.join(When)}, not {when!r}")
    if expires_in is not None and (isinstance(expires_in, bool) or not isinstance(expires_in, int | float)):
        raise TypeError(f"expires_in must be a number of seconds, not {type(expires_in).__name__}")
    if expires_in is not None and not 0 < expires_in < math.inf:
        raise ValueError(f"expires_in must be a positive number of seconds, not {expires_in!r}")
    return Content(text, tuple(items), display, meta, When(when), expires_in)


def content_from(record: Mapping[str, Any]) -> Content:
    """Rebuild content from the journal."""
    return Content(
        record["text"],
        tuple(record.get("attachments", ())),
        record.get("display"),
        record.get("meta"),
        _WHEN[record.get("when", "auto")],
        record.get("expires_in"),
    )


class Message:
    """A follow-up in the runtime; `row` is the core's latest snapshot of it.

    Its `expires_at` is a wall time, since it has to outlive the process.
    """

    __slots__ = (
        "alarmed", "content", "evidence", "expires_at", "id", "logical", "looking", "position", "reason", "row",
        "unread",
    )  # fmt: skip

    def __init__(self, message_id: str, content: Content, row: FollowUp) -> None:
        self.id = message_id
        self.content = content
        self.row = row
        self.evidence = ""
        self.reason = ""
        self.logical = ""
        self.expires_at: float | None = None
        self.position: int | None = None
        self.looking = False
        # Why the last look did not decide it: of this process only, since a restart looks again.
        self.unread = ""
        self.alarmed: frozenset[str] = frozenset()

    def become(self, other: Message) -> Message:
        """Take over everything that another reading of the same message knows; give this one."""
        for field in self.__slots__:
            setattr(self, field, getattr(other, field))
        return self

    def told_record(self) -> dict[str, Any]:
        """Give what a person is told, for the journal."""
        told = {"evidence": self.evidence, "reason": self.reason, "logical": self.logical, "position": self.position}
        return {key: value for key, value in told.items() if value not in ("", None)}

    def take_told(self, told: Mapping[str, Any]) -> None:
        """Tell people from now on what the journal holds."""
        self.unread = ""
        self.evidence = told.get("evidence", "")
        self.reason = told.get("reason", "")
        self.logical = told.get("logical", self.logical)
        self.position = told.get("position", self.position)
