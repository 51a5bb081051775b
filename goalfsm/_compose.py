"""One run-to-completion step over the four machines of a thread (composition 2-4).

A `Composition` lives for one step: it is the mutable scratch that the guards see as "the core". External events are
routed to machines; effects named `tell_*` or `raise_*` become internal events at the front of the step's queue.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from goalfsm import events as ev
from goalfsm._builtin import builtin_spec
from goalfsm._core import WAITING, CoreStep, Judged, Move, ThreadCore
from goalfsm._effecting import EFFECTS
from goalfsm._errors import GoalfsmError, UnknownName
from goalfsm._guards import FINAL_FOLLOW_UP, IN_LANE, first_queued, head_may_start, live, may_bind, may_follow
from goalfsm._kernel import Verdict, step
from goalfsm._machines import FollowUp, Operation
from goalfsm._routing import ROUTES, Item
from goalfsm.effects import Effect, Reconcile
from goalfsm.events import TypedEvent

__all__ = ["Composition"]

SETTLED_TAIL: Final = 8
ENDED_TAIL: Final = 64
# To look a member up in its enum costs more than a whole comparison.
MOVED: Final = Verdict.MOVED
REJECTED: Final = Verdict.REJECTED

_replace = msgspec.structs.replace


class _RejectedError(Exception):
    """Ends the step: a command was rejected by one machine, so nothing may change anywhere."""


class Composition:
    """The scratch of one step; reads like a `ThreadCore`."""

    __slots__ = (
        "before", "calls", "echo", "effects", "ended", "epoch", "gen", "goal", "gone", "lane_closed", "moves",
        "observer", "operation", "operations", "queue", "queue_after_goal", "raised", "recon", "rows", "stops", "turn",
        "verdicts",
    )  # fmt: skip

    def __init__(self, core: ThreadCore) -> None:
        self.before = core
        self.goal = core.goal
        self.turn = core.turn
        self.operation = core.operation
        self.rows = list(core.rows)
        self.epoch = core.epoch
        self.gen = core.gen
        self.stops = core.stops
        self.recon = core.recon
        self.echo = core.echo
        self.ended = core.ended
        self.gone = core.gone
        self.calls = core.calls
        self.operations = core.operations
        self.lane_closed = core.lane_closed
        self.queue_after_goal = core.queue_after_goal
        self.observer = core.observer
        self.queue: deque[Item] = deque()
        self.raised: list[Item] = []
        self.effects: list[Effect] = []
        self.moves: list[Move] = []
        self.verdicts: list[Judged] = []

    # -- the step ---------------------------------------------------------------------------------

    def run(self, event: TypedEvent) -> CoreStep:
        """Route the event, drain the queue, let the message queue go on, and freeze the result."""
        route = ROUTES.get(event.name)
        if route is None:
            raise UnknownName("event", event.name, "ThreadCore.handle", ROUTES)
        try:
            self.queue.extend(route(self, event))
            self._drain()
            rounds = 0
            while not self.observer and self._next_message():
                self._drain()
                rounds += 1
                if rounds > 2 * len(self.rows) + 2:
                    raise GoalfsmError("the queue never comes to rest: dispatch or admit leaves its message queued")
        except _RejectedError:
            return CoreStep(self.before, (), (), tuple(self.verdicts[-1:]))
        return CoreStep(self._freeze(), tuple(self.effects), tuple(self.moves), tuple(self.verdicts))

    def _drain(self) -> None:
        while self.queue:
            target, message_id, event = self.queue.popleft()
            self.raised = []
            if target == "row":
                self._step_row(message_id, event)
            elif target == "every_row":
                self.raised = [("row", row.id, event) for row in self.rows]
            elif target == "operation":
                self._step_operation(event)
            elif target == "open":
                self._open(message_id)
            elif target == "bind":
                self._bind(message_id)
            else:
                self._step_plain(target, event)
            self.queue.extendleft(reversed(self.raised))

    def _step(self, machine: str, message_id: str, snapshot: Any, event: TypedEvent) -> Any:
        result = step(builtin_spec(machine), snapshot, event, self)
        verdict, row, before, name = result.verdict, result.row, snapshot.state, event.name
        why = "" if row is None else row.why
        self.judge(machine, message_id, before, name, verdict, why)
        if verdict is MOVED:
            self.moves.append(Move(machine, message_id, before, result.snapshot.state, name, why))
        return result

    def judge(  # noqa: PLR0917  the six parts of a verdict, in their one order
        self, machine: str, message_id: str, state: str, event: str, verdict: Verdict, why: str
    ) -> None:
        """Record a verdict; a rejection ends the step and undoes it."""
        self.verdicts.append(Judged(machine, message_id, state, event, verdict, why))
        if verdict is REJECTED:
            raise _RejectedError

    def _step_plain(self, machine: str, event: TypedEvent) -> None:
        before = getattr(self, machine)
        result = self._step(machine, "", before, event)
        setattr(self, machine, result.snapshot)
        self._perform(result, before, event)

    def _step_operation(self, event: TypedEvent) -> None:
        before = self.operation
        if before is None:
            self.judge("operation", "", "none", event.name, Verdict.IGNORED, "no operation was ever started here")
            return
        result = self._step("operation", "", before, event)
        self.operation = result.snapshot
        self._perform(result, before, event)

    def _step_row(self, message_id: str, event: TypedEvent) -> None:
        index = self.index(message_id)
        if index is None:
            known = builtin_spec("follow_up").events.get(event.name)
            command = known is not None and known.origin == "command"
            verdict = Verdict.REJECTED if command else Verdict.IGNORED
            self.judge("follow_up", message_id, "absent", event.name, verdict, f"no message {message_id!r} in memory")
            return
        before = self.rows[index]
        result = self._step("follow_up", message_id, before, event)
        self.rows[index] = result.snapshot
        refused = event.name in ("send_refused", "hand_over_timeout") and result.verdict is MOVED
        if refused and before.state in IN_LANE:
            # Late and repeated news of an admission that is over says nothing about the turn that runs now.
            self.lane_closed = True
        self._perform(result, before, event)

    def _perform(self, result: Any, before: Any, event: TypedEvent) -> None:
        if result.verdict is MOVED:
            for name in result.effects:
                EFFECTS[name](self, before, result, event)

    # -- what the composition itself decides ------------------------------------------------------

    def index(self, message_id: str) -> int | None:
        """Give the place of a message in the queue, or None."""
        for place, row in enumerate(self.rows):
            if row.id == message_id:
                return place
        return None

    def begin_operation(self) -> None:
        """Create the next operation, fresh; it leaves that state in this same step."""
        self.operations += 1
        self.operation = Operation(builtin_spec("operation").initial, id=self.operations)

    def adopting(self) -> list[Item]:
        """Own what is live: a new operation under the slot's turn."""
        self.begin_operation()
        return [("operation", "", ev.Adopt(self.turn.turn_id if self.turn.state == "running" else ""))]

    def _open(self, message_id: str) -> None:
        """Our ordinary turn is an operation too: adopt it once its turn runs (composition 3, *open*)."""
        index = self.index(message_id)
        if index is None or live(self) or self.turn.state != "running":
            return
        row = self.rows[index]
        ours = row.route == "start" and row.written and row.epoch == self.epoch and row.gen == self.gen
        elsewhere = row.turn_id not in ("", self.turn.turn_id)
        closed = self.operation is not None and self.operation.logical == self.turn.turn_id
        if not ours or elsewhere or closed:
            return
        self.raised = self.adopting()
        if row.stops != self.stops:
            self.raised.append(("operation", "", ev.Stop()))

    def _bind(self, message_id: str) -> None:
        index = self.index(message_id)
        if index is None or self.rows[index].state != "accepted":
            return
        row = self.rows[index]
        event = ev.Bind(row.id, row.attempt + 1, "steer", self.turn.turn_id, row.tries + 1)
        if may_bind(row, event, self):
            self.raised.append(("row", row.id, event))

    def _next_message(self) -> bool:
        """Raise at most one dispatch or admit; an admission fills the lane (composition 2.4)."""
        row = first_queued(self.rows)
        if row is None:
            return False
        dispatch = ev.Dispatch(row.id, row.attempt + 1, "start", self.stops, self.epoch, self.gen)
        if head_may_start(row, dispatch, self) or (row.when == "steer" and not self._can_steer_later()):
            self.queue.append(("row", row.id, dispatch))
            return True
        if may_follow(row, dispatch, self):
            self.queue.append(("row", row.id, ev.Admit(row.id, *self.captured())))
            return True
        return False

    def _can_steer_later(self) -> bool:
        return live(self) and self.operation.state not in ("stopping", "interrupting")  # type: ignore[union-attr]

    def captured(self) -> tuple[int, str, int, int, int]:
        """What an admission captures at this instant: operation, goal identity, stop fence, owner, transport."""
        op = 0 if self.operation is None else self.operation.id
        return op, self.goal.ref if self.goal.state == "active" else "", self.stops, self.epoch, self.gen

    # -- the result -------------------------------------------------------------------------------

    def _freeze(self) -> ThreadCore:
        if len(self.rows) > SETTLED_TAIL and self.queue_changed():
            self._drop_settled()
        rows = tuple(self.rows)
        if rows == self.before.rows:
            # The same tuple tells everybody who compares by identity that no message changed.
            rows = self.before.rows
        return ThreadCore(
            self.goal, self.turn, self.operation, rows, self.epoch, self.gen, self.stops, self.recon,
            self.echo, self.ended, self.gone, self.calls, self.operations, self.lane_closed, self.queue_after_goal,
            self.observer,
        )  # fmt: skip

    def queue_changed(self) -> bool:
        """Whether any message moved in this step."""
        return any(move.machine == "follow_up" for move in self.moves)

    def _drop_settled(self) -> None:
        if self.observer:
            return
        settled = [row.id for row in self.rows if row.state in FINAL_FOLLOW_UP]
        # One that settles in this very step stays for its own record and its waiters; a later step drops it.
        moved = {move.id for move in self.moves if move.machine == "follow_up"}
        dropped = set(settled[:-SETTLED_TAIL]) - moved
        if dropped:
            self.rows = [row for row in self.rows if row.id not in dropped]

    def forget_turns(self) -> None:
        """Keep only the ended turns that an open message is bound to (composition 1)."""
        bound = {row.turn_id for row in self.rows if row.state not in WAITING}
        self.ended = tuple(turn for turn in self.ended if turn in bound)
        self.gone = tuple(turn for turn in self.gone if turn in bound)

    def end_turn(self, turn_id: str, *, inferred: bool) -> None:
        """Remember that a turn is over; beyond a tail only ids that an open message is bound to are kept."""
        if turn_id not in self.ended:
            self.ended = (*self.ended, turn_id)
        if inferred:
            self.gone = (*self.gone, turn_id)
        if len(self.ended) > ENDED_TAIL:
            bound = {row.turn_id for row in self.rows if row.state not in WAITING}
            old = self.ended[:-ENDED_TAIL]
            self.ended = (*(turn for turn in old if turn in bound), *self.ended[-ENDED_TAIL:])
            self.gone = tuple(turn for turn in self.gone if turn in self.ended)

    def emit_reconcile(self) -> None:
        """Ask the runtime to read everything back in this generation."""
        self.effects.append(Reconcile(self.gen))

    def new_row(self, event: ev.Submit) -> None:
        """Append a message; its id must be new."""
        self.rows.append(FollowUp(builtin_spec("follow_up").initial, id=event.id, when=event.when))
        why = "submitted"
        self.judge("follow_up", event.id, "absent", event.name, Verdict.MOVED, why)
        self.moves.append(Move("follow_up", event.id, "", self.rows[-1].state, event.name, why))
