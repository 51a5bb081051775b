"""What must hold in every world, each law with the rules it rests on (rules.md E, requirements P).

A law judges the core by the provider's truth and by the books, not by the core's own opinion. `LAWS` names them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalfsm._guards import IN_LANE, free_thread, live
from goalfsm._kernel import Verdict
from goalfsm.events import TypedEvent
from goalfsm.testing import _laws_delivery, _laws_operation, _laws_queue
from goalfsm.testing._law import LAWS, TRUTHS, Law, law
from goalfsm.testing._world import Happened, World

__all__ = ["LAWS", "broken", "unsettled"]

_BOOKS = (_laws_delivery, _laws_queue, _laws_operation)  # importing them fills LAWS


def broken(happened: Happened) -> list[str]:
    """List the laws that this step broke, each with how.

    A search judges a step once for all worlds that differ in nothing that a law looks at.
    """
    memo = happened.before.memo
    if memo is None:
        return _told(happened, LAWS)
    found = _told(happened, _BY_STEP) if memo.first_page(happened) else []
    return found + _told(happened, TRUTHS) if memo.first_truth(happened) else found


def _told(happened: Happened, laws: Mapping[str, Law]) -> list[str]:
    step = happened.step
    if not (step.moves or step.effects):
        # A step that did nothing can only have been judged wrongly.
        laws = {name: one for name, one in laws.items() if name in _JUDGEMENTS}
    found = [(name, one(happened)) for name, one in laws.items()]
    return [f"{name}: {how} (told {happened.event})" for name, how in found if how]


# -- totality ----------------------------------------------------------------------------------------------------------


@law
def nothing_is_unexpected(happened: Happened) -> str:
    """P1, P15: no fact is an anomaly, and where rows exist one of them holds."""
    for judged in happened.step.verdicts:
        if judged.verdict in (Verdict.ANOMALY, Verdict.STALE):
            return f"{judged.machine} {judged.id} {judged.state} + {judged.event}: {judged.verdict}"
    return ""


@law
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
        "start", "adopt", "stop", "submit", "move", "resend", "send_now", "hold", "release", "edit", "withdraw",
        "recall", "resolve_sent", "resolve_unsent", "resolve_drop", "look_again", "observed_send",
    )  # fmt: skip


# -- liveness ----------------------------------------------------------------------------------------------------------


def unsettled(world: World) -> str:
    """Say what is still open in a world in which nothing more happens by itself, or give an empty string.

    P2, P12: everything is settled or waits for a person, and says so. A start whose answer never came, a failed
    read-back and a turn whose end was lost or only inferred may stay uncertain.
    """
    core: Any = world.core
    problems = [f"{row.id} is {row.state}" for row in core.rows if row.state in IN_LANE]
    problems += [
        f"{row.id} is uncertain though it can be read back"
        for row in core.rows
        if row.state == "uncertain" and not _explained(world, row)
    ]
    if not core.recon:
        problems.append("never reconciled")
    if live(core):
        problems.append(f"operation is {core.operation.state}")
    if free_thread(core) and any(row.state == "queued" for row in core.rows):
        problems.append("the queue does not go on")
    if core.turn.state == "running" and not world.provider.turn and not world.books.end_lost:
        problems.append(f"turn {core.turn.turn_id} runs for ever")
    return "; ".join(problems)


def _explained(world: World, row: Any) -> bool:
    unknown_start = not row.turn_id and row.gen == world.core.gen
    return unknown_start or world.books.end_lost or row.turn_id in world.core.gone or row.id in world.books.unread


_JUDGEMENTS = frozenset({
    "nothing_is_unexpected", "a_rejected_command_changes_nothing", "never_shown_twice", "unsent_means_unseen",
})  # fmt: skip
_BY_STEP = {name: one for name, one in LAWS.items() if name not in TRUTHS}
