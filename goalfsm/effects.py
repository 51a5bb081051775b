"""Work that a step asks of the runtime: every effect of the built-in machines, as frozen values.

The class of an effect is bound to the specs by `name`. Effects whose name starts with `tell_` or `raise_` are
internal to the core and have no class here. Effects are handed out after their step was journaled.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import attrs

__all__ = ["Effect", "names"]


@attrs.frozen
class Effect:
    """Base of the built-in effects; `name` is the word that the specs use."""

    name: ClassVar[str] = ""


_T = TypeVar("_T")
_BY_NAME: dict[str, type[Effect]] = {}


def _snake(word: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in word).lstrip("_")


@dataclass_transform(frozen_default=True)
def _effect_class(cls: type[_T]) -> type[_T]:
    frozen: Any = attrs.frozen(cls)
    frozen.name = _snake(frozen.__name__)
    _BY_NAME[frozen.name] = frozen
    return cast("type[_T]", frozen)


def names() -> tuple[str, ...]:
    """List the names of all effects that reach a runtime, sorted."""
    return tuple(sorted(_BY_NAME))


def encode(effect: Effect) -> dict[str, Any]:
    """Turn an effect into JSON-ready values, for the journal and for people."""
    return {"name": effect.name, **attrs.asdict(effect)}


# -- calls of the operation: each has a fresh number, and its own deadline (then call_lost) ------


@_effect_class
class ClearGoal(Effect):
    """Call goal/clear."""

    op: int
    call: int


@_effect_class
class SetGoal(Effect):
    """Call goal/set with the operation's objective, active."""

    op: int
    call: int


@_effect_class
class PauseGoal(Effect):
    """Call goal/set paused; answer pause_ok or call_refused."""

    op: int
    call: int


@_effect_class
class InterruptTurn(Effect):
    """Call turn/interrupt; an empty `turn_id` means whatever runs (decisions 9)."""

    op: int
    call: int
    turn_id: str


@_effect_class
class InterruptBare(Effect):
    """Call turn/interrupt; nobody waits for the answer."""

    turn_id: str


# -- the operation towards the host --------------------------------------------------------------


@_effect_class
class ReserveRoute(Effect):
    """Own the thread's notifications for operation `op`."""

    op: int


@_effect_class
class ReleaseRoute(Effect):
    """Give them back, only if still ours."""

    op: int


@_effect_class
class PublishStarted(Effect):
    """The one logical start of operation `op`; `logical` may be empty until its first turn."""

    op: int
    logical: str


@_effect_class
class PublishCompleted(Effect):
    """The one logical completion of operation `op`; `how` is its final state."""

    op: int
    logical: str
    how: str


@_effect_class
class PublishRefusal(Effect):
    """Give the caller of the stop the provider's words; the operation has not ended."""

    op: int


@_effect_class
class RejectStart(Effect):
    """Tell the caller why: nothing was created."""

    op: int


@_effect_class
class Quarantine(Effect):
    """No new work on this thread before a reconcile."""


@_effect_class
class Reconcile(Effect):
    """Read goal, turn and open messages back, then report reconciled in generation `gen`."""

    gen: int


# -- clocks --------------------------------------------------------------------------------------


@_effect_class
class StartTimer(Effect):
    """Arm start_timeout for the set call `call`."""

    op: int
    call: int


@_effect_class
class QuietTimer(Effect):
    """Arm quiet under call `call`."""

    op: int
    call: int


# -- one follow-up -------------------------------------------------------------------------------


@_effect_class
class HandOver(Effect):
    """Put the message on the operation's lane; the runtime answers taken, or hand_over_timeout."""

    id: str


@_effect_class
class WriteFence(Effect):
    """Part of this step's own journal record: the attempt and where it goes, durable before any byte."""

    id: str
    attempt: int
    route: str
    turn_id: str


@_effect_class
class RequestWrite(Effect):
    """Enter the write section when its turn comes, and ask begin_write there."""

    id: str
    attempt: int


@_effect_class
class WriteBytes(Effect):
    """Granted: write the whole turn/steer or turn/start now, without any suspension since begin_write."""

    id: str
    attempt: int
    route: str
    turn_id: str


@_effect_class
class ReadBack(Effect):
    """Look for the message in the provider's history; answer found, absent or read_failed."""

    id: str
    attempt: int
    turn_id: str


@_effect_class
class Settle(Effect):
    """Resolve the waiter of this admission, if one is open, once, by the new state."""

    id: str
    state: str


@_effect_class
class Publish(Effect):
    """Record the late outcome; the waiter was settled before."""

    id: str
    state: str


@_effect_class
class Alarm(Effect):
    """Evidence against a proof, or a second item for one message (`doubled`): record it, tell a person."""

    id: str
    kind: str
    item: str


__all__ += [cls.__name__ for cls in _BY_NAME.values()]  # pyright: ignore[reportUnsupportedDunderAll]
