"""What can happen in a world by itself, and what people may do in it.

A move is a tuple: its name and what it is about. `moves(world)` lists those that are possible now, free ones first,
then those that the budget allows; `make(world, move)` lets one happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._guards import live
from goalfsm.events import TypedEvent
from goalfsm.testing._faults import ROOM, faults
from goalfsm.testing._making import Move
from goalfsm.testing._world import World

__all__ = ["commands", "free", "last_resort", "moves"]


def moves(world: World) -> list[Move]:
    """List everything that can happen: free moves, what a person may do and what may go wrong within the budget.

    Clocks of last resort (silence) run only where nothing else would ever happen.
    """
    by_itself = list(free(world)) or list(last_resort(world))
    left = {name for name, count in world.budget if count}
    if not left:
        return by_itself
    return [*by_itself, *_people(world), *(move for move in faults(world) if move[0] in left)]


# -- by itself ---------------------------------------------------------------------------------------------------------


def free(world: World) -> Iterator[Move]:
    """List what happens without any person and any fault."""
    if world.wire:
        yield ("hear",)
    yield from (("arrive", index) for index in range(len(world.late)))
    yield from (("do", index) for index, effect in enumerate(world.todo) if _ready(world, effect))
    if world.server == "dying":
        yield ("perish",)
    if world.pipe and (len(world.wire) < ROOM or world.server != "up"):
        yield ("process",)
    if world.server == "up" and len(world.wire) < ROOM:
        yield from _provider(world)
    yield from _deadlines(world)


def _provider(world: World) -> Iterator[Move]:
    provider = world.provider
    if provider.may_begin:
        yield ("begin",)
    if provider.eager and not provider.turn and provider.goal != "active":
        yield ("calm",)
    if provider.turn:
        if provider.memory:
            yield ("show",)
        else:
            yield ("end", "completed")
        if provider.goal == "active":
            yield ("end", "declare")
    if not provider.echo:
        yield from (
            ("mark", row.id)
            for row in world.core.rows
            if row.state == "acknowledged" and ev.Watermark(row.id, row.attempt) not in world.wire
        )


def _ready(world: World, effect: fx.Effect) -> bool:
    if isinstance(effect, fx.QuietTimer | fx.StartTimer):
        # Time is abstract: these clocks run longer than any gap between turns.
        return not (world.provider.may_begin or world.wire or world.pipe or world.late)
    if isinstance(effect, fx.Reconcile):
        return world.server != "dying" and (world.server == "up" or effect.gen == world.gen)
    return True


def _deadlines(world: World) -> Iterator[Move]:
    for row in world.core.rows:
        if row.state == "delivering" and row.written and not _coming(world, id=row.id, attempt=row.attempt):
            yield ("tell", ev.AnswerLost(row.id, row.attempt))
    for number in world.owed:
        if not _coming(world, call=number):
            yield ("tell", ev.CallLost(number))


def _coming(world: World, **wanted: Any) -> bool:
    if world.server != "up":
        return True  # the loss of the transport ends the wait
    unread = (*world.pipe, *world.wire, *world.late)
    return any(all(getattr(thing, name, None) == value for name, value in wanted.items()) for thing in unread)


def last_resort(world: World) -> Iterator[Move]:
    """List the clocks that end a wait which nothing else ends."""
    op = world.core.operation
    if op is not None and live(world.core) and op.state in ("running", "gap", "interrupting"):
        yield ("tell", ev.Silence())
        return
    for row in world.core.rows:
        if row.state == "acknowledged":
            yield ("tell", ev.EchoLost(row.id, row.attempt))


# -- people ------------------------------------------------------------------------------------------------------------


def commands(world: World) -> Iterator[TypedEvent]:
    """List every command that somebody could give, in season or out of season."""
    yield from (ev.Stop(), ev.Start(), ev.Adopt())
    for row in world.core.rows:
        name = row.id
        yield from (
            ev.SendNow(name), ev.Hold(name, "later"), ev.Release(name), ev.Edit(name), ev.Withdraw(name),
            ev.Recall(name), ev.ResolveSent(name), ev.ResolveUnsent(name), ev.ResolveDrop(name), ev.Resend(name),
            ev.LookAgain(name), ev.Move(name, 0), ev.Move(name, 1), ev.Submit(name), ev.ObservedSend(name),
        )  # fmt: skip


def _people(world: World) -> Iterator[Move]:
    limited = {name for name, left in world.budget if left}
    for command in commands(world):
        if command.name in limited and world.core.handle(command).rejected is None:
            yield ("ask", command)
    for row in world.core.rows:
        if "expire" in limited and row.state in ("queued", "held", "requeued"):
            yield ("ask", ev.Expire(row.id))
    for when in ("auto", "steer", "queue"):
        if f"submit_{when}" in limited:
            yield ("submit", when)
