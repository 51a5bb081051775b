"""What can happen in a world: the provider, the host, clocks, people and faults.

A move is a tuple: its name and what it is about. `moves(world)` lists those that are possible now, free ones first, then
those that the budget allows; `make(world, move)` lets one happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._guards import live
from goalfsm.events import TypedEvent
from goalfsm.testing._provider_model import Request, answer, die, end_turn, foreign, refusal, show, start_turn
from goalfsm.testing._world import Happened, World, tell

__all__ = ["Move", "commands", "faults", "free", "last_resort", "make", "moves"]

_replace = msgspec.structs.replace

Move = tuple[Any, ...]

ROOM: Final = 3
"""How many unread messages the provider puts on the wire before it waits."""


def moves(world: World) -> list[Move]:
    """List everything that can happen: free moves, what a person may do and what may go wrong within the budget.

    Clocks of last resort (silence) run only where nothing else would ever happen.
    """
    by_itself = list(free(world)) or list(last_resort(world))
    left = {name for name, count in world.budget if count}
    if not left:
        return by_itself
    return [*by_itself, *_people(world), *(move for move in faults(world) if move[0] in left)]


# -- by itself ----------------------------------------------------------------------------------------------------------------


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


# -- people --------------------------------------------------------------------------------------------------------------------


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


# -- faults --------------------------------------------------------------------------------------------------------------------


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


# -- letting one happen ----------------------------------------------------------------------------------------------------------


def make(world: World, move: Move) -> tuple[World, Happened | None]:
    """Let a move happen: the next world, and the core's step if the core was told anything."""
    name = move[0]
    cost = move[1].name if name == "ask" else f"submit_{move[1]}" if name == "submit" else name
    world = world.spent(cost) if world.budget else world
    outcome = _MAKERS[name](world, *move[1:])
    if isinstance(outcome, Happened):
        return outcome.after, outcome
    return outcome, None


def _hear(world: World) -> Happened:
    return tell(_replace(world, wire=world.wire[1:]), world.wire[0])


def _arrive(world: World, index: int) -> Happened:
    return tell(_replace(world, late=_without(world.late, index)), world.late[index])


def _without(things: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return things[:index] + things[index + 1 :]


def _put(world: World, outcome: tuple[Any, tuple[TypedEvent, ...]]) -> World:
    provider, events = outcome
    wire = world.wire + events if world.server == "up" else world.wire
    return _replace(world, provider=provider, wire=wire)


def _process(world: World, *, how: str = "") -> World:
    request, rest = world.pipe[0], world.pipe[1:]
    world = _replace(world, pipe=rest)
    if how == "refuse":
        waited_for = request.call or request.kind in ("steer", "start", "read")
        return _put(world, (world.provider, (refusal(request),) if waited_for else ()))
    before = world.wire
    world = _put(world, answer(world.provider, request))
    answers = [event for event in world.wire[len(before) :] if _answers(request, event)]
    if not how or not answers:
        return world
    kept = tuple(event for event in world.wire if event not in answers)
    late = world.late + tuple(answers) if how == "slow" else world.late
    return _replace(world, wire=kept, late=late)


def _answers(request: Request, event: TypedEvent) -> bool:
    numbered = bool(request.call) and getattr(event, "call", None) == request.call
    fenced = bool(request.attempt) and getattr(event, "attempt", None) == request.attempt
    return numbered or (fenced and getattr(event, "id", None) == request.id)


def _do(world: World, index: int) -> World | Happened:
    effect = world.todo[index]
    world = _replace(world, todo=_without(world.todo, index))
    if isinstance(effect, fx.HandOver):
        return tell(world, ev.Taken(effect.id))
    if isinstance(effect, fx.RequestWrite):
        return tell(world, ev.BeginWrite(effect.id, effect.attempt, world.epoch, world.gen))
    if isinstance(effect, fx.QuietTimer):
        return tell(world, ev.Quiet(effect.call))
    if isinstance(effect, fx.StartTimer):
        return tell(world, ev.StartTimeout(effect.call))
    if isinstance(effect, fx.Reconcile):
        return _ask_reconcile(world, effect)
    number = getattr(effect, "call", 0)
    if world.server != "up":
        heard = not any(isinstance(event, ev.TransportLost) for event in world.wire)
        return tell(world, ev.CallLost(number)) if number and heard else world
    owed = (*world.owed, number) if number else world.owed
    return _replace(world, pipe=(*world.pipe, _request(world, effect)), owed=owed)


def _request(world: World, effect: fx.Effect) -> Request:
    if isinstance(effect, fx.ReadBack):
        return Request("read", id=effect.id, attempt=effect.attempt, turn_id=effect.turn_id, gen=world.gen)
    kind = effect.name.split("_")[0]
    return Request(kind, call=getattr(effect, "call", 0), turn_id=getattr(effect, "turn_id", ""))


def _ask_reconcile(world: World, effect: fx.Reconcile) -> World:
    if effect.gen != world.gen:
        return world
    looks = tuple((row.id, row.attempt) for row in world.core.rows if row.state == "uncertain")
    request = Request("reconcile", gen=effect.gen, looks=looks)
    return _replace(world, server="up", pipe=(*world.pipe, request))


def _perish(world: World) -> World:
    return _replace(world, server="dead", pipe=(), provider=die(world.provider))


def _death(world: World, kept: bool) -> World:
    unread = world.wire if kept else tuple(event for event in world.wire if isinstance(event, ev.OwnerChanged))
    wire = (*unread, ev.TransportLost())
    return _replace(world, server="dying", gen=world.gen + 1, wire=wire, late=())


def _crash(world: World) -> Happened:
    # `written` is not journaled: what a new process replays never shows it.
    rows = tuple(_replace(row, written=False) if row.written else row for row in world.core.rows)
    server = "dying" if world.server == "up" else world.server
    owner = () if world.epoch == world.core.epoch else (ev.OwnerChanged(world.epoch),)
    ruin = _replace(
        world, core=_replace(world.core, rows=rows), wire=owner, late=(), todo=(), owed=(), server=server,
        gen=world.core.gen + 1,
    )  # fmt: skip
    return tell(ruin, ev.Restarted())


def _owner(world: World) -> World:
    return _replace(world, epoch=world.epoch + 1, wire=(*world.wire, ev.OwnerChanged(world.epoch + 1)))


def _repeat(world: World) -> World:
    return _replace(world, wire=(world.wire[0], *world.wire))


def _drop(world: World) -> World:
    return _replace(world, wire=world.wire[1:])


def _drop_end(world: World) -> World:
    return _replace(_drop(world), books=_replace(world.books, end_lost=True))


def _slow(world: World) -> World:
    return _replace(world, wire=world.wire[1:], late=(*world.late, world.wire[0]))


def _mark(world: World, message_id: str) -> World:
    row = world.core.row(message_id)
    attempt = 0 if row is None else row.attempt
    return _replace(world, wire=(*world.wire, ev.Watermark(message_id, attempt)))


def _hand_timeout(world: World, index: int) -> Happened:
    effect: Any = world.todo[index]
    return tell(_replace(world, todo=_without(world.todo, index)), ev.HandOverTimeout(effect.id))


def _write_twice(world: World, index: int) -> Happened:
    effect: Any = world.todo[index]
    return tell(world, ev.BeginWrite(effect.id, effect.attempt, world.epoch, world.gen))


def _fence_failed(world: World, index: int) -> Happened:
    effect: Any = world.todo[index]
    return tell(world, ev.FenceFailed(effect.id, effect.attempt))


def _submit(world: World, when: str) -> Happened:
    taken = {row.id for row in world.core.rows}
    name = next(f"m{n}" for n in range(len(taken) + 1) if f"m{n}" not in taken)
    return tell(world, ev.Submit(name, when))


_MAKERS: Final[dict[str, Any]] = {
    "hear": _hear,
    "arrive": _arrive,
    "process": _process,
    "do": _do,
    "perish": _perish,
    "begin": lambda world: _put(world, start_turn(world.provider)),
    "calm": lambda world: _replace(world, provider=_replace(world.provider, eager=False)),
    "show": lambda world: _put(world, show(world.provider)),
    "end": lambda world, how: _put(world, end_turn(world.provider, how)),
    "mark": _mark,
    "tell": tell,
    "ask": tell,
    "submit": _submit,
    "lose_answer": lambda world: _process(world, how="lose"),
    "slow_answer": lambda world: _process(world, how="slow"),
    "refuse": lambda world: _process(world, how="refuse"),
    "repeat": _repeat,
    "drop_echo": _drop,
    "drop_end": _drop_end,
    "slow_echo": _slow,
    "slow_start": _slow,
    "death": _death,
    "crash": _crash,
    "owner": _owner,
    "fail": lambda world: _put(world, end_turn(world.provider, "failed")),
    "early_answer_lost": lambda world, name, attempt: tell(world, ev.AnswerLost(name, attempt)),
    "early_call_lost": lambda world, number: tell(world, ev.CallLost(number)),
    "early_start_timeout": lambda world, number: tell(world, ev.StartTimeout(number)),
    "early_silence": lambda world: tell(world, ev.Silence()),
    "hand_timeout": _hand_timeout,
    "write_twice": _write_twice,
    "fence_failed": _fence_failed,
    **{
        f"foreign_{act}": lambda world, act=act: _put(world, foreign(world.provider, act))
        for act in ("interrupt", "set", "pause", "clear", "word", "turn")
    },
}
