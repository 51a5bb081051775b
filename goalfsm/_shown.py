"""What a recorded read shows of the user messages of a thread, and of which turns its silence is proof (facts 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from goalfsm.adapters._wire import item_id

__all__ = ["READS", "Shown", "UserItem", "content_key", "shown_in", "user_item"]

READS: Final = frozenset(
    {"thread/read", "thread/resume", "thread/turns/list", "thread/items/list", "thread/timeline/list"}
)
_FINAL: Final = frozenset({"completed", "interrupted", "failed"})


@attrs.frozen
class UserItem:
    """One user message that the provider shows.

    Args:
        client: its client id; empty if it has none.
        item: the provider's id of it; empty for a number of the read itself.
        turn: the turn that holds it.
        content: its input, comparable with what was sent.
    """

    client: str
    item: str
    turn: str
    content: str


@attrs.frozen
class Shown:
    """What one read answered.

    Args:
        items: the user messages, in the answer's order.
        over: the turns that this answer shows as ended, with their status.
        complete: the ended turns of which it shows every item: a message that is not there was not delivered
            (decisions 3). A `summary` view proves presence only.
        all_items: the answer lists every item of the thread, but says nothing about the state of a turn.
        running: the turn that it shows as running, if any.
        idle: it shows that no turn runs.
    """

    items: tuple[UserItem, ...] = ()
    over: Mapping[str, str] = attrs.field(factory=dict)
    complete: frozenset[str] = frozenset()
    all_items: bool = False
    running: str = ""
    idle: bool = False


def content_key(content: Any) -> str:
    """Give a comparable form of a message's input; the server adds empty parts to what was sent."""
    parts = content if isinstance(content, list) else []
    filled = [
        {key: value for key, value in part.items() if value not in (None, [], {})}
        for part in parts
        if isinstance(part, dict)
    ]
    return msgspec.json.encode(filled, order="deterministic").decode()


def user_item(item: Any, turn: Any) -> UserItem | None:
    """Read one item; None if it is no user message or its turn is not named."""
    if not isinstance(item, dict) or item.get("type") != "userMessage" or not isinstance(turn, str):
        return None
    client = item.get("clientId")
    return UserItem(client if isinstance(client, str) else "", item_id(item), turn, content_key(item.get("content")))


def shown_in(method: str, params: Mapping[str, Any], result: Any) -> Shown:
    """Read the answer to one of `READS`; anything odd in it is passed over."""
    if not isinstance(result, dict):
        return Shown()
    if method in ("thread/items/list", "thread/timeline/list"):
        entries = _dicts(result.get("data"))
        items = tuple(found for entry in entries if (found := user_item(entry.get("item"), entry.get("turnId"))))
        first_and_last = not params.get("cursor") and not result.get("nextCursor")
        return Shown(items, all_items=method == "thread/items/list" and first_and_last)
    if method == "thread/turns/list":
        return _turns(_dicts(result.get("data")))
    thread = result.get("thread")
    if not isinstance(thread, dict):
        return Shown()
    page = result.get("initialTurnsPage")
    later = _dicts(page.get("data")) if isinstance(page, dict) else []
    shown = _turns([*_dicts(thread.get("turns")), *later])
    status = thread.get("status")
    word = status.get("type") if isinstance(status, dict) else None
    return attrs.evolve(shown, idle=not shown.running and word in ("idle", "systemError"))


def _turns(turns: Iterable[dict[str, Any]]) -> Shown:
    items: list[UserItem] = []
    over: dict[str, str] = {}
    complete: set[str] = set()
    running = ""
    for turn in turns:
        turn_id, status = turn.get("id"), turn.get("status")
        if not isinstance(turn_id, str) or not isinstance(status, str):
            continue
        items += [found for item in _dicts(turn.get("items")) if (found := user_item(item, turn_id))]
        if status in _FINAL:
            over[turn_id] = status
            if turn.get("itemsView") == "full":
                complete.add(turn_id)
        elif status == "inProgress":
            running = turn_id
    return Shown(tuple(items), over, frozenset(complete), running=running)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
