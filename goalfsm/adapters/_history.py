"""Looking for messages in the provider's history: what a read proves, and what it does not (facts §6).

Pure but for `read_record`, which reads the provider's own record of a thread and is meant for a worker thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from goalfsm import events as ev
from goalfsm._adapter import Look
from goalfsm.adapters._wire import item_id

__all__ = ["Record", "Seen", "UserLine", "judge_history", "judge_record", "read_record", "seen_in"]

_FINAL = frozenset({"completed", "interrupted", "failed"})


@attrs.frozen
class Seen:
    """What reading turns showed.

    Args:
        messages: (client id, item id, turn id) of every user message with a client id, newest turn first.
        statuses: the status of every turn seen, by turn id.
        whole: whether the history was read to its beginning.
    """

    messages: Sequence[tuple[str, str, str]] = ()
    statuses: Mapping[str, str] = attrs.field(factory=dict)
    whole: bool = False

    def is_final(self, turn_id: str) -> bool:
        """Whether this read itself shows the turn as over (decisions 3)."""
        return self.statuses.get(turn_id) in _FINAL

    def plus(self, later: Seen) -> Seen:
        """Add what a further page showed."""
        return Seen((*self.messages, *later.messages), {**self.statuses, **later.statuses}, later.whole)


def seen_in(page: Any) -> Seen:
    """Read one answer of `thread/turns/list` (or the `thread` of a resume); anything odd in it is passed over."""
    turns = page.get("data", page.get("turns")) if isinstance(page, dict) else None
    messages: list[tuple[str, str, str]] = []
    statuses: dict[str, str] = {}
    for turn in turns if isinstance(turns, list) else ():
        if not isinstance(turn, dict) or not isinstance(turn.get("id"), str):
            continue
        statuses[turn["id"]] = str(turn.get("status"))
        messages.extend(
            (item["clientId"], item_id(item), turn["id"])
            for item in turn.get("items") or ()
            if isinstance(item, dict) and item.get("type") == "userMessage" and isinstance(item.get("clientId"), str)
        )
    return Seen(messages, statuses, isinstance(page, dict) and not page.get("nextCursor"))


Verdict = Literal["found", "absent", "open", "unprovable"]


def judge_history(look: Look, seen: Seen) -> tuple[Verdict, list[ev.TypedEvent]]:
    """Say what one read proves about one message, with the `found` facts, one per item.

    `open` means that a later read may tell more; `unprovable` that no read can prove absence.
    """
    found: list[ev.TypedEvent] = [
        ev.Found(id=look.id, item=item, turn_id=turn) for client, item, turn in seen.messages if client == look.id
    ]
    if found:
        return "found", found
    if look.turn_id and (look.turn_id in seen.statuses or not look.after_resume):
        return ("absent" if seen.is_final(look.turn_id) else "open"), []
    if not look.after_resume:
        return "unprovable", []
    # After a resume no turn of before can still be on its way: not in the whole history is not there.
    return ("absent" if seen.whole else "open"), []


# -- the provider's own record: the one place where a message without its client id can be seen (decisions 1) ---------


@attrs.frozen
class UserLine:
    """One user message in the record, as the model is shown it: without client id.

    Args:
        texts: its text parts.
        turn_id: the turn it belongs to, if the line says.
        offset: byte position of the line.
    """

    texts: tuple[str, ...]
    turn_id: str
    offset: int

    def equals(self, text: str) -> bool:
        """Whether this is the whole text sent."""
        return self.texts == (text,)

    def may_hold(self, text: str) -> bool:
        """Whether this line could be that message with more around it (attachments are parts of their own)."""
        return text in self.texts or text == "".join(self.texts)


@attrs.frozen
class Record:
    """What the record holds.

    Args:
        loose: user lines that no item with a client id, and no item at all, accounts for.
        torn: byte positions of lines that cannot be read.
        size: size in bytes.
    """

    loose: Sequence[UserLine]
    torn: Sequence[int]
    size: int


class _Line(msgspec.Struct):
    type: str = ""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


def _texts(content: Any) -> tuple[str, ...]:
    parts = content if isinstance(content, list) else ()
    return tuple(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _turn_of(payload: Mapping[str, Any]) -> str:
    passed = payload.get("internal_chat_message_metadata_passthrough")
    word = passed.get("turn_id") if isinstance(passed, dict) else None
    return word if isinstance(word, str) else ""


def _settle_pair(loose: list[UserLine], texts: tuple[str, ...]) -> None:
    # An item line follows its model line (facts §6): the nearest earlier one with the same text is accounted for.
    for index in range(len(loose) - 1, -1, -1):
        if loose[index].texts == texts:
            del loose[index]
            return


def read_record(path: str) -> Record:
    """Read the record once, keeping only the user lines that no item accounts for.

    Raises:
        OSError: it cannot be read.
    """
    decode = msgspec.json.Decoder(_Line).decode
    loose: list[UserLine] = []
    torn: list[int] = []
    offset = 0
    with Path(path).open("rb") as lines:
        for raw in lines:
            here, offset = offset, offset + len(raw)
            # A cheap look first: records are long, user messages few.
            if b'"user"' not in raw and b'"UserMessage"' not in raw and raw.endswith(b"}\n"):
                continue
            try:
                line = decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                torn.append(here)
                continue
            payload = line.payload
            if line.type == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
                loose.append(UserLine(_texts(payload.get("content")), _turn_of(payload), here))
            elif payload.get("type") == "item_completed":
                item = payload.get("item")
                if isinstance(item, dict) and item.get("type") == "UserMessage":
                    _settle_pair(loose, _texts(item.get("content")))
    return Record(loose, torn, offset)


def judge_record(looks: Iterable[Look], record: Record, seen: Seen) -> list[ev.TypedEvent]:
    """Decide messages that no read shows by client id, by their text in the record.

    Only lines after a message's fence, equal to its whole text, of its own turn and of a turn that is over, count;
    each line is claimed by one message. Fewer lines than messages with that text, a line that may be the message but
    does not fit, or an unreadable one: no verdict.
    """
    looks = list(looks)
    claims = {look.id: [line for line in record.loose if _fits(look, line, seen)] for look in looks}
    rivals = Counter(look.text for look in looks)
    lines_of = {
        text: {line.offset for look in looks if look.text == text for line in claims[look.id]} for text in rivals
    }
    taken: set[int] = set()
    out: list[ev.TypedEvent] = []
    # Whoever was fenced last has the fewest lines to choose from.
    for look in sorted(looks, key=lambda each: -(each.position or 0)):
        free = [line for line in claims[look.id] if line.offset not in taken]
        if free and len(lines_of[look.text]) >= rivals[look.text]:
            taken.add(free[-1].offset)
            out.append(ev.Found(id=look.id, item="", turn_id=free[-1].turn_id, where="rollout"))
            continue
        doubt = _doubt(look, record)
        if doubt:
            out.append(ev.ReadFailed(id=look.id, attempt=look.attempt, message=doubt))
        else:
            out.append(ev.Absent(id=look.id, attempt=look.attempt, gen=look.gen))
    return out


def _fits(look: Look, line: UserLine, seen: Seen) -> bool:
    return (
        look.position is not None
        and line.offset >= look.position
        and line.equals(look.text)
        and (not look.turn_id or not line.turn_id or line.turn_id == look.turn_id)
        and (not line.turn_id or line.turn_id not in seen.statuses or seen.is_final(line.turn_id))
    )


def _doubt(look: Look, record: Record) -> str:
    since = look.position or 0
    if look.position is not None and record.size < look.position:
        return "the provider's record of the thread is shorter than when the message was fenced"
    if any(offset >= since for offset in record.torn):
        return "the provider's record of the thread has an unreadable line after the message's fence"
    if any(line.offset >= since and line.may_hold(look.text) for line in record.loose):
        return "the provider's record holds this text without an id, and it cannot be told whose it is"
    return ""
