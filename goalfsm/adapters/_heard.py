"""The vocabulary between the wire and a connection: what a request meant, and what a message means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from goalfsm import events as ev
from goalfsm._adapter import Notification
from goalfsm._values import GoalStatus, GoalView

__all__ = [
    "Answered",
    "Facts",
    "GoalSeen",
    "Heard",
    "Noted",
    "Odd",
    "Pending",
    "PendingKind",
    "RpcError",
    "ServerRequest",
    "brief",
    "found_turn",
    "goal_heard",
    "goal_view",
    "item_id",
    "text_of",
    "thread_of",
]

PendingKind = Literal[
    "clear_goal", "set_goal", "pause_goal", "pause_check", "get_goal", "interrupt_turn", "send", "other"
]


class Pending(msgspec.Struct, frozen=True):
    """What a request meant; its answer is read in this light.

    Attributes:
        kind: `pause_check` is the goal/get before a pause: only an active goal may be paused.
        thread_id: the thread it concerns.
        number: number of an operation's call; 0 if no call waits for it.
        id: client id of a sent message.
        attempt: fence of a sent message.
        route: steer or start, of a sent message.
        turn_id: the turn that a steer named.
        waiter: opaque; if set, the answer itself is given back too.
    """

    kind: PendingKind
    thread_id: str = ""
    number: int = 0
    id: str = ""
    attempt: int = 0
    route: str = ""
    turn_id: str = ""
    waiter: Any = None


class RpcError(msgspec.Struct, frozen=True):
    """The provider's error: its code and its words. Code 0: the answer was not readable."""

    code: int
    message: str


class Facts(msgspec.Struct, frozen=True):
    """Facts about a thread, in order."""

    thread_id: str
    events: tuple[ev.TypedEvent, ...]


class GoalSeen(msgspec.Struct, frozen=True):
    """The goal as just told; comes before its fact."""

    thread_id: str
    view: GoalView | None


class Noted(msgspec.Struct, frozen=True, gc=False):
    """A notification for readers; comes after the facts drawn from it."""

    thread_id: str
    notification: Notification


class Odd(msgspec.Struct, frozen=True):
    """Something unexpected: malformed, unanswerable, unknown_method, unknown_status."""

    thread_id: str
    kind: str
    detail: str


class Answered(msgspec.Struct, frozen=True):
    """The answer to a request with a waiter; comes after its facts."""

    pending: Pending
    result: Any = None
    error: RpcError | None = None


class ServerRequest(msgspec.Struct, frozen=True):
    """The provider asks, and waits for an answer under `request_id`."""

    request_id: Any
    method: str
    params: Mapping[str, Any]
    thread_id: str


Heard = Facts | GoalSeen | Noted | Odd | Answered | ServerRequest


_GOALS: dict[str, tuple[GoalStatus, type[Any]]] = {
    "active": (GoalStatus.ACTIVE, ev.GoalActive),
    "paused": (GoalStatus.PAUSED, ev.GoalPaused),
    "blocked": (GoalStatus.BLOCKED, ev.GoalBlocked),
    "usageLimited": (GoalStatus.USAGE_LIMITED, ev.GoalUsageLimited),
    "budgetLimited": (GoalStatus.BUDGET_LIMITED, ev.GoalBudgetLimited),
    "complete": (GoalStatus.COMPLETE, ev.GoalCompleted),
}
_NUMBERED = re.compile(r"item-\d+")
# Refusals differ only in their text, steer and interrupt only by backticks (facts §3).
_FOUND = re.compile(r"expected active turn id `?[^`]*?`? but found `?([^`\s]+)`?")
_NO_TURN = "no active turn to "
_SHOWN = 200


def item_id(item: Mapping[str, Any]) -> str:
    """Give the provider's id of an item; empty for a mere number of a read of legacy history (composition §10)."""
    word = item.get("id")
    return word if isinstance(word, str) and not _NUMBERED.fullmatch(word) else ""


def found_turn(message: str) -> str | None:
    """Read a refusal that only says that the turn is over (facts §3): the running turn, '' if none, else None."""
    if message.startswith(_NO_TURN):
        return ""
    match = _FOUND.search(message)
    return match[1] if match else None


def goal_view(goal: Mapping[str, Any]) -> GoalView:
    """Turn the provider's goal into a view; `ref` is a digest of creation time and objective (composition §1)."""
    objective = goal.get("objective")
    text = objective if isinstance(objective, str) else ""
    word = goal.get("status")
    raw = word if isinstance(word, str) else ""
    budget, used = goal.get("tokenBudget"), goal.get("tokensUsed")
    identity = f"{goal.get('createdAt')}\0{text}".encode("utf-8", "surrogatepass")
    return GoalView(
        objective=text,
        status=_GOALS[raw][0] if raw in _GOALS else GoalStatus.UNKNOWN,
        raw_status=raw,
        token_budget=budget if isinstance(budget, int) else None,
        tokens_used=used if isinstance(used, int) else 0,
        ref=hashlib.blake2b(identity, digest_size=8).hexdigest(),
    )


def _goal_fact(view: GoalView | None) -> ev.TypedEvent:
    if view is None:
        return ev.GoalCleared()
    if view.raw_status not in _GOALS:
        return ev.GoalUnrecognised(ref=view.ref, word=view.raw_status)
    fact: ev.TypedEvent = _GOALS[view.raw_status][1](ref=view.ref)
    return fact


def brief(value: object) -> str:
    """Show untrusted content, quoted and cut short."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def text_of(value: Any) -> str:
    """Give a text as it is, and anything else as an empty one."""
    return value if isinstance(value, str) else ""


def thread_of(params: Mapping[str, Any]) -> str:
    """Find the thread that parameters speak of; empty where they name none."""
    word = params.get("threadId")
    if word is None:
        thread = params.get("thread")
        word = thread.get("id") if isinstance(thread, dict) else params.get("conversationId")
    return word if isinstance(word, str) else ""


def goal_heard(thread_id: str, view: GoalView | None) -> list[Heard]:
    """Say what a told goal means: the view for readers, then its fact (composition §10)."""
    return [GoalSeen(thread_id, view), Facts(thread_id, (_goal_fact(view),))]
