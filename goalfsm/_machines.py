"""The snapshots of the built-in machines: typed records, bound to the specs by field name.

Fields that no row saves or sets belong to the composition: an identity, or a fence that it gives out.
"""

from __future__ import annotations

from goalfsm._kernel import Snapshot

__all__ = ["FollowUp", "Goal", "Operation", "Turn"]


class Goal(Snapshot, frozen=True, gc=False):
    """The persisted goal: `ref` is its opaque identity."""

    ref: str = ""


class Turn(Snapshot, frozen=True, gc=False):
    """The turn slot: `turn_id` is the running turn, or the last one known."""

    turn_id: str = ""


class Operation(Snapshot, frozen=True, gc=False):
    """One logical turn: `id` counts operations of the thread, `call` numbers the last call, `tries` its repeats."""

    logical: str = ""
    failed: bool = False
    stopped: bool = False
    id: int = 0
    call: int = 0
    tries: int = 0


class FollowUp(Snapshot, frozen=True, gc=False):
    """One queued message; see the head of specs/follow_up.toml for every field."""

    attempt: int = 0
    route: str = ""
    turn_id: str = ""
    op: int = 0
    ref: str = ""
    stops: int = 0
    epoch: int = 0
    gen: int = 0
    tries: int = 0
    avoid: str = ""
    item: str = ""
    written: bool = False
    wish: str = ""
    proof: str = ""
    evidence: str = ""
    reason: str = ""
    id: str = ""
    when: str = "auto"
