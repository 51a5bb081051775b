"""The guards of the built-in machines: named, pure predicates over (snapshot, event, context) (composition 5).

The context is the core: its machines, queue and fences. Specs name guards and hold no expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["GUARDS", "free_thread", "lane_free", "live", "may_admit"]

Guard = Callable[[Any, Any, Any], bool]

MAX_TRIES: Final = 2
FINAL_OPERATION: Final = frozenset({"completed", "failed", "interrupted", "detached", "lost", "refused"})
GOAL_NOT_OVER: Final = frozenset({"active", "unknown"})
IN_LANE: Final = frozenset({"admitted", "accepted", "delivering", "acknowledged"})
FINAL_FOLLOW_UP: Final = frozenset({"delivered", "discarded", "expired"})

_found: dict[str, Guard] = {}


def _guard(function: Guard) -> Guard:
    _found[function.__name__.lstrip("_")] = function
    return function


# -- what several guards ask of the core ---------------------------------------------------------


def live(core: Any) -> bool:
    """Whether an operation of this thread has not ended yet."""
    return core.operation is not None and core.operation.state not in FINAL_OPERATION


def lane_free(core: Any) -> bool:
    """Whether no message stands between admission and its evidence: one at a time per thread (surface 17)."""
    return all(row.state not in IN_LANE for row in core.rows)


def free_thread(core: Any) -> bool:
    """Reconciled, no live operation, turn idle, and a goal that will not start a turn by itself."""
    return bool(core.recon and core.turn.state == "idle" and core.goal.state not in GOAL_NOT_OVER and not live(core))


def _turn_over(core: Any, turn_id: str) -> bool:
    return bool(turn_id) and turn_id in core.ended


def _goal_over(core: Any) -> bool:
    return core.goal.state not in GOAL_NOT_OVER


def _bound_turn_running(row: Any, core: Any) -> bool:
    return core.operation.state == "running" and core.turn.state == "running" and core.turn.turn_id == row.turn_id


# -- goal and turn -------------------------------------------------------------------------------


@_guard
def same_goal(goal: Any, event: Any, _core: Any) -> bool:
    """The identity is the one held."""
    return bool(goal.ref == event.ref)


@_guard
def other_goal(goal: Any, event: Any, _core: Any) -> bool:
    """Another identity than the one held, if one is."""
    return bool(goal.ref and goal.ref != event.ref)


@_guard
def new_turn(turn: Any, event: Any, core: Any) -> bool:
    """Neither running nor ended."""
    return event.turn_id not in core.ended and (turn.state != "running" or event.turn_id != turn.turn_id)


@_guard
def ended_turn(_turn: Any, event: Any, core: Any) -> bool:
    """Known to be over."""
    return event.turn_id in core.ended


@_guard
def gone_turn(_turn: Any, event: Any, core: Any) -> bool:
    """Its end was only inferred so far."""
    return event.turn_id in core.gone


@_guard
def same_turn(machine: Any, event: Any, _core: Any) -> bool:
    """The machine's own turn."""
    return bool(event.turn_id == machine.turn_id)


# -- operation -----------------------------------------------------------------------------------


@_guard
def thread_startable(_op: Any, _event: Any, core: Any) -> bool:
    """A free thread on which no message is on its way to a turn of its own."""
    idle = core.recon and core.turn.state == "idle" and _goal_over(core)
    return bool(idle and all(row.state not in ("delivering", "acknowledged") for row in core.rows))


@_guard
def turn_running(_op: Any, _event: Any, core: Any) -> bool:
    """The slot runs a turn."""
    return bool(core.turn.state == "running")


@_guard
def turn_idle(_op: Any, _event: Any, core: Any) -> bool:
    """No turn is known to run."""
    return bool(core.turn.state != "running")


@_guard
def unnamed(op: Any, _event: Any, _core: Any) -> bool:
    """The operation has no logical id yet."""
    return not op.logical


@_guard
def goal_over(_op: Any, _event: Any, core: Any) -> bool:
    """The goal is known and not active; unknown is not over."""
    return _goal_over(core)


@_guard
def goal_may_go_on(_op: Any, _event: Any, core: Any) -> bool:
    """The goal is active or not known: a turn of it may come."""
    return not _goal_over(core)


@_guard
def goal_over_after_failure(op: Any, _event: Any, core: Any) -> bool:
    """Over, and a turn of it failed before."""
    return _goal_over(core) and op.failed


@_guard
def had_failure(op: Any, _event: Any, _core: Any) -> bool:
    """A turn failed, or the start did."""
    return bool(op.failed)


@_guard
def not_stopped(op: Any, _event: Any, _core: Any) -> bool:
    """No stop was committed yet."""
    return not op.stopped


@_guard
def same_call(op: Any, event: Any, _core: Any) -> bool:
    """The answer repeats the number of the last call."""
    return bool(event.call == op.call)


@_guard
def other_call(op: Any, event: Any, _core: Any) -> bool:
    """The answer belongs to an earlier call, maybe of an earlier operation."""
    return bool(event.call != op.call)


@_guard
def same_call_stopped(op: Any, event: Any, _core: Any) -> bool:
    """A stop waits for this answer."""
    return event.call == op.call and op.stopped


@_guard
def same_call_turn_running(op: Any, event: Any, core: Any) -> bool:
    """The awaited answer, while a turn runs."""
    return event.call == op.call and core.turn.state == "running"


@_guard
def same_call_turn_idle(op: Any, event: Any, core: Any) -> bool:
    """The awaited answer, and no turn is known to run."""
    return event.call == op.call and core.turn.state != "running"


@_guard
def same_call_goal_active(op: Any, event: Any, core: Any) -> bool:
    """The awaited timer, and the goal is active again."""
    return event.call == op.call and core.goal.state == "active"


@_guard
def same_call_had_failure(op: Any, event: Any, _core: Any) -> bool:
    """The awaited answer, after a failure."""
    return event.call == op.call and op.failed


@_guard
def same_call_idle_had_failure(op: Any, event: Any, core: Any) -> bool:
    """The awaited timer, idle, after a failure."""
    return event.call == op.call and core.turn.state != "running" and op.failed


@_guard
def same_call_tries_left(op: Any, event: Any, _core: Any) -> bool:
    """The awaited answer, and the call may be repeated."""
    return event.call == op.call and op.tries < MAX_TRIES


@_guard
def same_call_turn_running_tries_left(op: Any, event: Any, core: Any) -> bool:
    """The awaited answer, a turn runs, and the call may be repeated."""
    return event.call == op.call and core.turn.state == "running" and op.tries < MAX_TRIES


# -- follow-up: admission and delivery -----------------------------------------------------------


@_guard
def may_admit(_row: Any, _event: Any, core: Any) -> bool:
    """The operation runs, or its goal goes on after the gap; reconciled; lane free."""
    op = core.operation
    if op is None or not core.recon:
        return False
    going = op.state == "running" or (op.state == "gap" and core.goal.state == "active")
    return going and lane_free(core)


@_guard
def may_follow(row: Any, event: Any, core: Any) -> bool:
    """May be admitted by itself: first queued, not meant for a turn of its own, lane not closed by a refusal."""
    if row.when == "queue" or core.lane_closed:
        return False
    return first_queued(core.rows) is row and may_admit(row, event, core)


def first_queued(rows: Any) -> Any:
    """Give the first runnable row; held, requeued and uncertain ones wait for a person or evidence and block nobody."""
    for row in rows:
        if row.state == "queued":
            return row
    return None


@_guard
def head_may_start(row: Any, _event: Any, core: Any) -> bool:
    """A free thread, a free lane, and no earlier row is runnable."""
    return free_thread(core) and lane_free(core) and first_queued(core.rows) is row


@_guard
def wants_operation(row: Any, _event: Any, _core: Any) -> bool:
    """Only a steer will do; never a turn of its own."""
    return bool(row.when == "steer")


@_guard
def owner_stands(row: Any, _event: Any, core: Any) -> bool:
    """Operation, stop fence, owner and transport are those of the admission; its goal may be unreadable just now."""
    op = core.operation
    if op is None or op.state not in ("running", "gap") or op.id != row.op:
        return False
    return bool(row.stops == core.stops and row.epoch == core.epoch and row.gen == core.gen)


def owner_ok(row: Any, event: Any, core: Any) -> bool:
    """As `owner_stands`, and (if one was captured) the goal is active and that of the admission."""
    if not owner_stands(row, event, core):
        return False
    return not row.ref or (core.goal.state == "active" and core.goal.ref == row.ref)


@_guard
def may_bind(row: Any, event: Any, core: Any) -> bool:
    """Exactly the running turn of the operation, and not the one that refused this row."""
    if not owner_ok(row, event, core) or core.operation.state != "running" or core.turn.state != "running":
        return False
    return bool(event.turn_id == core.turn.turn_id and event.turn_id != row.avoid)


@_guard
def may_write(row: Any, event: Any, core: Any) -> bool:
    """Everything captured still holds at this instant (composition 5, rules E16)."""
    if event.attempt != row.attempt or row.written or row.wish or not core.recon:
        return False
    if not event.epoch == core.epoch == row.epoch or not event.gen == core.gen == row.gen or row.stops != core.stops:
        return False
    if row.route == "start":
        return free_thread(core)
    return owner_ok(row, event, core) and _bound_turn_running(row, core)


@_guard
def may_retry(row: Any, event: Any, core: Any) -> bool:
    """One more delivery of this admission is left and nothing changed since (decisions 13)."""
    return event.attempt == row.attempt and row.tries < MAX_TRIES and not row.wish and owner_ok(row, event, core)


@_guard
def no_identity(row: Any, _event: Any, _core: Any) -> bool:
    """Handed to an ordinary turn: no goal was captured."""
    return not row.ref


@_guard
def completed_may_queue(row: Any, event: Any, _core: Any) -> bool:
    """Its goal or turn ended well, and it may have a turn of its own."""
    return event.how == "completed" and row.when != "steer"


@_guard
def observing(_row: Any, _event: Any, core: Any) -> bool:
    """The core is a passive observer of recorded traffic (decisions 24)."""
    return bool(core.observer)


# -- follow-up: answers and evidence -------------------------------------------------------------


@_guard
def same_attempt(row: Any, event: Any, _core: Any) -> bool:
    """The answer repeats this attempt."""
    return bool(event.attempt == row.attempt)


@_guard
def other_attempt(row: Any, event: Any, _core: Any) -> bool:
    """Late news of an earlier attempt."""
    return bool(event.attempt != row.attempt)


@_guard
def older_attempt(row: Any, event: Any, _core: Any) -> bool:
    """News of an attempt that is settled."""
    return bool(event.attempt <= row.attempt)


@_guard
def was_attempted(row: Any, _event: Any, _core: Any) -> bool:
    """It was fenced at least once."""
    return bool(row.attempt > 0)


@_guard
def same_attempt_unwritten(row: Any, event: Any, _core: Any) -> bool:
    """This attempt, and no byte was granted."""
    return event.attempt == row.attempt and not row.written


@_guard
def withdrawn_unwritten(row: Any, event: Any, _core: Any) -> bool:
    """This attempt, no byte was granted, and it is not wanted."""
    return event.attempt == row.attempt and not row.written and row.wish == "withdraw"


@_guard
def same_attempt_withdrawn(row: Any, event: Any, _core: Any) -> bool:
    """This attempt, and it is not wanted any more."""
    return event.attempt == row.attempt and row.wish == "withdraw"


@_guard
def no_withdraw_yet(row: Any, _event: Any, _core: Any) -> bool:
    """A withdrawal is a wish for good."""
    return bool(row.wish != "withdraw")


@_guard
def is_written(row: Any, _event: Any, _core: Any) -> bool:
    """Bytes were granted."""
    return bool(row.written)


@_guard
def is_unwritten(row: Any, _event: Any, _core: Any) -> bool:
    """No byte was granted."""
    return not row.written


@_guard
def written_turn_over(row: Any, _event: Any, core: Any) -> bool:
    """Bytes were granted and the bound turn is over."""
    return row.written and _turn_over(core, row.turn_id)


@_guard
def bound_turn_over(row: Any, _event: Any, core: Any) -> bool:
    """The bound turn is over."""
    return _turn_over(core, row.turn_id)


@_guard
def same_attempt_turn_over(row: Any, event: Any, core: Any) -> bool:
    """This attempt, and the bound turn is over."""
    return event.attempt == row.attempt and _turn_over(core, row.turn_id)


same_attempt_bound_turn_over = same_attempt_turn_over
_found["same_attempt_bound_turn_over"] = same_attempt_turn_over


@_guard
def ack_turn_already_over(row: Any, event: Any, core: Any) -> bool:
    """The ok names a turn that is over, and this provider would have echoed before its end."""
    return event.attempt == row.attempt and core.echo and _turn_over(core, event.turn_id)


@_guard
def late_ok_turn_over(row: Any, event: Any, core: Any) -> bool:
    """A late ok of this attempt names a turn that is over."""
    return event.attempt == row.attempt and _turn_over(core, event.turn_id)


@_guard
def same_attempt_ack_is_evidence(row: Any, event: Any, core: Any) -> bool:
    """This attempt, on a provider without echo."""
    return event.attempt == row.attempt and not core.echo


@_guard
def same_turn_completed_ack_is_evidence(row: Any, event: Any, core: Any) -> bool:
    """Its turn completed on a provider without echo."""
    return event.turn_id == row.turn_id and event.how == "completed" and not core.echo


@_guard
def other_turn(row: Any, event: Any, _core: Any) -> bool:
    """Not the turn that it is bound to."""
    return bool(event.turn_id != row.turn_id)


@_guard
def absence_proven(row: Any, event: Any, core: Any) -> bool:
    """This attempt, and its turn is seen to be over, or its server is dead and the thread was resumed."""
    if event.attempt != row.attempt:
        return False
    return (_turn_over(core, row.turn_id) and row.turn_id not in core.gone) or event.gen > row.gen


@_guard
def absence_proven_withdrawn(row: Any, event: Any, core: Any) -> bool:
    """Absence is proven and it is not wanted."""
    return absence_proven(row, event, core) and row.wish == "withdraw"


@_guard
def first_item(row: Any, event: Any, _core: Any) -> bool:
    """The first item that shows it."""
    return not row.item and bool(event.item)


@_guard
def other_item(row: Any, event: Any, _core: Any) -> bool:
    """A second item shows it: the model was shown it twice (decisions 2)."""
    return bool(row.item and event.item and row.item != event.item)


GUARDS: Final[Mapping[str, Guard]] = dict(sorted(_found.items()))
