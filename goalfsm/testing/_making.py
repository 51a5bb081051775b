"""Letting one move happen: the next world, and the core's step if the core was told anything."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm.events import TypedEvent
from goalfsm.testing._provider_model import Request, answer, die, end_turn, foreign, refusal, show, start_turn
from goalfsm.testing._world import Happened, World, tell

__all__ = ["Move", "make"]

_replace = msgspec.structs.replace

Move = tuple[Any, ...]

_FREE: Final = frozenset({
    "hear", "arrive", "process", "do", "perish", "begin", "calm", "show", "end", "mark", "tell",
})  # fmt: skip


def make(world: World, move: Move) -> tuple[World, Happened | None]:
    """Let a move happen: the next world, and the core's step if the core was told anything."""
    name = move[0]
    if world.budget and name not in _FREE:
        world = world.spent(move[1].name if name == "ask" else f"submit_{move[1]}" if name == "submit" else name)
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
    if isinstance(effect, fx.Reconcile):
        return _ask_reconcile(world, effect)
    event = _own_event(world, effect)
    if event is not None:
        return tell(world, event)
    number = getattr(effect, "call", 0)
    if world.server != "up":
        heard = not any(isinstance(event, ev.TransportLost) for event in world.wire)
        return tell(world, ev.CallLost(number)) if number and heard else world
    owed = (*world.owed, number) if number else world.owed
    return _replace(world, pipe=(*world.pipe, _request(world, effect)), owed=owed)


def _own_event(world: World, effect: fx.Effect) -> TypedEvent | None:
    if isinstance(effect, fx.HandOver):
        return ev.Taken(effect.id)
    if isinstance(effect, fx.RequestWrite):
        return ev.BeginWrite(effect.id, effect.attempt, world.epoch, world.gen)
    if isinstance(effect, fx.QuietTimer):
        return ev.Quiet(effect.call)
    if isinstance(effect, fx.StartTimer):
        return ev.StartTimeout(effect.call)
    return None


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
