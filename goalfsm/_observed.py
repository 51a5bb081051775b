"""One provider thread as a passive observer of its traffic sees it: a core that never acts, and the fates it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from goalfsm import _words
from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._core import CoreStep, Move, ThreadCore
from goalfsm._guards import live
from goalfsm._kernel import Verdict
from goalfsm._observed_message import Attempt, ObservedMessage, reason_of
from goalfsm._replay_report import AlarmSeen, AnomalySeen, Fate, ThreadReport
from goalfsm._shown import UserItem

__all__ = ["ObservedThread", "Watch"]

Watch = Callable[["ObservedThread", int, ev.TypedEvent, CoreStep], None]
"""Told of every step: the thread, the line, the event, the step."""

OPEN: Final = frozenset({"delivering", "acknowledged", "uncertain"})
_UNEXPECTED: Final = (Verdict.ANOMALY, Verdict.STALE, Verdict.REJECTED)
_CALLS: Final = (fx.ClearGoal, fx.SetGoal, fx.PauseGoal, fx.InterruptTurn)


class ObservedThread:
    """Feeds one observer core and remembers what its steps proved, and on which line.

    Attributes:
        core: the observer core.
        homes: connections whose server has the thread loaded.
        ended_on: the line on which each turn's end was heard.
    """

    def __init__(self, thread_id: str, watch: Watch | None = None) -> None:
        self.id = thread_id
        self._watch = watch
        self.core = ThreadCore(observer=True)
        self.homes: set[str] = set()
        self.ended_on: dict[str, int] = {}
        self._messages: dict[str, ObservedMessage] = {}
        self._loose: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._claimed: set[str] = set()
        self._anomalies: list[AnomalySeen] = []
        self._alarms: dict[tuple[str, str, str], AlarmSeen] = {}

    # -- steps ------------------------------------------------------------------------------------

    def feed(self, line: int, *events: ev.TypedEvent) -> None:
        """Let facts of one line happen to the core, and keep the operation going that nobody acts for."""
        for event in events:
            step = self._step(line, event)
            if isinstance(event, ev.TurnCompleted | ev.TurnFailed | ev.TurnInterrupted):
                self.ended_on.setdefault(event.turn_id, line)
            if not live(self.core) and self._began(step):
                self._step(line, ev.Adopt())
        self._match(line)

    def _step(self, line: int, event: ev.TypedEvent) -> CoreStep:
        step = self.core.handle(event)
        self.core = step.core
        for judged in step.verdicts:
            if judged.verdict in _UNEXPECTED:
                seen = AnomalySeen(line, judged.machine, judged.state, judged.event, str(judged.verdict))
                self._anomalies.append(seen)
        for move in step.moves:
            if move.machine == "follow_up" and move.source != move.target:
                self._moved(line, move, event)
        if self._watch is not None:
            self._watch(self, line, event, step)
        for effect in step.effects:
            if isinstance(effect, fx.Alarm):
                self._alarms.setdefault((effect.id, effect.kind, effect.item), AlarmSeen(line, effect.id, effect.kind))
            elif isinstance(effect, _CALLS):
                # The core would act here; an observer cannot, so no answer will ever come.
                self._step(line, ev.CallLost(call=effect.call))
        return step

    def _began(self, step: CoreStep) -> bool:
        # An operation is adopted with a turn, or with a goal that may start one on a loaded thread.
        for move in step.moves:
            if move.machine == "turn" and move.event in ("turn_started", "turn_named"):
                return self.core.turn.state == "running"
            if move.machine == "goal" and move.target == "active" != move.source and self.homes:
                return True
        return False

    def _moved(self, line: int, move: Move, event: ev.TypedEvent) -> None:
        message, row = self._messages.get(move.id), self.core.row(move.id)
        if message is None or row is None or row.state != move.target:
            return
        cause = event if event.name == move.event else ev.named(move.event)()
        words = _words.evidence(row, cause)
        message.evidence = f"{words}, line {line}" if words else ""
        message.reason = reason_of(message, row, cause, move.why)

    # -- sends and their answers ------------------------------------------------------------------

    def sent(self, line: int, message_id: str, route: str, *, conn: str, turn_id: str, content: str) -> None:
        """A client was seen sending a message; its answer will name this line as its attempt."""
        row = self.core.row(message_id)
        if row is None:
            self._step(line, ev.Submit(id=message_id))
        message = self._messages.setdefault(message_id, ObservedMessage(message_id, line, content))
        number = 1 + (0 if row is None else row.attempt)
        message.attempts[line] = Attempt(number, conn, route, turn_id)
        self.feed(line, ev.ObservedSend(id=message_id, attempt=number, route=route, turn_id=turn_id))

    def answered(self, line: int, event: ev.SendOk | ev.SendRefused | ev.SendMoved | ev.AnswerLost) -> None:
        """The answer to a send; its `attempt` is the line of that send."""
        message = self._messages[event.id]
        attempt = message.attempts.get(event.attempt)
        if attempt is None:
            return
        sent_on, event = event.attempt, attrs.evolve(event, attempt=attempt.number)
        if isinstance(event, ev.SendRefused | ev.SendMoved):
            del message.attempts[sent_on]
            if isinstance(event, ev.SendMoved):
                if event.found:
                    self.feed(line, ev.TurnNamed(event.found))
                # An acting core would try the next turn; whether the recorded client does is not ours to guess.
                event = ev.SendRefused(event.id, event.attempt, event.code, event.message)
            self._refused(line, message, event)
            return
        if isinstance(event, ev.SendOk):
            attempt.taken = True
            attempt.turn_id = event.turn_id or attempt.turn_id
        self.feed(line, event)

    def _refused(self, line: int, message: ObservedMessage, event: ev.SendRefused) -> None:
        row = self.core.row(message.id)
        if row is None or row.attempt != event.attempt or not message.attempts:
            self.feed(line, event)
            return
        # Only the last send was refused: an earlier one with the same id is still out, so its fate is the message's.
        earlier = message.attempts[max(message.attempts)]
        earlier.number = row.attempt + 1
        self.feed(line, ev.ObservedSend(message.id, earlier.number, earlier.route, earlier.turn_id))
        if earlier.taken:
            self.feed(line, ev.SendOk(message.id, earlier.number, earlier.turn_id))

    def process_ended(self, line: int, conn: str) -> None:
        """The process behind a connection has gone, and with it whatever was only in its memory."""
        sends = [
            (message, attempt)
            for message in self._messages.values()
            for attempt in message.attempts.values()
            if attempt.conn == conn
        ]
        if conn not in self.homes and not sends:
            return
        self.homes.discard(conn)
        if not self.homes:
            self.feed(line, ev.TransportLost())
            return
        for message, attempt in sends:
            row = self.core.row(message.id)
            if not attempt.taken and row is not None and row.state == "delivering":
                self.feed(line, ev.AnswerLost(message.id, attempt.number))

    # -- evidence ---------------------------------------------------------------------------------

    def told(self, message_id: str) -> tuple[str, str]:
        """Give the evidence for where a message stands, and the reason, as the report will."""
        message = self._messages.get(message_id)
        return ("", "") if message is None else (message.evidence, message.reason)

    def knows(self, message_id: str) -> bool:
        """Whether a client was seen sending this message."""
        return message_id in self._messages

    def unlabelled(self, line: int, item: UserItem) -> None:
        """The provider shows a user message without a client id; its text may tell which one it is."""
        if item.item and item.item not in self._claimed:
            seen = self._loose.setdefault((item.turn, item.content), [])
            if all(item.item != known for _line, known in seen):
                seen.append((line, item.item))
            self._match(line)

    def _match(self, line: int) -> None:
        # In order, and only when there is an item for every message that it could be: with fewer items than messages
        # of the same text nobody can tell which one was shown (decisions 1).
        for (turn, content), seen in self._loose.items():
            items = [(on, item) for on, item in seen if item not in self._claimed]
            rivals = self._could_be(turn, content)
            if not items or not rivals or len(items) < len(rivals):
                continue
            for message, (on, item) in zip(rivals, items, strict=False):
                if on > message.line:
                    self._claimed.add(item)
                    self._step(line, ev.Echo(message.id, item, turn))

    def _could_be(self, turn: str, content: str) -> list[ObservedMessage]:
        return [
            message
            for message in self._messages.values()
            if not message.is_labelled and message.content == content and self._is_open_in(message.id, turn)
        ]

    def _is_open_in(self, message_id: str, turn: str) -> bool:
        row = self.core.row(message_id)
        return row is not None and row.state in OPEN and row.turn_id in ("", turn)

    def absent_from(self, line: int, conn: str, complete: frozenset[str], seen: frozenset[str]) -> None:
        """A read shows every item of the ended turns `complete`, and in the whole only the client ids `seen`."""
        if conn not in self.homes:
            return
        for message in self._messages.values():
            row = self.core.row(message.id)
            if row is None or row.state != "uncertain" or not message.is_labelled or message.id in seen:
                continue
            # After the end of a process absence on the wire proves nothing: its rollout file is not in a recording.
            same_process = row.gen == self.core.gen
            if same_process and all(attempt.turn_id in complete for attempt in message.attempts.values()):
                self.feed(line, ev.Absent(message.id, row.attempt, self.core.gen))

    # -- the report -------------------------------------------------------------------------------

    def report(self) -> ThreadReport:
        """Say where everything stands."""
        operation = self.core.operation
        return ThreadReport(
            self.id,
            self.core.goal.state,
            "" if operation is None else operation.state,
            tuple(self._fate(message) for message in self._messages.values()),
            tuple(self._anomalies),
            tuple(self._alarms.values()),
        )

    def _fate(self, message: ObservedMessage) -> Fate:
        row = self.core.row(message.id)
        if row is None:
            return Fate(message.id, "queued")
        return Fate(message.id, row.state, row.turn_id, message.evidence, message.reason)
