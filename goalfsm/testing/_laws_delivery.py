"""The laws of a message: at most once, the write section, the queue, the waiter (rules.md E, requirements P)."""

from __future__ import annotations

from typing import Final

from goalfsm import effects as fx
from goalfsm._guards import free_thread, live
from goalfsm.testing._law import law, law_of_truth, row_moves
from goalfsm.testing._world import Happened, World

__all__: list[str] = []

EVIDENCE: Final = frozenset({"echo", "found"})
PROOF: Final = frozenset({"absent", "send_refused", "send_moved"})
PERSON: Final = frozenset({"resolve_sent", "resolve_unsent", "resolve_drop"})
RESTING: Final = frozenset({"queued", "held", "requeued"})
UNSENT: Final = frozenset({*RESTING, "admitted", "accepted", "discarded", "expired"})


def _writes(happened: Happened) -> list[fx.WriteBytes]:
    return [effect for effect in happened.step.effects if isinstance(effect, fx.WriteBytes)]


def _resent(world: World, message_id: str) -> int:
    return dict(world.books.resent).get(message_id, 0)


# -- at most once ------------------------------------------------------------------------------------------------------


@law_of_truth
def never_shown_twice(happened: Happened) -> str:
    """E1, P3: the model is shown a message once, and once more for each explicit resend of a person."""
    world = happened.after
    for message_id in {item[0] for item in world.provider.items}:
        shown = sum(1 for item in world.provider.items if item[0] == message_id)
        if shown > 1 + _resent(world, message_id):
            return f"{message_id} was shown {shown} times"
    return ""


@law_of_truth
def no_write_while_an_earlier_one_may_be_taken(happened: Happened) -> str:
    """E1, E3: no second copy goes out while the first one was taken, or still may be."""
    for write in _writes(happened):
        copies = happened.before.copies(write.id)
        if copies > _resent(happened.before, write.id):
            return f"{write.id} has {copies} copies out already"
    return ""


@law
def uncertain_is_left_by_evidence_proof_or_a_person(happened: Happened) -> str:
    """E4, P9: nothing automatic leads out of uncertain."""
    for move in row_moves(happened):
        if move.source == "uncertain" and move.event not in EVIDENCE | PROOF | PERSON:
            return f"{move.id} left uncertain by {move.event}"
    return ""


@law_of_truth
def unsent_means_unseen(happened: Happened) -> str:
    """E3: a message given back, waiting, discarded or expired is not with the provider, unless a person said so."""
    world = happened.after
    for row in world.core.rows:
        unsent = row.state in UNSENT or (row.state == "delivering" and not row.written)
        if unsent and row.id not in world.books.vouched and world.copies(row.id):
            return f"{row.id} is {row.state}, yet the provider has it or may still take it"
    return ""


@law_of_truth
def delivered_only_with_evidence(happened: Happened) -> str:
    """E5, P8: an answer alone never counts as delivery."""
    for move in row_moves(happened):
        if move.target != "delivered" or move.event == "resolve_sent":
            continue
        if move.event == "watermark" and not happened.before.core.echo:
            continue
        shown = any(item[0] == move.id for item in happened.before.provider.items)
        if move.event not in EVIDENCE or not shown:
            return f"{move.id} called delivered by {move.event}"
    return ""


@law
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


# -- the write section -------------------------------------------------------------------------------------------------


@law
def no_write_after_a_stop(happened: Happened) -> str:
    """E15, P6: a stop beats everything that was not written when it was committed."""
    for write in _writes(happened):
        if write.id in happened.before.books.fenced:
            return f"{write.id} was written though a stop came since its admission"
    return ""


@law_of_truth
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


@law
def reconcile_precedes_everything(happened: Happened) -> str:
    """P10, E39: no hand-over, fence or byte before this generation was read back."""
    for effect in happened.step.effects:
        if isinstance(effect, fx.HandOver | fx.WriteFence | fx.WriteBytes) and not happened.step.core.recon:
            return f"{effect.name} before reconciled"
    return ""
