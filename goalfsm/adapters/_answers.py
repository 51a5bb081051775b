"""What answers mean, in the light of the request that they answer (composition §10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goalfsm import events as ev
from goalfsm._values import GoalStatus
from goalfsm.adapters._heard import (
    Answered,
    Facts,
    Heard,
    Odd,
    Pending,
    RpcError,
    brief,
    found_turn,
    goal_heard,
    goal_view,
    text_of,
    thread_of,
)

__all__ = ["meaning", "pending_for", "rpc_error"]


def pending_for(request: Mapping[str, Any], *, number: int = 0, attempt: int = 1) -> Pending:
    """Read a recorded request as what its answer will mean; the replay of a recording registers these."""
    params = request.get("params")
    params = params if isinstance(params, dict) else {}
    thread = thread_of(params)
    match request.get("method"):
        case "turn/steer" | "turn/start" as method:
            route = "steer" if method == "turn/steer" else "start"
            turn = text_of(params.get("expectedTurnId"))
            return Pending("send", thread, 0, text_of(params.get("clientUserMessageId")), attempt, route, turn)
        case "thread/goal/set":
            only_pause = params.get("status") == "paused" and params.get("objective") is None
            return Pending("pause_goal" if only_pause else "set_goal", thread, number)
        case "thread/goal/clear":
            return Pending("clear_goal", thread, number)
        case "thread/goal/get":
            return Pending("get_goal", thread)
        case "turn/interrupt":
            return Pending("interrupt_turn", thread, number, turn_id=text_of(params.get("turnId")))
        case _:
            return Pending("other", thread)


def meaning(pending: Pending, result: Any, error: RpcError | None) -> list[Heard]:
    """Say, in order, what an answer means; an error of code 0 is an answer that could not be read."""
    handler = _HANDLERS.get(pending.kind)
    return handler(pending, result, error) if handler is not None else []


def rpc_error(raw: Any) -> RpcError:
    """Read an error of the provider; code 0 if it cannot be read."""
    code = raw.get("code") if isinstance(raw, dict) else None
    if not isinstance(code, int) or code == 0:
        return RpcError(0, f"unreadable error: {brief(raw)}")
    words = raw.get("message")
    return RpcError(code, words if isinstance(words, str) else brief(words))


def _sent(pending: Pending, result: Any, error: RpcError | None) -> list[Heard]:
    fields: dict[str, Any] = {"id": pending.id, "attempt": pending.attempt}
    if error is not None:
        return [Facts(pending.thread_id, (_send_refusal(pending, error, fields),))]
    turn = ""
    if isinstance(result, dict):
        named = result.get("turn")
        turn = text_of(result.get("turnId") if pending.route == "steer" else _text_id(named))
    if not turn or (pending.route == "steer" and turn != pending.turn_id):
        words = f"the answer names the turn {brief(turn)}, not {brief(pending.turn_id)}"
        return [Facts(pending.thread_id, (ev.AnswerLost(**fields, message=words),))]
    return [Facts(pending.thread_id, (ev.SendOk(**fields, turn_id=turn),))]


def _cleared(pending: Pending, _result: Any, error: RpcError | None) -> list[Heard]:
    if error is not None:
        return _call_refused(pending, error)
    # Cleared, or there was none: either way there is no goal now.
    return [*goal_heard(pending.thread_id, None), *_call_done(pending, ev.ClearOk)]


def _goal_set(pending: Pending, result: Any, error: RpcError | None) -> list[Heard]:
    if error is not None:
        return _call_refused(pending, error)
    goal = result.get("goal") if isinstance(result, dict) else None
    if not isinstance(goal, dict):
        return _call_refused(pending, RpcError(0, f"the answer holds no goal: {brief(result)}"))
    done = ev.PauseOk if pending.kind == "pause_goal" else ev.SetOk
    # The goal first: a lost notification would make the core pause for ever (composition §10).
    return [*goal_heard(pending.thread_id, goal_view(goal)), *_call_done(pending, done)]


def _goal_read(pending: Pending, result: Any, error: RpcError | None) -> list[Heard]:
    if error is not None or not isinstance(result, dict):
        return []
    goal = result.get("goal")
    if goal is not None and not isinstance(goal, dict):
        return [Odd(pending.thread_id, "malformed", f"goal/get: {brief(goal)}")]
    return goal_heard(pending.thread_id, None if goal is None else goal_view(goal))


def _pause_checked(pending: Pending, result: Any, error: RpcError | None) -> list[Heard]:
    # The server lets `paused` overwrite an end state such as `complete`, so only a goal that may run is paused.
    if error is not None or not isinstance(result, dict):
        return _call_refused(pending, error or RpcError(0, f"unreadable goal: {brief(result)}"))
    goal = result.get("goal")
    view = goal_view(goal) if isinstance(goal, dict) else None
    if view is not None and view.status in (GoalStatus.ACTIVE, GoalStatus.UNKNOWN):
        return [Answered(pending, result)]
    seen = goal_heard(pending.thread_id, view)
    if view is not None and view.status is GoalStatus.PAUSED:
        return [*seen, *_call_done(pending, ev.PauseOk)]
    words = "no goal exists" if view is None else f"no active goal to pause: {view.raw_status}"
    return [*seen, *_call_refused(pending, RpcError(-32600, words))]


def _interrupted(pending: Pending, _result: Any, error: RpcError | None) -> list[Heard]:
    if not pending.number:
        return []
    call, fact = pending.number, _lost(pending)
    if error is None:
        fact = ev.InterruptOk(call=call)
    elif error.code:
        found = found_turn(error.message)
        if found is None:
            fact = ev.InterruptRefused(call=call, code=error.code, message=error.message)
        else:
            fact = ev.InterruptOther(call=call, found=found) if found else ev.InterruptNone(call=call)
    return [Facts(pending.thread_id, (fact,))]


def _text_id(named: Any) -> str:
    return text_of(named.get("id")) if isinstance(named, dict) else ""


def _send_refusal(pending: Pending, error: RpcError, fields: dict[str, Any]) -> ev.TypedEvent:
    if error.code == 0:
        return ev.AnswerLost(**fields, message=error.message)
    found = found_turn(error.message) if pending.route == "steer" else None
    if found is None:
        return ev.SendRefused(**fields, code=error.code, message=error.message)
    return ev.SendMoved(**fields, found=found, code=error.code, message=error.message)


def _lost(pending: Pending) -> ev.TypedEvent:
    return ev.CallLost(call=pending.number)


def _call_done(pending: Pending, event: type[ev.ClearOk | ev.SetOk | ev.PauseOk]) -> list[Heard]:
    return [Facts(pending.thread_id, (event(call=pending.number),))] if pending.number else []


def _call_refused(pending: Pending, error: RpcError) -> list[Heard]:
    if not pending.number:
        return []
    if error.code == 0:
        return [Facts(pending.thread_id, (_lost(pending),))]
    refused = ev.CallRefused(call=pending.number, code=error.code, message=error.message)
    return [Facts(pending.thread_id, (refused,))]


_HANDLERS: dict[str, Callable[[Pending, Any, RpcError | None], list[Heard]]] = {
    "send": _sent,
    "clear_goal": _cleared,
    "set_goal": _goal_set,
    "pause_goal": _goal_set,
    "pause_check": _pause_checked,
    "get_goal": _goal_read,
    "interrupt_turn": _interrupted,
}
