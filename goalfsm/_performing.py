"""How the runtime performs each effect: a call to the provider, a clock, or a word to somebody who waits.

Called after the step was journaled, in the order of the row. Nothing here suspends; what comes back is an event.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._adapter import CallKind, Look
from goalfsm._errors import TransportClosed
from goalfsm._run import Run

__all__ = ["PERFORM"]

Performing = Callable[[Any, Any, Any], None]


# -- calls of the operation ----------------------------------------------------------------------


def _call(thread: Any, kind: CallKind, number: int, **options: Any) -> None:
    connection = thread.engine.connection
    if number:
        thread.arm(("call",), thread.engine.policy.timeouts.call, ev.CallLost(number))
    # A connection that just ended tells every thread by itself; the deadline stays for one that does not.
    with suppress(TransportClosed):
        if connection is not None:
            connection.call(thread.id, kind, number, **options)


def _clear_goal(thread: Any, effect: fx.ClearGoal, _event: ev.TypedEvent) -> None:
    _call(thread, "clear_goal", effect.call)


def _set_goal(thread: Any, effect: fx.SetGoal, _event: ev.TypedEvent) -> None:
    run = thread.runs[effect.op]
    _call(thread, "set_goal", effect.call, objective=run.objective, token_budget=run.token_budget)


def _pause_goal(thread: Any, effect: fx.PauseGoal, _event: ev.TypedEvent) -> None:
    _call(thread, "pause_goal", effect.call)


def _interrupt_turn(thread: Any, effect: fx.InterruptTurn, _event: ev.TypedEvent) -> None:
    _call(thread, "interrupt_turn", effect.call, turn_id=effect.turn_id)


def _interrupt_bare(thread: Any, effect: fx.InterruptBare, _event: ev.TypedEvent) -> None:
    _call(thread, "interrupt_turn", 0, turn_id=effect.turn_id)


# -- the operation towards its caller ------------------------------------------------------------


def _reserve_route(thread: Any, effect: fx.ReserveRoute, event: ev.TypedEvent) -> None:
    run = thread.runs.get(effect.op)
    if run is None:
        run = thread.runs[effect.op] = Run(effect.op, thread.id)
        thread.began(_opener(thread, event), run)
    thread.run = run
    thread.engine.watch_silence(thread)


def _opener(thread: Any, event: ev.TypedEvent) -> str:
    """Which message's ordinary turn was opened by this event, if one was (composition 3, *open*)."""
    if isinstance(event, ev.SendOk | ev.Echo):
        return event.id
    if isinstance(event, ev.TurnStarted):
        starting = (row.id for row in thread.core.rows if row.state == "delivering" and row.route == "start")
        return next(starting, "")
    return ""


def _release_route(thread: Any, effect: fx.ReleaseRoute, _event: ev.TypedEvent) -> None:
    run = thread.runs.pop(effect.op, None)
    if run is not None and not run.how:
        # Only a change of owner releases the route without a completion.
        run.end("detached")
    thread.disarm("silence")
    thread.disarm("stop")


def _publish_started(thread: Any, effect: fx.PublishStarted, _event: ev.TypedEvent) -> None:
    run = thread.runs.get(effect.op)
    if run is not None and effect.logical:
        run.begin(effect.logical)
        thread.disarm("start")


def _publish_completed(thread: Any, effect: fx.PublishCompleted, event: ev.TypedEvent) -> None:
    run = thread.runs.get(effect.op)
    if run is None:
        return
    if isinstance(event, ev.CallRefused):
        run.refusal = (event.code, event.message)
    run.end(effect.how, _why_it_failed(event))
    for row in thread.core.rows:
        if row.state == "acknowledged":
            limit = thread.engine.policy.timeouts.silence
            thread.arm(("echo", row.id, row.attempt), limit, ev.EchoLost(row.id, row.attempt))


_FAILURES = {
    "start_timeout": "the goal was set, but its first turn did not start in time",
    "call_lost": "the provider did not answer in time",
    "silence": "the provider went silent",
    "transport_lost": "the connection to the provider ended",
}


def _why_it_failed(event: ev.TypedEvent) -> str:
    words = getattr(event, "message", "")
    return words or _FAILURES.get(event.name, "")


def _publish_refusal(thread: Any, effect: fx.PublishRefusal, event: ev.InterruptRefused) -> None:
    run = thread.runs.get(effect.op)
    if run is not None:
        run.stop_refusal = (event.code, event.message)
        run.wake()


def _reject_start(thread: Any, effect: fx.RejectStart, event: ev.TypedEvent) -> None:
    run = thread.runs.pop(effect.op, None)
    if run is None:
        return
    if isinstance(event, ev.CallRefused):
        run.refusal = (event.code, event.message)
    run.end("refused")


def _quarantine(thread: Any, _effect: fx.Quarantine, _event: ev.TypedEvent) -> None:
    thread.log.warning("stop unconfirmed", operation=thread.core.operation.id)


def _reconcile(thread: Any, effect: fx.Reconcile, event: ev.TypedEvent) -> None:
    # After a loss or a restart there is nobody to ask until the thread is resumed.
    if not isinstance(event, ev.TransportLost | ev.Restarted):
        thread.engine.reconcile_soon(thread, effect.gen)


# -- clocks --------------------------------------------------------------------------------------


def _start_timer(thread: Any, effect: fx.StartTimer, _event: ev.TypedEvent) -> None:
    thread.arm(("start",), thread.engine.policy.timeouts.start, ev.StartTimeout(effect.call))


def _quiet_timer(thread: Any, effect: fx.QuietTimer, _event: ev.TypedEvent) -> None:
    thread.arm(("quiet",), thread.engine.policy.timeouts.quiet, ev.Quiet(effect.call))


# -- follow-up -----------------------------------------------------------------------------------


def _hand_over(thread: Any, effect: fx.HandOver, _event: ev.TypedEvent) -> None:
    # This runtime's lane has no queue of its own: the operation takes the message with the next item of the inbox.
    thread.put(ev.Taken(effect.id))


def _write_fence(_thread: Any, _effect: fx.WriteFence, _event: ev.TypedEvent) -> None:
    """The fence is part of the step's own record, which is durable by now."""


def _request_write(thread: Any, effect: fx.RequestWrite, _event: ev.TypedEvent) -> None:
    # A pipe that takes nothing for as long as an answer may take: asked with no generation, the write is refused.
    late = ev.BeginWrite(effect.id, effect.attempt, thread.core.epoch, -1)
    thread.arm(("answer", effect.id), thread.engine.policy.timeouts.answer, late)
    thread.put_write(effect.id, effect.attempt)


def _read_back(thread: Any, effect: fx.ReadBack, _event: ev.TypedEvent) -> None:
    message = thread.messages.get(effect.id)
    if message is None:
        return
    connection = thread.engine.connection
    gen, text = thread.core.gen, message.content.text
    look = Look(effect.id, effect.attempt, effect.turn_id, gen, text, message.position)
    message.looking = True
    failure = "there is nobody to ask"
    try:
        if connection is not None and connection.capabilities.read_back:
            connection.look(thread.id, [look], thread.engine.policy.timeouts.read_back)
            return
    except TransportClosed as error:
        failure = str(error)
    thread.put(ev.ReadFailed(effect.id, effect.attempt, failure))


def _settle(thread: Any, _effect: fx.Settle, _event: ev.TypedEvent) -> None:
    # Waiters look at the message itself, whenever its thread changes.
    thread.wake()


def _alarm(thread: Any, effect: fx.Alarm, _event: ev.TypedEvent) -> None:
    message = thread.messages.get(effect.id)
    if message is not None and effect.item in message.alarmed:
        return
    if message is not None:
        message.alarmed |= {effect.item}
    thread.engine.odd(thread.id, f"alarm_{effect.kind}", f"message {effect.id!r}, item {effect.item!r}")


PERFORM: dict[str, Performing] = {
    "clear_goal": _clear_goal,
    "set_goal": _set_goal,
    "pause_goal": _pause_goal,
    "interrupt_turn": _interrupt_turn,
    "interrupt_bare": _interrupt_bare,
    "reserve_route": _reserve_route,
    "release_route": _release_route,
    "publish_started": _publish_started,
    "publish_completed": _publish_completed,
    "publish_refusal": _publish_refusal,
    "reject_start": _reject_start,
    "quarantine": _quarantine,
    "reconcile": _reconcile,
    "start_timer": _start_timer,
    "quiet_timer": _quiet_timer,
    "hand_over": _hand_over,
    "write_fence": _write_fence,
    "request_write": _request_write,
    "read_back": _read_back,
    "settle": _settle,
    "publish": _settle,
    "alarm": _alarm,
}
