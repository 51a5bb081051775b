"""`replay`: a passive observer of recorded traffic (surface 31, 32), pure over its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from goalfsm import events as ev
from goalfsm._observed import ObservedThread, Watch
from goalfsm._recording import Recorded, read_recording
from goalfsm._replay_report import Report
from goalfsm._shown import READS, content_key, shown_in, user_item
from goalfsm.adapters._wire import Answered, Facts, Heard, Mapper, Noted, Odd, Pending, RpcError, pending_for

__all__ = ["replay"]

_SENDS: Final = frozenset({"turn/steer", "turn/start", "thread/queue/add"})
_ENDS: Final = {"completed": ev.TurnCompleted, "failed": ev.TurnFailed, "interrupted": ev.TurnInterrupted}
_ANSWERS = (ev.SendOk, ev.SendRefused, ev.SendMoved, ev.AnswerLost)


def replay(source: str | Path | Iterable[str | bytes], *, watch: Watch | None = None) -> Report:
    """Replay a recording and say what became of every message, the operation and the goal of each thread.

    Args:
        source: path of the recording, or its lines.
        watch: told of every step of the observer, for those who draw it.

    Returns:
        The fates, anomalies and alarms. A recording that ends early leaves open states as they are.

    Raises:
        NotATrace: it is not a readable recording.
        OSError: the file cannot be read.
    """
    recording = read_recording(source)
    observer = _Observer(watch)
    for recorded in recording.messages:
        observer.take(recorded)
    torn = (recording.torn,) if recording.torn else ()
    return Report(tuple(thread.report() for thread in observer.threads.values()), (*torn, *observer.warnings))


@attrs.frozen
class _Asked:
    """A request whose answer is evidence."""

    line: int
    method: str
    params: Mapping[str, Any]


@attrs.define
class _GoalNews:
    """Who told the goal of a thread last: the line, the connection, and the server's own stamp."""

    line: int = 0
    conn: str = ""
    stamp: float = 0.0


class _Connection:
    """One connection to one process: what it was asked, and on which line."""

    def __init__(self) -> None:
        self.mapper = Mapper()
        self.goal_reads: dict[Any, int] = {}


class _Observer:
    """Merges all connections of a recording into one observed thread per provider thread.

    Two clients of one server hear the same facts, which the machines tolerate; evidence counts wherever it was seen.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self.threads: dict[str, ObservedThread] = {}
        self._watch = watch
        self.warnings: list[str] = []
        self._connections: dict[str, _Connection] = {}
        self._goals: dict[str, _GoalNews] = {}

    def take(self, seen: Recorded) -> None:
        """Let one recorded message happen."""
        if seen.fresh:
            self._connections.pop(seen.conn, None)
            for thread in self.threads.values():
                thread.process_ended(seen.line, seen.conn)
        connection = self._connections.setdefault(seen.conn, _Connection())
        if not seen.sent:
            self._received(seen, connection)
        elif isinstance(seen.msg, dict) and isinstance(seen.msg.get("method"), str):
            self._sent(seen, connection, seen.msg)

    def _thread(self, thread_id: str) -> ObservedThread:
        found = self.threads.get(thread_id)
        if found is None:
            found = self.threads[thread_id] = ObservedThread(thread_id, self._watch)
        return found

    # -- what the recorded client sent ------------------------------------------------------------

    def _sent(self, seen: Recorded, connection: _Connection, msg: dict[str, Any]) -> None:
        method, params = msg["method"], msg.get("params")
        params = params if isinstance(params, dict) else {}
        pending = pending_for(msg, attempt=seen.line)
        asked = _Asked(seen.line, method, params)
        if method in _SENDS:
            pending = self._message(seen, asked, pending)
        elif method in READS or method == "thread/start":
            pending = msgspec.structs.replace(pending, waiter=asked)
        key = msg.get("id")
        if isinstance(key, str | int):
            if pending.kind == "get_goal":
                connection.goal_reads[key] = seen.line
            connection.mapper.asked(key, pending)

    def _message(self, seen: Recorded, asked: _Asked, pending: Pending) -> Pending:
        # Goal calls and interrupts are the recorded client's own, and never ours to be answered for.
        client = asked.params.get("clientUserMessageId")
        message_id = client if isinstance(client, str) and client else f"line:{seen.line}"
        content = content_key(asked.params.get("input"))
        route = pending.route or "queue"
        thread = self._thread(pending.thread_id)
        thread.sent(seen.line, message_id, route, conn=seen.conn, turn_id=pending.turn_id, content=content)
        if route == "queue":
            return msgspec.structs.replace(pending, id=message_id, attempt=seen.line, waiter=asked)
        return msgspec.structs.replace(pending, id=message_id)

    # -- what the provider said -------------------------------------------------------------------

    def _received(self, seen: Recorded, connection: _Connection) -> None:
        key = seen.msg.get("id") if isinstance(seen.msg, dict) and "method" not in seen.msg else None
        read_on = connection.goal_reads.pop(key, 0) if isinstance(key, str | int) else 0
        for heard in connection.mapper.heard(seen.msg):
            self._heard(seen, heard, read_on)

    def _heard(self, seen: Recorded, heard: Heard, read_on: int) -> None:
        if isinstance(heard, Facts):
            thread = self._thread(heard.thread_id)
            for event in heard.events:
                self._fact(seen, thread, event, read_on)
        elif isinstance(heard, Noted):
            self._noted(seen, heard)
        elif isinstance(heard, Answered):
            self._answer(seen, heard.pending, heard.result, heard.error)
        elif isinstance(heard, Odd) and heard.kind != "unknown_method":
            self.warnings.append(f"line {seen.line}: {heard.kind}: {heard.detail}")

    def _fact(self, seen: Recorded, thread: ObservedThread, event: ev.TypedEvent, read_on: int) -> None:
        if event.name.startswith("goal_"):
            if self._is_news(seen, thread.id, read_on):
                thread.feed(seen.line, event)
        elif isinstance(event, _ANSWERS):
            if isinstance(event, ev.SendOk):
                thread.homes.add(seen.conn)
            thread.answered(seen.line, event)
        else:
            thread.homes.add(seen.conn)
            thread.feed(seen.line, event)

    def _is_news(self, seen: Recorded, thread_id: str, read_on: int) -> bool:
        # A second client may hear of the goal later than the first, and the answer to a read may be older than a
        # notification that came meanwhile: neither may take the goal back.
        last = self._goals.setdefault(thread_id, _GoalNews())
        stamp = seen.msg.get("emittedAtMs")
        stamp = float(stamp) if isinstance(stamp, int | float) else 0.0
        if read_on and last.line > read_on:
            return False
        if stamp and seen.conn != last.conn and stamp < last.stamp:
            return False
        self._goals[thread_id] = _GoalNews(seen.line, seen.conn, max(stamp, last.stamp))
        return True

    def _noted(self, seen: Recorded, noted: Noted) -> None:
        if noted.notification.method not in ("item/started", "item/completed"):
            return
        item = user_item(noted.notification.params.get("item"), noted.notification.turn_id)
        if item is not None and not item.client:
            self._thread(noted.thread_id).unlabelled(seen.line, item)

    # -- answers that are evidence ----------------------------------------------------------------

    def _answer(self, seen: Recorded, pending: Pending, result: Any, error: RpcError | None) -> None:
        asked: _Asked = pending.waiter
        if asked.method == "thread/queue/add":
            event: Any = ev.SendOk(pending.id, pending.attempt)
            if error is not None and error.code:
                event = ev.SendRefused(pending.id, pending.attempt, error.code, error.message)
            elif error is not None:
                event = ev.AnswerLost(pending.id, pending.attempt, error.message)
            self._thread(pending.thread_id).answered(seen.line, event)
        elif error is None and asked.method == "thread/start":
            self._started(seen, result)
        elif error is None:
            self._read(seen, pending.thread_id, asked, result)

    def _started(self, seen: Recorded, result: Any) -> None:
        info = result.get("thread") if isinstance(result, dict) else None
        if not isinstance(info, dict) or not isinstance(info.get("id"), str):
            return
        thread = self._thread(info["id"])
        thread.homes.add(seen.conn)
        if thread.core.goal.state == "unknown":
            thread.feed(seen.line, ev.GoalCleared())
        if thread.core.turn.state == "unknown":
            thread.feed(seen.line, ev.TurnNone())
        thread.feed(seen.line, ev.Reconciled(thread.core.gen))

    def _read(self, seen: Recorded, thread_id: str, asked: _Asked, result: Any) -> None:
        thread = self._thread(thread_id)
        shown = shown_in(asked.method, asked.params, result)
        core = thread.core
        if asked.method == "thread/resume":
            thread.homes.add(seen.conn)
            # Once something was heard, the stream knows better than an answer that another client waited for.
            if core.turn.state == "unknown" and (shown.running or shown.idle):
                thread.feed(seen.line, ev.TurnNamed(shown.running) if shown.running else ev.TurnNone())
            thread.feed(seen.line, ev.Reconciled(core.gen))
        self._ends(seen, thread, shown.over)
        for item in shown.items:
            if thread.knows(item.client):
                thread.feed(seen.line, ev.Found(item.client, item.item, item.turn))
            elif not item.client:
                thread.unlabelled(seen.line, item)
        complete = shown.complete
        if shown.all_items:
            complete = frozenset(turn for turn, line in thread.ended_on.items() if line < asked.line)
        thread.absent_from(seen.line, seen.conn, complete, frozenset(item.client for item in shown.items))

    def _ends(self, seen: Recorded, thread: ObservedThread, over: Mapping[str, str]) -> None:
        # A final status is never stale: it confirms the end of a turn that was missed on the wire, or comes before it.
        for turn, status in over.items():
            running = thread.core.turn.state == "running" and thread.core.turn.turn_id == turn
            if running or turn in thread.core.gone:
                thread.feed(seen.line, _ENDS[status](turn_id=turn))
