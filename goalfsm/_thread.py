"""The runtime of one provider thread: ordered inbox, run-to-completion, journal, then effects.

One task per thread (the pump) takes items in the order they arrived: answers and notifications in wire order, commands,
clocks. A step is journaled before any of its effects is performed. Nothing else changes the core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import attrs
import msgspec

from goalfsm import _words
from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._adapter import Connection, Notification, Outgoing, ThreadInfo
from goalfsm._core import WAITING, CoreStep, ThreadCore
from goalfsm._errors import GoalfsmError, JournalError, StaleOwner, TransportClosed
from goalfsm._fold import Record, encode_record, record_of
from goalfsm._guards import IN_LANE, live
from goalfsm._kernel import Verdict
from goalfsm._log import shows_debug
from goalfsm._machines import Operation
from goalfsm._message import Content, Message
from goalfsm._performing import PERFORM
from goalfsm._pulse import Pulse
from goalfsm._run import Reader, Run
from goalfsm._snapshot import encode_snapshot
from goalfsm._values import GoalView, StreamEvent

if TYPE_CHECKING:
    from goalfsm._engine import Engine

__all__ = ["Command", "ThreadRuntime"]

RETRY_SECONDS = 0.5
UNWRITTEN = "no byte was written"
TURNS_KEPT = 256
SNAPSHOT_EVERY = 32
_TURN_ENDS = (ev.TurnCompleted, ev.TurnFailed, ev.TurnInterrupted)
_ODD = (Verdict.ANOMALY, Verdict.STALE)
_READS = (ev.Found, ev.Absent, ev.ReadFailed)
_ANSWERS = (
    ev.ClearOk, ev.SetOk, ev.CallRefused, ev.PauseOk, ev.InterruptOk, ev.InterruptNone, ev.InterruptOther,
    ev.InterruptRefused,
)  # fmt: skip


class Command:
    """A command in the inbox, and the place where its caller waits.

    Args:
        event: what is asked; None only waits until everything before it was handled.
        content: content of the message that the event brings or changes.
        prepare: called with the step before it is journaled, for what only the runtime knows.
        only_if: asked when the command's turn comes; False makes it a command that has nothing left to do.
    """

    def __init__(
        self,
        event: ev.TypedEvent | None,
        content: Content | None = None,
        prepare: Callable[[CoreStep], None] | None = None,
        only_if: Callable[[ThreadCore], bool] | None = None,
    ) -> None:
        self.event = event
        self.content = content
        self.prepare = prepare
        self.only_if = only_if
        self.step: CoreStep | None = None
        self.error: BaseException | None = None
        self.done = anyio.Event()

    def finish(self, step: CoreStep | None = None, error: BaseException | None = None) -> None:
        """Resolve the caller, once."""
        self.step = step
        self.error = error
        self.done.set()


@attrs.frozen
class _Write:
    """A write request; once its section is held, `handled` is what the section waits for."""

    id: str
    attempt: int
    handled: anyio.Event | None = None


_Item = tuple[ev.TypedEvent, ...] | Notification | Command | _Write


class ThreadRuntime:
    """Everything goalfsm knows of one thread in this process."""

    def __init__(self, engine: Engine, thread_id: str, core: ThreadCore, *, seq: int = 0) -> None:
        self.engine = engine
        self.id = thread_id
        self.core = core
        self.journaled = core
        self.seq = seq
        self.owned = False
        self.restart: CoreStep | None = None
        self.info: ThreadInfo | None = None
        self.messages: dict[str, Message] = {}
        self.runs: dict[int, Run] = {}
        self.watchers: list[Reader] = []
        self.run: Run | None = None
        self.logical_of: dict[str, str] = {}
        self._begun: dict[str, Run] = {}
        self._coming: Message | None = None
        self.goal_view: GoalView | None = None
        self.stale: StaleOwner | None = None
        self.broken: BaseException | None = None
        self.resumed = False
        self.last_heard = engine.clock.monotonic()
        self.changed = Pulse()
        self.snapshot_seq = 0
        self._inbox: deque[_Item] = deque()
        self._news = Pulse()
        self._pumping = False

    @property
    def log(self) -> Any:
        """The engine's logger, bound to this thread."""
        return self.engine.log.bind(thread=self.id)

    # -- the inbox --------------------------------------------------------------------------------

    def put(self, *events: ev.TypedEvent) -> None:
        """Append facts to the inbox."""
        self._append(events)

    def _append(self, item: _Item) -> None:
        # The pump waits for nothing but an empty inbox; a thread that nothing happens to has none.
        if not self._inbox:
            self._news.fire()
        self._inbox.append(item)
        if not self._pumping:
            self._pumping = True
            self.engine.spawn(self.pump)

    def put_note(self, note: Notification) -> None:
        """Append a raw notification; the end of a turn is shown to readers before the fact ends their run."""
        if note.kind == "turn_completed" and self._inbox:
            last = self._inbox[-1]
            if isinstance(last, tuple) and isinstance(last[-1], _TURN_ENDS):
                self._inbox.insert(len(self._inbox) - 1, note)
                return
        self._append(note)

    def put_write(self, message_id: str, attempt: int) -> None:
        """Append a write request; the write section is entered when its turn comes."""
        self._append(_Write(message_id, attempt))

    async def command(
        self,
        event: ev.TypedEvent | None,
        content: Content | None = None,
        prepare: Callable[[CoreStep], None] | None = None,
        only_if: Callable[[ThreadCore], bool] | None = None,
    ) -> CoreStep:
        """Put a command into the inbox and wait for its step.

        Raises:
            IllegalCommand: the state does not allow it; nothing changed.
            StaleOwner: another owner holds the thread.
            JournalError: the step could not be journaled, so it did not happen.
        """
        if self.stale is not None:
            raise StaleOwner(self.id, self.stale.epoch, self.stale.current)
        if self.broken is not None:
            raise GoalfsmError(f"thread {self.id} stopped after an internal error: {self.broken!r}") from self.broken
        if self.engine.closed:
            raise TransportClosed("the engine is closed")
        command = Command(event, content, prepare, only_if)
        self._append(command)
        await command.done.wait()
        if command.error is not None:
            raise command.error
        assert command.step is not None  # noqa: S101  a command without an error has a step
        return command.step

    async def settle_inbox(self) -> None:
        """Own the thread, and wait until everything that is in the inbox now was handled."""
        await self.command(None)

    async def drain(self) -> None:
        """Wait until the inbox is empty, without a command; for closing."""
        while self._inbox and self.broken is None and self.owned:
            await self.changed.wait()

    async def pump(self) -> None:
        """Handle the inbox for ever, one item at a time; cancel to end."""
        try:
            while True:
                while not self._inbox:
                    await self._snapshot_at_rest()
                    if not self._inbox:
                        await self._news.wait()
                item = self._inbox.popleft()
                if isinstance(item, Notification):
                    self._hear(item)
                else:
                    await self._handle(item)
        except Exception as error:  # noqa: BLE001  one thread's bug must not end the others; it fails closed
            self._break(error)

    def close(self) -> None:
        """Fail whatever still waits in the inbox; the engine is closing."""
        self._fail_commands(TransportClosed("the engine is closed"))
        if self.run is not None and not self.run.how:
            self.run.end("lost", "the engine is closed")
        for watcher in self.watchers:
            watcher.end()
        self.wake()

    def wake(self) -> None:
        """Wake everybody who waits for any change of this thread."""
        self.changed.fire()

    def _fail_commands(self, error: BaseException) -> None:
        waiting = list(self._inbox)
        self._inbox.clear()
        for item in waiting:
            if isinstance(item, Command):
                item.finish(error=error)
            elif isinstance(item, _Write) and item.handled is not None:
                item.handled.set()

    def _break(self, error: Exception) -> None:
        self.broken = error
        self.log.error("thread stopped", exc_info=error)
        self.engine.odd(self.id, "internal_error", repr(error))
        self._fail_commands(GoalfsmError(f"thread {self.id} stopped after an internal error: {error!r}"))
        if self.run is not None and not self.run.how:
            self.run.end("lost", f"internal error: {error!r}")
        self.wake()

    # -- one item ---------------------------------------------------------------------------------

    def _hear(self, note: Notification) -> None:
        if self.run is not None and not self.run.how:
            self.run.hear(note)

    async def _handle(self, item: tuple[ev.TypedEvent, ...] | Command | _Write) -> None:
        if isinstance(item, Command):
            await self._handle_command(item)
        elif isinstance(item, _Write):
            await self._write_section(item)
        else:
            for event in item:
                await self._handle_fact(event)

    async def _handle_command(self, command: Command) -> None:
        try:
            await self._own()
            if command.event is None or (command.only_if is not None and not command.only_if(self.core)):
                command.finish(CoreStep(self.core))
                return
            step = self.core.handle(command.event)
            step.raise_if_rejected()
            if command.prepare is not None:
                command.prepare(step)
            await self._commit(step, command.event, command.content)
            command.finish(step)
        except GoalfsmError as error:
            if isinstance(error, StaleOwner):
                self._let_go(error)
            command.finish(error=error)
        except Exception as error:
            # It ends the thread; its caller learns the true reason, as everybody after it does.
            command.finish(error=GoalfsmError(f"thread {self.id} stopped after an internal error: {error!r}"))
            raise
        finally:
            if not command.done.is_set():
                command.finish(error=TransportClosed("the engine is closed"))

    async def _snapshot_at_rest(self) -> None:
        """Keep a restart short: a snapshot stands for the records so far, once nothing is in flight (decisions 22)."""
        due = self.seq - self.snapshot_seq >= SNAPSHOT_EVERY
        if not due or not self.owned or self.stale is not None or self.live() or self.core != self.journaled:
            return
        self.snapshot_seq = self.seq
        data = encode_snapshot(self.core, self.messages.values(), self.engine.clock.wall())
        try:
            await self.engine.journal.snapshot(self.id, self.core.epoch, self.seq, data)
        except StaleOwner as error:
            self._let_go(error)
        except JournalError as error:
            self.engine.journal_failed(self.id, error)

    async def _own(self) -> None:
        """Take ownership with the first command (decisions 6); what a restart changed is journaled first."""
        if self.owned:
            return
        free = await self.engine.await_lease(self.id)
        epoch = await self.engine.journal.claim(self.id, self.engine.owner, expected=free)
        loaded = await self.engine.journal.load(self.id)
        if loaded.last_seq != self.seq:
            # Its former owner went on after we had read it, up to our claim and no further.
            self.engine.reread(self, loaded)
        core = msgspec.structs.replace(self.core, epoch=epoch)
        if self.restart is not None:
            record = record_of(self.journaled, self.restart, ev.Restarted(), self.engine.clock.wall())
            record.delta["epoch"] = epoch
            for move in self.restart.moves:
                if move.id in self.messages:
                    record.told[move.id] = self.messages[move.id].told_record()
            await self.engine.journal.append(self.id, epoch, self.seq + 1, encode_record(record))
            self.seq += 1
        self.core = self.journaled = core
        self.owned = True

    async def _handle_fact(self, event: ev.TypedEvent) -> None:
        if not self.owned:
            # Not ours yet: taking the thread reads everything back.
            return
        self._answered(event)
        while self.stale is None:
            step = self.core.handle(event)
            try:
                await self._commit(step, event)
            except StaleOwner as error:
                self._let_go(error)
            except JournalError as error:
                # A fact cannot be refused: it waits for the journal, and nothing rests on it until then.
                self.engine.journal_failed(self.id, error)
                await self.engine.clock.sleep(RETRY_SECONDS)
                continue
            else:
                break
        else:
            self._handle_stale(event)
        message = self.messages.get(getattr(event, "id", ""))
        if message is not None and isinstance(event, _READS):
            message.looking = False
            if isinstance(event, ev.ReadFailed) and event.attempt == message.row.attempt:
                self.not_readable(event.message, message)
            self.wake()

    def not_readable(self, words: str, *messages: Message) -> None:
        """Tell people of uncertain messages (all, if none is named) why looking back did not decide them."""
        for message in messages or self.messages.values():
            if message.row.state == "uncertain":
                message.unread = words

    def _answered(self, event: ev.TypedEvent) -> None:
        op = self.core.operation
        if isinstance(event, _ANSWERS) and op is not None and event.call == op.call:
            self.disarm("call")

    def _let_go(self, error: StaleOwner) -> None:
        """Another owner holds the thread: end our side in memory and write nothing more (rules E17)."""
        if self.stale is None:
            self.stale = error
            self._handle_stale(ev.OwnerChanged(max(error.current or 0, self.core.epoch + 1)))
            if self.run is not None and not self.run.how:
                self.run.end("detached")

    def _handle_stale(self, event: ev.TypedEvent) -> None:
        """A thread that is not ours any more: what is in flight still ends for its waiters, in memory only."""
        step = self.core.handle(event)
        for move in step.moves:
            if move.machine == "follow_up" and move.source != move.target:
                self._take_told({move.id: self._told(step, move.id, event, move.why)})
        self._accept(step)

    # -- journal, then perform --------------------------------------------------------------------

    async def _commit(self, step: CoreStep, event: ev.TypedEvent, content: Content | None = None) -> None:
        if self.stale is not None:
            raise StaleOwner(self.id, self.stale.epoch, self.stale.current)
        self._coming = None if content is None else self._message_of(step, event, content)
        record = self._record(step, event, content)
        if record is not None:
            await self.engine.journal.append(self.id, self.core.epoch, self.seq + 1, encode_record(record))
            self.seq += 1
            self.journaled = step.core
        self._accept(step, content)
        if record is not None:
            self._take_told(record.told)
        self._perform(step, event)

    def _record(self, step: CoreStep, event: ev.TypedEvent, content: Content | None) -> Record | None:
        odd = any(judged.verdict in _ODD for judged in step.verdicts)
        if step.core is self.core or (step.core == self.core and not step.effects and not odd and content is None):
            return None
        record = record_of(self.journaled, step, event, self.engine.clock.wall())
        if content is not None and self._coming is not None:
            record.messages[self._coming.id] = content.record()
        for effect in step.effects:
            fenced = self._message(effect.id) if isinstance(effect, fx.WriteFence) else None
            if fenced is not None:
                fenced.position = self.engine.position(self.id)
        for move in step.moves:
            if move.machine == "follow_up" and move.source != move.target:
                record.told[move.id] = self._told(step, move.id, event, move.why)
        return record

    def _told(self, step: CoreStep, message_id: str, event: ev.TypedEvent, why: str) -> dict[str, Any]:
        row = step.core.row(message_id)
        if row is None:
            return {}
        # On a copy: nobody may see the evidence of a step that is not durable yet.
        told = Message(message_id, Content(""), row)
        known = self._message(message_id)
        if known is not None:
            told.logical, told.position = known.logical, known.position
        told.evidence = _words.evidence(row, event)
        told.reason = _words.reason(row, event, why)
        if row.turn_id:
            told.logical = self.logical_of.get(row.turn_id, told.logical)
        return told.told_record()

    def _take_told(self, told: dict[str, dict[str, Any]]) -> None:
        for message_id, words in told.items():
            if message_id in self.messages:
                self.messages[message_id].take_told(words)

    def _accept(self, step: CoreStep, content: Content | None = None) -> None:
        """Make the step the truth in memory, and tell everybody who watches."""
        before, self.core = self.core, step.core
        if content is not None and self._coming is not None:
            self._accept_content(self._coming, content)
        if step.core.rows is not before.rows:
            for row in step.core.rows:
                message = self.messages.get(row.id)
                if message is not None:
                    message.row = row
        for judged in step.verdicts:
            if judged.verdict in _ODD:
                detail = f"{judged.machine} {judged.id} is {judged.state}: {judged.event}".replace("  ", " ")
                self.engine.odd(self.id, str(judged.verdict), detail)
        if self.core.turn.state == "running" and live(self.core) and self.core.operation is not None:
            self._remember_turn(self.core.turn.turn_id, self.core.operation)
        self._log_moves(step)
        self.wake()

    def _remember_turn(self, turn_id: str, operation: Operation) -> None:
        self.logical_of[turn_id] = operation.logical or turn_id
        if len(self.logical_of) > TURNS_KEPT:
            self.logical_of.pop(next(iter(self.logical_of)))

    def _message_of(self, step: CoreStep, event: ev.TypedEvent, content: Content) -> Message:
        """Give the message that a command brings or changes; a new one is known only once its step is journaled."""
        message_id: str = getattr(event, "id")  # noqa: B009  every event that carries content has an id
        row = step.core.row(message_id)
        assert row is not None  # noqa: S101  its own step just made or kept it
        return self.messages.get(message_id) or Message(message_id, content, row)

    def _message(self, message_id: str) -> Message | None:
        coming = self._coming
        return coming if coming is not None and coming.id == message_id else self.messages.get(message_id)

    def _accept_content(self, message: Message, content: Content) -> None:
        if message.id not in self.messages:
            self.messages[message.id] = message
            if content.expires_in is not None:
                message.expires_at = self.engine.clock.wall() + content.expires_in
                self.arm_expiry(message)
        message.content = content

    def _log_moves(self, step: CoreStep) -> None:
        if not step.moves or not shows_debug(self.engine.log):
            return
        for move in step.moves:
            if move.source != move.target:
                row = step.core.row(move.id) if move.id else None
                fields: dict[str, Any] = {"machine": move.machine, "from": move.source, "to": move.target}
                if row is not None:
                    fields |= {"follow_up": row.id, "turn": row.turn_id, "attempt": row.attempt}
                elif step.core.operation is not None:
                    fields |= {"operation": step.core.operation.id, "turn": step.core.turn.turn_id}
                self.log.debug(move.event, **fields)

    def _perform(self, step: CoreStep, event: ev.TypedEvent) -> None:
        for move in step.moves:
            if move.machine == "follow_up" and move.source != move.target:
                self._tell_message(move.id, move.target)
                if move.source == "delivering":
                    self.disarm("answer", move.id)
                if move.target in WAITING and move.source not in WAITING and move.id in self.messages:
                    self.arm_expiry(self.messages[move.id])
        for effect in step.effects:
            PERFORM[effect.name](self, effect, event)
        self.engine.after_step(self)

    def _tell_message(self, message_id: str, state: str) -> None:
        message = self.messages.get(message_id)
        running = self.run is not None and not self.run.how
        if message is None or not (running or self.watchers):
            return
        params = {
            "threadId": self.id,
            "id": message_id,
            "state": state,
            "evidence": message.evidence,
            "reason": message.reason,
            "display": message.content.shown,
            "attachments": len(message.content.attachments),
            "meta": message.content.meta,
        }
        notice = StreamEvent(f"follow_up/{state}", params, message.row.turn_id, "goalfsm")
        for watcher in self.watchers:
            watcher.put(notice)
        if self.run is not None and running:
            self.run.tell(notice)

    # -- the write section (composition 7) --------------------------------------------------------

    async def _write_section(self, item: _Write) -> None:
        """Ask begin_write and, only if granted, write everything; no suspension between the check and the write."""
        connection = self.engine.connection
        if connection is None:
            if item.handled is not None:
                item.handled.set()
            await self._handle_fact(ev.BeginWrite(item.id, item.attempt, self.core.epoch, self.core.gen + 1))
        elif item.handled is None:
            self.engine.spawn(self._enter_section, connection, item)
        else:
            event = ev.BeginWrite(item.id, item.attempt, self._true_epoch(), self._true_generation())
            try:
                step = self.core.handle(event)
                granted = next((effect for effect in step.effects if isinstance(effect, fx.WriteBytes)), None)
                if granted is not None:
                    self._accept(step)
                    self._write(connection, granted)
            finally:
                # Whatever breaks this thread must not keep the lock from the others.
                item.handled.set()
            if granted is None:
                await self._handle_fact(event)

    async def _enter_section(self, connection: Connection, item: _Write) -> None:
        """Wait for the write lock beside the pump: a pipe that takes no more must not hold up a stop or a cancel."""
        async with connection.writing():
            handled = anyio.Event()
            self._append(_Write(item.id, item.attempt, handled))
            await handled.wait()

    def _true_epoch(self) -> int:
        try:
            return self.engine.journal.epoch_now(self.id)
        except JournalError as error:
            self.engine.journal_failed(self.id, error)
            return -1

    def _true_generation(self) -> int:
        pending = any(
            isinstance(event, ev.TransportLost) for item in self._inbox if isinstance(item, tuple) for event in item
        )
        return self.core.gen + pending

    def _write(self, connection: Connection, granted: fx.WriteBytes) -> None:
        message = self.messages[granted.id]
        outgoing = Outgoing(
            granted.id,
            granted.attempt,
            "steer" if granted.route == "steer" else "start",
            granted.turn_id,
            message.content.text,
            message.content.attachments,
        )
        try:
            connection.send(self.id, outgoing)
        except TransportClosed as error:
            self.put(ev.SendRefused(granted.id, granted.attempt, 0, f"{UNWRITTEN}: {error}"))
            return
        lost = ev.AnswerLost(granted.id, granted.attempt, "no answer in time")
        self.arm(("answer", granted.id), self.engine.policy.timeouts.answer, lost)

    # -- clocks -----------------------------------------------------------------------------------

    def arm(self, key: tuple[Any, ...], seconds: float, event: ev.TypedEvent) -> None:
        """Put `event` into the inbox after `seconds`; the same key again replaces it."""
        self.engine.timers.arm((self.id, *key), seconds, lambda: self.put(event))

    def arm_expiry(self, message: Message) -> None:
        """Let a message that rests too long expire; on its way it cannot, so this is asked again when it comes back."""
        if message.expires_at is None:
            return
        rest = message.expires_at - self.engine.clock.wall()
        if rest > 0:
            self.arm(("expire", message.id), rest, ev.Expire(message.id))
        else:
            self.put(ev.Expire(message.id))

    def disarm(self, *key: Any) -> None:
        """Forget a deadline."""
        self.engine.timers.disarm((self.id, *key))

    def began(self, message_id: str, run: Run) -> None:
        """Remember which message began an ordinary turn."""
        if message_id:
            self._begun[message_id] = run
            if len(self._begun) > TURNS_KEPT:
                self._begun.pop(next(iter(self._begun)))

    def run_of(self, message_id: str) -> Run | None:
        """Give the run of the ordinary turn that a message began, once it is known."""
        return self._begun.get(message_id)

    # -- questions --------------------------------------------------------------------------------

    def is_ours(self) -> bool:
        """Whether nobody took the thread from us, as far as the journal can be asked."""
        return self.owned and self.stale is None and self._true_epoch() in (self.core.epoch, -1)

    def taken_away(self) -> None:
        """Learn of another owner from the journal, without a command that it refuses."""
        self._let_go(StaleOwner(self.id, self.core.epoch, self._true_epoch()))

    def live(self) -> bool:
        """Whether an operation of this thread has not ended."""
        return live(self.core)

    def quiet(self) -> bool:
        """No live operation, no turn, and no message on its way to a turn of its own."""
        starting = any(row.state in IN_LANE for row in self.core.rows)
        return not self.live() and self.core.turn.state != "running" and not starting
