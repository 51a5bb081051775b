"""What a law is, and what several of them ask of a scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from goalfsm.testing.conformance._history import Entry
from goalfsm.testing.conformance._scene import READS, Message, Scene, Write

__all__ = ["LAWS", "Broken", "Law", "NotJudged", "law", "places", "proven_absent", "shows_history", "taken_messages"]


class NotJudged(Exception):
    """A law does not apply here; the message says why. Not a pass."""


@attrs.frozen
class Broken:
    """How a law was broken.

    Args:
        kind: the sort of defect, in a word or two; histories are shortened as long as it stays the same.
        how: one sentence.
        entries: the places in the history that show it.
    """

    kind: str
    how: str
    entries: tuple[int, ...] = ()


Judge = Callable[[Scene], Iterator[Broken]]


@attrs.frozen
class Law:
    """One law.

    Args:
        id: its id, for reports and regression files.
        says: what must hold.
        rests_on: the rules and properties behind it.
        looks_at: the evidence.
        judge: gives how it was broken.
    """

    id: str
    says: str
    rests_on: str
    looks_at: str
    judge: Judge = attrs.field(repr=False)


LAWS: Final[dict[str, Law]] = {}
"""Every law by its id, in order."""


def law(law_id: str, says: str, *, rests_on: str, looks_at: str) -> Callable[[Judge], Judge]:
    """Register a law under its id."""

    def register(judge: Judge) -> Judge:
        LAWS[law_id] = Law(law_id, says, rests_on, looks_at, judge)
        return judge

    return register


def taken_messages(scene: Scene) -> list[Message]:
    """Give the messages that the server took over.

    Raises:
        NotJudged: there are none.
    """
    messages = [message for message in scene.messages.values() if message.taken]
    if not messages:
        raise NotJudged("no message was taken over")
    return messages


def proven_absent(scene: Scene, message: Message, write: Write, before: int) -> bool:
    """Whether a refusal, or a read after the end of its turn or process, proved a write absent before a place."""
    if write.refused and write.answer is not None and write.answer.n < before:
        return True
    if any(entry.n < before for entry in message.shown):
        return False
    turn = scene.turns.get(write.turn)
    over = [place for place in (turn.ended, turn.gone) if place] if turn else []
    over += [entry.n for entry in scene.of("ended", after=write.entry.n, before=before)]
    if not over:
        return False
    return any(shows_history(entry) for entry in scene.of("told", after=min(over), before=before))


def shows_history(answer: Entry) -> bool:
    """Whether an answer shows the thread's history: a read, or a resume with its turns."""
    method = answer.word.removeprefix("answer ")
    if answer.error:
        return False
    params = answer.detail.get("params", {})
    if method == "thread/resume":
        return not params.get("excludeTurns")
    return method in READS and (method != "thread/read" or bool(params.get("includeTurns")))


def places(*entries: Entry | int) -> tuple[int, ...]:
    """Give the places of entries in order, each once."""
    return tuple(sorted({entry if isinstance(entry, int) else entry.n for entry in entries}))
