"""Looking back for messages over a live connection: when to read, how far, and how often (decisions 1 and 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from goalfsm import events as ev
from goalfsm._adapter import Look, Sink
from goalfsm._errors import ProviderRefused, TransportClosed
from goalfsm.adapters._history import Seen, judge_history, judge_record, read_record, seen_in

__all__ = ["Looker"]

_FIRST_RETRY, _LAST_RETRY = 0.02, 0.32


class Looker:
    """Reads the provider's history, and its record of a thread.

    Args:
        ask: makes a request and gives the answer.
        sink: gets found, absent and read_failed.
    """

    def __init__(self, ask: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]], sink: Sink) -> None:
        self._ask = ask
        self._sink = sink
        self._paths: dict[str, str | None] = {}

    def note_path(self, thread_id: str, path: str | None) -> None:
        """Remember where the provider keeps its record of a thread."""
        self._paths[thread_id] = path

    def position(self, thread_id: str) -> int | None:
        """Size of the provider's own record of the thread, in bytes, if it has one (decisions 1)."""
        path = self._paths.get(thread_id)
        try:
            return None if path is None else Path(path).stat().st_size
        except OSError:
            return None

    async def look(self, thread_id: str, looks: Sequence[Look], timeout: float) -> None:
        """Read the history for all of `looks` until each has its answer; after `timeout` the rest gets read_failed."""
        left = {look.id: look for look in looks}
        why = "the turn was not over within the time for looking"
        pause = _FIRST_RETRY
        try:
            with anyio.move_on_after(timeout):
                while left:
                    seen = await self._read_history(thread_id, list(left.values()))
                    await self._conclude(thread_id, left, seen)
                    if left:
                        await anyio.sleep(pause)
                        pause = min(pause * 2, _LAST_RETRY)
        except (ProviderRefused, TransportClosed, OSError) as problem:
            why = f"the history could not be read: {problem}"
        for look in left.values():
            self._sink.facts(thread_id, ev.ReadFailed(id=look.id, attempt=look.attempt, message=why))

    async def _read_history(self, thread_id: str, looks: Sequence[Look]) -> Seen:
        seen = Seen()
        params: dict[str, Any] = {"threadId": thread_id, "itemsView": "full"}
        while True:
            page = await self._ask("thread/turns/list", params)
            seen = seen.plus(seen_in(page))
            bound = all(look.turn_id and look.turn_id in seen.statuses for look in looks)
            if seen.whole or bound:
                return seen
            params = {**params, "cursor": page["nextCursor"]}

    async def _conclude(self, thread_id: str, left: dict[str, Look], seen: Seen) -> None:
        by_record: list[Look] = []
        for look in list(left.values()):
            verdict, found = judge_history(look, seen)
            if verdict == "open":
                continue
            del left[look.id]
            if verdict == "found":
                self._sink.facts(thread_id, *found)
            elif verdict == "unprovable":
                why = "not shown, and no turn is known whose end could prove its absence"
                self._sink.facts(thread_id, ev.ReadFailed(id=look.id, attempt=look.attempt, message=why))
            elif look.after_resume and self._paths.get(thread_id) is not None:
                by_record.append(look)
            else:
                self._sink.facts(thread_id, ev.Absent(id=look.id, attempt=look.attempt, gen=look.gen))
        if not by_record:
            return
        path = self._paths[thread_id] or ""
        # Until the record is read these are undecided again: the deadline may strike here.
        left.update((look.id, look) for look in by_record)
        record = await anyio.to_thread.run_sync(read_record, path, abandon_on_cancel=True)
        for look in by_record:
            del left[look.id]
        self._sink.facts(thread_id, *judge_record(by_record, record, seen))
