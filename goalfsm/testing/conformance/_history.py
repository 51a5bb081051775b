"""What was seen while a case ran: what the provider saw and said, what the server was asked and said, in one order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import anyio
import attrs

__all__ = ["Entry", "History", "Seen", "marked", "marks_in"]

_MARK = re.compile(r"\[\[([\w.-]+)\]\]")

Kind = Literal[
    "asked", "answered", "refused", "hung", "read", "told", "shown", "spawned", "ended", "gate", "kill", "crash"
]


def marked(message_id: str, text: str) -> str:
    """Put a message's mark into its text: it is recognised wherever it turns up, with or without a client id."""
    return f"{text or 'also look at this'} [[{message_id}]]"


def marks_in(text: str) -> tuple[str, ...]:
    """Give the ids of the messages whose marks are in a text."""
    return tuple(_MARK.findall(text))


@attrs.frozen
class Entry:
    """One thing that was seen.

    Args:
        n: its place in the history, from 1.
        at: seconds since the beginning.
        kind: `asked`, `answered`, `refused` and `hung` are the server's commands; `read` is a request that the provider
            read, `told` what it wrote, `shown` a message that its model was shown; `spawned` and `ended` its processes;
            `gate`, `kill` and `crash` what the kit did.
        word: the command, the provider's method, or the gate.
        messages: the messages that it concerns.
        turn: the physical turn, if any.
        thread: the thread, if any.
        ask: number of the command or request that is answered, and of the answer.
        detail: what else is known of it.
    """

    n: int
    at: float
    kind: Kind
    word: str = ""
    messages: tuple[str, ...] = ()
    turn: str = ""
    thread: str = ""
    ask: str = ""
    detail: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def error(self) -> str:
        """The words of a refusal, else empty."""
        return str(self.detail.get("error", ""))


Seen = Mapping[str, Any]
"""What a provider notes: `at` and one of `read`, `told`, `shown`, `spawned`, `ended`."""


class History:
    """Collects entries; one per case.

    Attributes:
        entries: everything so far. Call `sorted` for the order of time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self.clock = clock
        self._began = clock()
        self._changed = anyio.Event()
        self._asks = 0
        self._process = 0
        self._requests: dict[str, tuple[str, str, Mapping[str, Any]]] = {}

    # -- the server's side ----------------------------------------------------------------------------------------

    def asked(self, word: str, **detail: Any) -> str:
        """Note a command; give its number."""
        self._asks += 1
        ask = f"c{self._asks}"
        self._add(self.clock(), "asked", word, ask=ask, **detail)
        return ask

    def said(self, kind: Literal["answered", "refused", "hung"], word: str, ask: str, **detail: Any) -> None:
        """Note what became of a command."""
        self._add(self.clock(), kind, word, ask=ask, **detail)

    def did(self, kind: Literal["gate", "kill", "crash"], word: str = "") -> None:
        """Note what the kit did."""
        self._add(self.clock(), kind, word)

    # -- the provider's side --------------------------------------------------------------------------------------

    def saw(self, seen: Seen) -> None:
        """Take what a provider noted."""
        at = float(seen["at"])
        if "read" in seen:
            self._read(at, seen["read"])
        elif "told" in seen:
            self._told(at, seen["told"])
        elif "shown" in seen:
            shown = seen["shown"]
            text = str(shown.get("text", ""))
            where = {"turn": shown.get("turn", ""), "thread": shown.get("thread", "")}
            self._add(at, "shown", messages=marks_in(text), text=text, **where)
        elif "spawned" in seen:
            self._process += 1
            self._add(at, "spawned", str(self._process))
        elif "ended" in seen:
            self._add(at, "ended", str(self._process), code=seen["ended"])

    def _read(self, at: float, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if not isinstance(method, str):
            what = {key: message[key] for key in ("result", "error") if key in message}
            self._add(
                at, "read", "answer" if "id" in message else "", ask=f"p{self._process}:{message.get('id')}", **what
            )
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        # A client may use a request's id again; the number given here is unique.
        ask = f"r{len(self.entries) + 1}" if "id" in message else ""
        if ask:
            self._requests[f"{self._process}:{message['id']}"] = (ask, method, params)
        turn = params.get("expectedTurnId", params.get("turnId", "")) or ""
        text = _text(params.get("input"))
        self._add(
            at, "read", method, messages=marks_in(text), turn=str(turn), thread=str(params.get("threadId", "")),
            ask=ask, params=params, process=self._process,
        )  # fmt: skip

    def _told(self, at: float, message: Any) -> None:
        if not isinstance(message, dict):
            self._add(at, "told", "garbage")
            return
        method = message.get("method")
        if not isinstance(method, str):
            self._answered(at, message)
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        turn = params.get("turnId") or (params.get("turn") or {}).get("id") or ""
        item = params.get("item") or {}
        messages = marks_in(_text(item.get("content"))) if item.get("type") == "userMessage" else ()
        ask = f"p{self._process}:{message['id']}" if "id" in message else ""
        self._add(
            at, "told", method, messages=messages, turn=str(turn), thread=str(params.get("threadId", "")), ask=ask,
            params=params,
        )  # fmt: skip

    def _answered(self, at: float, message: Mapping[str, Any]) -> None:
        ask, method, params = self._requests.get(f"{self._process}:{message.get('id')}", ("", "?", {}))
        error = message.get("error")
        detail: dict[str, Any] = {"result": message.get("result"), "params": params}
        if isinstance(error, dict):
            detail = {"error": str(error.get("message", "refused")), "params": params}
        result = message.get("result")
        result = result if isinstance(result, dict) else {}
        turn = (result.get("turn") or {}).get("id") or result.get("turnId") or ""
        messages = marks_in(_text(params.get("input")))
        thread = str(params.get("threadId", ""))
        self._add(at, "told", f"answer {method}", messages=messages, turn=str(turn), thread=thread, ask=ask, **detail)

    # -- reading --------------------------------------------------------------------------------------------------

    def _add(self, at: float, kind: Kind, word: str = "", **rest: Any) -> None:
        own = {key: rest.pop(key) for key in ("messages", "turn", "thread", "ask") if key in rest}
        entry = Entry(len(self.entries) + 1, at - self._began, kind, word, detail=rest, **own)
        self.entries.append(entry)
        self._changed.set()
        self._changed = anyio.Event()

    def sorted(self) -> list[Entry]:
        """Give everything in the order of time, numbered so."""
        in_order = sorted(self.entries, key=lambda entry: entry.at)
        return [attrs.evolve(entry, n=number) for number, entry in enumerate(in_order, 1)]

    def count(self, kind: Kind, word: str = "", message: str = "") -> int:
        """Count entries of a kind, with that word and message if given."""
        return sum(
            entry.kind == kind and word in ("", entry.word) and (not message or message in entry.messages)
            for entry in self.entries
        )

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, looking again whenever something was seen; False if it did not in time."""
        with anyio.move_on_after(seconds):
            while not holds():
                await self._changed.wait()
            return True
        return holds()

    async def until_quiet(self, quiet: float, seconds: float) -> None:
        """Return once nothing was seen for `quiet` seconds, at the latest after `seconds`."""
        with anyio.move_on_after(seconds):
            while True:
                seen = len(self.entries)
                with anyio.move_on_after(quiet):
                    while len(self.entries) == seen:
                        await self._changed.wait()
                if len(self.entries) == seen:
                    return


def _text(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    return "\n".join(
        str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") == "text"
    )
