"""Hypothesis strategies: events, cores as they really come about, and whole histories of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import hypothesis.strategies as st

from goalfsm import events as ev
from goalfsm._core import ThreadCore
from goalfsm._routing import ROUTES
from goalfsm.events import TypedEvent
from goalfsm.testing._faults import faults
from goalfsm.testing._making import make
from goalfsm.testing._moves import by_itself, commands
from goalfsm.testing._world import Happened, begin

__all__ = ["cores", "events", "histories"]

_INTERNAL_ONLY = frozenset({"observed_send"})
_STARTS = ("idle", "running", "turn", "unread")


def events(names: Sequence[str] | None = None) -> st.SearchStrategy[TypedEvent]:
    """Draw events that a core may be told, with few ids and numbers, so that they often mean something.

    Args:
        names: only these; by default everything that `ThreadCore.handle` takes of a thread that acts.
    """
    wanted = [name for name in ROUTES if name not in _INTERNAL_ONLY] if names is None else list(names)
    return st.sampled_from(wanted).flatmap(_event)


def _event(name: str) -> st.SearchStrategy[TypedEvent]:
    kind = ev.named(name)
    return st.builds(kind, **{field.name: _value(field) for field in attrs.fields(kind)})


def _value(field: attrs.Attribute[Any]) -> st.SearchStrategy[Any]:
    words = {
        "id": ("a", "b", "m0"), "turn_id": ("t1", "t2", "t3"), "found": ("", "t1", "t2"), "ref": ("g1", "g2"),
        "item": ("", "i1", "i2"), "when": ("auto", "steer", "queue"), "how": ("completed", "paused", "failed"),
        "route": ("steer", "start"),
    }  # fmt: skip
    if field.name in words:
        return st.sampled_from(words[field.name])
    if isinstance(field.default, bool):
        return st.booleans()
    if isinstance(field.default, int) or field.type in (int, "int"):
        return st.integers(0, 3)
    return st.sampled_from(("", "because"))


@st.composite
def histories(draw: st.DrawFn, *, steps: int = 30, mishaps: bool = True, messages: int = 2) -> list[Happened]:
    """Draw the life of a thread with a provider: what its core was told, in order, and what came of it.

    Every history can really happen, and keeps the laws of `goalfsm explore`; its first entry's `before` is the start.

    Args:
        draw: given by Hypothesis.
        steps: how many moves are made at most.
        mishaps: whether things go wrong and others meddle.
        messages: how many are submitted at the start.
    """
    rows = {f"m{n}": draw(st.sampled_from(("auto", "steer", "queue"))) for n in range(messages)}
    world = begin(rows, start=draw(st.sampled_from(_STARTS)), turns=4, echo=draw(st.booleans()))
    told: list[Happened] = []
    for _ in range(draw(st.integers(1, steps))):
        kind = draw(st.sampled_from(("free", "free", "free", "person", "mishap")))
        if kind == "person":
            moves = [("ask", command) for command in commands(world) if world.core.handle(command).rejected is None]
        else:
            moves = list(faults(world)) if kind == "mishap" and mishaps else by_itself(world)
        if not moves:
            continue
        world, happened = make(world, draw(st.sampled_from(moves)))
        if happened is not None:
            told.append(happened)
    return told


def cores(*, steps: int = 30, mishaps: bool = True) -> st.SearchStrategy[ThreadCore]:
    """Draw a core as some history leaves it; arguments as for `histories`."""
    return histories(steps=steps, mishaps=mishaps).map(lambda told: told[-1].step.core if told else begin().core)
