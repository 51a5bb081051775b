"""A history as a Mermaid sequence diagram: host, goalfsm and provider, and each message's states on its way.

The evidence stands where it was seen. What a message says is left out unless asked for: a diagram gets pasted into
tickets, and a person's words do not belong there by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import attrs

from goalfsm._builtin import builtin_names, builtin_spec
from goalfsm._diagram_text import mermaid_text, visible, wrapped

__all__ = ["Change", "Moment", "moment_words", "sequence"]

_WIDTH = 52
_SHORT = 20
_COMPOSED = {"submit": "command", "move": "command", "resend": "command", "reconciled": "host"}
# The step that grants the write need not be journaled (decisions 4), so a history shows where it was asked for.
_MAY_SEND = {"request_write": "send {id}, if it still may"}
_TO_PROVIDER = {
    "write_bytes": "send {id}",
    "read_back": "read back {id}",
    "reconcile": "read the thread",
    "clear_goal": "clear the goal",
    "set_goal": "set the goal",
    "pause_goal": "pause the goal",
    "interrupt_turn": "interrupt the turn",
    "interrupt_bare": "interrupt the turn",
}
_TO_HOST = {
    "settle": "{id} is settled",
    "publish": "late news of {id}",
    "publish_started": "started",
    "publish_completed": "ended",
    "publish_refusal": "the stop was refused",
    "reject_start": "the start was refused",
    "alarm": "alarm: {id} {kind}",
}
_FIELDS = {"turn_id": "turn", "how": "how", "found": "found", "item": "item"}


@attrs.frozen
class Change:
    """A machine that changed its state; `id` names the message, empty for the other machines."""

    machine: str
    id: str
    source: str
    target: str
    evidence: str = ""
    reason: str = ""


@attrs.frozen
class Moment:
    """One external event of a thread, and what came of it.

    Args:
        thread: the thread's id.
        place: where it stands: a line of a recording, a step of a journal.
        event: the event's name and fields.
        changes: the states that changed, in order.
        effects: names and fields of what was asked of the runtime; empty for an observer, who asks nothing.
        odd: what nobody expected, in words.
        texts: what messages say, by id.
        observed: goalfsm only looked on: the host itself talked to the provider.
    """

    thread: str
    place: str
    event: Mapping[str, Any]
    changes: tuple[Change, ...] = ()
    effects: tuple[Mapping[str, Any], ...] = ()
    odd: tuple[str, ...] = ()
    texts: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    observed: bool = False


def sequence(moments: Iterable[Moment], *, text: bool = False) -> str:
    """Draw a history as a Mermaid sequence diagram.

    Args:
        moments: what happened, thread by thread.
        text: show what messages say.

    Returns:
        The text of the diagram, ending in a newline.
    """
    lines = ["sequenceDiagram", "  participant host", "  participant goalfsm", "  participant provider"]
    thread: str | None = None
    for moment in moments:
        if moment.thread != thread:
            thread = moment.thread
            lines.append(_note("host,provider", [f"thread {thread or '(none named)'}"]))
        lines += _moment(moment, text=text)
    if thread is None:
        lines.append(_note("host,provider", ["nothing happened"]))
    return "\n".join(lines) + "\n"


def moment_words(moment: Moment) -> tuple[str, list[str]]:
    """Say a moment in words, as the diagram does: its event, and the states that changed."""
    proofs = [change.evidence for change in moment.changes]
    return _event_words(moment.event, proofs), [_change(change) for change in moment.changes]


def _moment(moment: Moment, *, text: bool) -> Iterator[str]:
    yield from _came(moment)
    if text:
        yield from (_note("host", [f"{key}: {words}"]) for key, words in moment.texts.items())
    plain = [_change(change) for change in moment.changes if not change.evidence]
    if plain:
        yield _note("goalfsm", plain)
    for change in moment.changes:
        if change.evidence:
            yield _note("goalfsm,provider", [_change(change), f"evidence: {change.evidence}"])
    if moment.odd:
        yield _note("goalfsm", [f"not expected: {words}" for words in moment.odd])
    for effect in moment.effects:
        yield from _asked(effect)


def _came(moment: Moment) -> Iterator[str]:
    name = moment.event["name"]
    words = [f"{moment.place}: {moment_words(moment)[0]}"]
    origin = _origins().get(name, "host")
    if moment.observed:
        if name == "observed_send":
            route = moment.event.get("route", "")
            yield _arrow("host", "provider", [f"{moment.place}: {route} {moment.event.get('id', '')}"])
        elif origin == "provider":
            yield _arrow("provider", "goalfsm", words)
        # What the observer tells itself, nobody sent.
        return
    ends = {"command": ("host", "goalfsm"), "provider": ("provider", "goalfsm")}
    yield _arrow(*ends.get(origin, ("goalfsm", "goalfsm")), words)


def _asked(effect: Mapping[str, Any]) -> Iterator[str]:
    name = effect["name"]
    fields = {"id": "", "kind": "", **effect}
    if name in _MAY_SEND:
        yield _arrow("goalfsm", "provider", [_MAY_SEND[name].format_map(fields)], line="-->>")
    elif name in _TO_PROVIDER:
        yield _arrow("goalfsm", "provider", [_TO_PROVIDER[name].format_map(fields)])
    elif name in _TO_HOST:
        yield _arrow("goalfsm", "host", [_TO_HOST[name].format_map(fields)], line="-->>")


def _change(change: Change) -> str:
    who = change.id or change.machine
    way = f"{change.source} → {change.target}" if change.source else change.target
    return f"{who}: {way}"


def _event_words(event: Mapping[str, Any], proofs: Iterable[str]) -> str:
    parts = [event["name"], str(event.get("id", ""))]
    parts += [f"{word} {_short(str(event[field]))}" for field, word in _FIELDS.items() if event.get(field)]
    for field in ("reason", "message"):
        words = str(event.get(field, ""))
        if words and not any(words in proof for proof in proofs):
            parts.append(f"({words})")
    return " ".join(filter(None, parts))


def _short(word: str) -> str:
    # The ids of one provider begin alike (they hold the time), so the end tells them apart.
    word = visible(word)
    return word if len(word) <= _SHORT else f"…{word[-8:]}"


def _arrow(source: str, target: str, words: list[str], line: str = "->>") -> str:
    return f"  {source}{line}{target}: {_lines(words)}"


def _note(over: str, words: list[str]) -> str:
    return f"  Note over {over}: {_lines(words)}"


def _lines(words: list[str]) -> str:
    return "<br/>".join(mermaid_text(line) for text in words for line in wrapped([text], _WIDTH))


@cache
def _origins() -> Mapping[str, str]:
    found = dict(_COMPOSED)
    for machine in builtin_names():
        found |= {event.name: event.origin for event in builtin_spec(machine).events.values()}
    return found
