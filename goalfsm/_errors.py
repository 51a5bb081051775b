"""The errors of goalfsm: each names the thing, the state it was in and what would be allowed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "GoalFailed",
    "GoalfsmError",
    "IllegalCommand",
    "JournalError",
    "ProviderRefused",
    "SpecError",
    "StaleOwner",
    "TransportClosed",
    "Unjournalable",
    "UnknownName",
    "did_you_mean",
]


_NAMES_LISTED = 12


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Give `"; did you mean 'x'?"` for the closest known name, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _there_are(known: list[str]) -> str:
    # A list that nobody would read through helps nobody.
    return f"; there are: {', '.join(known)}" if 0 < len(known) <= _NAMES_LISTED else ""


class GoalfsmError(Exception):
    """Base of every error that goalfsm raises on its own account."""


class SpecError(GoalfsmError):
    """A spec file has problems; all of them are listed, each with a code, the file and a line.

    Attributes:
        problems: the problems found, in file order.
    """

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownName(GoalfsmError, LookupError):
    """A machine, state, event, guard or message id that nobody declared; the message says what is close, or what is."""

    def __init__(self, kind: str, name: str, where: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        known = list(known)
        super().__init__(f"{where}: unknown {kind} {name!r}{did_you_mean(name, known) or _there_are(known)}")


class IllegalCommand(GoalfsmError):
    """The state of a machine does not allow a command. Nothing was changed.

    Attributes:
        machine: name of the machine that refused.
        state: the state it was (and still is) in.
        command: the event that was asked for.
        allowed: the commands that this state would allow.
    """

    def __init__(self, machine: str, state: str, command: str, allowed: Iterable[str] = (), why: str = "") -> None:
        self.machine = machine
        self.state = state
        self.command = command
        self.allowed = tuple(allowed)
        text = f"{machine} is {state}: {command!r} is not allowed"
        if why:
            text += f" ({why})"
        if self.allowed:
            text += f"; allowed here: {', '.join(self.allowed)}"
        super().__init__(text)


class Unjournalable(GoalfsmError, TypeError):
    """A value that the journal could not give back unchanged; the message starts with its path."""

    def __init__(self, path: str, value: object, why: str = "") -> None:
        self.path = path
        kind = type(value).__name__
        super().__init__(f"{path}: {kind} cannot be journaled{': ' + why if why else ''}")


class ProviderRefused(GoalfsmError):
    """The provider said no, or would: its own words, and its error code.

    Attributes:
        code: the provider's error code (JSON-RPC), -32600 for an invalid request.
        message: the provider's words.
    """

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


class TransportClosed(GoalfsmError):
    """The connection to the provider is gone; what was in flight is uncertain until it was read back."""


class GoalFailed(GoalfsmError):
    """A goal, or an ordinary turn, ended in failure.

    Attributes:
        message: the provider's text.
        result: what was there until then, with status `failed`; None if no turn began.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        self.message = message
        self.result = result
        super().__init__(message)


class StaleOwner(GoalfsmError):
    """Another owner holds this thread; this side may not touch it (any more). `take_over` takes it all the same.

    Attributes:
        thread_id: the thread.
        epoch: the epoch that this side held, or saw.
        current: the epoch of its owner, if known; equal to `epoch` where that owner was seen to live (decisions 6).
    """

    def __init__(self, thread_id: str, epoch: int, current: int | None = None) -> None:
        self.thread_id = thread_id
        self.epoch = epoch
        self.current = current
        if current == epoch:
            text = f"thread {thread_id} is in use: its owner (epoch {epoch}) gives heartbeats"
            what = f"leave it to that owner, close that engine, or take it with take_over({thread_id!r})"
        else:
            owner = "another owner" if current is None else f"the owner of epoch {current}"
            text = f"thread {thread_id} belongs to {owner}; this side held epoch {epoch}"
            what = f"nothing more is done with it here; take_over({thread_id!r}) would take it back"
        super().__init__(f"{text}; {what}")


class JournalError(GoalfsmError):
    """The journal could not be opened, read or written; nothing was performed that was not journaled."""
