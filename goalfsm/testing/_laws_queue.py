"""The laws of the queue and of the waiters (rules.md E, requirements P)."""

from __future__ import annotations

from typing import Final

from goalfsm import effects as fx
from goalfsm._guards import FINAL_FOLLOW_UP, IN_LANE, free_thread, lane_free
from goalfsm.testing._law import law, row_moves
from goalfsm.testing._world import Happened

__all__: list[str] = []

EVIDENCE: Final = frozenset({"echo", "found"})
RESTING: Final = frozenset({"queued", "held", "requeued"})
PAUSED: Final = frozenset({"held", "requeued"})


# -- the queue ---------------------------------------------------------------------------------------------------------


@law
def queue_order(happened: Happened) -> str:
    """P4: what goes by itself goes in order; paused and uncertain messages hold nobody back (P13)."""
    for move in row_moves(happened):
        if move.event not in ("dispatch", "admit"):
            continue
        for row in happened.step.core.rows:
            if row.id == move.id:
                break
            if row.state == "queued":
                return f"{move.id} overtook {row.id}"
    return ""


@law
def paused_messages_rest(happened: Happened) -> str:
    """E24: held and requeued messages go only by a person's act (or age, or evidence against the proof)."""
    allowed = EVIDENCE | {"send_now", "release", "withdraw", "expire"}
    for move in row_moves(happened):
        if move.source in PAUSED and move.event not in allowed:
            return f"{move.id} left {move.source} by {move.event}"
    return ""


@law
def one_in_the_lane(happened: Happened) -> str:
    """E28: one message at a time stands between admission and its evidence."""
    lane = [row.id for row in happened.step.core.rows if row.state in IN_LANE]
    return f"{lane} are in the lane at once" if len(lane) > 1 else ""


@law
def a_refusing_turn_is_not_asked_again(happened: Happened) -> str:
    """Decisions 14: after a refusal of another kind nothing is handed over by itself before the next turn begins."""
    began = any(move.machine == "turn" and move.target == "running" for move in happened.step.moves)
    admitted = any(move.event == "admit" for move in row_moves(happened))
    if happened.before.core.lane_closed and admitted and not began:
        return "handed over by itself into a turn that refused"
    return ""


@law
def the_queue_goes_on(happened: Happened) -> str:
    """P13: on a free thread with a free lane no runnable message waits."""
    core = happened.step.core
    if free_thread(core) and lane_free(core) and any(row.state == "queued" for row in core.rows):
        return "a runnable message waits on a free thread"
    return ""


# -- waiters -----------------------------------------------------------------------------------------------------------


@law
def settled_exactly_once(happened: Happened) -> str:
    """E2, E20, P14: each admission's waiter is resolved once, and a later outcome is published, never settled again."""
    settles = [effect.id for effect in happened.step.effects if isinstance(effect, fx.Settle)]
    publishes = [effect.id for effect in happened.step.effects if isinstance(effect, fx.Publish)]
    for row in happened.step.core.rows:
        moves = [move for move in row_moves(happened) if move.id == row.id]
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


@law
def waiters_are_open_only_where_an_outcome_is_owed(happened: Happened) -> str:
    """E2, P2: open in the lane, closed wherever the row says how it ended."""
    waiting = happened.after.books.waiting
    for row in happened.step.core.rows:
        if row.state in IN_LANE and row.id not in waiting:
            return f"{row.id} is {row.state} and nobody waits"
        if row.state in FINAL_FOLLOW_UP | {"requeued", "uncertain"} and row.id in waiting:
            return f"{row.id} is {row.state} and its waiter still waits"
    return ""
