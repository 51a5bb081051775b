"""A door to a server under test: how the kit asks it for its commands, whatever it is written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from goalfsm.testing.conformance._case import ASKS
from goalfsm.testing.conformance._provider import Provider

__all__ = ["FATES", "ORDINARY", "CannotJudge", "Died", "Door", "Fate", "Refused", "fate_of"]

ORDINARY: Final = frozenset({"start_goal", "submit", "stop", "fates"})
"""What most servers offer."""

FATES: Final[Mapping[str, str]] = {
    "waiting": "waiting",
    "held": "held",
    "in_flight": "in_flight",
    "delivered": "delivered",
    "returned": "returned",
    "uncertain": "uncertain",
    "discarded": "discarded",
    # goalfsm's own words
    "queued": "waiting",
    "admitted": "waiting",
    "accepted": "waiting",
    "delivering": "in_flight",
    "acknowledged": "in_flight",
    "requeued": "returned",
    "expired": "discarded",
}
"""The words of a fate that the laws know, and what goalfsm's states mean among them."""


class CannotJudge(Exception):
    """The server could not be judged; the message says why. Never a pass."""


class Died(CannotJudge):
    """The server under test ended, or spoke nonsense, without being asked to."""


class Refused(Exception):
    """The server refused a command in its own words; that is an answer, not a failure."""


@attrs.frozen
class Fate:
    """What the server says of a message.

    Args:
        state: one of `FATES`' values.
        raw: the server's own word.
    """

    state: str
    raw: str = ""


def fate_of(word: str, own: Mapping[str, str] | None = None) -> Fate:
    """Translate a server's word.

    Raises:
        Died: neither the kit nor the description knows the word.
    """
    state = (own or {}).get(word) or FATES.get(word)
    if state is None:
        known = ", ".join(sorted(set(FATES.values())))
        raise Died(f"the server says {word!r} of a message; the kit knows {known}; map your words with [fates]")
    return Fate(state, word)


class Door(Protocol):
    """How the kit asks one server; made anew for each case.

    Attributes:
        offers: which of `ASKS` it can be asked, and `lifecycle`.
    """

    offers: frozenset[str]

    async def start(self, provider: Provider) -> None:
        """Start the server, or start it again on what it kept.

        Raises:
            CannotJudge: it could not be started.
        """
        ...

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for a command; give what it answered.

        Raises:
            Refused: it refused.
            CannotJudge: it is gone, or what it says is no answer.
        """
        ...

    async def fates(self) -> Mapping[str, Fate]:
        """Ask what became of every message.

        Raises:
            CannotJudge: it is gone, or what it says is no answer.
        """
        ...

    async def lifecycle(self) -> Sequence[tuple[str, str]]:
        """Ask for the logical turns so far, if it offers that: `("started" | "completed", id)`, in order."""
        ...

    async def crash(self) -> None:
        """Let it lose its memory without a goodbye."""
        ...

    async def aclose(self) -> None:
        """End it within a bound; never raises."""
        ...


def check_offers(offers: Sequence[str] | frozenset[str]) -> frozenset[str]:
    """Check what a server says it offers.

    Raises:
        CannotJudge: one of the words is unknown, or it offers too little to be judged by.
    """
    known = {*ASKS, "lifecycle"}
    unknown = sorted(set(offers) - known)
    if unknown:
        raise CannotJudge(f"offers {', '.join(map(repr, unknown))}; the kit knows {', '.join(sorted(known))}")
    if "submit" not in offers:
        raise CannotJudge("the server does not offer 'submit': there is nothing to judge")
    return frozenset(offers)
