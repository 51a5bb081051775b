"""What can happen in a world by itself, and what people may do in it.

A move is a tuple: its name and what it is about. `moves(world)` lists those that are possible now, free ones first,
then those that the budget allows; `make(world, move)` lets one happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._guards import live
from goalfsm.events import TypedEvent
from goalfsm.testing._faults import ROOM, faults
from goalfsm.testing._making import Move
from goalfsm.testing._world import World

__all__ = ["COMMANDS", "budgeted", "by_itself", "commands", "free", "last_resort", "moves"]

COMMANDS: Final = frozenset({
    "stop", "start", "adopt", "send_now", "hold", "release", "edit", "withdraw", "recall", "resolve_sent",
    "resolve_unsent", "resolve_drop", "resend", "look_again", "move", "submit", "observed_send",
})  # fmt: skip
"""The commands that a budget can name."""


def moves(world: World) -> list[Move]:
    """List everything that can happen: free moves, what a person may do and what may go wrong within the budget.

    Clocks of last resort (silence) run only where nothing else would ever happen.
    """
    return [*by_itself(world), *budgeted(world)]


def by_itself(world: World) -> list[Move]:
    """List the free moves, or the clocks of last resort where there are none; empty in a world at rest."""
    return list(free(world)) or list(last_resort(world))


def budgeted(world: World) -> list[Move]:
    """List what people may still do, and what may still go wrong."""
    left = {name for name, count in world.budget if count}
    if not left:
        return []
    if world.memo is None:
        people = list(_people(world, left))
    else:
        people = world.memo.people(world.core, world.budget, lambda: list(_people(world, left)))
    return [*people, *(move for move in faults(world) if move[0] in left)]


# -- by itself ---------------------------------------------------------------------------------------------------------


def free(world: World) -> Iterator[Move]:
    """List what happens without any person and any fault."""
    if world.wire:
        yield _HEAR
    for index in range(len(world.late)):
        yield ("arrive", index)
    for index, effect in enumerate(world.todo):
        if _ready(world, effect):
            yield ("do", index)
    up = world.server == "up"
    if world.server == "dying":
        yield ("perish",)
    room = len(world.wire) < ROOM
    if world.pipe and (room or not up):
        yield _PROCESS
    if up:
        if room:
            yield from _provider(world)
        yield from _deadlines(world)


_HEAR: Move = ("hear",)
_PROCESS: Move = ("process",)


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
    # While the server is not up, the loss of the transport ends the wait.
    for row in world.core.rows:
        if row.state == "delivering" and row.written and not _coming(world, row.id, row.attempt):
            yield ("tell", ev.AnswerLost(row.id, row.attempt))
    for number in world.owed:
        if not _call_coming(world, number):
            yield ("tell", ev.CallLost(number))


def _coming(world: World, message_id: str, attempt: int) -> bool:
    for thing in (*world.pipe, *world.wire, *world.late):
        if getattr(thing, "id", None) == message_id and getattr(thing, "attempt", None) == attempt:
            return True
    return False


def _call_coming(world: World, number: int) -> bool:
    return any(getattr(thing, "call", None) == number for thing in (*world.pipe, *world.wire, *world.late))


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


def _people(world: World, left: set[str]) -> Iterator[Move]:
    if not left.isdisjoint(COMMANDS):
        for command in commands(world):
            if command.name in left and world.core.handle(command).rejected is None:
                yield ("ask", command)
    for row in world.core.rows:
        if "expire" in left and row.state in ("queued", "held", "requeued"):
            yield ("ask", ev.Expire(row.id))
    for when in ("auto", "steer", "queue"):
        if f"submit_{when}" in left:
            yield ("submit", when)
