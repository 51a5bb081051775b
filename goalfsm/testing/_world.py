"""A bounded world around one `ThreadCore`: the provider's truth, one inbox, work not done yet, and the books.

A world is a value: hashable, compared by content, never changed. `goalfsm.testing._moves` says what can happen in it,
`goalfsm.testing._laws` what must never happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from goalfsm import effects as fx
from goalfsm import events as ev
from goalfsm._core import CoreStep, ThreadCore
from goalfsm._guards import FINAL_OPERATION
from goalfsm._machines import Goal, Operation, Turn
from goalfsm.events import TypedEvent
from goalfsm.testing._books import Books, audit
from goalfsm.testing._memo import Memo
from goalfsm.testing._provider_model import Provider, Request

__all__ = ["Happened", "World", "begin", "tell"]

_replace = msgspec.structs.replace

WORK: Final = (
    fx.ClearGoal, fx.SetGoal, fx.PauseGoal, fx.InterruptTurn, fx.InterruptBare, fx.StartTimer, fx.QuietTimer,
    fx.HandOver, fx.RequestWrite, fx.ReadBack, fx.Reconcile,
)  # fmt: skip
CALLS: Final = (fx.ClearGoal, fx.SetGoal, fx.PauseGoal, fx.InterruptTurn, fx.InterruptBare, fx.ReadBack)


class World(msgspec.Struct, frozen=True, gc=False):
    """Everything there is.

    Attributes:
        core: the core under test.
        provider: the truth.
        wire: the inbox: what the host will hear, in order.
        late: answers and notifications that lost their place and may arrive at any time.
        pipe: requests written and not processed.
        todo: effects handed out and not performed; any order may happen.
        owed: numbers of calls whose answer is awaited.
        epoch: the true owner.
        gen: the true transport generation.
        server: up; dying (nothing more is heard, what was written may still be processed); dead.
        budget: (what, how often it may still happen).
        memo: what the search that this world belongs to has worked out already; None works everything out.
    """

    core: ThreadCore
    provider: Provider
    wire: tuple[TypedEvent, ...] = ()
    late: tuple[TypedEvent, ...] = ()
    pipe: tuple[Request, ...] = ()
    todo: tuple[fx.Effect, ...] = ()
    owed: tuple[int, ...] = ()
    epoch: int = 1
    gen: int = 0
    server: Literal["up", "dying", "dead"] = "up"
    books: Books = Books()
    budget: tuple[tuple[str, int], ...] = ()
    memo: Memo | None = None

    def spent(self, what: str) -> World:
        """The same world with one less of it."""
        if self.memo is not None:
            return _replace(self, budget=self.memo.spent(self.budget, what))
        return _replace(self, budget=tuple((name, n - (name == what)) for name, n in self.budget))

    def copies(self, message_id: str) -> int:
        """How many copies of a message the model was shown or may still be shown."""
        written = sum(1 for request in self.pipe if request.kind in ("steer", "start") and request.id == message_id)
        shown = sum(1 for item in self.provider.items if item[0] == message_id)
        return written + shown + self.provider.memory.count(message_id)


class Happened(msgspec.Struct, frozen=True):
    """One event that the core was told: the world before and after, and the core's step."""

    before: World
    event: TypedEvent
    step: CoreStep
    after: World


def begin(
    rows: Mapping[str, str] | None = None,
    *,
    start: Literal["idle", "running", "turn", "unread"] = "running",
    turns: int = 2,
    echo: bool = True,
    on_goal_complete: Literal["start", "hold"] = "start",
    budget: Mapping[str, int] | None = None,
) -> World:
    """Make the first world.

    Args:
        rows: messages submitted at once, in order: id to when (auto, steer, queue).
        start: `idle`: a free thread. `running`: an operation runs the first turn of goal g1. `turn`: another client's
            ordinary turn runs. `unread`: a goal runs and nothing was read yet.
        turns: how many turns the provider begins by itself at most.
        echo: whether the stream shows client ids.
        on_goal_complete: the policy of that name.
        budget: how often each person's command and fault may happen.
    """
    provider = Provider(limit=turns, echo=echo)
    core = ThreadCore(
        goal=Goal("none"), turn=Turn("idle"), epoch=1, recon=True, echo=echo,
        queue_after_goal=on_goal_complete == "start",
    )  # fmt: skip
    if start in ("running", "unread"):
        provider = _replace(provider, goal="active", ref="g1", goals=1, turn="t1", begun=1)
    if start == "turn":
        provider = _replace(provider, turn="t1", begun=1)
        core = _replace(core, turn=Turn("running", turn_id="t1"))
    books = Books()
    if start == "running":
        op = Operation("running", logical="t1", id=1)
        goal, turn = Goal("active", ref="g1"), Turn("running", turn_id="t1")
        core = _replace(core, goal=goal, turn=turn, operation=op, operations=1)
        books = Books(route=1, started=True)
    todo: tuple[fx.Effect, ...] = ()
    if start == "unread":
        core = _replace(core, goal=Goal("unknown"), turn=Turn("unknown"), recon=False)
        todo = (fx.Reconcile(0),)
    world = World(core, provider, todo=todo, books=books, budget=tuple(sorted((budget or {}).items())))
    for name, when in (rows or {}).items():
        world = tell(world, ev.Submit(name, when)).after
    return world


def tell(world: World, event: TypedEvent) -> Happened:
    """Let the core handle one event, and take its effects down as work or into the books."""
    memo, before = world.memo, world.core
    if memo is None:
        step = before.handle(event)
        books = audit(world.books, before, event, step)
    else:
        step = memo.handle(before, event)
        books = memo.page(world.books, step, lambda: audit(world.books, before, event, step))
    todo, late, owed, pipe = world.todo, world.late, world.owed, world.pipe
    if event.name == "transport_lost":
        # Nothing more is heard or asked on a connection that is gone.
        late, owed = (), ()
        todo = tuple(effect for effect in todo if not isinstance(effect, CALLS))
    had = todo
    if todo:
        todo = tuple(effect for effect in todo if not _disarmed(effect, step.core))
    if step.effects:
        fresh = [effect for effect in step.effects if isinstance(effect, WORK) and effect not in had]
        todo += tuple(dict.fromkeys(fresh))
        pipe += tuple(_written(world, effect) for effect in step.effects if isinstance(effect, fx.WriteBytes))
    if owed:
        call = getattr(event, "call", 0)
        owed = tuple(number for number in owed if number != call)
    after = _replace(world, core=step.core, todo=todo, late=late, owed=owed, pipe=pipe, books=books)
    return Happened(world, event, step, after)


def _written(world: World, effect: fx.WriteBytes) -> Request:
    return Request(effect.route, id=effect.id, attempt=effect.attempt, turn_id=effect.turn_id, gen=world.gen)


def _disarmed(effect: fx.Effect, core: ThreadCore) -> bool:
    # A runtime cancels the clocks of an operation that is over.
    if not isinstance(effect, fx.QuietTimer | fx.StartTimer):
        return False
    op = core.operation
    return op is None or op.id != effect.op or op.state in FINAL_OPERATION
