"""What an observer keeps of one message, and the sentence it gives for its state."""

from __future__ import annotations

from typing import Any

import attrs

from goalfsm import _words
from goalfsm._machines import FollowUp

__all__ = ["Attempt", "ObservedMessage", "reason_of"]


@attrs.define
class Attempt:
    """One send of a message: `number` is the core's fence for it, `taken` whether it was answered ok."""

    number: int
    conn: str
    route: str
    turn_id: str
    taken: bool = False


@attrs.define
class ObservedMessage:
    """What the observer keeps of a message; `attempts` are those not refused, by the line of their send."""

    id: str
    line: int
    content: str
    attempts: dict[int, Attempt] = attrs.field(factory=dict)
    evidence: str = ""
    reason: str = ""

    @property
    def is_labelled(self) -> bool:
        """Whether the provider was given an id to echo."""
        return self.id != f"line:{self.line}"


def reason_of(message: ObservedMessage, row: FollowUp, cause: Any, why: str) -> str:
    """Give one sentence for people on the state that a message has just entered; nobody will move it any more."""
    if row.state == "delivering":
        return f"sent on line {max(message.attempts)}; the recording holds no answer to it"
    if row.state == "acknowledged":
        where = "lies in the provider's own queue" if row.route == "queue" else "is in the provider's memory"
        return f"the provider took it and it {where}; the recording ends before it was shown"
    if row.state == "delivered":
        told = "" if message.is_labelled else "; sent without a client id, it was told by its text and its turn"
        return f"the provider shows it in its thread{told}"
    special = _SPECIAL.get((row.state, cause.name))
    return special or _words.reason(row, cause, why)


_SPECIAL = {
    ("requeued", "absent"): "not delivered: the thread was read back after its turn and does not show it",
    ("uncertain", "transport_lost"): (
        "it may have been taken: the process ended while it was on its way, and only its files could tell"
    ),
}
