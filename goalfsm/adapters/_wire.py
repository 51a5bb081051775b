"""What the messages of a codex app-server mean: a pure mapping from its JSON to facts (composition §10).

No I/O and no knowledge of who asked: a live connection and a replay of recorded traffic use the same `Mapper`. Words
and fields that this version does not know are tolerated; only what a fact rests on is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from goalfsm import events as ev
from goalfsm._adapter import Notification, NotificationKind
from goalfsm._values import GoalStatus, TokenCounts, Usage
from goalfsm.adapters._answers import meaning, pending_for, rpc_error
from goalfsm.adapters._heard import (
    Answered,
    Facts,
    GoalSeen,
    Heard,
    Noted,
    Odd,
    Pending,
    PendingKind,
    RpcError,
    ServerRequest,
    brief,
    found_turn,
    goal_heard,
    goal_view,
    item_id,
    text_of,
    thread_of,
)
from goalfsm.adapters._methods import KNOWN_NOTIFICATIONS

__all__ = [
    "Answered",
    "Facts",
    "GoalSeen",
    "Heard",
    "Mapper",
    "Noted",
    "Odd",
    "Pending",
    "PendingKind",
    "RpcError",
    "ServerRequest",
    "found_turn",
    "goal_view",
    "item_id",
    "pending_for",
]

# -- the parts of messages that facts rest on; everything else stays untyped, so that it may change -------------------


class _Turn(msgspec.Struct):
    id: str
    status: Any = None
    error: Any = None
    started_at: Any = msgspec.field(default=None, name="startedAt")
    completed_at: Any = msgspec.field(default=None, name="completedAt")


class _TurnParams(msgspec.Struct):
    thread_id: str = msgspec.field(name="threadId")
    turn: _Turn


class _ItemParams(msgspec.Struct):
    thread_id: str = msgspec.field(name="threadId")
    turn_id: str = msgspec.field(name="turnId")
    item: dict[str, Any]


class _GoalParams(msgspec.Struct):
    thread_id: str = msgspec.field(name="threadId")
    goal: dict[str, Any] | None


class _ThreadParams(msgspec.Struct):
    thread_id: str = msgspec.field(name="threadId")


class _Counts(msgspec.Struct, rename="camel"):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0


class _UsagePair(msgspec.Struct):
    total: _Counts
    last: _Counts


class _UsageParams(msgspec.Struct):
    thread_id: str = msgspec.field(name="threadId")
    usage: _UsagePair = msgspec.field(name="tokenUsage")


def _seconds(stamp: Any, fallback: Any) -> float | None:
    # emittedAtMs is finer than a turn's whole seconds.
    if isinstance(stamp, int | float):
        return stamp / 1000
    return float(fallback) if isinstance(fallback, int | float) else None


class Mapper:
    """Turns messages into what they mean, one at a time and in order.

    It remembers nothing but the requests that are still unanswered.
    """

    def __init__(self) -> None:
        self._pending: dict[Any, Pending] = {}
        self._notifications: dict[str, Callable[[str, dict[str, Any], Any], list[Heard]]] = {
            "turn/started": self._turn_started,
            "turn/completed": self._turn_completed,
            "thread/goal/updated": self._goal_updated,
            "thread/goal/cleared": self._goal_cleared,
            "item/started": self._item,
            "item/completed": self._item,
            "thread/tokenUsage/updated": self._usage,
        }

    def asked(self, request_id: int | str, pending: Pending) -> None:
        """Register what a request meant, before its answer can come."""
        self._pending[request_id] = pending

    def forget(self, request_id: int | str) -> None:
        """Take a request back that was never written."""
        self._pending.pop(request_id, None)

    def heard(self, msg: object) -> list[Heard]:
        """Say, in order, what one message means; never raises for any JSON value."""
        if type(msg) is not dict:
            return [Odd("", "malformed", f"not an object: {brief(msg)}")]
        method = msg.get("method")
        if method is None:
            return self._answer(msg)
        params = msg.get("params")
        if params is None:
            params = {}
        if type(method) is not str or type(params) is not dict:
            return [Odd("", "malformed", f"no method or no parameters: {brief(msg)}")]
        if "id" in msg:
            return [ServerRequest(msg["id"], method, params, thread_of(params))]
        handler = self._notifications.get(method, self._other)
        try:
            return handler(method, params, msg.get("emittedAtMs"))
        except msgspec.ValidationError as problem:
            odd = Odd(thread_of(params), "malformed", f"{method}: {problem}: {brief(params)}")
            return [odd, Noted(thread_of(params), Notification(method, params))]

    # -- notifications ------------------------------------------------------------------------------------------------

    def _other(self, method: str, params: dict[str, Any], _stamp: Any) -> list[Heard]:
        thread = params.get("threadId")
        if type(thread) is not str:
            thread = thread_of(params)
        turn = params.get("turnId")
        noted = Noted(thread, Notification(method, params, turn if type(turn) is str else ""))
        if method in KNOWN_NOTIFICATIONS:
            return [noted]
        return [Odd(thread, "unknown_method", f"notification {brief(method)}"), noted]

    def _turn_started(self, method: str, params: dict[str, Any], stamp: Any) -> list[Heard]:
        told = msgspec.convert(params, _TurnParams)
        started = _seconds(stamp, told.turn.started_at)
        return [
            Facts(told.thread_id, (ev.TurnStarted(turn_id=told.turn.id),)),
            Noted(told.thread_id, Notification(method, params, told.turn.id, "turn_started", started_at=started)),
        ]

    def _turn_completed(self, method: str, params: dict[str, Any], stamp: Any) -> list[Heard]:
        told = msgspec.convert(params, _TurnParams)
        turn, out = told.turn, list[Heard]()
        error = turn.error.get("message") if isinstance(turn.error, dict) else None
        words = error if isinstance(error, str) else ""
        fact: ev.TypedEvent
        if turn.status == "completed":
            fact = ev.TurnCompleted(turn_id=turn.id)
        elif turn.status == "interrupted":
            fact = ev.TurnInterrupted(turn_id=turn.id)
        else:
            if turn.status != "failed":
                # The method proves that the turn is over. Of the three ends `failed` claims least: no success, and not
                # somebody's stop, which would pause the goal and hold the queue.
                words = words or f"the turn ended with the unknown status {brief(turn.status)}"
                out.append(Odd(told.thread_id, "unknown_status", f"turn {brief(turn.id)}: {words}"))
            fact = ev.TurnFailed(turn_id=turn.id, message=words)
        began, ended = _seconds(None, turn.started_at), _seconds(stamp, turn.completed_at)
        note = Notification(
            method, params, turn.id, "turn_completed", started_at=began, completed_at=ended, error=words
        )
        return [*out, Facts(told.thread_id, (fact,)), Noted(told.thread_id, note)]

    def _goal_updated(self, method: str, params: dict[str, Any], _stamp: Any) -> list[Heard]:
        told = msgspec.convert(params, _GoalParams)
        view = None if told.goal is None else goal_view(told.goal)
        turn, odd = text_of(params.get("turnId")), list[Heard]()
        if view is not None and view.status is GoalStatus.UNKNOWN:
            odd.append(Odd(told.thread_id, "unknown_status", f"goal status {brief(view.raw_status)}"))
        return [*odd, *goal_heard(told.thread_id, view), Noted(told.thread_id, Notification(method, params, turn))]

    def _goal_cleared(self, method: str, params: dict[str, Any], _stamp: Any) -> list[Heard]:
        thread = msgspec.convert(params, _ThreadParams).thread_id
        return [*goal_heard(thread, None), Noted(thread, Notification(method, params))]

    def _item(self, method: str, params: dict[str, Any], _stamp: Any) -> list[Heard]:
        told = msgspec.convert(params, _ItemParams)
        item, done = told.item, method == "item/completed"
        kind: NotificationKind = "item" if done else "other"
        note = Notification(method, params, told.turn_id, kind, item if done else None)
        client = item.get("clientId")
        if item.get("type") == "userMessage" and isinstance(client, str) and client:
            echo = ev.Echo(id=client, item=item_id(item), turn_id=told.turn_id)
            return [Facts(told.thread_id, (echo,)), Noted(told.thread_id, note)]
        return [Noted(told.thread_id, note)]

    def _usage(self, method: str, params: dict[str, Any], _stamp: Any) -> list[Heard]:
        told = msgspec.convert(params, _UsageParams)
        usage = Usage(total=_counts(told.usage.total), last=_counts(told.usage.last))
        turn = text_of(params.get("turnId"))
        return [Noted(told.thread_id, Notification(method, params, turn, "usage", usage=usage))]

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, msg: dict[str, Any]) -> list[Heard]:
        if "id" not in msg:
            return [Odd("", "malformed", f"neither a method nor an id: {brief(msg)}")]
        key = msg["id"]
        pending = self._pending.pop(key, None) if isinstance(key, int | str) and not isinstance(key, bool) else None
        if pending is None:
            return [Odd("", "unanswerable", f"answer to a request never made, or answered before: {brief(msg)}")]
        result, error, out = msg.get("result"), None, list[Heard]()
        raw = msg.get("error")
        if raw is not None or "result" not in msg:
            error = rpc_error(raw)
            if error.code == 0:
                out.append(Odd(pending.thread_id, "malformed", f"unreadable answer: {brief(msg)}"))
        out.extend(meaning(pending, result, error))
        if pending.waiter is not None and pending.kind != "pause_check":
            out.append(Answered(pending, result, error))
        return out


def _counts(told: _Counts) -> TokenCounts:
    return TokenCounts(
        told.input_tokens,
        told.cached_input_tokens,
        told.output_tokens,
        told.reasoning_output_tokens,
        told.total_tokens,
    )
