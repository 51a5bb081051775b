"""What is judged: a server with its provider and its door, and how long the kit waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._door import Door
from goalfsm.testing.conformance._provider import DoubleProvider, PipeProvider, Provider
from goalfsm.testing.conformance.door_inprocess import InProcess, SystemUnderTest

__all__ = ["Bounds", "InProcessTarget", "Target"]


@attrs.frozen
class Bounds:
    """How long the kit waits, in seconds (of virtual time where a server runs in it).

    Args:
        start: for the server to start.
        command: for the answer to a command.
        until: for what a move waits for.
        settle: for every message to have a fate, once every gate is open.
        quiet: of silence at the provider that count as the end.
        answer: after which a server has given up on an answer of the provider.
        slack: what two processes may differ in what they call "before".
        real: of the machine's time for a whole case.
    """

    start: float = 30.0
    command: float = 20.0
    until: float = 8.0
    settle: float = 12.0
    quiet: float = 0.7
    answer: float = 13.0
    slack: float = 0.05
    real: float = 120.0

    @classmethod
    def virtual(cls) -> Bounds:
        """Give bounds for a server in virtual time, where waiting costs nothing."""
        return cls(start=120, command=120, until=60, settle=90, quiet=40, slack=0.0, real=20)

    def whole(self, virtual: bool) -> float:
        """Give the bound on a case as a whole, in the time in which the server runs."""
        return 36_000.0 if virtual else self.real


class Target(Protocol):
    """A server to judge: makes a provider and a door for each case."""

    name: str
    virtual: bool
    bounds: Bounds

    def provider(self, case: Case, home: Path, watch: Callable[[Mapping[str, Any]], None]) -> Provider:
        """Make the provider of a case."""
        ...

    def door(self, home: Path) -> Door:
        """Make the door of a case."""
        ...


class InProcessTarget:
    """Somebody's `SystemUnderTest`.

    Args:
        make: makes a new instance, for each case.
        bounds: how long to wait; chosen by the kind of time if None.
    """

    def __init__(self, make: Callable[[], SystemUnderTest], bounds: Bounds | None = None) -> None:
        self._make = make
        sample = make()
        self.name = sample.name
        self._binary = sample.provider == "binary"
        self.virtual = sample.virtual and not self._binary
        self.bounds = bounds or (Bounds.virtual() if self.virtual else Bounds())

    def provider(self, case: Case, home: Path, watch: Callable[[Mapping[str, Any]], None]) -> Provider:
        """Make the provider that the server says it needs."""
        return DoubleProvider(case, home, watch) if self._binary else PipeProvider(case, home, watch)

    def door(self, home: Path) -> Door:
        """Make a new server."""
        del home
        return InProcess(self._make())
