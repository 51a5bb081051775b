"""What can go wrong in a world, and what others can do to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._guards import live
from goalfsm.testing._making import Move
from goalfsm.testing._world import World

__all__ = ["FAULTS", "ROOM", "faults"]

ROOM: Final = 3
"""How many unread messages the provider puts on the wire before it waits."""

FAULTS: Final = (
    "death", "fail", "foreign_interrupt", "foreign_turn", "foreign_set", "foreign_pause", "foreign_clear",
    "foreign_word", "lose_answer", "slow_answer", "refuse", "repeat", "drop_echo", "slow_echo", "drop_end",
    "slow_start", "crash", "owner", "early_answer_lost", "early_call_lost", "hand_timeout", "write_twice",
    "fence_failed", "early_start_timeout", "early_silence",
)  # fmt: skip
"""Everything that can go wrong, by name."""


def faults(world: World) -> Iterator[Move]:
    """List everything that can go wrong now, or that others can do, whatever the budget."""
    yield from _wire_faults(world)
    yield from _host_faults(world)
    provider = world.provider
    if world.server != "up":
        return
    yield from (("death", kept) for kept in (True, False))
    if len(world.wire) >= ROOM:
        return
    if provider.turn:
        yield ("fail",)
        yield ("foreign_interrupt",)
    else:
        yield ("foreign_turn",)
    yield from ((f"foreign_{act}",) for act in ("set", "pause", "clear", "word"))


def _wire_faults(world: World) -> Iterator[Move]:
    if world.pipe and world.server == "up" and len(world.wire) < ROOM and world.pipe[0].kind != "reconcile":
        if world.pipe[0].kind != "read":
            yield ("lose_answer",)
        yield ("slow_answer",)
        yield ("refuse",)
    if world.wire:
        head_event = world.wire[0]
        if isinstance(head_event, ev.Echo | ev.TurnStarted | ev.TurnCompleted | ev.GoalActive | ev.GoalPaused):
            yield ("repeat",)
        if isinstance(head_event, ev.Echo):
            yield ("drop_echo",)
            yield ("slow_echo",)
        if isinstance(head_event, ev.TurnCompleted) and live(world.core) and _runs(world, head_event.turn_id):
            yield ("drop_end",)
        if isinstance(head_event, ev.TurnStarted):
            yield ("slow_start",)


def _runs(world: World, turn_id: str) -> bool:
    return world.core.turn.state == "running" and world.core.turn.turn_id == turn_id


def _host_faults(world: World) -> Iterator[Move]:
    yield ("crash",)
    yield ("owner",)
    for row in world.core.rows:
        if row.state == "delivering" and row.written:
            yield ("early_answer_lost", row.id, row.attempt)
    yield from (("early_call_lost", number) for number in world.owed)
    for index, effect in enumerate(world.todo):
        if isinstance(effect, fx.HandOver):
            yield ("hand_timeout", index)
        if isinstance(effect, fx.RequestWrite):
            yield ("write_twice", index)
            if not _written(world, effect):
                yield ("fence_failed", index)
        if isinstance(effect, fx.StartTimer):
            yield ("early_start_timeout", effect.call)
    if live(world.core):
        yield ("early_silence",)


def _written(world: World, request: fx.RequestWrite) -> bool:
    # A fence fails or stands before its write is asked for.
    row = world.core.row(request.id)
    return row is not None and (row.written or row.attempt != request.attempt or row.state != "delivering")
