"""What happened or was asked: every event of the built-in machines, as frozen values.

The class of an event is bound to the specs by `name`; `id` addresses one follow-up. Facts carry the provider's own
words where it gave any (`code`, `message`): the machines never read them, people do. Users' own machines use the
generic `Event(name, **fields)`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import attrs
import msgspec

__all__ = ["Event", "TypedEvent", "decode", "encode", "named"]


class Event:
    """An event of a machine that a user declared: a name and its fields.

    Args:
        name: the event's name, as the spec declares it.
        fields: its fields; rows save them by name.
    """

    __slots__ = ("fields", "name")

    def __init__(self, name: str, **fields: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "fields", fields)

    name: str
    fields: dict[str, Any]

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"event {self.name!r} is frozen: cannot set {key!r}")

    def __getattr__(self, key: str) -> Any:
        try:
            return self.fields[key]
        except KeyError:
            raise AttributeError(f"event {self.name!r} has no field {key!r}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and (self.name, self.fields) == (other.name, other.fields)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.fields))))

    def __repr__(self) -> str:
        inside = "".join(f", {key}={value!r}" for key, value in self.fields.items())
        return f"Event({self.name!r}{inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_event, (self.name, self.fields))


def _event(name: str, fields: dict[str, Any]) -> Event:
    return Event(name, **fields)


@attrs.frozen
class TypedEvent:
    """Base of the built-in events; `name` is the word that the specs use."""

    name: ClassVar[str] = ""


_T = TypeVar("_T")
_BY_NAME: dict[str, type[TypedEvent]] = {}


def _snake(word: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in word).lstrip("_")


@dataclass_transform(frozen_default=True)
def _event_class(cls: type[_T]) -> type[_T]:
    frozen: Any = attrs.frozen(cls)
    frozen.name = _snake(frozen.__name__)
    _BY_NAME[frozen.name] = frozen
    return cast("type[_T]", frozen)


def named(name: str) -> type[TypedEvent]:
    """Give the class of a built-in event.

    Raises:
        KeyError: no built-in event has that name.
    """
    return _BY_NAME[name]


def names() -> tuple[str, ...]:
    """List the names of all built-in events, sorted."""
    return tuple(sorted(_BY_NAME))


def encode(event: TypedEvent) -> dict[str, Any]:
    """Turn a built-in event into JSON-ready values; fields that stand at their default are left out."""
    out: dict[str, Any] = {"name": event.name}
    for field, default in _defaults(event.name):
        value = getattr(event, field)
        if value != default:
            out[field] = value
    return out


@cache
def _defaults(name: str) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in attrs.fields(_BY_NAME[name]))


def decode(record: dict[str, Any]) -> TypedEvent:
    """Turn the values of `encode` back into the event; unknown fields are ignored.

    Raises:
        KeyError: the event's name is not known.
        msgspec.ValidationError: a field is of the wrong type.
    """
    return msgspec.convert(record, _BY_NAME[record["name"]])


# -- the goal, as the provider tells it ----------------------------------------------------------


@_event_class
class GoalActive(TypedEvent):
    """The goal is active; `ref` is its opaque identity (from objective and creation time)."""

    ref: str = ""


@_event_class
class GoalPaused(TypedEvent):
    """The goal is paused."""

    ref: str = ""


@_event_class
class GoalBlocked(TypedEvent):
    """The model gave up, or a turn failed."""

    ref: str = ""


@_event_class
class GoalUsageLimited(TypedEvent):
    """The account's quota is used up."""

    ref: str = ""


@_event_class
class GoalBudgetLimited(TypedEvent):
    """The goal's own budget is used up."""

    ref: str = ""


@_event_class
class GoalCompleted(TypedEvent):
    """The model declared the goal done; its turn may still be talking."""

    ref: str = ""


@_event_class
class GoalCleared(TypedEvent):
    """There is no goal: cleared, or a read said so."""

    ref: str = ""


@_event_class
class GoalUnrecognised(TypedEvent):
    """The provider used a status word that this version does not know; it is neither active nor over."""

    ref: str = ""
    word: str = ""


# -- the turn slot -------------------------------------------------------------------------------


@_event_class
class TurnStarted(TypedEvent):
    """The provider said that a turn started."""

    turn_id: str = ""


@_event_class
class TurnNamed(TypedEvent):
    """An answer named the running turn (turn/start's answer, or "but found Y" in a refusal)."""

    turn_id: str = ""


@_event_class
class TurnCompleted(TypedEvent):
    """The turn ended well."""

    turn_id: str = ""


@_event_class
class TurnFailed(TypedEvent):
    """The turn ended in failure; `message` is the provider's text."""

    turn_id: str = ""
    message: str = ""


@_event_class
class TurnInterrupted(TypedEvent):
    """The turn was interrupted."""

    turn_id: str = ""


@_event_class
class TurnNone(TypedEvent):
    """A read after resume shows no running turn."""


@_event_class
class Halt(TypedEvent):
    """Internal: stop on a thread without an operation."""


# -- the operation -------------------------------------------------------------------------------


@_event_class
class Start(TypedEvent):
    """Command: start a goal."""


@_event_class
class Adopt(TypedEvent):
    """Command: own what is already live; `logical` is the slot's turn, empty when idle (filled in by the core)."""

    logical: str = ""


@_event_class
class Stop(TypedEvent):
    """Command: explicit stop, interrupt, cancel of the runner, KeyboardInterrupt."""


@_event_class
class ClearOk(TypedEvent):
    """The clear call was answered."""

    call: int = 0


@_event_class
class SetOk(TypedEvent):
    """The set call was answered; the core fills in `logical`, the running turn if any."""

    call: int = 0
    logical: str = ""


@_event_class
class CallRefused(TypedEvent):
    """Clear, set or pause was answered with an error; the provider's words are kept."""

    call: int = 0
    code: int = 0
    message: str = ""


@_event_class
class CallLost(TypedEvent):
    """No answer will come to that call."""

    call: int = 0


@_event_class
class PauseOk(TypedEvent):
    """The pause was answered."""

    call: int = 0


@_event_class
class InterruptOk(TypedEvent):
    """The interrupt was answered."""

    call: int = 0


@_event_class
class InterruptNone(TypedEvent):
    """Nothing to interrupt: no active turn."""

    call: int = 0


@_event_class
class InterruptOther(TypedEvent):
    """Another turn runs; `found` is its id."""

    call: int = 0
    found: str = ""


@_event_class
class InterruptRefused(TypedEvent):
    """The interrupt was refused for another reason."""

    call: int = 0
    code: int = 0
    message: str = ""


@_event_class
class StartTimeout(TypedEvent):
    """Clock: the first turn did not start in time after the set call `call`."""

    call: int = 0


@_event_class
class Silence(TypedEvent):
    """Clock: no activity within the limit."""


@_event_class
class Quiet(TypedEvent):
    """Clock: longer than the longest gap since the thread was proven idle under call `call`."""

    call: int = 0


@_event_class
class TurnBegan(TypedEvent):
    """Internal: a turn began."""

    logical: str = ""


@_event_class
class TurnOverCompleted(TypedEvent):
    """Internal: the turn completed."""

    turn_id: str = ""


@_event_class
class TurnOverFailed(TypedEvent):
    """Internal: the turn failed."""

    turn_id: str = ""


@_event_class
class TurnOverInterrupted(TypedEvent):
    """Internal: the turn was interrupted."""

    turn_id: str = ""


@_event_class
class TurnGone(TypedEvent):
    """Internal: a newer turn proves this one over; its end was never shown."""

    turn_id: str = ""


@_event_class
class GoalEnded(TypedEvent):
    """Internal: no further turn will be started for this goal; `how` is the status."""

    how: str = ""


@_event_class
class GoalChanged(TypedEvent):
    """Internal: the goal's identity changed."""


# -- the thread as a whole -----------------------------------------------------------------------


@_event_class
class TransportLost(TypedEvent):
    """Host: the connection to the provider is gone."""

    message: str = ""


@_event_class
class Restarted(TypedEvent):
    """Host: the journal was replayed by a new process."""


@_event_class
class OwnerChanged(TypedEvent):
    """Host: another owner holds the thread, under this epoch."""

    epoch: int = 0


@_event_class
class Reconciled(TypedEvent):
    """Host: goal, turn and open messages were read back in transport generation `gen`."""

    gen: int = 0


# -- one follow-up: a person ---------------------------------------------------------------------


@_event_class
class Submit(TypedEvent):
    """Command: a new follow-up at the end of the queue; `when` is auto, steer or queue."""

    id: str = ""
    when: str = "auto"


@_event_class
class Move(TypedEvent):
    """Command: put a waiting follow-up at `position` (from 0) among the waiting ones."""

    id: str = ""
    position: int = 0


@_event_class
class SendNow(TypedEvent):
    """Command: hand it to the live operation now; the core fills in what is captured."""

    id: str = ""
    op: int = 0
    ref: str = ""
    stops: int = 0
    epoch: int = 0
    gen: int = 0


@_event_class
class Hold(TypedEvent):
    """Command: pause it in the queue."""

    id: str = ""
    reason: str = ""


@_event_class
class Release(TypedEvent):
    """Command: make it runnable again; `when` is a person's new wish, empty to keep the row's own."""

    id: str = ""
    when: str = ""


@_event_class
class Edit(TypedEvent):
    """Command: change its text; nothing may be outstanding."""

    id: str = ""


@_event_class
class Withdraw(TypedEvent):
    """Command: it is not wanted any more."""

    id: str = ""


@_event_class
class Recall(TypedEvent):
    """Command: the send-now was cancelled; the message itself is still wanted."""

    id: str = ""


@_event_class
class ResolveSent(TypedEvent):
    """Command: a person saw it arrive."""

    id: str = ""


@_event_class
class ResolveUnsent(TypedEvent):
    """Command: a person vouches that it did not arrive."""

    id: str = ""


@_event_class
class ResolveDrop(TypedEvent):
    """Command: a person removes it without knowing."""

    id: str = ""


@_event_class
class Resend(TypedEvent):
    """Command: vouch that it did not arrive and make it runnable, in one step."""

    id: str = ""


@_event_class
class LookAgain(TypedEvent):
    """Command: read back once more."""

    id: str = ""


# -- one follow-up: the runtime ------------------------------------------------------------------


@_event_class
class Taken(TypedEvent):
    """The operation took it off the hand-over lane."""

    id: str = ""
    ref: str = ""


@_event_class
class BeginWrite(TypedEvent):
    """The write section asks for permission, with the true owner epoch and transport generation."""

    id: str = ""
    attempt: int = 0
    epoch: int = 0
    gen: int = 0


@_event_class
class FenceFailed(TypedEvent):
    """The durable fence could not be written."""

    id: str = ""
    attempt: int = 0


@_event_class
class AnswerLost(TypedEvent):
    """No readable answer came in time, or it named the wrong turn."""

    id: str = ""
    attempt: int = 0
    message: str = ""


@_event_class
class EchoLost(TypedEvent):
    """Acknowledged, its operation over, and nothing heard within the limit of silence."""

    id: str = ""
    attempt: int = 0


@_event_class
class ReadFailed(TypedEvent):
    """The read-back itself failed."""

    id: str = ""
    attempt: int = 0
    message: str = ""


@_event_class
class HandOverTimeout(TypedEvent):
    """Clock: the operation did not take it in time."""

    id: str = ""


@_event_class
class Expire(TypedEvent):
    """Clock: too old while resting in the queue."""

    id: str = ""


@_event_class
class ObservedSend(TypedEvent):
    """Observer only: recorded traffic shows that somebody sent it; `turn_id` is the turn that it named."""

    id: str = ""
    attempt: int = 0
    route: str = ""
    turn_id: str = ""
    op: int = 0
    stops: int = 0
    epoch: int = 0
    gen: int = 0


# -- one follow-up: the provider -----------------------------------------------------------------


@_event_class
class SendOk(TypedEvent):
    """The send was answered ok: in the provider's memory, not delivered; `turn_id` is the turn it named."""

    id: str = ""
    attempt: int = 0
    turn_id: str = ""


@_event_class
class SendRefused(TypedEvent):
    """The send was refused: proof that nothing was accepted."""

    id: str = ""
    attempt: int = 0
    code: int = 0
    message: str = ""


@_event_class
class SendMoved(TypedEvent):
    """Refused only because that turn is over; `found` is the running turn, if one was named."""

    id: str = ""
    attempt: int = 0
    found: str = ""
    ref: str = ""
    avoid: str = ""
    code: int = 0
    message: str = ""


@_event_class
class Echo(TypedEvent):
    """The stream shows the user message with our client id: item `item` of turn `turn_id`."""

    id: str = ""
    item: str = ""
    turn_id: str = ""


@_event_class
class Watermark(TypedEvent):
    """Every notification up to the answer's watermark was handled."""

    id: str = ""
    attempt: int = 0


@_event_class
class Found(TypedEvent):
    """A read-back shows it; `where` says which read (read_back, rollout); `item` may be empty."""

    id: str = ""
    item: str = ""
    turn_id: str = ""
    where: str = "read_back"


@_event_class
class Absent(TypedEvent):
    """A read-back in transport generation `gen` does not show it, and its turn is over in that same answer."""

    id: str = ""
    attempt: int = 0
    gen: int = 0


# -- raised inside the composition ---------------------------------------------------------------


@_event_class
class Admit(TypedEvent):
    """Internal: the lane is free; the first queued row is handed over."""

    id: str = ""
    op: int = 0
    ref: str = ""
    stops: int = 0
    epoch: int = 0
    gen: int = 0


@_event_class
class Dispatch(TypedEvent):
    """Internal: the queue head starts as an ordinary turn."""

    id: str = ""
    attempt: int = 0
    route: str = "start"
    stops: int = 0
    epoch: int = 0
    gen: int = 0


@_event_class
class Bind(TypedEvent):
    """Internal: a turn of the operation runs: steer it."""

    id: str = ""
    attempt: int = 0
    route: str = "steer"
    turn_id: str = ""
    tries: int = 0


@_event_class
class Stopped(TypedEvent):
    """Internal: a stop was committed."""


@_event_class
class OpFinal(TypedEvent):
    """Internal: the operation reached its final state `how`."""

    how: str = ""


@_event_class
class TurnOver(TypedEvent):
    """Internal: a turn ended: completed, failed, interrupted or gone."""

    turn_id: str = ""
    how: str = ""


__all__ += [cls.__name__ for cls in _BY_NAME.values()]  # pyright: ignore[reportUnsupportedDunderAll]
