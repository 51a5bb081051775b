"""`ThreadCore`: the four machines of one provider thread as one pure value (composition 1).

Sans-I/O: no clock, id, lock or I/O in here. A server that has its own transport and storage embeds just this:
`core.handle(event)` gives the next core and the effects to perform once the step is journaled.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from goalfsm._builtin import builtin_spec
from goalfsm._errors import IllegalCommand
from goalfsm._kernel import Verdict
from goalfsm._machines import FollowUp, Goal, Operation, Turn
from goalfsm.effects import Effect
from goalfsm.events import TypedEvent

if TYPE_CHECKING:
    from goalfsm._compose import Composition

__all__ = ["CoreStep", "Judged", "Move", "ThreadCore", "commands_of"]


_REJECTED = Verdict.REJECTED
_ODD = (Verdict.ANOMALY, Verdict.STALE)


class Judged(msgspec.Struct, frozen=True, gc=False):
    """What one machine made of one event: `id` names the follow-up, empty for the other machines."""

    machine: str
    id: str
    state: str
    event: str
    verdict: Verdict
    why: str = ""


class Move(msgspec.Struct, frozen=True, gc=False):
    """One row taken: `source` and `target` are equal where the machine stayed."""

    machine: str
    id: str
    source: str
    target: str
    event: str
    why: str = ""


@attrs.frozen
class Notice:
    """What the host is told of a step: a change of state, or something nobody expected.

    Args:
        kind: `follow_up/delivered`, `goal/paused`, ... (machine/state), or `anomaly`, `stale`, `alarm`.
        id: the follow-up, or empty.
        event: the event that caused it.
        detail: why, for people.
    """

    kind: str
    id: str = ""
    event: str = ""
    detail: str = ""


@cache
def _composition() -> type[Composition]:
    from goalfsm._compose import Composition  # noqa: PLC0415  the composition needs this module's values

    return Composition


class ThreadCore(msgspec.Struct, frozen=True, gc=False):
    """The lifecycle of one provider thread: goal, turn, at most one live operation, and an ordered queue.

    Attributes:
        goal: the persisted goal, as last told.
        turn: the turn slot.
        operation: the live operation, or the last one in its final state.
        rows: the follow-ups in queue order, with a short tail of settled ones.
        epoch: the owner that we believe in.
        gen: transport generation, +1 per loss or restart.
        stops: stop fence, +1 per committed stop.
        recon: whether goal, turn and open messages were read back in this generation.
        echo: whether the provider echoes client ids (a capability).
        ended: ids of turns that are over; late news of them is ignored.
        gone: those of them whose end was only inferred, which proves no absence.
        calls: number of the last call given out.
        operations: number of the last operation created.
        lane_closed: a message was refused for another reason than its turn's end: no automatic hand-over before the
            next turn begins (decisions 14).
        queue_after_goal: `Policy(on_goal_complete="start")`.
        observer: a passive observer of recorded traffic: it never sends (decisions 24).
    """

    goal: Goal = Goal("unknown")
    turn: Turn = Turn("unknown")
    operation: Operation | None = None
    rows: tuple[FollowUp, ...] = ()
    epoch: int = 0
    gen: int = 0
    stops: int = 0
    recon: bool = False
    echo: bool = True
    ended: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    calls: int = 0
    operations: int = 0
    lane_closed: bool = False
    queue_after_goal: bool = True
    observer: bool = False

    def handle(self, event: TypedEvent) -> CoreStep:
        """Let one external event, and all internal ones it raises, happen to this thread.

        Args:
            event: a command, a fact or a clock's event from `goalfsm.events`.

        Returns:
            The next core with effects, moves and verdicts. After a rejected command it is the same core, and nothing
            of the event took place anywhere (rules E25).

        Raises:
            UnknownName: the event is not one that a core is told from outside.
        """
        return _composition()(self).run(event)

    def row(self, message_id: str) -> FollowUp | None:
        """Give the follow-up with this id, or None if it is not (or no longer) in memory."""
        return next((row for row in self.rows if row.id == message_id), None)

    def waiting(self) -> tuple[FollowUp, ...]:
        """List the messages that rest in the queue, held and requeued ones included, in order (surface 21)."""
        return tuple(row for row in self.rows if row.state in WAITING)


WAITING = frozenset({"queued", "held", "requeued"})


class CoreStep(msgspec.Struct, frozen=True, dict=True):
    """The outcome of one external event.

    Attributes:
        core: the next core.
        effects: work for the runtime, in order; to be performed once this step is journaled.
        moves: every row that was taken, in order.
        verdicts: what each machine made of each event, in order.
    """

    core: ThreadCore
    effects: tuple[Effect, ...] = ()
    moves: tuple[Move, ...] = ()
    verdicts: tuple[Judged, ...] = ()

    @property
    def rejected(self) -> Judged | None:
        """The verdict that rejected a command, if it was; then nothing changed."""
        return next((judged for judged in self.verdicts if judged.verdict is _REJECTED), None)

    @property
    def verdict(self) -> Verdict:
        """What became of the event as a whole: moved if any machine moved, else the gravest of the others."""
        found = {judged.verdict for judged in self.verdicts}
        order = (Verdict.REJECTED, Verdict.ANOMALY, Verdict.MOVED, Verdict.STALE)
        return next((verdict for verdict in order if verdict in found), Verdict.IGNORED)

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What to tell the host, in order."""
        told = [
            Notice(f"{move.machine}/{move.target}", move.id, move.event, move.why)
            for move in self.moves
            if move.source != move.target
        ]
        told += [
            Notice(str(judged.verdict), judged.id, judged.event, f"{judged.machine} is {judged.state}")
            for judged in self.verdicts
            if judged.verdict in _ODD
        ]
        told += [
            Notice("alarm", effect.id, "", effect.kind)  # type: ignore[attr-defined]
            for effect in self.effects
            if effect.name == "alarm"
        ]
        return tuple(told)

    def raise_if_rejected(self) -> None:
        """Turn a rejected command into an `IllegalCommand` that says what would be allowed.

        Raises:
            IllegalCommand: the command was rejected; nothing changed.
        """
        judged = self.rejected
        if judged is not None:
            raise IllegalCommand(
                judged.machine, judged.state, judged.event, commands_of(judged.machine, judged.state), judged.why
            )


_INTERNAL_COMMANDS = frozenset({"observed_send"})


@cache
def commands_of(machine: str, state: str) -> tuple[str, ...]:
    """List the commands that a state of a built-in machine has rows for, in declared order."""
    try:
        spec = builtin_spec(machine)
    except LookupError:
        return ()
    found: dict[str, Any] = {
        event: None
        for row in spec.rows
        if state in row.sources and row.kind == "row"
        for event in row.events
        if spec.events[event].origin == "command" and event not in _INTERNAL_COMMANDS
    }
    return tuple(found)
