"""The books that an auditor keeps beside the core, to judge it by later; the core never sees them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from goalfsm import effects as fx
from goalfsm._core import CoreStep, ThreadCore
from goalfsm.events import TypedEvent

__all__ = ["Books", "audit"]

_replace = msgspec.structs.replace

VOUCHING: Final = ("resolve_unsent", "resolve_drop", "resend", "resolve_sent")
RESTING: Final = ("queued", "held", "requeued")


class Books(msgspec.Struct, frozen=True, gc=False):
    """What an auditor writes down beside the core, to judge it by later.

    Attributes:
        waiting: messages whose waiter is open.
        vouched: messages whose fate a person stated; the truth may be otherwise.
        resent: (message, how many further writes a person asked for).
        fenced: messages that a stop was committed over since they were admitted.
        granted: (message, last attempt whose bytes were granted).
        unread: messages whose read-back failed.
        end_lost: whether the end of a turn was lost on the wire.
        route: the operation that holds the thread's route, or 0.
        started: whether the last operation's start was told.
        completed: whether its end was told.
    """

    waiting: frozenset[str] = frozenset()
    vouched: frozenset[str] = frozenset()
    resent: tuple[tuple[str, int], ...] = ()
    fenced: frozenset[str] = frozenset()
    granted: tuple[tuple[str, int], ...] = ()
    unread: frozenset[str] = frozenset()
    end_lost: bool = False
    route: int = 0
    started: bool = False
    completed: bool = False


def audit(books: Books, before: ThreadCore, event: TypedEvent, step: CoreStep) -> Books:
    """Write one step of the core down."""
    if step.rejected is not None:
        return books
    change = {**_persons_word(books, event, step), **_lifecycle(books, step)}
    if event.name == "read_failed":
        change["unread"] = books.unread | {_about(event)}
    admitted = {
        move.id
        for move in step.moves
        if move.machine == "follow_up" and move.source in RESTING and move.target in ("admitted", "delivering")
    }
    settled = {effect.id for effect in step.effects if isinstance(effect, fx.Settle)}
    # A crash takes its waiters with it.
    change["waiting"] = frozenset() if event.name == "restarted" else (books.waiting | admitted) - settled
    stopped = event.name == "stop" and step.core.stops != before.stops
    fenced = books.fenced | {row.id for row in before.rows} if stopped else books.fenced
    change["fenced"] = fenced - admitted
    return _replace(books, **change)


def _about(event: Any) -> str:
    return str(event.id)


def _persons_word(books: Books, event: TypedEvent, step: CoreStep) -> dict[str, Any]:
    if event.name not in VOUCHING or not step.moves:
        return {}
    change: dict[str, Any] = {"vouched": books.vouched | {_about(event)}}
    if event.name in ("resolve_unsent", "resend"):
        resent = dict(books.resent)
        resent[_about(event)] = resent.get(_about(event), 0) + 1
        change["resent"] = tuple(sorted(resent.items()))
    return change


def _lifecycle(books: Books, step: CoreStep) -> dict[str, Any]:
    change: dict[str, Any] = {}
    for effect in step.effects:
        if isinstance(effect, fx.WriteBytes):
            change["granted"] = tuple(sorted({**dict(books.granted), effect.id: effect.attempt}.items()))
        elif isinstance(effect, fx.ReserveRoute):
            change |= {"route": effect.op, "started": False, "completed": False}
        elif isinstance(effect, fx.ReleaseRoute) and change.get("route", books.route) == effect.op:
            change["route"] = 0
        elif isinstance(effect, fx.PublishStarted):
            change["started"] = True
        elif isinstance(effect, fx.PublishCompleted):
            change["completed"] = True
    return change
