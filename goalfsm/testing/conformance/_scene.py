"""A history read once: each message with its writes and showings, each turn with its beginning and end, each stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from goalfsm.testing.conformance._door import Fate
from goalfsm.testing.conformance._history import Entry

__all__ = ["Command", "Message", "Scene", "Turn", "Write", "read_scene"]

ROUTES: Final = ("turn/steer", "turn/start", "thread/queue/add")
READS: Final = ("thread/turns/list", "thread/items/list", "thread/read", "thread/timeline/list")
GOAL_OVER: Final = frozenset({"paused", "blocked", "usageLimited", "budgetLimited", "complete", "none"})


@attrs.frozen
class Command:
    """A command to the server: where it was asked, and where it was answered (0: never)."""

    word: str
    asked: int
    answered: int = 0
    refused: bool = False


@attrs.frozen
class Write:
    """A message read by the provider.

    Args:
        entry: the request.
        answer: the provider's answer, if it was told.
        process: which process of the provider read it.
    """

    entry: Entry
    answer: Entry | None = None

    @property
    def refused(self) -> bool:
        """Whether the provider refused it, and said so: proof that it was not taken."""
        return self.answer is not None and bool(self.answer.error)

    @property
    def process(self) -> int:
        """Number of the process that read it."""
        return int(self.entry.detail.get("process", 0))

    @property
    def turn(self) -> str:
        """The turn that it named, or that its answer named."""
        return self.entry.turn or (self.answer.turn if self.answer else "")


@attrs.define
class Message:
    """One message: what was asked, and what the provider saw of it."""

    id: str
    when: str
    command: Command
    writes: list[Write] = attrs.field(factory=list)
    shown: list[Entry] = attrs.field(factory=list)
    echoed: list[Entry] = attrs.field(factory=list)

    @property
    def taken(self) -> bool:
        """Whether the server took it over."""
        return self.command.answered > 0 and not self.command.refused


@attrs.define
class Turn:
    """A physical turn: who began it, and where its start and end were told (0: never)."""

    id: str
    kind: Literal["goal", "user"] = "goal"
    thread: str = ""
    process: int = 0
    started: int = 0
    ended: int = 0
    gone: int = 0


@attrs.define
class Scene:
    """Everything that the laws look at.

    Attributes:
        entries: the history.
        messages: by id, in the order of submission.
        turns: by id, in the order of their start.
        commands: stops, cancels and goal starts, in order.
        snapshots: each with the place of the answer, and what was said; the last one is the final word.
        lifecycle: the logical turns, None if the server does not tell.
        offers: what the server offers.
        slack: seconds within which two processes may differ in what they call "before".
        died: why the server ended by itself, else empty.
        whole: whether the case came to its end, so that what is missing counts.
    """

    entries: Sequence[Entry]
    messages: dict[str, Message] = attrs.field(factory=dict)
    turns: dict[str, Turn] = attrs.field(factory=dict)
    commands: list[Command] = attrs.field(factory=list)
    snapshots: list[tuple[int, Mapping[str, Fate]]] = attrs.field(factory=list)
    lifecycle: Sequence[tuple[str, str]] | None = None
    offers: frozenset[str] = frozenset()
    slack: float = 0.0
    died: str = ""
    whole: bool = True

    def of(self, kind: str, *words: str, after: int = 0, before: int = 0) -> Iterator[Entry]:
        """Give entries of a kind (with one of these words), between two places."""
        for entry in self.entries[after : before - 1 if before else None]:
            if entry.kind == kind and (not words or entry.word in words):
                yield entry

    def at(self, place: int) -> float:
        """Give the time of a place in the history."""
        return self.entries[place - 1].at

    @property
    def final(self) -> Mapping[str, Fate] | None:
        """What the server said last of every message; None if it does not tell."""
        return self.snapshots[-1][1] if self.snapshots and self.whole else None

    def goal_status(self, before: int = 0) -> str:
        """Give the goal's status as last told (or answered) before a place; `none` without one."""
        status = "none"
        for entry in self.of("told", before=before):
            if entry.word == "thread/goal/cleared" or (entry.word == "answer thread/goal/clear" and not entry.error):
                status = "none"
            elif entry.word == "thread/goal/updated":
                status = _status(entry.detail["params"].get("goal"), status)
            elif entry.word in ("answer thread/goal/set", "answer thread/goal/get") and not entry.error:
                status = _status((entry.detail.get("result") or {}).get("goal"), status)
        return status

    def running(self, before: int) -> list[Turn]:
        """Give the turns told as started and not as ended before a place, in a process that lived."""
        return [
            turn
            for turn in self.turns.values()
            if turn.started
            and turn.started < before
            and not (turn.ended and turn.ended < before)
            and not (turn.gone and turn.gone < before)
        ]


def _status(goal: Any, otherwise: str) -> str:
    return str(goal.get("status", otherwise)) if isinstance(goal, dict) else otherwise


def read_scene(entries: Sequence[Entry], snapshots: Sequence[tuple[str, Mapping[str, Fate]]], **rest: Any) -> Scene:
    """Read a history.

    Args:
        entries: the history in order.
        snapshots: number of the command that asked, and what the server said.
        rest: further attributes of the scene.
    """
    scene = Scene(entries, **rest)
    _read_commands(scene)
    answers = {entry.ask: entry for entry in entries if entry.kind == "told" and entry.word.startswith("answer ")}
    for entry in entries:
        for message in _messages(scene, entry):
            if entry.kind == "read" and entry.word in ROUTES:
                message.writes.append(Write(entry, answers.get(entry.ask)))
            elif entry.kind == "shown":
                message.shown.append(entry)
            elif entry.kind == "told" and entry.word in ("item/started", "item/completed"):
                message.echoed.append(entry)
    _read_turns(scene)
    places = {entry.ask: entry.n for entry in entries if entry.kind == "answered"}
    scene.snapshots = [(places[ask], fates) for ask, fates in snapshots if ask in places]
    return scene


def _read_commands(scene: Scene) -> None:
    ends = {entry.ask: entry for entry in scene.entries if entry.kind in ("answered", "refused")}
    for entry in scene.entries:
        if entry.kind != "asked":
            continue
        end = ends.get(entry.ask)
        command = Command(entry.word, entry.n, end.n if end else 0, end is not None and end.kind == "refused")
        if entry.word == "submit":
            [message_id] = entry.messages
            scene.messages.setdefault(message_id, Message(message_id, entry.detail.get("when", "auto"), command))
        else:
            scene.commands.append(command)


def _messages(scene: Scene, entry: Entry) -> list[Message]:
    return [scene.messages[message_id] for message_id in entry.messages if message_id in scene.messages]


def _read_turns(scene: Scene) -> None:
    process = 0
    starting: set[str] = set()  # turn/start requests that nothing was told of yet
    for entry in scene.entries:
        if entry.kind == "spawned":
            process = int(entry.word)
        elif entry.kind == "ended":
            starting.clear()
            for turn in scene.turns.values():
                turn.gone = turn.gone or entry.n
        elif entry.kind == "read" and entry.word == "turn/start":
            starting.add(entry.ask)
        elif entry.kind == "told":
            _read_told(scene, entry, process, starting)


def _read_told(scene: Scene, entry: Entry, process: int, starting: set[str]) -> None:
    turns = scene.turns
    if entry.word == "answer turn/start":
        starting.discard(entry.ask)
        if entry.turn:
            turns.setdefault(entry.turn, Turn(entry.turn, "user", entry.thread, process))
    elif entry.word == "turn/started":
        # A turn that begins while a turn/start is unanswered is that one's, whether or not the answer ever comes.
        kind: Literal["goal", "user"] = "user" if starting else "goal"
        turn = turns.setdefault(entry.turn, Turn(entry.turn, kind, entry.thread, process))
        turn.started = turn.started or entry.n
        if turn.kind == "user":
            starting.clear()
    elif entry.word == "turn/completed":
        turn = turns.setdefault(entry.turn, Turn(entry.turn, "goal", entry.thread, process))
        turn.ended = turn.ended or entry.n
