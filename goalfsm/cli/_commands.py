"""What a person types while a goal runs: follow-ups, and a few words that begin with a slash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from goalfsm._errors import GoalfsmError, did_you_mean
from goalfsm._handles import FollowUpHandle, Thread
from goalfsm._values import When
from goalfsm.cli._tell import Teller
from goalfsm.cli._watch import Watch

__all__ = ["Commands"]

_WORDS = ("/queue", "/steer", "/withdraw", "/release", "/list", "/stop", "/help")
_NEEDS = {"/queue": "a text", "/steer": "a text", "/withdraw": "an id", "/release": "an id"}
_HELP = (
    "a line is a follow-up: into the running turn, or the next one",
    "/queue TEXT   a turn of its own, later",
    "/steer TEXT   only into the running turn, or back to you",
    "/list   /withdraw ID   /release ID   /stop   /help",
    "//TEXT        a follow-up that begins with /",
)


class Commands:
    """Does what the typed lines say, one after the other.

    Args:
        thread: the thread that takes the messages.
        watch: what is known of it.
        tell: where everything is told.
        stop: stops the thread.
    """

    def __init__(self, thread: Thread, watch: Watch, tell: Teller, stop: Callable[[], Awaitable[None]]) -> None:
        self._thread = thread
        self._watch = watch
        self._tell = tell
        self._stop = stop
        self._submitted = 0

    async def obey(self, line: str, when: When = When.AUTO) -> None:
        """Do what one line says; what cannot be done is told, never raised.

        Args:
            line: the line.
            when: for a plain follow-up.
        """
        text = line.strip()
        word, _, rest = text.partition(" ")
        try:
            if text.startswith("//"):
                await self._submit(text[1:], when)
            elif text and not text.startswith("/"):
                await self._submit(text, when)
            elif text:
                await self._command(word, rest.strip())
        except (GoalfsmError, TypeError, ValueError) as error:
            self._tell.note("sorry", str(error), "red")

    async def _submit(self, text: str, when: When) -> None:
        self._submitted += 1
        message_id = f"m{self._submitted}"
        self._tell.typed(message_id, text)
        message = await self._thread.submit(text, id=message_id, when=when.value)
        # Handed over while a turn runs it is written at once, and that is told.
        at_once = message.state == "accepted" and bool(self._watch.turn_running)
        if message.state in ("queued", "accepted") and not at_once:
            self._tell.where(message, self._watch.turns)

    async def _command(self, word: str, rest: str) -> None:
        if word in ("/queue", "/steer") and rest:
            await self._submit(rest, When(word[1:]))
        elif word in ("/withdraw", "/release") and rest:
            message = self._find(rest)
            if message is not None:
                await (message.withdraw() if word == "/withdraw" else message.release())
        elif word == "/stop":
            await self._stop()
        elif word == "/list":
            self._list()
        else:
            self._help(word)

    def _find(self, message_id: str) -> FollowUpHandle | None:
        known = {message.id: message for message, _ in self._watch.outcomes()}
        if message_id not in known:
            there = ", ".join(known) or "none"
            self._tell.note("sorry", f"there is no message {message_id!r}; there are: {there}", "red")
        return known.get(message_id)

    def _list(self) -> None:
        messages = self._thread.follow_ups()
        for message in messages:
            self._tell.note(message.id, f"{message.state}: {message.text}")
        if not messages:
            self._tell.note("list", "no message is open")

    def _help(self, word: str) -> None:
        if word != "/help":
            missing = _NEEDS.get(word)
            unknown = f"{word} is no command{did_you_mean(word, _WORDS)}"
            self._tell.note("sorry", f"{word} needs {missing}" if missing else unknown, "red")
        for text in _HELP:
            self._tell.note("", text)
