"""One logical turn as its readers see it: one started, one completed, one id, whatever the provider did (surface 3-4).

A `Run` follows one operation of the core. It collects the result and buffers the stream; it decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import anyio

from goalfsm._adapter import Notification
from goalfsm._pulse import Pulse
from goalfsm._values import Result, ResultStatus, StreamEvent, Usage

__all__ = ["Reader", "Run"]

_STATUS = {
    "completed": ResultStatus.COMPLETED,
    "interrupted": ResultStatus.INTERRUPTED,
    "failed": ResultStatus.FAILED,
}


class Reader:
    """One reader of a run's stream."""

    def __init__(self) -> None:
        self.buffer: deque[StreamEvent] = deque()
        self.ended = False
        self.news = Pulse()

    def put(self, event: StreamEvent) -> None:
        """Add an event and wake the reader."""
        # It is waited for only while nothing is buffered.
        if not self.buffer:
            self.news.fire()
        self.buffer.append(event)

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self.news.fire()

    async def next(self) -> StreamEvent | None:
        """Wait for the next event; None at the end."""
        while not self.buffer:
            if self.ended:
                return None
            await self.news.wait()
        return self.buffer.popleft()


class Run:
    """The host's side of one operation.

    Attributes:
        op: number of the operation on its thread.
        objective: the goal's text, empty for an ordinary turn.
        logical: the logical turn id, empty until the first turn.
        how: final state of the operation, empty while it lives.
        refusal: the provider's words of a refused start or stop, as (code, message).
        failure: the provider's text of a failed turn, or the engine's reason.
        followers: open readers and waiters.
        followed: whether anybody ever followed it; until then the handle counts (decisions 8).
    """

    def __init__(self, op: int, thread_id: str, objective: str = "", meta: Any = None) -> None:
        self.op = op
        self.thread_id = thread_id
        self.objective = objective
        self.token_budget: int | None = None
        self.meta = meta
        self.logical = ""
        self.how = ""
        self.refusal: tuple[int, str] | None = None
        self.stop_refusal: tuple[int, str] | None = None
        self.failure = ""
        self.followers = 0
        self.followed = False
        self.started = anyio.Event()
        self.done = anyio.Event()
        self.changed = Pulse()
        self.result: Result | None = None
        self.turns: list[str] = []
        self._items: list[Mapping[str, Any]] = []
        self._usage: Usage | None = None
        self._started_at: float | None = None
        self._completed_at: float | None = None
        self._told_start = False
        self._early: list[StreamEvent] = []
        self._last_end: Mapping[str, Any] = {}
        self._first = Reader()
        self._first_taken = False
        self._readers: list[Reader] = [self._first]

    def wake(self) -> None:
        """Wake everybody who waits for any change of this run."""
        self.changed.fire()

    # -- what the engine tells --------------------------------------------------------------------

    def begin(self, logical: str) -> None:
        """The logical turn has its id."""
        self.logical = logical
        self.started.set()
        self.wake()

    def hear(self, note: Notification) -> None:
        """Take one raw notification of the thread, in wire order."""
        if note.kind == "turn_started":
            self._turn_started(note)
            return
        if note.kind == "turn_completed":
            self._turn_completed(note)
            return
        if note.kind == "item" and note.item is not None:
            self._items.append(note.item)
        elif note.kind == "usage":
            self._usage = note.usage
        if self.logical and note.turn_id:
            self._tell_start()
        self._put(StreamEvent(note.method, self._renamed(note.params), note.turn_id))

    def tell(self, notice: StreamEvent) -> None:
        """Put a notice of goalfsm's own into the stream."""
        self._put(notice)

    def end(self, how: str, error: str = "") -> None:
        """The operation reached its final state `how`: `lost` and `detached` end without a logical completion."""
        if self.how:
            return
        self.how = how
        self.failure = self.failure or error
        status = _STATUS.get(how, ResultStatus.INTERRUPTED)
        self.result = self._build(status)
        if how in _STATUS and self.logical:
            self._tell_start()
            self._put(self._completion(status))
        for reader in self._readers:
            reader.end()
        self.done.set()
        self.wake()

    # -- readers ----------------------------------------------------------------------------------

    def open_reader(self) -> Reader:
        """Give a reader: the first one gets everything from the start, later ones what comes from now on."""
        if not self._first_taken:
            self._first_taken = True
            return self._first
        reader = Reader()
        if self.how:
            reader.end()
        else:
            self._readers.append(reader)
        return reader

    def close_reader(self, reader: Reader) -> None:
        """Forget a reader; it buffers nothing more."""
        if reader in self._readers:
            self._readers.remove(reader)

    def follow(self) -> None:
        """Somebody follows this run now."""
        self.followers += 1
        self.followed = True

    def unfollow(self) -> None:
        """One follower less."""
        self.followers -= 1

    @property
    def routed(self) -> bool:
        """Whether the run counts in `live()` (surface 8)."""
        return not self.how and (self.followers > 0 or not self.followed)

    # -- inside -----------------------------------------------------------------------------------

    def _put(self, event: StreamEvent) -> None:
        if not self._told_start:
            # What precedes the first turn is told after the one logical start.
            self._early.append(event)
            return
        for reader in self._readers:
            reader.put(event)

    def _put_start(self, event: StreamEvent) -> None:
        self._told_start = True
        self._put(event)
        early, self._early = self._early, []
        for held in early:
            self._put(held)

    def _turn_started(self, note: Notification) -> None:
        if note.turn_id not in self.turns:
            self.turns.append(note.turn_id)
        if self._started_at is None:
            self._started_at = note.started_at
        if not self._told_start and self.logical:
            self._put_start(StreamEvent(note.method, self._renamed(note.params), note.turn_id))

    def _turn_completed(self, note: Notification) -> None:
        if note.turn_id not in self.turns:
            self.turns.append(note.turn_id)
        self._started_at = note.started_at if self._started_at is None else self._started_at
        self._completed_at = note.completed_at or self._completed_at
        self._last_end = note.params
        self.failure = note.error or self.failure

    def _tell_start(self) -> None:
        """Tell the logical start without the provider's own words for it: the run was adopted in mid turn."""
        if not self._told_start:
            turn: dict[str, Any] = {"id": self.logical, "items": [], "status": "inProgress", "error": None}
            params = {"threadId": self.thread_id, "turn": turn}
            self._put_start(StreamEvent("turn/started", params, self.logical))

    def _completion(self, status: ResultStatus) -> StreamEvent:
        last = self._last_end.get("turn")
        turn: dict[str, Any] = dict(last) if isinstance(last, Mapping) else {"items": [], "error": None}
        physical = str(turn.get("id", self.turns[-1] if self.turns else ""))
        turn |= {"id": self.logical, "status": str(status)}
        if "rootTurnId" in turn:
            turn["rootTurnId"] = self.logical
        if self.result is not None and self.result.duration_ms is not None:
            turn |= {
                "startedAt": self.result.started_at,
                "completedAt": self.result.completed_at,
                "durationMs": self.result.duration_ms,
            }
        if status is ResultStatus.FAILED and not turn.get("error"):
            turn["error"] = {"message": self.failure}
        return StreamEvent("turn/completed", {**self._last_end, "threadId": self.thread_id, "turn": turn}, physical)

    def _renamed(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        turn = params.get("turn")
        if turn is None:
            return {**params, "turnId": self.logical} if params.get("turnId") else params
        changed: dict[str, Any] = {"turnId": self.logical} if params.get("turnId") else {}
        if isinstance(turn, Mapping) and "id" in turn:
            changed["turn"] = {**turn, "id": self.logical}
            if "rootTurnId" in turn:
                changed["turn"]["rootTurnId"] = self.logical
        return {**params, **changed} if changed else params

    def _build(self, status: ResultStatus) -> Result:
        duration = None
        if self._started_at is not None and self._completed_at is not None:
            duration = max(0, round((self._completed_at - self._started_at) * 1000))
        return Result(
            self.logical,
            status,
            tuple(self._items),
            _final_response(self._items),
            self._usage,
            self._started_at,
            self._completed_at,
            duration,
        )


def _final_response(items: list[Mapping[str, Any]]) -> str | None:
    messages = [item for item in items if item.get("type") == "agentMessage"]
    final = [item for item in messages if item.get("phase") == "final_answer"]
    plain = [item for item in messages if not item.get("phase")]
    chosen = final or plain or messages
    return str(chosen[-1].get("text", "")) if chosen else None
