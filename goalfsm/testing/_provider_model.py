"""A provider small enough to explore: one thread with a goal, turns, steers in memory and a history of shown items.

Every function takes a provider and gives the next one with what it puts on the wire, in wire order. It behaves as the
real server was measured to: an ok means "in memory", memory is lost when its turn is cut, a turn's end follows the
goal's end, and one more turn may begin after a pause that came between two turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from goalfsm import events as ev
from goalfsm.events import TypedEvent

__all__ = ["Provider", "Request", "answer", "die", "end_turn", "foreign", "show", "start_turn"]

_replace = msgspec.structs.replace


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request as written: clear, set, pause, interrupt, steer, start, read or reconcile.

    Attributes:
        kind: what is asked.
        call: the number that the answer repeats; 0 where nobody waits.
        id: the message.
        attempt: the fence that the answer repeats.
        turn_id: the turn it names.
        gen: the transport generation it is asked in.
        looks: for a reconcile, the (id, attempt) pairs to look for.
    """

    kind: str
    call: int = 0
    id: str = ""
    attempt: int = 0
    turn_id: str = ""
    gen: int = 0
    looks: tuple[tuple[str, int], ...] = ()


class Provider(msgspec.Struct, frozen=True, gc=False):
    """What the provider knows of one thread: the truth that the core can only hear of.

    Attributes:
        goal: the goal's status, in the words of the goal machine.
        ref: its identity.
        goals: how many goals were ever set.
        turn: the running turn, empty when idle.
        begun: how many turns were ever begun.
        limit: how many it will ever begin.
        memory: messages accepted by the running turn and not shown to the model yet.
        items: (message, item, turn) of everything the model was shown, in order.
        eager: a turn is about to begin by itself.
        echo: whether the stream shows client ids.
    """

    goal: str = "none"
    ref: str = ""
    goals: int = 0
    turn: str = ""
    begun: int = 0
    limit: int = 2
    memory: tuple[str, ...] = ()
    items: tuple[tuple[str, str, str], ...] = ()
    eager: bool = False
    echo: bool = True

    @property
    def may_begin(self) -> bool:
        """Whether a turn can begin now by itself."""
        return self.eager and not self.turn and self.begun < self.limit


Answered = tuple[Provider, tuple[TypedEvent, ...]]

_GOAL_EVENTS: Final[dict[str, Callable[[str], TypedEvent]]] = {
    "none": lambda _ref: ev.GoalCleared(),
    "active": ev.GoalActive,
    "paused": ev.GoalPaused,
    "blocked": ev.GoalBlocked,
    "complete": ev.GoalCompleted,
    "unknown": lambda ref: ev.GoalUnrecognised(ref, "sleeping"),
}


def _goal_news(provider: Provider) -> TypedEvent:
    return _GOAL_EVENTS[provider.goal](provider.ref)


# -- answers -----------------------------------------------------------------------------------------------------------


def answer(provider: Provider, request: Request) -> Answered:
    """Process one request: what changes, and what the wire carries because of it, the answer included."""
    after, events = _ANSWERS[request.kind](provider, request)
    if request.kind in ("clear", "set", "pause", "interrupt") and not request.call:
        events = tuple(event for event in events if not hasattr(event, "call"))
    return after, events


def _clear(provider: Provider, request: Request) -> Answered:
    gone = () if provider.goal == "none" else (ev.GoalCleared(),)
    return _replace(provider, goal="none", ref="", eager=False), (ev.ClearOk(request.call), *gone)


def _set(provider: Provider, request: Request) -> Answered:
    after = _with_new_goal(provider)
    return after, (ev.SetOk(request.call), _goal_news(after))


def _with_new_goal(provider: Provider) -> Provider:
    number = provider.goals + 1
    return _replace(provider, goal="active", goals=number, ref=f"g{number}", eager=not provider.turn)


def _pause(provider: Provider, request: Request) -> Answered:
    if provider.goal == "none":
        return provider, (ev.CallRefused(request.call, -32600, "no goal exists"),)
    # Eager stays: a turn that was about to begin may begin all the same.
    return _replace(provider, goal="paused"), (ev.GoalPaused(provider.ref), ev.PauseOk(request.call))


def _interrupt(provider: Provider, request: Request) -> Answered:
    if request.turn_id in ("", provider.turn):
        after, ended = _cut(provider)
        return after, (ev.InterruptOk(request.call), *ended)
    if provider.turn:
        return provider, (ev.InterruptOther(request.call, provider.turn),)
    return provider, (ev.InterruptNone(request.call),)


def _cut(provider: Provider) -> Answered:
    if not provider.turn:
        return provider, ()
    # An ordinary turn's end revives an active goal; a goal turn that was interrupted does not (facts 4).
    return _replace(provider, turn="", memory=(), eager=False), (ev.TurnInterrupted(provider.turn),)


def _steer(provider: Provider, request: Request) -> Answered:
    if not provider.turn or provider.turn != request.turn_id:
        return provider, (ev.SendMoved(request.id, request.attempt, provider.turn),)
    after = _replace(provider, memory=(*provider.memory, request.id))
    return after, (ev.SendOk(request.id, request.attempt, provider.turn),)


def _start(provider: Provider, request: Request) -> Answered:
    # On a busy thread it joins the running turn (facts 5).
    after, begun = (provider, ()) if provider.turn else start_turn(provider)
    after = _replace(after, memory=(*after.memory, request.id))
    return after, (ev.SendOk(request.id, request.attempt, after.turn), *begun)


def _read(provider: Provider, request: Request) -> Answered:
    return provider, _seen(provider, request.id, request.attempt, request.gen)


def _seen(provider: Provider, message_id: str, attempt: int, gen: int) -> tuple[TypedEvent, ...]:
    shown = tuple(ev.Found(message_id, item, turn) for name, item, turn in provider.items if name == message_id)
    return shown or (ev.Absent(message_id, attempt, gen),)


def _reconcile(provider: Provider, request: Request) -> Answered:
    after = _replace(provider, goal="paused") if provider.goal == "active" else provider
    turn: TypedEvent = ev.TurnNamed(after.turn) if after.turn else ev.TurnNone()
    looks = [event for name, attempt in request.looks for event in _seen(after, name, attempt, request.gen)]
    return after, (_goal_news(after), turn, *looks, ev.Reconciled(request.gen))


_ANSWERS: Final[dict[str, Callable[[Provider, Request], Answered]]] = {
    "clear": _clear,
    "set": _set,
    "pause": _pause,
    "interrupt": _interrupt,
    "steer": _steer,
    "start": _start,
    "read": _read,
    "reconcile": _reconcile,
}


def refusal(request: Request) -> TypedEvent:
    """Refuse a request for a reason of the provider's own."""
    if request.kind in ("steer", "start"):
        return ev.SendRefused(request.id, request.attempt, -32600, "not now")
    if request.kind == "interrupt":
        return ev.InterruptRefused(request.call, -32600, "not now")
    if request.kind == "read":
        return ev.ReadFailed(request.id, request.attempt, "not now")
    return ev.CallRefused(request.call, -32600, "not now")


# -- what it does by itself --------------------------------------------------------------------------------------------


def start_turn(provider: Provider) -> Answered:
    """Begin the next turn."""
    begun = provider.begun + 1
    return _replace(provider, turn=f"t{begun}", begun=begun, eager=False), (ev.TurnStarted(f"t{begun}"),)


def show(provider: Provider) -> Answered:
    """Show the model the oldest message in memory; the stream echoes it, if this provider does."""
    head, *rest = provider.memory
    item = f"i{len(provider.items) + 1}"
    after = _replace(provider, memory=tuple(rest), items=(*provider.items, (head, item, provider.turn)))
    return after, (ev.Echo(head, item, provider.turn),) if provider.echo else ()


def end_turn(provider: Provider, how: str) -> Answered:
    """End the running turn: completed, failed, or complete (the model declares the goal done; the turn goes on)."""
    turn = provider.turn
    if how == "declare":
        return _replace(provider, goal="complete"), (ev.GoalCompleted(provider.ref),)
    if how == "completed":
        eager = provider.goal == "active"
        return _replace(provider, turn="", eager=eager), (ev.TurnCompleted(turn),)
    blocked: tuple[TypedEvent, ...] = ()
    if provider.goal == "active":
        provider, blocked = _replace(provider, goal="blocked"), (ev.GoalBlocked(provider.ref),)
    return _replace(provider, turn="", memory=(), eager=False), (*blocked, ev.TurnFailed(turn, "out of tokens"))


def die(provider: Provider) -> Provider:
    """The process ends: its turn and memory are gone, what was shown stays, nothing begins by itself."""
    return _replace(provider, turn="", memory=(), eager=False)


def foreign(provider: Provider, act: str) -> Answered:
    """Let another client act: interrupt, set, pause, clear, turn, or a status word that nobody knows."""
    if act == "interrupt":
        return _cut(provider)
    if act == "turn":
        return start_turn(provider)
    if act == "set":
        after = _with_new_goal(provider)
    elif act == "pause":
        after = _replace(provider, goal="paused", eager=False)
    elif act == "clear":
        after = _replace(provider, goal="none", ref="", eager=False)
    else:
        after = _replace(provider, goal="unknown", eager=False)
    return after, (_goal_news(after),)
