"""Values that a person meets: policy, views, results, outcomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import attrs

__all__ = [
    "Anomaly",
    "GoalStatus",
    "GoalView",
    "Outcome",
    "Policy",
    "Result",
    "ResultStatus",
    "StreamEvent",
    "Timeouts",
    "TokenCounts",
    "Usage",
    "When",
]


class GoalStatus(StrEnum):
    """Where the persisted goal of a thread stands (surface 1)."""

    NONE = "none"
    ACTIVE = "active"
    PAUSED = "paused"
    BLOCKED = "blocked"
    USAGE_LIMITED = "usage_limited"
    BUDGET_LIMITED = "budget_limited"
    COMPLETE = "complete"
    UNKNOWN = "unknown"


class ResultStatus(StrEnum):
    """How a logical turn ended (surface 1)."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class When(StrEnum):
    """When a follow-up may go: into the running turn if there is one, only so, or as its own turn (surface 17)."""

    AUTO = "auto"
    STEER = "steer"
    QUEUE = "queue"


def _is_seconds(_timeouts: object, field: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"timeouts.{field.name} must be a number of seconds, not {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"timeouts.{field.name} must be a positive number of seconds, not {value!r}")


@attrs.frozen
class Timeouts:
    """Every limit of time, in seconds (decisions 7).

    Args:
        call: one provider call; it is tried twice.
        start: from the goal being set to its first turn.
        answer: the answer to a steer or turn/start.
        read_back: looking for one message after its turn.
        quiet: proof that nothing starts any more after a stop; longer than the longest gap between turns.
        silence: no activity of a running operation.
        stop: a stop as a whole.
        exit: ending the provider's process.
        hand_over: the operation taking a message off its lane.
        lease: without a heartbeat for so long, the holder of a thread counts as gone.
    """

    call: float = attrs.field(default=3.0, validator=_is_seconds)
    start: float = attrs.field(default=30.0, validator=_is_seconds)
    answer: float = attrs.field(default=10.0, validator=_is_seconds)
    read_back: float = attrs.field(default=5.0, validator=_is_seconds)
    quiet: float = attrs.field(default=0.5, validator=_is_seconds)
    silence: float = attrs.field(default=1800.0, validator=_is_seconds)
    stop: float = attrs.field(default=15.0, validator=_is_seconds)
    exit: float = attrs.field(default=4.0, validator=_is_seconds)
    hand_over: float = attrs.field(default=10.0, validator=_is_seconds)
    lease: float = attrs.field(default=3.0, validator=_is_seconds)


Answer = Mapping[str, Any] | str
Approvals = Literal["decline", "approve"] | Callable[["ApprovalRequest"], Answer | Awaitable[Answer]]


@attrs.frozen
class ApprovalRequest:
    """A request from the provider that wants a decision: its method word and payload."""

    method: str
    params: Mapping[str, Any]
    thread_id: str = ""


def _check_approvals(_policy: object, _attribute: object, value: object) -> None:
    if value not in ("decline", "approve") and not callable(value):
        raise ValueError(f"approvals must be 'decline', 'approve' or a callable, not {value!r}")


@attrs.frozen
class Policy:
    """What the host decides once for an engine.

    Args:
        on_goal_complete: a message still unsent when the goal completes starts its own turn (`start`) or comes back
            (`hold`).
        on_restart: queued messages go on after reconciling (`continue`) or are held (`hold`).
        resume_goals: set a goal active again after a restart if it was active before.
        on_exit: a goal that runs when the engine closes is paused (`pause`) or left (`leave`).
        approvals: how requests of the provider are answered: `decline`, `approve`, or a callable that gets an
            `ApprovalRequest` and gives `"decline"`, `"approve"` or the whole answer.
        timeouts: every limit of time.
        log_text: whether message texts may appear in the logs.
    """

    on_goal_complete: Literal["start", "hold"] = attrs.field(
        default="start", validator=attrs.validators.in_(("start", "hold"))
    )
    on_restart: Literal["continue", "hold"] = attrs.field(
        default="continue", validator=attrs.validators.in_(("continue", "hold"))
    )
    resume_goals: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    on_exit: Literal["pause", "leave"] = attrs.field(
        default="pause", validator=attrs.validators.in_(("pause", "leave"))
    )
    approvals: Approvals = attrs.field(default="decline", validator=_check_approvals)
    timeouts: Timeouts = attrs.field(factory=Timeouts, validator=attrs.validators.instance_of(Timeouts))
    log_text: bool = False


@attrs.frozen
class GoalView:
    """The persisted goal of a thread, as the provider last told it (surface 2).

    Args:
        objective: its text.
        status: where it stands; an unknown word of the provider reads `unknown`.
        raw_status: the provider's word.
        token_budget: its own token budget, if any.
        tokens_used: tokens charged to it.
        ref: its opaque identity, from objective and creation time.
    """

    objective: str
    status: GoalStatus
    raw_status: str = ""
    token_budget: int | None = None
    tokens_used: int = 0
    ref: str = ""


@attrs.frozen
class TokenCounts:
    """Token figures of one update."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0


@attrs.frozen
class Usage:
    """The last usage update: the thread's total and the last request's."""

    total: TokenCounts
    last: TokenCounts


@attrs.frozen
class Result:
    """What a logical turn gave (surface 3).

    Args:
        id: the logical turn id.
        status: completed, interrupted or failed.
        items: the provider's items of all physical turns in order.
        final_response: the last final answer, else the last message, else None.
        usage: the last usage update, if any.
        started_at: unix seconds of the first physical turn's start.
        completed_at: unix seconds of the last physical turn's end.
        duration_ms: first start to last end, in milliseconds.
    """

    id: str
    status: ResultStatus
    items: Sequence[Mapping[str, Any]] = ()
    final_response: str | None = None
    usage: Usage | None = None
    started_at: float | None = None
    completed_at: float | None = None
    duration_ms: int | None = None


@attrs.frozen
class StreamEvent:
    """One event of a logical turn's stream (surface 4).

    Args:
        method: the provider's method word, or goalfsm's own (`follow_up/delivered`).
        params: its payload; every turn id in it is the logical id.
        physical_turn_id: the provider's turn id, empty where there is none.
        source: `provider` or `goalfsm`.
    """

    method: str
    params: Mapping[str, Any]
    physical_turn_id: str = ""
    source: Literal["provider", "goalfsm"] = "provider"


@attrs.frozen
class Outcome:
    """The fate of a follow-up, with its evidence (surface 19, 20).

    Args:
        id: the message's id.
        state: delivered, requeued, discarded, expired or uncertain.
        evidence: what was seen and where; empty where nothing was.
        reason: a sentence for people.
        turn_id: the logical turn that took it, if known.
        physical_turn_id: the provider's turn that took it, if known.
    """

    id: str
    state: str
    evidence: str = ""
    reason: str = ""
    turn_id: str = ""
    physical_turn_id: str = ""


@attrs.frozen
class Anomaly:
    """Something nobody expected, kept and shown, never fatal.

    Args:
        thread_id: the thread it concerns, if known.
        kind: anomaly, stale, alarm, malformed, unanswerable, unknown_method, ...
        detail: a sentence for people, with untrusted text quoted.
    """

    thread_id: str
    kind: str
    detail: str
