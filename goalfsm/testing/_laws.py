"""What must hold in every world, each law with the rules it rests on (rules.md E, requirements P).

A law looks at one event that the core was told (`Happened`) and gives a sentence that says how it was broken, or an
empty string. They judge the core by the provider's truth and by the books, not by the core's own opinion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from goalfsm import effects as fx
from goalfsm._core import Move
from goalfsm._guards import FINAL_FOLLOW_UP, FINAL_OPERATION, GOAL_NOT_OVER, IN_LANE, free_thread, lane_free, live
from goalfsm._kernel import Verdict
from goalfsm.events import TypedEvent
from goalfsm.testing._world import Happened, World

__all__ = ["LAWS", "broken", "unsettled"]

Law = Callable[[Happened], str]

LAWS: Final[dict[str, Law]] = {}
"""Every law by name."""

EVIDENCE: Final = frozenset({"echo", "found"})
PROOF: Final = frozenset({"absent", "send_refused", "send_moved"})
PERSON: Final = frozenset({"resolve_sent", "resolve_unsent", "resolve_drop"})
RESTING: Final = frozenset({"queued", "held", "requeued"})
UNSENT: Final = frozenset({*RESTING, "admitted", "accepted", "discarded", "expired"})
PAUSED: Final = frozenset({"held", "requeued"})
CALLS: Final = (fx.ClearGoal, fx.SetGoal, fx.PauseGoal, fx.InterruptTurn, fx.InterruptBare)


def _law(function: Law) -> Law:
    LAWS[function.__name__] = function
    return function


def broken(happened: Happened) -> list[str]:
    """List the laws that this step broke, each with how."""
    found = ((name, law(happened)) for name, law in LAWS.items())
    return [f"{name}: {how} (told {happened.event})" for name, how in found if how]


def _row_moves(happened: Happened) -> list[Move]:
    return [move for move in happened.step.moves if move.machine == "follow_up" and move.source != move.target]


def _writes(happened: Happened) -> list[fx.WriteBytes]:
    return [effect for effect in happened.step.effects if isinstance(effect, fx.WriteBytes)]


def _resent(world: World, message_id: str) -> int:
    return dict(world.books.resent).get(message_id, 0)


# -- at most once -----------------------------------------------------------------------------------------------------------


@_law
def never_shown_twice(happened: Happened) -> str:
    """E1, P3: the model is shown a message once, and once more for each explicit resend of a person."""
    world = happened.after
    for message_id in {item[0] for item in world.provider.items}:
        shown = sum(1 for item in world.provider.items if item[0] == message_id)
        if shown > 1 + _resent(world, message_id):
            return f"{message_id} was shown {shown} times"
    return ""


@_law
def no_write_while_an_earlier_one_may_be_taken(happened: Happened) -> str:
    """E1, E3: no second copy goes out while the first one was taken, or still may be."""
    for write in _writes(happened):
        copies = happened.before.copies(write.id)
        if copies > _resent(happened.before, write.id):
            return f"{write.id} has {copies} copies out already"
    return ""


@_law
def uncertain_is_left_by_evidence_proof_or_a_person(happened: Happened) -> str:
    """E4, P9: nothing automatic leads out of uncertain."""
    for move in _row_moves(happened):
        if move.source == "uncertain" and move.event not in EVIDENCE | PROOF | PERSON:
            return f"{move.id} left uncertain by {move.event}"
    return ""


@_law
def unsent_means_unseen(happened: Happened) -> str:
    """E3: a message given back, waiting, discarded or expired is not with the provider, unless a person said so."""
    world = happened.after
    for row in world.core.rows:
        unsent = row.state in UNSENT or (row.state == "delivering" and not row.written)
        if unsent and row.id not in world.books.vouched and world.copies(row.id):
            return f"{row.id} is {row.state}, yet the provider has it or may still take it"
    return ""


@_law
def delivered_only_with_evidence(happened: Happened) -> str:
    """E5, P8: an answer alone never counts as delivery."""
    for move in _row_moves(happened):
        if move.target != "delivered" or move.event == "resolve_sent":
            continue
        if move.event == "watermark" and not happened.before.core.echo:
            continue
        shown = any(item[0] == move.id for item in happened.before.provider.items)
        if move.event not in EVIDENCE or not shown:
            return f"{move.id} called delivered by {move.event}"
    return ""


@_law
def attempts_only_grow(happened: Happened) -> str:
    """E1, trap 13: every fence has a number of its own, and its bytes are granted once."""
    for effect in happened.step.effects:
        before = happened.before.core.row(effect.id) if isinstance(effect, fx.WriteFence | fx.WriteBytes) else None
        if before is None:
            continue
        if isinstance(effect, fx.WriteFence) and effect.attempt != before.attempt + 1:
            return f"{before.id}: fence {effect.attempt} after {before.attempt}"
        granted = dict(happened.before.books.granted).get(before.id, 0)
        if isinstance(effect, fx.WriteBytes) and effect.attempt <= granted:
            return f"{before.id}: attempt {effect.attempt} was granted twice"
    return ""


# -- the write section ------------------------------------------------------------------------------------------------------


@_law
def no_write_after_a_stop(happened: Happened) -> str:
    """E15, P6: a stop beats everything that was not written when it was committed."""
    for write in _writes(happened):
        if write.id in happened.before.books.fenced:
            return f"{write.id} was written though a stop came since its admission"
    return ""


@_law
def every_write_is_current(happened: Happened) -> str:
    """E10, E12, E16: turn, goal, owner, transport and operation are those of this instant."""
    world, core = happened.before, happened.before.core
    for write in _writes(happened):
        row = core.row(write.id)
        if row is None or (row.epoch, row.gen) != (world.epoch, world.gen):
            return f"{write.id}: owner or transport is not that of its admission"
        if write.route == "start":
            if not free_thread(core):
                return f"{write.id}: its own turn on a thread that is not free"
            continue
        op = core.operation
        if op is None or not live(core) or op.id != row.op:
            return f"{write.id}: its operation is over"
        if core.turn.state != "running" or core.turn.turn_id != write.turn_id:
            return f"{write.id}: turn {write.turn_id} is not the running one"
        if row.ref and (core.goal.state, core.goal.ref) != ("active", row.ref):
            return f"{write.id}: not the goal of its admission"
    return ""


@_law
def reconcile_precedes_everything(happened: Happened) -> str:
    """P10, E39: no hand-over, fence or byte before this generation was read back."""
    for effect in happened.step.effects:
        if isinstance(effect, fx.HandOver | fx.WriteFence | fx.WriteBytes) and not happened.step.core.recon:
            return f"{effect.name} before reconciled"
    return ""


# -- the queue ----------------------------------------------------------------------------------------------------------------


@_law
def queue_order(happened: Happened) -> str:
    """P4: what goes by itself goes in order; paused and uncertain messages hold nobody back (P13)."""
    for move in _row_moves(happened):
        if move.event not in ("dispatch", "admit"):
            continue
        for row in happened.step.core.rows:
            if row.id == move.id:
                break
            if row.state == "queued":
                return f"{move.id} overtook {row.id}"
    return ""


@_law
def paused_messages_rest(happened: Happened) -> str:
    """E24: held and requeued messages go only by a person's act (or age, or evidence against the proof)."""
    allowed = EVIDENCE | {"send_now", "release", "withdraw", "expire"}
    for move in _row_moves(happened):
        if move.source in PAUSED and move.event not in allowed:
            return f"{move.id} left {move.source} by {move.event}"
    return ""


@_law
def one_in_the_lane(happened: Happened) -> str:
    """E28: one message at a time stands between admission and its evidence."""
    lane = [row.id for row in happened.step.core.rows if row.state in IN_LANE]
    return f"{lane} are in the lane at once" if len(lane) > 1 else ""


@_law
def a_refusing_turn_is_not_asked_again(happened: Happened) -> str:
    """Decisions 14: after a refusal of another kind nothing is handed over by itself before the next turn begins."""
    began = any(move.machine == "turn" and move.target == "running" for move in happened.step.moves)
    admitted = any(move.event == "admit" for move in _row_moves(happened))
    if happened.before.core.lane_closed and admitted and not began:
        return "handed over by itself into a turn that refused"
    return ""


@_law
def the_queue_goes_on(happened: Happened) -> str:
    """P13: on a free thread with a free lane no runnable message waits."""
    core = happened.step.core
    if free_thread(core) and lane_free(core) and any(row.state == "queued" for row in core.rows):
        return "a runnable message waits on a free thread"
    return ""


# -- waiters --------------------------------------------------------------------------------------------------------------------


@_law
def settled_exactly_once(happened: Happened) -> str:
    """E2, E20, P14: each admission's waiter is resolved once, and a later outcome is published, never settled again."""
    settles = [effect.id for effect in happened.step.effects if isinstance(effect, fx.Settle)]
    publishes = [effect.id for effect in happened.step.effects if isinstance(effect, fx.Publish)]
    for row in happened.step.core.rows:
        moves = [move for move in _row_moves(happened) if move.id == row.id]
        due = sum(1 for move in moves if move.source in IN_LANE and move.target not in IN_LANE | {"queued"})
        due += sum(1 for move in moves if move.source in RESTING and move.target in FINAL_FOLLOW_UP)
        due += sum(1 for move in moves if move.source == "queued" and move.target == "requeued")
        if settles.count(row.id) != due:
            return f"{row.id}: settled {settles.count(row.id)} times, due {due}"
        late = sum(1 for move in moves if move.source == "uncertain")
        late += sum(1 for move in moves if move.source in RESTING and move.event in EVIDENCE)
        if publishes.count(row.id) != late:
            return f"{row.id}: published {publishes.count(row.id)} times, due {late}"
    return ""


@_law
def waiters_are_open_only_where_an_outcome_is_owed(happened: Happened) -> str:
    """E2, P2: open in the lane, closed wherever the row says how it ended."""
    waiting = happened.after.books.waiting
    for row in happened.step.core.rows:
        if row.state in IN_LANE and row.id not in waiting:
            return f"{row.id} is {row.state} and nobody waits"
        if row.state in FINAL_FOLLOW_UP | {"requeued", "uncertain"} and row.id in waiting:
            return f"{row.id} is {row.state} and its waiter still waits"
    return ""


# -- the operation ----------------------------------------------------------------------------------------------------------------


@_law
def one_logical_lifecycle(happened: Happened) -> str:
    """E29, P7: at most one start and one end are told, the end exactly when the operation ended by itself or by us."""
    told = [effect for effect in happened.step.effects if isinstance(effect, fx.PublishStarted | fx.PublishCompleted)]
    books = happened.before.books
    begun = {effect.op for effect in happened.step.effects if isinstance(effect, fx.ReserveRoute)}
    for kind, done in ((fx.PublishStarted, books.started), (fx.PublishCompleted, books.completed)):
        for op in {effect.op for effect in told if isinstance(effect, kind)}:
            count = sum(1 for effect in told if isinstance(effect, kind) and effect.op == op)
            if count > 1 or (done and op not in begun):
                return f"operation {op}: {kind.name} told twice"
    op = happened.step.core.operation
    if op is None:
        return ""
    ended = op.state in ("completed", "failed", "interrupted", "lost")
    if ended != (happened.after.books.completed and op.state != "detached") and op.state not in ("refused", "detached"):
        return f"operation {op.id} is {op.state}, its end was {'' if happened.after.books.completed else 'not '}told"
    if op.state == "running" and not happened.after.books.started:
        return f"operation {op.id} runs and its start was not told"
    return ""


@_law
def the_route_is_released(happened: Happened) -> str:
    """E18, E34: a live operation owns the thread's notifications, an ended one does not."""
    op = happened.step.core.operation
    route = happened.after.books.route
    if op is not None and op.state in FINAL_OPERATION and route:
        return f"operation {op.id} is {op.state} and still holds the route"
    if live(happened.step.core) and op is not None and route != op.id:
        return f"operation {op.id} is {op.state} and does not hold the route"
    return ""


@_law
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


@_law
def an_operation_ends_only_when_nothing_runs(happened: Happened) -> str:
    """E30, P6: completed and interrupted need no running turn and a goal that is over; a failure is not forgotten."""
    core = happened.step.core
    for move in happened.step.moves:
        if move.machine != "operation" or move.source == move.target or core.operation is None:
            continue
        unconfirmed = any(isinstance(effect, fx.Quarantine) for effect in happened.step.effects)
        if move.target not in ("completed", "failed", "interrupted") or unconfirmed or move.source in ("reserved", "setting"):
            continue
        if core.turn.state == "running" or core.goal.state in GOAL_NOT_OVER - {"unknown"}:
            return f"{move.target} while turn is {core.turn.state} and goal {core.goal.state}"
        if move.target == "completed" and (core.operation.failed or core.operation.stopped):
            return "completed after a failure or a stop"
    return ""


@_law
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


@_law
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


# -- totality -------------------------------------------------------------------------------------------------------------------------


@_law
def nothing_is_unexpected(happened: Happened) -> str:
    """P1, P15: no fact is an anomaly, and where rows exist one of them holds."""
    for judged in happened.step.verdicts:
        if judged.verdict in (Verdict.ANOMALY, Verdict.STALE):
            return f"{judged.machine} {judged.id} {judged.state} + {judged.event}: {judged.verdict}"
    return ""


@_law
def a_rejected_command_changes_nothing(happened: Happened) -> str:
    """E25: a command that one machine rejects leaves the same core and no effect; facts are never rejected."""
    step = happened.step
    if step.rejected is None:
        return ""
    if step.core is not happened.before.core or step.effects or step.moves:
        return "rejected, yet something changed"
    return "" if _is_command(happened.event) else "a fact was rejected"


def _is_command(event: TypedEvent) -> bool:
    return event.name in (
        "start", "adopt", "stop", "submit", "move", "resend", "send_now", "hold", "release", "edit", "withdraw", "recall",
        "resolve_sent", "resolve_unsent", "resolve_drop", "look_again", "observed_send",
    )  # fmt: skip


# -- liveness ------------------------------------------------------------------------------------------------------------------------


def unsettled(world: World) -> str:
    """Say what is still open in a world in which nothing more happens by itself, or give an empty string.

    P2, P12: everything is settled or waits for a person, and says so. A start whose answer never came, a failed
    read-back and a turn whose end was lost or only inferred may stay uncertain.
    """
    core: Any = world.core
    if not core.recon:
        return "never reconciled"
    if live(core):
        return f"operation is {core.operation.state}"
    for row in core.rows:
        if row.state in IN_LANE:
            return f"{row.id} is {row.state}"
        if row.state == "uncertain" and not _explained(world, row):
            return f"{row.id} is uncertain though it can be read back"
    if free_thread(core) and any(row.state == "queued" for row in core.rows):
        return "the queue does not go on"
    if core.turn.state == "running" and not world.provider.turn and not world.books.end_lost:
        return f"turn {core.turn.turn_id} runs for ever"
    return ""


def _explained(world: World, row: Any) -> bool:
    unknown_start = not row.turn_id and row.gen == world.core.gen
    return unknown_start or world.books.end_lost or row.turn_id in world.core.gone or row.id in world.books.unread
