"""A provider for one situation, and a sink that keeps everything: what the laws for adapters are judged with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.to_thread

from goalfsm import events as ev
from goalfsm._adapter import Notification
from goalfsm._values import ApprovalRequest, GoalView
from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import Script, complete_goal, gate, raw, say, turn
from goalfsm.testing.double import Double

__all__ = ["LIMIT", "AdapterStage", "DoubleStage", "Heard", "Situation", "name_of"]

Situation = Literal["held turn", "odd lines", "dies at once"]
"""What a stage's provider does: a goal's turn that runs until `let_go`; the same with lines that are no protocol in it;
end before it says anything."""

LIMIT = 20.0
"""Seconds that anything may take here."""


class AdapterStage(Protocol):
    """A provider for one situation, with a test's hands on it."""

    @property
    def binary(self) -> Path:
        """The provider's program, if it is one."""
        ...

    async def let_go(self) -> None:
        """Let the held turn go on to its end, and the goal complete."""
        ...

    async def kill(self) -> None:
        """Kill the provider in mid turn."""
        ...

    def shown(self, text: str) -> int:
        """Count how often the model was shown a user message with exactly this text."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class DoubleStage:
    """The executable double of the app-server, in one of the situations."""

    def __init__(self, home: Path, situation: Situation) -> None:
        odd = [raw("{torn"), raw("[]"), raw('{"method": 7}')] if situation == "odd lines" else []
        plan = turn(say("working"), *odd, gate("go"), complete_goal())
        faults = [Fault.spawn("exit", 0)] if situation == "dies at once" else []
        self._double = Double(home, Script(turns=(plan,)), faults)

    @property
    def binary(self) -> Path:
        """The double's program."""
        return self._double.binary

    async def let_go(self) -> None:
        """Open the gate."""
        await anyio.to_thread.run_sync(self._double.release, "go")

    async def kill(self) -> None:
        """Kill the process."""
        self._double.kill()

    def shown(self, text: str) -> int:
        """Read the double's disk."""
        return self._double.shown(text)

    def close(self) -> None:
        """Let go of its strings."""
        self._double.close()


class Heard:
    """A sink that keeps everything in one list, in the order heard."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.losses: list[str] = []
        self.after_loss: list[Any] = []
        self._changed = anyio.Event()

    def facts(self, thread_id: str, *events: ev.TypedEvent) -> None:
        """Keep facts."""
        del thread_id
        for event in events:
            self._keep(event)

    def notify(self, thread_id: str, notification: Notification) -> None:
        """Keep a notification."""
        del thread_id
        self._keep(notification)

    def goal(self, thread_id: str, view: GoalView | None) -> None:
        """Keep a view of the goal."""
        del thread_id
        self._keep(view)

    def odd(self, thread_id: str, kind: str, detail: str) -> None:
        """Keep an oddity."""
        del thread_id
        self._keep((kind, detail))

    def lost(self, reason: str) -> None:
        """Keep a loss."""
        self.losses.append(reason)
        self._wake()

    async def approve(self, request: ApprovalRequest) -> Mapping[str, Any]:
        """Decline."""
        del request
        return {"decision": "decline"}

    def _keep(self, heard: Any) -> None:
        self.all.append(heard)
        if self.losses:
            self.after_loss.append(heard)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def of(self, *kinds: type, **fields: Any) -> list[Any]:
        """Give what was heard of some kinds, with these fields."""
        return [
            heard
            for heard in self.all
            if isinstance(heard, kinds) and all(getattr(heard, name) == value for name, value in fields.items())
        ]

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait, within a bound, until something holds."""
        with anyio.move_on_after(LIMIT / 2):
            while not holds():
                await self._changed.wait()
            return
        raise AssertionError(f"{what} did not come; heard: {[name_of(heard) for heard in self.all]}")


def name_of(heard: Any) -> str:
    return heard.method if isinstance(heard, Notification) else type(heard).__name__
