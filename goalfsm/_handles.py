"""What a host holds: a thread, a goal, a message (surface 1-24). Handles decide nothing; they ask the runtime."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal

import attrs

from goalfsm import _words
from goalfsm import events as ev
from goalfsm._adapter import Connection
from goalfsm._cancelling import cancel_on_cancel
from goalfsm._core import WAITING, commands_of
from goalfsm._errors import GoalFailed, GoalfsmError, IllegalCommand, ProviderRefused, StaleOwner, TransportClosed
from goalfsm._guards import FINAL_FOLLOW_UP, live
from goalfsm._message import Content, Message, check_journalable, content_of
from goalfsm._run import Reader, Run
from goalfsm._stopping import stop_run, stop_thread
from goalfsm._thread import UNWRITTEN, ThreadRuntime
from goalfsm._values import GoalStatus, GoalView, Outcome, Result, StreamEvent

__all__ = ["FollowUpHandle", "GoalHandle", "Receipt", "Thread", "ThreadStatus", "check_objective"]

INVALID_REQUEST = -32600
OBJECTIVE_LIMIT = 4000
_SETTLED = FINAL_FOLLOW_UP | {"requeued"}


def check_objective(objective: object) -> str:
    """Check a goal's objective before any request, with the provider's own words; give it trimmed (surface 14).

    Raises:
        TypeError: it is not text.
        ValueError: it is blank, or longer than 4,000 characters after trimming.
    """
    if not isinstance(objective, str):
        raise TypeError("goal objective must be a string")
    text = objective.strip()
    if not text:
        raise ValueError("goal objective must not be empty")
    if len(text) > OBJECTIVE_LIMIT:
        raise ValueError(f"goal objective must be at most {OBJECTIVE_LIMIT} characters")
    return text


@attrs.frozen
class Receipt:
    """What `goal.steer` gives: the message is with the provider; only `delivered` is evidence.

    Args:
        id: the message's id.
        turn_id: the logical turn id.
        state: acknowledged, delivered or uncertain.
        message: the message, to follow its fate.
    """

    id: str
    turn_id: str
    state: str
    message: FollowUpHandle = attrs.field(repr=False)


@attrs.frozen
class ThreadStatus:
    """Where a thread stands: the states of its machines, and what waits.

    Args:
        goal: state of the goal.
        turn: state of the turn slot.
        operation: state of the operation, empty if there never was one.
        waiting: how many messages rest in the queue.
        reconciled: whether everything was read back since the last loss or restart.
        anomalies: reserved for people: whether an internal error stopped the thread.
    """

    goal: str
    turn: str
    operation: str
    waiting: int
    reconciled: bool
    anomalies: str = ""


class FollowUpHandle:
    """One message. Its attributes are live: they show what is known now."""

    def __init__(self, runtime: ThreadRuntime, message: Message) -> None:
        self._runtime = runtime
        self._message = message

    def __repr__(self) -> str:
        return f"<message {self.id!r} {self.state}>"

    @property
    def id(self) -> str:
        """Its id: also the client id that the provider is shown."""
        return self._message.id

    @property
    def state(self) -> str:
        """Its state, a word of specs/follow_up.toml."""
        return self._message.row.state

    @property
    def evidence(self) -> str:
        """What was seen and where; empty where nothing was."""
        return self._message.evidence

    @property
    def reason(self) -> str:
        """One sentence: why it is where it is, or what it waits for."""
        message = self._message
        waiting = _words.waiting(self._runtime.core, message.row)
        return waiting or _words.not_readable(message.reason, message.unread)

    @property
    def position(self) -> int | None:
        """Its place among the waiting messages, from 0, held ones included; None if it does not wait."""
        waiting = [row.id for row in self._runtime.core.waiting()]
        return waiting.index(self.id) if self.id in waiting else None

    @property
    def text(self) -> str:
        """The text as it goes to the provider."""
        return self._message.content.text

    @property
    def meta(self) -> Any:
        """The host's own value, as given to `submit`."""
        return self._message.content.meta

    @property
    def outcome(self) -> Outcome:
        """What is known now, as a value."""
        message = self._message
        physical = message.row.turn_id
        logical = message.logical or self._runtime.logical_of.get(physical, physical)
        return Outcome(self.id, self.state, message.evidence, self.reason, logical if physical else "", physical)

    async def settled(self) -> Outcome:
        """Wait for its fate: delivered, requeued, discarded, expired, or uncertain once no read-back is in flight.

        Cancelling the wait does nothing to the message (surface 9, 19).

        Raises:
            StaleOwner: another owner holds the thread, and nothing more will be learned here.
        """
        message, runtime = self._message, self._runtime
        while True:
            state = message.row.state
            if state in _SETTLED or (state == "uncertain" and not message.looking):
                return self.outcome
            await _change(runtime, message)

    async def withdraw(self) -> None:
        """It is not wanted any more; after the write this is a wish that decides only a proven absence (surface 23).

        Raises:
            IllegalCommand: its state does not allow it.
        """
        await self._runtime.command(ev.Withdraw(self.id))

    async def edit(self, text: str) -> None:
        """Change the text while nothing of it is outstanding; attachments, id and place stay.

        Raises:
            IllegalCommand: its state does not allow it.
        """
        old = self._message.content
        content = content_of(
            text,
            attachments=old.attachments,
            display=old.display,
            meta=old.meta,
            when=old.when,
            expires_in=old.expires_in,
        )
        await self._runtime.command(ev.Edit(self.id), content)

    async def move(self, position: int) -> None:
        """Put it at `position` (from 0) among the waiting messages.

        Raises:
            IllegalCommand: it does not wait.
            TypeError: `position` is no whole number.
        """
        if not isinstance(position, int) or isinstance(position, bool):
            raise TypeError(f"position must be an integer, not {type(position).__name__}")
        await self._runtime.command(ev.Move(self.id, position))

    async def hold(self, reason: str = "") -> None:
        """Pause it in the queue; only a person releases it.

        Raises:
            IllegalCommand: its state does not allow it.
            TypeError: `reason` is no text, or cannot be journaled (then `Unjournalable`).
        """
        if not isinstance(reason, str):
            raise TypeError(f"reason must be a string, not {type(reason).__name__}")
        check_journalable(reason, "reason")
        await self._runtime.command(ev.Hold(self.id, reason))

    async def release(self) -> None:
        """Let a held or returned message go again, in queue order.

        Raises:
            IllegalCommand: its state does not allow it.
        """
        await self._runtime.command(self._let_go())

    def _let_go(self) -> ev.Release:
        # A message that was only to steer may become a turn of its own once a person lets it go.
        return ev.Release(self.id, "auto" if self._message.row.when == "steer" else "")

    async def send_now(self) -> None:
        """Let it go before all others: into the running operation, or as the next turn of its own.

        Raises:
            IllegalCommand: its state does not allow it.
        """
        runtime = self._runtime
        if self.state not in WAITING:
            raise IllegalCommand("follow_up", self.state, "send_now", commands_of("follow_up", self.state))
        try:
            await runtime.command(ev.SendNow(self.id))
        except IllegalCommand:
            if self.state not in WAITING:
                raise
            await runtime.command(ev.Move(self.id, 0))
            await runtime.command(self._let_go())

    async def look_again(self) -> Outcome:
        """Read back once more, and wait for what it shows.

        Raises:
            IllegalCommand: it is not uncertain.
        """
        await self._runtime.command(ev.LookAgain(self.id))
        return await self.settled()

    async def resolve(self, how: Literal["delivered", "resend", "discard"]) -> None:
        """A person decides an uncertain message: it arrived, send it exactly once more, or drop it (decisions 15).

        Raises:
            IllegalCommand: it is not uncertain.
            ValueError: `how` is another word.
        """
        events = {"delivered": ev.ResolveSent, "resend": ev.Resend, "discard": ev.ResolveDrop}
        if not isinstance(how, str) or how not in events:
            raise ValueError(f"resolve takes one of {', '.join(events)}, not {how!r}")
        await self._runtime.command(events[how](self.id))


async def _change(runtime: ThreadRuntime, message: Message) -> None:
    """Wait until something of a message or its thread changed; raise if nothing more can be learned of it here."""
    if runtime.stale is not None:
        raise StaleOwner(runtime.id, runtime.stale.epoch, runtime.stale.current)
    if runtime.engine.closed or runtime.broken is not None:
        state = message.row.state
        raise TransportClosed(f"message {message.id!r} is {state}: nothing more will be learned of it here")
    await runtime.changed.wait()


class GoalHandle:
    """One goal run: one logical turn, whatever number of physical turns the provider makes of it."""

    def __init__(self, runtime: ThreadRuntime, run: Run) -> None:
        self._runtime = runtime
        self._run = run

    def __repr__(self) -> str:
        return f"<goal {self.id!r} {self.state}>"

    @property
    def id(self) -> str:
        """The logical turn id; it never changes."""
        return self._run.logical

    @property
    def state(self) -> str:
        """State of the operation, a word of specs/operation.toml."""
        op = self._runtime.core.operation
        return self._run.how or ("" if op is None else op.state)

    @property
    def meta(self) -> Any:
        """The host's own value, as given to `start_goal`."""
        return self._run.meta

    async def steer(self, text: str, *, id: str | None = None) -> Receipt:  # noqa: A002  the surface's word
        """Send a message into the running turn, or the next one while in the gap.

        Returns:
            A receipt once it is acknowledged or delivered; its `turn_id` is the logical id (decisions 16).

        Raises:
            ProviderRefused: with the provider's words, or "no active turn to steer" after the end.
            TransportClosed: the provider died, and provably nothing of the message was written.
        """
        _raise_lost(self._runtime, self._run)
        if self._run.how:
            raise ProviderRefused(INVALID_REQUEST, "no active turn to steer")
        handle = await Thread(self._runtime).submit(text, id=id, when="steer")
        while handle.state not in _SETTLED | {"acknowledged", "uncertain"}:
            await _change(self._runtime, self._runtime.messages[handle.id])
        if handle.state in ("requeued", "discarded", "expired"):
            kind, _, words = handle.evidence.partition(": ")
            if words.startswith(UNWRITTEN):
                raise TransportClosed(handle.reason)
            _raise_lost(self._runtime, self._run)
            raise ProviderRefused(INVALID_REQUEST, words if kind == "refusal" else "no active turn to steer")
        return Receipt(handle.id, self.id, handle.state, handle)

    async def interrupt(self) -> None:
        """Pause the goal, interrupt its turn, and wait until nothing runs (surface 10).

        Raises:
            ProviderRefused: the goal has ended ("no active turn to interrupt"), or the interrupt was refused for an
                unknown reason; then the goal stays paused and the operation ends with its turn.
            TransportClosed: the provider died.
        """
        _raise_lost(self._runtime, self._run)
        if self._run.how:
            raise ProviderRefused(INVALID_REQUEST, "no active turn to interrupt")
        await stop_run(self._runtime, self._run)
        if self._run.stop_refusal is not None:
            raise ProviderRefused(*self._run.stop_refusal)

    async def cancel(self) -> None:
        """Like `interrupt`, but nothing to do after the end is no error."""
        if not self._run.how:
            await stop_run(self._runtime, self._run)

    async def cancel_joined(self) -> None:
        """Like `cancel`; cancelling this wait joins the stop that already runs (decisions 12)."""
        await cancel_on_cancel(self._runtime.engine, self.cancel, self.cancel)

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Read the logical turn's stream; closing it detaches this reader only: the work goes on (surface 4, 9).

        Raises:
            TransportClosed: the provider died.
            StaleOwner: another owner took the thread.
        """
        run = self._run
        reader = run.open_reader()
        run.follow()
        try:
            while (event := await reader.next()) is not None:
                yield event
            _raise_lost(self._runtime, run)
        finally:
            run.close_reader(reader)
            run.unfollow()

    async def result(self) -> Result:
        """Wait for the end. Cancelling this wait stops the goal: paused, interrupted, then re-raised (surface 9, 11).

        Raises:
            GoalFailed: with the provider's text and the partial result.
            TransportClosed: the provider died.
            StaleOwner: another owner took the thread.
        """
        run = self._run
        run.follow()
        try:
            await cancel_on_cancel(self._runtime.engine, run.done.wait, self.cancel)
        finally:
            run.unfollow()
        return _result(self._runtime, run)


def _raise_lost(runtime: ThreadRuntime, run: Run) -> None:
    if run.how == "lost":
        raise TransportClosed(run.failure or "the connection to the provider ended")
    if run.how == "detached":
        stale = runtime.stale
        epoch = runtime.core.epoch if stale is None else stale.epoch
        raise StaleOwner(runtime.id, epoch, None if stale is None else stale.current)


def _result(runtime: ThreadRuntime, run: Run) -> Result:
    _raise_lost(runtime, run)
    assert run.result is not None  # noqa: S101  a run that is done has one
    if run.how == "failed":
        raise GoalFailed(run.failure or "the goal failed", run.result)
    return run.result


def _fresh_id() -> str:
    return f"goalfsm-{uuid.uuid4().hex}"


class Thread:
    """One provider thread: its goal, its turn, its queue of messages."""

    def __init__(self, runtime: ThreadRuntime) -> None:
        self._runtime = runtime

    def __repr__(self) -> str:
        return f"<thread {self.id!r}>"

    @property
    def id(self) -> str:
        """The provider's thread id."""
        return self._runtime.id

    # -- goals ------------------------------------------------------------------------------------

    async def start_goal(self, objective: str, *, token_budget: int | None = None, meta: Any = None) -> GoalHandle:
        """Start a goal and wait for its first turn. An older goal of the thread leaves no trace.

        Args:
            objective: its text, at most 4,000 characters after trimming.
            token_budget: the goal's own token budget.
            meta: the host's own value: kept, given back, never read (decisions 17).

        Raises:
            TypeError, ValueError: the objective is not text, blank or too long; checked before any request.
            ProviderRefused: the thread is busy or not kept, goals are disabled, or other words of the provider.
            GoalFailed: it could not be started, with the reason.
        """
        runtime = self._runtime
        run = Run(0, self.id, check_objective(objective), meta)
        run.token_budget = token_budget
        check_journalable(meta, "meta")
        if runtime.info is not None and runtime.info.ephemeral:
            raise ProviderRefused(INVALID_REQUEST, f"thread must be persisted before starting a goal: {self.id}")
        handle = GoalHandle(runtime, run)
        await cancel_on_cancel(runtime.engine, lambda: self._begin(run), lambda: self._abandon(run))
        return handle

    async def _begin(self, run: Run) -> None:
        runtime = self._runtime

        def register(step: Any) -> None:
            run.op = step.core.operation.id
            runtime.runs[run.op] = run

        self._connection()
        busy = f"thread must be idle before starting a goal: {self.id}"
        try:
            await runtime.command(ev.Start(), prepare=register)
        except IllegalCommand as error:
            raise ProviderRefused(INVALID_REQUEST, busy) from error
        except GoalfsmError:
            # A start that was not journaled did not happen; its number goes to the next operation.
            runtime.runs.pop(run.op, None)
            raise
        while not run.started.is_set() and not run.how:
            await run.changed.wait()
        if run.started.is_set():
            return
        _raise_lost(runtime, run)
        if run.how == "refused":
            raise ProviderRefused(*(run.refusal or (INVALID_REQUEST, busy)))
        if run.how == "interrupted":
            raise ProviderRefused(INVALID_REQUEST, "the goal was stopped before its first turn")
        raise GoalFailed(run.failure or "the goal ended before its first turn", run.result)

    async def _abandon(self, run: Run) -> None:
        # The start command may still be in the inbox: whatever it began has to be known before it can be stopped.
        await self._runtime.settle_inbox()
        if run.op and not run.how:
            await stop_run(self._runtime, run)

    async def run_goal(self, objective: str, *, token_budget: int | None = None, meta: Any = None) -> Result:
        """Start a goal and wait for its result; see `start_goal` and `GoalHandle.result`."""
        goal = await self.start_goal(objective, token_budget=token_budget, meta=meta)
        return await goal.result()

    async def goal(self) -> GoalView | None:
        """Give the persisted goal as the provider last told it, or None (surface 2).

        Raises:
            ProviderRefused: goals are disabled, or this thread can have none.
        """
        runtime = self._runtime
        if runtime.core.goal.state == "none":
            return None
        if runtime.goal_view is None or runtime.core.goal.state == "unknown":
            return await self._connection().get_goal(self.id)
        return runtime.goal_view

    async def set_goal(
        self, objective: str | None = None, status: str | None = None, token_budget: int | None = None
    ) -> GoalView:
        """Change the persisted goal; setting it active may start turns, which the engine then owns (surface 15).

        Raises:
            TypeError, ValueError: the objective is not text, blank or too long.
            ProviderRefused: with the provider's words.
        """
        text = None if objective is None else check_objective(objective)
        await self._runtime.settle_inbox()
        view = await self._connection().set_goal(self.id, objective=text, status=status, token_budget=token_budget)
        if view.status is GoalStatus.ACTIVE:
            await self._runtime.command(
                ev.Adopt(), only_if=lambda core: core.recon and core.goal.state == "active" and not live(core)
            )
        else:
            await self._runtime.settle_inbox()
        return view

    async def pause_goal(self) -> GoalView:
        """Pause the goal; the running turn runs on to its end, and none follows. A goal that is over stays as it is.

        Raises:
            ProviderRefused: there is no goal, or other words of the provider.
        """
        view = await self._connection().get_goal(self.id)
        if view is not None and view.status not in (GoalStatus.ACTIVE, GoalStatus.UNKNOWN):
            # The provider would overwrite an end state such as complete.
            return view
        return await self.set_goal(status="paused")

    async def clear_goal(self) -> None:
        """Clear the goal; none is no error."""
        await self._runtime.settle_inbox()
        await self._connection().clear_goal(self.id)
        await self._runtime.settle_inbox()

    # -- messages ---------------------------------------------------------------------------------

    async def submit(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002  the surface's word
        attachments: Sequence[Mapping[str, Any]] = (),
        display: Any = None,
        when: Literal["auto", "steer", "queue"] = "auto",
        meta: Any = None,
        expires_in: float | None = None,
    ) -> FollowUpHandle:
        """Submit a follow-up; it is durable when this returns.

        Args:
            text: goes to the provider verbatim.
            id: idempotency key; the same id with the same text is the same message, with another text it is refused.
            attachments: further provider input items.
            display: shown instead of the text in views and notices; never sent.
            when: `auto` (the running turn, the next one in a gap, or a turn of its own), `steer` (only a running
                operation), `queue` (a turn of its own).
            meta: the host's own value: kept, given back, never read.
            expires_in: seconds it may rest in the queue.

        Raises:
            IllegalCommand: the id is taken by another text.
            TypeError, ValueError: an argument is wrong; `Unjournalable` names the part that could not be kept.
        """
        content = content_of(
            text, attachments=attachments, display=display, meta=meta, when=when, expires_in=expires_in
        )
        if id is not None and (not isinstance(id, str) or not id):
            raise ValueError(f"id must be a non-empty string, not {id!r}")
        message_id = id or _fresh_id()
        check_journalable(message_id, "id")
        runtime = self._runtime
        if message_id not in runtime.messages:
            try:
                await runtime.command(ev.Submit(message_id, content.when), content)
                return FollowUpHandle(runtime, runtime.messages[message_id])
            except IllegalCommand:
                if message_id not in runtime.messages:
                    raise
        return await self._same_message(runtime.messages[message_id], content)

    async def _same_message(self, message: Message, content: Content) -> FollowUpHandle:
        if not message.content.same_message(content):
            why = f"the id {message.id!r} is taken by another text"
            state = message.row.state
            raise IllegalCommand("follow_up", state, "submit", commands_of("follow_up", state), why)
        if message.row.state == "requeued":
            # After a proven non-delivery the same message simply goes on (surface 18).
            await self._runtime.command(ev.Release(message.id, content.when), content)
        return FollowUpHandle(self._runtime, message)

    def follow_ups(self, all: bool = False) -> list[FollowUpHandle]:  # noqa: A002  the surface's word
        """List the waiting and open messages in queue order; with `all`, the settled ones first."""
        runtime = self._runtime
        open_rows = [row.id for row in runtime.core.rows if row.state not in FINAL_FOLLOW_UP]
        ids = open_rows
        if all:
            ids = [message_id for message_id in runtime.messages if message_id not in open_rows] + open_rows
        return [FollowUpHandle(runtime, runtime.messages[i]) for i in ids if i in runtime.messages]

    async def notices(self) -> AsyncGenerator[StreamEvent, None]:
        """Read what becomes of this thread's messages from now on, whatever runs (surface 19).

        Each notice is a `follow_up/<state>` with the message's id, evidence and reason; a late proof, after a goal has
        ended, is told here as well. It ends with the engine.
        """
        reader = Reader()
        if self._runtime.engine.closed:
            # Nobody is left to end a reader that comes after the engine's end.
            reader.end()
        self._runtime.watchers.append(reader)
        try:
            while (event := await reader.next()) is not None:
                yield event
        finally:
            self._runtime.watchers.remove(reader)

    async def run(self, text: str, *, attachments: Sequence[Mapping[str, Any]] = (), meta: Any = None) -> Result:
        """Run an ordinary turn and wait for its result; on a busy thread it waits for its turn in the queue.

        Raises:
            ProviderRefused: the provider refused it, or it was returned before it was sent.
            GoalFailed: the turn failed, with the provider's text.
            TransportClosed: the provider died, or it is uncertain whether the turn began.
        """
        self._connection()
        runtime, message_id = self._runtime, _fresh_id()

        async def finish() -> Run:
            message = await self.submit(text, id=message_id, attachments=attachments, when="queue", meta=meta)
            run = await self._begun(message)
            if run is None and message.state == "uncertain":
                raise TransportClosed(f"message {message.id!r} is uncertain: {message.reason}")
            if run is None:
                raise ProviderRefused(INVALID_REQUEST, message.evidence.removeprefix("refusal: ") or message.reason)
            run.follow()
            try:
                await run.done.wait()
            finally:
                run.unfollow()
            return run

        return _result(runtime, await cancel_on_cancel(runtime.engine, finish, lambda: self._take_back(message_id)))

    async def _begun(self, message: FollowUpHandle) -> Run | None:
        """Wait until a message began an ordinary turn; None once it is settled without, or nobody can know."""
        runtime = self._runtime
        while (run := runtime.run_of(message.id)) is None:
            if message.state in _SETTLED or (message.state == "uncertain" and not message.outcome.turn_id):
                break
            if message.state in WAITING and runtime.engine.connection is None:
                await message.withdraw()
                self._connection()
            await _change(runtime, runtime.messages[message.id])
        return run

    async def _take_back(self, message_id: str) -> None:
        """Nobody waits for this ordinary turn any more: it shall not begin, or be stopped if it does."""
        runtime = self._runtime
        # The submission may still be in the inbox.
        await runtime.settle_inbox()
        if message_id not in runtime.messages:
            return
        message = FollowUpHandle(runtime, runtime.messages[message_id])
        if message.state in WAITING:
            await message.withdraw()
        run = await self._begun(message)
        if run is not None and not run.how:
            await stop_run(runtime, run)

    # -- the thread as a whole --------------------------------------------------------------------

    async def stop(self) -> None:
        """Pause the goal, interrupt what runs, hold the queue; return when nothing runs any more (surface 11).

        Raises:
            GoalfsmError: something still runs after the bound (15 s); the message says what.
        """
        await stop_thread(self._runtime)

    async def status(self) -> ThreadStatus:
        """Give where the thread stands."""
        core = self._runtime.core
        operation = "" if core.operation is None else core.operation.state
        broken = "" if self._runtime.broken is None else repr(self._runtime.broken)
        return ThreadStatus(core.goal.state, core.turn.state, operation, len(core.waiting()), core.recon, broken)

    def _connection(self) -> Connection:
        return self._runtime.engine.require_connection()
