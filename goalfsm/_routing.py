"""Which machines an external event goes to, in order (composition 3). The keys are what `ThreadCore.handle` accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goalfsm import events as ev
from goalfsm._core import WAITING
from goalfsm._guards import live
from goalfsm._kernel import Verdict

__all__ = ["ROUTES", "Item"]

Item = tuple[str, str, Any]
"""(target, message id, event): target is goal, turn, operation, row, every_row, open or bind."""

Route = Callable[[Any, Any], list[Item]]


def _goal(_core: Any, event: Any) -> list[Item]:
    return [("goal", "", event)]


def _turn(_core: Any, event: Any) -> list[Item]:
    return [("turn", "", event)]


def _operation(_core: Any, event: Any) -> list[Item]:
    return [("operation", "", event)]


def _row(_core: Any, event: Any) -> list[Item]:
    return [("row", event.id, event)]


def _turn_started(core: Any, event: Any) -> list[Item]:
    opening: list[Item] = [("open", row.id, None) for row in core.rows if row.state == "delivering"]
    return [("turn", "", event), *opening]


def _start(core: Any, event: Any) -> list[Item]:
    if live(core):
        core.judge("operation", "", core.operation.state, event.name, Verdict.REJECTED, "one operation at a time")
    core.begin_operation()
    return [("operation", "", event)]


def _adopt(core: Any, event: Any) -> list[Item]:
    if live(core):
        core.judge("operation", "", core.operation.state, event.name, Verdict.REJECTED, "one operation at a time")
    items: list[Item] = core.adopting()
    return items


def _stop(core: Any, event: Any) -> list[Item]:
    if live(core):
        op = core.operation
        if op.state in ("stopping", "interrupting") or (op.state == "setting" and op.stopped):
            # It joins the stop that already runs (surface 11), which told only those who waited then (rules P5).
            core.stops += 1
            return [("operation", "", event), ("every_row", "", ev.Stopped())]
        return [("operation", "", event)]
    if core.goal.state == "active":
        return [*core.adopting(), ("operation", "", event)]
    core.stops += 1
    return [("every_row", "", ev.Stopped()), ("turn", "", ev.Halt())]


def _set_ok(core: Any, event: ev.SetOk) -> list[Item]:
    logical = core.turn.turn_id if core.turn.state == "running" else ""
    return [("operation", "", ev.SetOk(event.call, logical))]


def _interrupt_other(_core: Any, event: ev.InterruptOther) -> list[Item]:
    named: list[Item] = [("turn", "", ev.TurnNamed(event.found))] if event.found else []
    return [*named, ("operation", "", event)]


def _send_now(core: Any, event: ev.SendNow) -> list[Item]:
    return [("row", event.id, ev.SendNow(event.id, *core.captured()))]


def _taken(core: Any, event: ev.Taken) -> list[Item]:
    return [("row", event.id, ev.Taken(event.id, _ref(core, event.id)))]


def _ref(core: Any, message_id: str) -> str:
    index = core.index(message_id)
    captured = "" if index is None else core.rows[index].ref
    return captured or (core.goal.ref if core.goal.state == "active" else "")


def _send_ok(core: Any, event: ev.SendOk) -> list[Item]:
    index = core.index(event.id)
    row = None if index is None else core.rows[index]
    answers = row is not None and row.route == "start" and row.attempt == event.attempt
    if not answers or not event.turn_id:
        return [("row", event.id, event)]
    return [("turn", "", ev.TurnNamed(event.turn_id)), ("open", event.id, None), ("row", event.id, event)]


def _send_moved(core: Any, event: ev.SendMoved) -> list[Item]:
    index = core.index(event.id)
    avoid = "" if index is None else core.rows[index].turn_id
    named: list[Item] = [("turn", "", ev.TurnNamed(event.found))] if event.found else []
    filled = ev.SendMoved(event.id, event.attempt, event.found, _ref(core, event.id), avoid, event.code, event.message)
    return [*named, ("row", event.id, filled)]


def _echo(_core: Any, event: ev.Echo) -> list[Item]:
    return [("open", event.id, None), ("row", event.id, event)]


def _new_generation(core: Any, event: Any) -> list[Item]:
    core.gen += 1
    core.recon = False
    core.forget_turns()
    core.emit_reconcile()
    return [("goal", "", event), ("turn", "", event), ("every_row", "", event), ("operation", "", event)]


def _owner_changed(core: Any, event: ev.OwnerChanged) -> list[Item]:
    if event.epoch <= core.epoch:
        core.judge("thread", "", "owned", event.name, Verdict.IGNORED, f"epoch {core.epoch} is not older")
        return []
    core.epoch = event.epoch
    return [("every_row", "", event), ("operation", "", event)]


def _reconciled(core: Any, event: ev.Reconciled) -> list[Item]:
    current = event.gen == core.gen
    core.recon = core.recon or current
    why = "" if current else f"generation {event.gen} is over, now {core.gen}"
    core.judge("thread", "", "reconciling", event.name, Verdict.MOVED if current else Verdict.IGNORED, why)
    return []


def _submit(core: Any, event: ev.Submit) -> list[Item]:
    index = core.index(event.id)
    if index is not None:
        state = core.rows[index].state
        core.judge("follow_up", event.id, state, event.name, Verdict.REJECTED, "the id is taken")
    core.new_row(event)
    return []


def _move(core: Any, event: ev.Move) -> list[Item]:
    index = core.index(event.id)
    state = "absent" if index is None else core.rows[index].state
    if state not in WAITING:
        core.judge("follow_up", event.id, state, event.name, Verdict.REJECTED, "only a waiting message has a position")
    row = core.rows.pop(index)
    waiting = [i for i, other in enumerate(core.rows) if other.state in WAITING]
    place = max(event.position, 0)
    core.rows.insert(waiting[place] if place < len(waiting) else len(core.rows), row)
    core.judge("follow_up", event.id, state, event.name, Verdict.MOVED, "a person's order")
    return []


def _release(core: Any, event: ev.Release) -> list[Item]:
    index = core.index(event.id)
    own = "" if index is None else core.rows[index].when
    return [("row", event.id, ev.Release(event.id, event.when or own))]


def _resend(core: Any, event: ev.Resend) -> list[Item]:
    return [("row", event.id, ev.ResolveUnsent(event.id)), *_release(core, ev.Release(event.id))]


def _observed_send(core: Any, event: ev.ObservedSend) -> list[Item]:
    op = core.operation.id if live(core) else 0
    filled = ev.ObservedSend(event.id, event.attempt, event.route, event.turn_id, op, core.stops, core.epoch, core.gen)
    return [("row", event.id, filled)]


def _names(*classes: type[ev.TypedEvent]) -> tuple[str, ...]:
    return tuple(cls.name for cls in classes)


ROUTES: dict[str, Route] = {
    **dict.fromkeys(
        _names(
            ev.GoalActive, ev.GoalPaused, ev.GoalBlocked, ev.GoalUsageLimited, ev.GoalBudgetLimited,
            ev.GoalCompleted, ev.GoalCleared, ev.GoalUnrecognised,
        ),
        _goal,
    ),
    **dict.fromkeys(
        _names(ev.TurnNamed, ev.TurnCompleted, ev.TurnFailed, ev.TurnInterrupted, ev.TurnNone), _turn
    ),
    **dict.fromkeys(
        _names(
            ev.ClearOk, ev.CallRefused, ev.CallLost, ev.PauseOk, ev.InterruptOk, ev.InterruptNone,
            ev.InterruptRefused, ev.StartTimeout, ev.Silence, ev.Quiet,
        ),
        _operation,
    ),
    **dict.fromkeys(
        _names(
            ev.Hold, ev.Edit, ev.Withdraw, ev.Recall, ev.ResolveSent, ev.ResolveUnsent, ev.ResolveDrop,
            ev.LookAgain, ev.BeginWrite, ev.FenceFailed, ev.AnswerLost, ev.EchoLost, ev.ReadFailed, ev.SendRefused,
            ev.Watermark, ev.Found, ev.Absent, ev.HandOverTimeout, ev.Expire,
        ),
        _row,
    ),
    ev.TurnStarted.name: _turn_started,
    ev.Start.name: _start,
    ev.Adopt.name: _adopt,
    ev.Stop.name: _stop,
    ev.SetOk.name: _set_ok,
    ev.InterruptOther.name: _interrupt_other,
    ev.SendNow.name: _send_now,
    ev.Taken.name: _taken,
    ev.SendOk.name: _send_ok,
    ev.SendMoved.name: _send_moved,
    ev.Echo.name: _echo,
    ev.TransportLost.name: _new_generation,
    ev.Restarted.name: _new_generation,
    ev.OwnerChanged.name: _owner_changed,
    ev.Reconciled.name: _reconciled,
    ev.Submit.name: _submit,
    ev.Move.name: _move,
    ev.Release.name: _release,
    ev.Resend.name: _resend,
    ev.ObservedSend.name: _observed_send,
}  # fmt: skip
