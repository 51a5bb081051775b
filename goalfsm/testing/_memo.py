"""What a search has worked out already: one object per value, one step per (core, event), one page per step.

Millions of worlds are made of few different parts. Parts are shared, so that a world is known by the numbers of its
parts, and what depends on a few parts alone is worked out once for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from goalfsm._core import CoreStep, ThreadCore
from goalfsm.events import TypedEvent

__all__ = ["Key", "Memo"]

_replace = msgspec.structs.replace

Key = tuple[Any, ...]


class Memo:
    """The memory of one search; worlds carry it, and it is no part of what they are."""

    def __init__(self) -> None:
        self._one: dict[Any, Any] = {}
        self._kept: dict[int, Any] = {}  # what has a number must not be collected: numbers are addresses
        self._steps: dict[tuple[int, TypedEvent], CoreStep] = {}
        self._pages: dict[tuple[int, int], Any] = {}
        self._spent: dict[tuple[int, str], Any] = {}
        self._judged: set[Key] = set()
        self._asked: dict[tuple[int, int], list[Any]] = {}

    def number(self, part: Any) -> int:
        """Give the number of a part: the same for parts that are equal."""
        number = id(part)
        if self._kept.get(number) is part:
            return number
        one = self._one.setdefault(part, part)
        self._kept[id(one)] = one
        return id(one)

    def shared(self, part: Any) -> Any:
        """Give the one object that stands for all parts equal to this one."""
        return self._kept[self.number(part)]

    def key(self, world: Any) -> Key:
        """Give what makes a world different from all others, small and quick to compare."""
        number = self.number
        return (
            number(world.core), number(world.provider), number(world.wire), number(world.late), number(world.pipe),
            number(world.todo), number(world.owed), number(world.books), number(world.budget), world.epoch, world.gen,
            world.server,
        )  # fmt: skip

    def key_after(self, world: Any, before: Any, key: Key) -> Key:
        """Give the key of a world by that of the one before it, with which it shares most parts."""
        number = self.number
        core, provider, wire, late, pipe, todo, owed, books, budget, _, _, _ = key
        return (
            core if world.core is before.core else number(world.core),
            provider if world.provider is before.provider else number(world.provider),
            wire if world.wire is before.wire else number(world.wire),
            late if world.late is before.late else number(world.late),
            pipe if world.pipe is before.pipe else number(world.pipe),
            todo if world.todo is before.todo else number(world.todo),
            owed if world.owed is before.owed else number(world.owed),
            books if world.books is before.books else number(world.books),
            budget if world.budget is before.budget else number(world.budget),
            world.epoch, world.gen, world.server,
        )  # fmt: skip

    def settle(self, world: Any, key: Key) -> Any:
        """Give an equal world made of shared parts, so that its own followers are numbered quickly."""
        core, provider, wire, late, pipe, todo, owed, books, budget = map(self._kept.__getitem__, key[:9])
        return _replace(
            world, core=core, provider=provider, wire=wire, late=late, pipe=pipe, todo=todo, owed=owed, books=books,
            budget=budget,
        )  # fmt: skip

    # -- worked out once ----------------------------------------------------------------------------------------------

    def handle(self, core: ThreadCore, event: TypedEvent) -> CoreStep:
        """Let the core handle an event, the first time; `ThreadCore.handle` is a function of the two."""
        asked = (self.number(core), event)
        step = self._steps.get(asked)
        if step is None:
            step = core.handle(event)
            step = self._steps[asked] = _replace(step, core=self.shared(step.core))
        return step

    def page(self, books: Any, step: CoreStep, write: Callable[[], Any]) -> Any:
        """Give the books after a step; a step belongs to one core and one event."""
        asked = (self.number(books), id(step))
        page = self._pages.get(asked)
        if page is None:
            page = self._pages[asked] = self.shared(write())
        return page

    def spent(self, budget: tuple[tuple[str, int], ...], what: str) -> Any:
        """Give a budget with one less of it."""
        asked = (self.number(budget), what)
        left = self._spent.get(asked)
        if left is None:
            less = tuple((name, n - (name == what)) for name, n in budget)
            left = self._spent[asked] = self.shared(less)
        return left

    def people(self, core: ThreadCore, budget: Any, ask: Callable[[], list[Any]]) -> list[Any]:
        """Give what people may do; it depends on the core and on what is left of the budget."""
        asked = (self.number(core), self.number(budget))
        found = self._asked.get(asked)
        if found is None:
            found = self._asked[asked] = ask()
        return found

    def first_page(self, happened: Any) -> bool:
        """Whether no such step was judged under these books before."""
        return self._first((id(happened.step), self.number(happened.before.books)))

    def first_truth(self, happened: Any) -> bool:
        """Whether no such step was judged by this truth before: all that laws look at is in this key."""
        world = happened.before
        number = self.number
        return self._first((
            id(happened.step), number(world.provider), number(world.pipe), number(world.books), not world.wire,
            not world.late, world.epoch, world.gen,
        ))  # fmt: skip

    def _first(self, view: Key) -> bool:
        before = len(self._judged)
        self._judged.add(view)
        return len(self._judged) != before
