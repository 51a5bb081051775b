"""The laws of the operation (rules.md E, requirements P)."""

from __future__ import annotations

from goalfsm import effects as fx
from goalfsm._guards import FINAL_OPERATION, live
from goalfsm.testing._law import law, law_of_truth
from goalfsm.testing._world import Happened

__all__: list[str] = []

CALLS = (fx.ClearGoal, fx.SetGoal, fx.PauseGoal, fx.InterruptTurn, fx.InterruptBare)


@law
def one_logical_lifecycle(happened: Happened) -> str:
    """E29, P7: at most one start and one end are told, the end exactly when the operation ended by itself or by us."""
    told = [effect for effect in happened.step.effects if isinstance(effect, fx.PublishStarted | fx.PublishCompleted)]
    books = happened.before.books
    begun = {effect.op for effect in happened.step.effects if isinstance(effect, fx.ReserveRoute)}
    for kind, done in ((fx.PublishStarted, books.started), (fx.PublishCompleted, books.completed)):
        for number in {effect.op for effect in told if isinstance(effect, kind)}:
            count = sum(1 for effect in told if isinstance(effect, kind) and effect.op == number)
            if count > 1 or (done and number not in begun):
                return f"operation {number}: {kind.name} told twice"
    op = happened.step.core.operation
    if op is None:
        return ""
    ended = op.state in ("completed", "failed", "interrupted", "lost")
    if ended != (happened.after.books.completed and op.state != "detached") and op.state not in ("refused", "detached"):
        return f"operation {op.id} is {op.state}, its end was {'' if happened.after.books.completed else 'not '}told"
    if op.state == "running" and not happened.after.books.started:
        return f"operation {op.id} runs and its start was not told"
    return ""


@law
def the_route_is_released(happened: Happened) -> str:
    """E18, E34: a live operation owns the thread's notifications, an ended one does not."""
    op = happened.step.core.operation
    route = happened.after.books.route
    if op is not None and op.state in FINAL_OPERATION and route:
        return f"operation {op.id} is {op.state} and still holds the route"
    if live(happened.step.core) and op is not None and route != op.id:
        return f"operation {op.id} is {op.state} and does not hold the route"
    return ""


@law
def pause_is_answered_before_the_interrupt(happened: Happened) -> str:
    """E31: no interrupt in the step of the stop, or while the pause is in flight."""
    for effect in happened.step.effects:
        if not isinstance(effect, fx.InterruptTurn):
            continue
        op = happened.before.core.operation
        if op is None or op.state not in ("stopping", "interrupting"):
            return f"interrupt while the operation was {'none' if op is None else op.state}"
        if op.state == "stopping" and happened.event.name not in ("pause_ok", "call_refused", "call_lost"):
            return f"interrupt by {happened.event.name} while the pause was in flight"
    return ""


@law
def an_operation_ends_only_when_nothing_runs(happened: Happened) -> str:
    """E30, P6: completed and interrupted need no running turn and a goal that is over; a failure is not forgotten."""
    core = happened.step.core
    for move in happened.step.moves:
        if move.machine != "operation" or move.source == move.target or core.operation is None:
            continue
        unconfirmed = any(isinstance(effect, fx.Quarantine) for effect in happened.step.effects)
        never_set = move.source in ("reserved", "setting")
        if move.target not in ("completed", "failed", "interrupted") or unconfirmed or never_set:
            continue
        if core.turn.state == "running" or core.goal.state == "active":
            return f"{move.target} while turn is {core.turn.state} and goal {core.goal.state}"
        if move.target == "completed" and (core.operation.failed or core.operation.stopped):
            return "completed after a failure or a stop"
    return ""


@law_of_truth
def a_quiet_stop_is_true(happened: Happened) -> str:
    """P6, E33: after a stop proved quiet with nothing unread, the provider runs nothing and will start nothing."""
    quiet = happened.event.name == "quiet" and any(
        move.machine == "operation" and move.target in FINAL_OPERATION for move in happened.step.moves
    )
    world = happened.before
    provider = world.provider
    if quiet and not (world.wire or world.late or world.pipe) and (provider.turn or provider.goal == "active"):
        return f"called ended while the provider runs {provider.turn or 'nothing'} under goal {provider.goal}"
    return ""


@law
def follow_ups_never_stop_anything(happened: Happened) -> str:
    """E14: nothing that happens to a message pauses, interrupts, clears or sets, unless a stop came before its turn."""
    message_id = getattr(happened.event, "id", "")
    if not message_id:
        return ""
    row = happened.before.core.row(message_id)
    calls = [effect.name for effect in happened.step.effects if isinstance(effect, CALLS)]
    stopping = (happened.before.core.operation is not None and live(happened.before.core)) or (
        row is not None and row.stops != happened.before.core.stops
    )
    return f"{calls} because of {message_id}" if calls and not stopping else ""
