"""What the effect names of the built-in rows mean inside a step (composition 4 and 6).

`tell_*` and `raise_*` become internal events at the front of the step's queue; all others become effect values for the
runtime. Each function gets (composition, snapshot before, kernel step, event).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev

__all__ = ["EFFECTS"]

Effecting = Callable[[Any, Any, Any, Any], None]


# -- internal events -----------------------------------------------------------------------------


def _tell_goal_ended(core: Any, _before: Any, result: Any, _event: Any) -> None:
    status = result.snapshot.state
    ended = ev.GoalEnded("completed" if status == "complete" and core.queue_after_goal else status)
    core.raised += [("every_row", "", ended), ("operation", "", ended)]


def _tell_goal_changed(core: Any, _before: Any, _result: Any, _event: Any) -> None:
    core.raised += [("every_row", "", ev.GoalChanged()), ("operation", "", ev.GoalChanged())]


def _tell_turn_began(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.lane_closed = False
    core.raised.append(("operation", "", ev.TurnBegan(result.snapshot.turn_id)))
    core.raised += [("bind", row.id, None) for row in core.rows if row.state == "accepted"]


def _turn_over(how: str, to_operation: type[Any]) -> Effecting:
    def tell(core: Any, _before: Any, result: Any, _event: Any) -> None:
        turn_id = result.snapshot.turn_id
        core.end_turn(turn_id, inferred=False)
        core.raised += [("every_row", "", ev.TurnOver(turn_id, how)), ("operation", "", to_operation(turn_id))]

    return tell


def _tell_turn_gone(core: Any, before: Any, _result: Any, _event: Any) -> None:
    core.end_turn(before.turn_id, inferred=True)
    gone = ev.TurnOver(before.turn_id, "gone")
    core.raised += [("every_row", "", gone), ("operation", "", ev.TurnGone(before.turn_id))]


def _tell_late_end(core: Any, _before: Any, _result: Any, event: Any) -> None:
    core.gone = tuple(turn for turn in core.gone if turn != event.turn_id)
    how = event.name.removeprefix("turn_")
    core.raised.append(("every_row", "", ev.TurnOver(event.turn_id, how)))


def _tell_stop(core: Any, _before: Any, _result: Any, _event: Any) -> None:
    core.stops += 1
    core.raised.append(("every_row", "", ev.Stopped()))


def _tell_final(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.raised.append(("every_row", "", ev.OpFinal(result.snapshot.state)))


def _raise_bind(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.raised.append(("bind", result.snapshot.id, None))


# -- calls: each takes the next number (the fence of its answer); tries count repeats of a row that stays


def _number_call(core: Any, result: Any) -> Any:
    core.calls += 1
    tries = 1 if result.row.to is not None else core.operation.tries + 1
    core.operation = msgspec.structs.replace(core.operation, call=core.calls, tries=tries)
    return core.operation


def _clear_goal(core: Any, _before: Any, result: Any, _event: Any) -> None:
    op = _number_call(core, result)
    core.effects.append(fx.ClearGoal(op.id, op.call))


def _set_goal(core: Any, _before: Any, result: Any, _event: Any) -> None:
    op = _number_call(core, result)
    core.effects.append(fx.SetGoal(op.id, op.call))


def _pause_goal(core: Any, _before: Any, result: Any, _event: Any) -> None:
    op = _number_call(core, result)
    core.effects.append(fx.PauseGoal(op.id, op.call))


def _interrupt_turn(core: Any, _before: Any, result: Any, _event: Any) -> None:
    op = _number_call(core, result)
    named = op.tries == 1 and core.turn.state == "running"
    core.effects.append(fx.InterruptTurn(op.id, op.call, core.turn.turn_id if named else ""))


def _interrupt_bare(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.InterruptBare(result.snapshot.turn_id))


# -- the operation and its clocks ----------------------------------------------------------------


def _of_operation(effect: type[Any]) -> Effecting:
    return lambda core, _before, result, _event: core.effects.append(effect(result.snapshot.id))


def _with_call(effect: type[Any]) -> Effecting:
    # The number of the last call, which an earlier effect of the same row may just have given out.
    return lambda core, _before, _result, _event: core.effects.append(effect(core.operation.id, core.operation.call))


def _publish_started(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.PublishStarted(result.snapshot.id, result.snapshot.logical))


def _publish_completed(core: Any, _before: Any, result: Any, _event: Any) -> None:
    op = result.snapshot
    core.effects.append(fx.PublishCompleted(op.id, op.logical, op.state))


def _quarantine(core: Any, _before: Any, _result: Any, _event: Any) -> None:
    core.recon = False
    core.effects += [fx.Quarantine(), fx.Reconcile(core.gen)]


# -- follow-up -----------------------------------------------------------------------------------


def _hand_over(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.HandOver(result.snapshot.id))


def _write_fence(core: Any, _before: Any, result: Any, _event: Any) -> None:
    row = result.snapshot
    core.effects.append(fx.WriteFence(row.id, row.attempt, row.route, row.turn_id))


def _request_write(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.RequestWrite(result.snapshot.id, result.snapshot.attempt))


def _write_bytes(core: Any, _before: Any, result: Any, _event: Any) -> None:
    row = result.snapshot
    core.effects.append(fx.WriteBytes(row.id, row.attempt, row.route, row.turn_id))


def _read_back(core: Any, _before: Any, result: Any, _event: Any) -> None:
    row = result.snapshot
    core.effects.append(fx.ReadBack(row.id, row.attempt, row.turn_id))


def _settle(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.Settle(result.snapshot.id, result.snapshot.state))


def _publish(core: Any, _before: Any, result: Any, _event: Any) -> None:
    core.effects.append(fx.Publish(result.snapshot.id, result.snapshot.state))


def _alarm(core: Any, before: Any, _result: Any, event: Any) -> None:
    kind = "doubled" if before.state == "delivered" else "evidence_against_proof"
    core.effects.append(fx.Alarm(before.id, kind, event.item))


EFFECTS: dict[str, Effecting] = {
    "tell_goal_ended": _tell_goal_ended,
    "tell_goal_changed": _tell_goal_changed,
    "tell_turn_began": _tell_turn_began,
    "tell_turn_completed": _turn_over("completed", ev.TurnOverCompleted),
    "tell_turn_failed": _turn_over("failed", ev.TurnOverFailed),
    "tell_turn_interrupted": _turn_over("interrupted", ev.TurnOverInterrupted),
    "tell_turn_gone": _tell_turn_gone,
    "tell_late_end": _tell_late_end,
    "tell_stop": _tell_stop,
    "tell_final": _tell_final,
    "raise_bind": _raise_bind,
    "clear_goal": _clear_goal,
    "set_goal": _set_goal,
    "pause_goal": _pause_goal,
    "interrupt_turn": _interrupt_turn,
    "interrupt_bare": _interrupt_bare,
    "reserve_route": _of_operation(fx.ReserveRoute),
    "release_route": _of_operation(fx.ReleaseRoute),
    "publish_refusal": _of_operation(fx.PublishRefusal),
    "reject_start": _of_operation(fx.RejectStart),
    "publish_started": _publish_started,
    "publish_completed": _publish_completed,
    "start_timer": _with_call(fx.StartTimer),
    "quiet_timer": _with_call(fx.QuietTimer),
    "quarantine": _quarantine,
    "hand_over": _hand_over,
    "write_fence": _write_fence,
    "request_write": _request_write,
    "write_bytes": _write_bytes,
    "read_back": _read_back,
    "settle": _settle,
    "publish": _publish,
    "alarm": _alarm,
}
