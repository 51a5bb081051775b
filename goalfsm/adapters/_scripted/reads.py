"""Reading the history back: thread/read, thread/turns/list and thread/items/list (facts 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from goalfsm.adapters._scripted import shapes
from goalfsm.adapters._scripted.records import Thread, TurnRecord

if TYPE_CHECKING:
    from goalfsm.adapters._scripted.requests import Request
    from goalfsm.adapters._server import ScriptedServer

__all__ = ["Reads"]

_PAGE = 100


class Reads:
    """Answers reads from the disk of one server, for threads loaded or not."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server

    def thread(self, request: Request, thread: Thread) -> None:
        """Answer thread/read."""
        turns: list[dict[str, Any]] = []
        if request.params.get("includeTurns"):
            self.server.tell("deprecationNotice", {"summary": "Full-history hydration is deprecated.", "details": None})
            turns = self.full_turns(thread, self._last_shown(request, thread))
        shown = shapes.thread_json(thread, self.server.turns.status(thread), int(self.server.wall), turns)
        self.server.answer(request, {"thread": shown, "readState": {"firstUnread": None, "revision": "scripted"}})

    def turns(self, request: Request, thread: Thread) -> None:
        """Answer thread/turns/list, newest first; a summary omits later user messages of a turn."""
        view = request.params.get("itemsView") or "summary"
        hidden = self._last_shown(request, thread)
        data = []
        for turn in reversed(thread.turns):
            items = self._items(thread, turn, hidden)
            shown = {"full": items, "summary": _summary(items)}.get(view, [])
            data.append(shapes.turn_json(turn, view, shown))
        self._page(request, data)

    def items(self, request: Request, thread: Thread) -> None:
        """Answer thread/items/list, oldest first; it does not say whether a turn has ended."""
        hidden = self._last_shown(request, thread)
        moment = int(self.server.wall * 1000)
        data = [
            {"turnId": turn.id, "item": item, "startedAtMs": moment, "completedAtMs": moment}
            for turn in thread.turns
            for item in self._items(thread, turn, hidden)
        ]
        self._page(request, data)

    def full_turns(self, thread: Thread, hidden: str = "") -> list[dict[str, Any]]:
        """Give all turns with all their items, oldest first."""
        return [shapes.turn_json(turn, "full", self._items(thread, turn, hidden)) for turn in thread.turns]

    def _items(self, thread: Thread, turn: TurnRecord, hidden: str) -> list[dict[str, Any]]:
        loaded = thread.id in self.server.turns.live
        unreadable = {hidden} if loaded else {hidden, *turn.unreadable}
        readable = [item for item in turn.items if item["id"] not in unreadable]
        if not thread.legacy:
            return readable
        # Legacy histories number their items anew on every read (decisions 14).
        return [{**item, "id": f"item-{number}"} for number, item in enumerate(readable, 1)]

    def _last_shown(self, request: Request, thread: Thread) -> str:
        if request.fault is None or request.fault.action != "stale":
            return ""
        shown = [item["id"] for turn in thread.turns for item in turn.items if item["type"] == "userMessage"]
        return shown[-1] if shown else ""

    def _page(self, request: Request, data: Sequence[dict[str, Any]]) -> None:
        limit = request.params.get("limit") or _PAGE
        begin = int(request.params.get("cursor") or 0)
        stop = begin + limit
        following = str(stop) if stop < len(data) else None
        answer = {"data": list(data[begin:stop]), "nextCursor": following, "backwardsCursor": None}
        self.server.answer(request, answer)


def _summary(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    first = next((item for item in items if item["type"] == "userMessage"), None)
    last = next((item for item in reversed(items) if item["type"] == "agentMessage"), None)
    return [item for item in (first, last) if item is not None]
