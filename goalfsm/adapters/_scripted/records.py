"""What a scripted server remembers: what is on its disk, and what only its memory holds."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal

import attrs

from goalfsm.adapters._scripted.agenda import Entry
from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import Script, TurnPlan

__all__ = ["Disk", "Goal", "Live", "Message", "Pause", "Running", "Thread", "TurnRecord"]

Item = dict[str, Any]


@attrs.define
class Goal:
    """The persisted goal of a thread; it has no id and no revision (facts 1)."""

    objective: str
    status: str
    token_budget: int | None
    created_at: int
    updated_at: int
    tokens_used: int = 0
    tokens_told: int = 0
    seconds_used: int = 0


@attrs.define
class TurnRecord:
    """A physical turn in the history."""

    id: str
    status: str = "inProgress"
    error: Mapping[str, Any] | None = None
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None
    items: list[Item] = attrs.field(factory=list)
    unreadable: list[str] = attrs.field(factory=list)


@attrs.define
class Thread:
    """A thread as the disk holds it.

    Args:
        id: its id.
        number: how many were started before it.
        created_at: unix seconds.
        cwd: its working directory.
        path: the provider's own record of it.
        ephemeral: not kept; it can have no goal.
        legacy: its history is of the old kind.
        goal: its goal, if any.
        turns: its turns, oldest first.
        used: plans of the script that it has used.
        tokens: input, cached, output and reasoning output tokens so far.
    """

    id: str
    number: int
    created_at: int
    cwd: str = ""
    path: str = ""
    ephemeral: bool = False
    legacy: bool = False
    goal: Goal | None = None
    turns: list[TurnRecord] = attrs.field(factory=list)
    used: list[int] = attrs.field(factory=list)
    tokens: list[int] = attrs.field(factory=lambda: [0, 0, 0, 0])

    def next_plan(self, script: Script, kind: Literal["goal", "user"]) -> tuple[int, TurnPlan]:
        """Give number and plan of the next turn of `kind`; -1 when the script's plans are used up."""
        for number, plan in enumerate(script.turns):
            if number not in self.used and plan.kind in ("", kind) and plan.thread in (None, self.number):
                return number, plan
        return -1, script.goal_turn if kind == "goal" else script.user_turn


@attrs.define
class Disk:
    """What survives a process, and the test's own counts, which survive it too."""

    threads: dict[str, Thread] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    shown: list[dict[str, Any]] = attrs.field(factory=list)
    model_requests: list[dict[str, Any]] = attrs.field(factory=list)
    decisions: list[dict[str, Any]] = attrs.field(factory=list)


@attrs.define
class Message:
    """A user message in memory: accepted, not yet shown to the model (facts 5)."""

    content: list[Any]
    client_id: str | None
    fault: Fault | None = None
    entry: Entry | None = None

    @property
    def text(self) -> str:
        """Its text inputs, one after the other."""
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")


@attrs.frozen
class Pause:
    """What a running turn waits for.

    Args:
        seconds: so long.
        gate: until it is released.
        answer: until the client answers this request.
        pending: until no message waits in memory.
    """

    seconds: float = 0.0
    gate: str = ""
    answer: int | None = None
    pending: bool = False


@attrs.define(eq=False)
class Running:
    """A turn that exists in the server's memory, told or not."""

    record: TurnRecord
    kind: Literal["goal", "user"]
    plan: TurnPlan
    began: float
    told: bool = False
    pending: list[Message] = attrs.field(factory=list)
    play: Generator[Pause, None, None] | None = None
    playing: bool = False
    waiting: Entry | None = None
    asked: int | None = None
    draining: bool = False
    in_tool: bool = False
    open_item: str = ""
    last_message: Item | None = None

    @property
    def id(self) -> str:
        """Its turn id."""
        return self.record.id


@attrs.define(eq=False)
class Live:
    """What only memory holds of a loaded thread.

    Args:
        thread: the record on disk.
        subscribed: the client hears of turns and items.
        running: the turn that exists, if any.
        coming: a turn that will exist.
        suspended: interrupted: the goal starts nothing until an ordinary turn has ended (facts 4).
        interrupted: id of the turn interrupted last, until the next one exists.
        stuck: requests that are answered when the next turn has ended (facts 9).
        failed: the last turn failed.
    """

    thread: Thread
    subscribed: bool = True
    running: Running | None = None
    coming: Entry | None = None
    suspended: bool = False
    interrupted: str = ""
    stuck: list[Any] = attrs.field(factory=list)
    failed: bool = False
