"""What an adapter is: it translates one provider, declares what that provider can do, and decides nothing.

The engine asks through a `Connection`; everything the provider says comes back through the `Sink`, in wire order,
answers and notifications alike. That one order is what "before" and "after" an answer mean (composition 2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import attrs
import msgspec

from goalfsm._values import ApprovalRequest, GoalView, Policy, Usage
from goalfsm.events import TypedEvent

__all__ = ["Adapter", "Capabilities", "Clock", "Connection", "Look", "Notification", "Outgoing", "Sink", "ThreadInfo"]

NotificationKind = Literal["turn_started", "turn_completed", "item", "usage", "other"]


class Clock(Protocol):
    """Where time comes from; a fake one makes every timer a test's own decision."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wall(self) -> float:
        """Unix seconds, for people only."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""
        ...


@attrs.frozen
class Capabilities:
    """What this provider can do, read from the live server where it tells."""

    goals: bool = True
    steer: bool = True
    echo: bool = True
    read_back: bool = True
    pause: bool = True
    durable_queue: bool = False
    experimental: bool = False
    server: str = ""


class Notification(msgspec.Struct, frozen=True, gc=False):
    """One raw notification for readers, beside the facts that were drawn from it.

    Attributes:
        method: the provider's method word.
        params: its payload as sent.
        turn_id: the physical turn it belongs to, empty where there is none.
        kind: what a result is built from: `item` is a finished item (then `item` is set), `usage` a usage update.
        item: the finished item, as the provider names its parts.
        usage: the usage update.
        started_at: unix seconds, on turn_started and turn_completed where known.
        completed_at: unix seconds, on turn_completed where known.
        error: the provider's text on a failed turn.
    """

    method: str
    params: Mapping[str, Any]
    turn_id: str = ""
    kind: NotificationKind = "other"
    item: Mapping[str, Any] | None = None
    usage: Usage | None = None
    started_at: float | None = None
    completed_at: float | None = None
    error: str = ""


@attrs.frozen
class ThreadInfo:
    """A provider thread as it was started, resumed or read.

    Args:
        id: the provider's thread id.
        ephemeral: whether it is not kept (then it can have no goal).
        running_turn: id of the running turn, empty when idle.
        path: the provider's own record of the thread (a rollout file), if it has one.
        raw: the provider's own words.
    """

    id: str
    ephemeral: bool = False
    running_turn: str = ""
    path: str | None = None
    raw: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen
class Outgoing:
    """One message ready to be written: everything the provider is shown.

    Args:
        id: client id on the wire.
        attempt: fence that the answer must repeat.
        route: `steer` (needs `turn_id`) or `start`.
        turn_id: the exact turn to steer.
        text: the text, verbatim, as one text input.
        attachments: further provider input items.
    """

    id: str
    attempt: int
    route: Literal["steer", "start"]
    turn_id: str
    text: str
    attachments: Sequence[Mapping[str, Any]] = ()


@attrs.frozen
class Look:
    """One message to look for in the provider's history.

    Args:
        id: client id.
        attempt: fence that the answer must repeat.
        turn_id: the turn it was bound to, empty if unknown.
        gen: transport generation in which the look is made.
        text: the whole text sent.
        position: size in bytes of the provider's own record when the fence was written; None if there was none.
        after_resume: whether the provider was restarted since (then its record is searched by text too, decisions 1).
    """

    id: str
    attempt: int
    turn_id: str
    gen: int
    text: str = ""
    position: int | None = None
    after_resume: bool = False


class Sink(Protocol):
    """Where a connection puts everything it hears. Every method returns at once and never raises."""

    def facts(self, thread_id: str, *events: TypedEvent) -> None:
        """Facts about one thread, in wire order."""

    def notify(self, thread_id: str, notification: Notification) -> None:
        """A raw notification, for readers; call it after the facts drawn from it."""

    def goal(self, thread_id: str, view: GoalView | None) -> None:
        """The goal as the provider just told it; None when cleared. Call it before the fact."""

    def odd(self, thread_id: str, kind: str, detail: str) -> None:
        """Something unexpected on the wire: counted, journaled, shown."""

    def lost(self, reason: str) -> None:
        """The transport ended, for whatever reason. Called exactly once."""

    def approve(self, request: ApprovalRequest) -> Awaitable[Mapping[str, Any]]:
        """Ask the host's policy; gives the whole answer for the provider."""
        ...


CallKind = Literal["clear_goal", "set_goal", "pause_goal", "interrupt_turn"]


class Connection(Protocol):
    """A live connection to one provider.

    `call`, `send` and `look` return at once; what comes of them arrives at the sink. The awaited methods put the facts
    of their answer into the sink before they return, and raise `ProviderRefused` (the provider's words) or
    `TransportClosed`.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the provider can do."""
        ...

    async def start_thread(self, params: Mapping[str, Any]) -> ThreadInfo:
        """Begin a thread; `params` are passed through."""
        ...

    async def resume_thread(self, thread_id: str) -> ThreadInfo:
        """Load a thread that the provider has on record; it may start turns if its goal is active."""
        ...

    async def get_goal(self, thread_id: str) -> GoalView | None:
        """Read the goal; works for a thread that is not loaded."""
        ...

    async def set_goal(
        self,
        thread_id: str,
        *,
        objective: str | None = None,
        status: str | None = None,
        token_budget: int | None = None,
    ) -> GoalView:
        """Change the goal; works for a thread that is not loaded."""
        ...

    async def clear_goal(self, thread_id: str) -> bool:
        """Clear the goal; False if there was none."""
        ...

    def call(
        self,
        thread_id: str,
        kind: CallKind,
        number: int,
        *,
        objective: str = "",
        token_budget: int | None = None,
        turn_id: str = "",
    ) -> None:
        """Make a numbered call of the operation; its answer is clear_ok, set_ok, pause_ok, interrupt_* or call_refused.

        A `number` of 0 means that nobody waits for the answer.
        """
        ...

    def writing(self) -> AbstractAsyncContextManager[None]:
        """Hold the write lock with everything before it flushed; `send` is only legal inside (composition 7)."""
        ...

    def send(self, thread_id: str, message: Outgoing) -> None:
        """Write the whole message now, without suspension; its answer becomes send_ok, send_refused or send_moved.

        Raises:
            TransportClosed: provably no byte was written. Once any byte may be out it does not raise.
        """
        ...

    def look(self, thread_id: str, looks: Sequence[Look], timeout: float) -> None:
        """Read the history once for all of `looks`; each is answered found (once per item), absent or read_failed."""
        ...

    def position(self, thread_id: str) -> int | None:
        """Size of the provider's own record of the thread, in bytes, if it has one."""
        ...

    async def aclose(self, timeout: float) -> None:
        """End the provider within `timeout` seconds: ask, then terminate, then kill. Idempotent."""
        ...


class Adapter(Protocol):
    """A provider that an engine can be opened on."""

    name: str

    async def connect(self, sink: Sink, policy: Policy) -> Connection:
        """Start or reach the provider and complete its handshake.

        Raises:
            TransportClosed: it could not be started, or ended before the handshake; the message says what to do.
        """
        ...
