"""What the soak keeps of its kills and messages: what was told, what is stated, and what the model was shown."""

from __future__ import annotations

from typing import Any

import attrs

from goalfsm.testing.crash import Strike

_FATES = frozenset({"delivered", "requeued", "discarded", "expired", "uncertain", "held"})


@attrs.frozen
class Kill:
    """A kill to make: at a crash point, or (without one) at a moment of the parent's choice."""

    point: str
    strike: Strike

    @property
    def name(self) -> str:
        return self.point or "any moment"


@attrs.define
class Fate:
    """One message: what its host was told, what is stated after reopening, and what the model was shown."""

    id: str
    kill: Kill
    acknowledged: bool = False
    told: str = ""
    state: str = ""
    evidence: str = ""
    reason: str = ""
    in_flight: bool = False
    shown: int = 0

    @property
    def lost(self) -> bool:
        open_without_reason = self.state not in _FATES and not self.reason
        return self.acknowledged and (not self.state or open_without_reason)

    @property
    def doubled(self) -> bool:
        return self.shown > 1

    @property
    def uncertain(self) -> bool:
        return self.state == "uncertain"

    @property
    def resolved(self) -> bool:
        return self.in_flight and self.state in _FATES and not self.uncertain

    @property
    def wrong(self) -> bool:
        if self.told == "delivered" and self.state != "delivered":
            return True
        if self.state in ("", "uncertain"):
            return not self.state and self.shown > 0
        return (self.state == "delivered") != (self.shown > 0)

    @property
    def bad(self) -> bool:
        return self.lost or self.doubled or self.wrong or (self.uncertain and not self.reason)


@attrs.define
class Round:
    """What came of a round."""

    number: int
    seed: int
    made: list[Kill] = attrs.field(factory=list)
    missed: list[Kill] = attrs.field(factory=list)
    fates: dict[str, Fate] = attrs.field(factory=dict)
    threads: set[str] = attrs.field(factory=set)
    failure: str = ""

    def hear(self, words: dict[str, Any], kill: Kill) -> None:
        """Take down what a child was told of its messages."""
        match words:
            case {"open": thread_id}:
                self.threads.add(thread_id)
            case {"trying": message}:
                self.fates[message] = Fate(message, kill)
            case {"acknowledged": message}:
                self.fates[message].acknowledged = True
            case {"settled": message, "state": state}:
                self.fates[message].told = state
                self.fates[message].in_flight |= state == "uncertain"
            case {"uncertain": messages}:
                for message in messages:
                    self.fates[message].in_flight = True

    @property
    def doubtful(self) -> bool:
        return any(fate.uncertain for fate in self.fates.values())

    @property
    def bad(self) -> bool:
        return bool(self.failure) or any(fate.bad for fate in self.fates.values())
