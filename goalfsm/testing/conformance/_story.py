"""A history in words: what matters of it, one line an entry, with short names for turns; and as a sequence diagram."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from goalfsm._diagram_text import mermaid_text
from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._history import Entry

__all__ = ["case_words", "diagram", "story"]

_QUIET_READS: Final = frozenset({"initialize", "initialized", "", "thread/goal/get"})
_LOUD: Final = frozenset({"turn/started", "turn/completed", "thread/goal/updated", "thread/goal/cleared", "garbage"})
_LOUD_ANSWERS: Final = frozenset(
    {"turn/steer", "turn/start", "turn/interrupt", "thread/turns/list", "thread/items/list", "thread/resume"}
)
_MARK: Final = "►"
_ARROWS: Final = {
    "asked": ("K", "S", "->>"),
    "answered": ("S", "K", "-->>"),
    "refused": ("S", "K", "--x"),
    "hung": ("S", "K", "--x"),
    "read": ("S", "P", "->>"),
    "told": ("P", "S", "-->>"),
}


def _matters(entry: Entry) -> bool:
    if entry.kind == "read":
        return entry.word not in _QUIET_READS
    if entry.kind != "told":
        return True
    if entry.word.startswith("answer "):
        return entry.word.removeprefix("answer ") in _LOUD_ANSWERS or (bool(entry.error) and bool(entry.messages))
    return (
        entry.word in _LOUD
        or "equestApproval" in entry.word
        or (entry.word == "item/completed" and bool(entry.messages))
    )


def _kept(entries: Sequence[Entry], marked: Iterable[int]) -> Iterator[Entry]:
    wanted = set(marked)
    last = ""
    for entry in entries:
        if entry.n not in wanted and not _matters(entry):
            continue
        words = f"{entry.kind} {entry.word} {_status(entry)}"
        if entry.word == "thread/goal/updated" and words == last and entry.n not in wanted:
            continue
        last = words
        yield entry


def _turn_names(entries: Iterable[Entry]) -> dict[str, str]:
    names: dict[str, str] = {}
    for entry in entries:
        if entry.turn and entry.turn not in names:
            names[entry.turn] = f"t{len(names) + 1}"
    return names


def story(entries: Sequence[Entry], marked: Iterable[int] = ()) -> list[str]:
    """Give what matters of a history, one line an entry; the marked ones carry a sign."""
    marks = set(marked)
    names = _turn_names(entries)
    return [
        f"{_MARK if entry.n in marks else ' '} #{entry.n:<3} {entry.at:8.3f} s  {_words(entry, names)}"
        for entry in _kept(entries, marks)
    ]


def diagram(entries: Sequence[Entry], marked: Iterable[int] = ()) -> str:
    """Give a history as a Mermaid sequence diagram: user, server and provider; the marked entries are highlighted."""
    marks = set(marked)
    names = _turn_names(entries)
    lines = [
        "sequenceDiagram",
        "    participant K as user",
        "    participant S as server",
        "    participant P as provider",
    ]
    for entry in _kept(entries, marks):
        words = mermaid_text(_words(entry, names, short=True))
        if entry.kind in _ARROWS:
            source, target, arrow = _ARROWS[entry.kind]
            line = [f"    {source}{arrow}{target}: {words}"]
        elif entry.kind in ("crash", "kill"):
            line = [f"    Note over {'S' if entry.kind == 'crash' else 'P'}: {words}"]
        else:
            line = [f"    Note over P: {words}"]
        if entry.n in marks:
            line = ["    rect rgb(255, 225, 225)", *(f"    {part}" for part in line), "    end"]
        lines += line
    return "\n".join(lines) + "\n"


_WORDS: Final = {
    "asked": ("{word} {message}", "user     asks {word} {message}"),
    "answered": ("{said}", "server   answers {about}: {said}"),
    "refused": ("{error}", "server   refuses {about}: {error}"),
    "hung": ("no answer", "server   never answers {about}"),
    "shown": ("the model is shown {message} in {turn}", "model    is shown {message} in {turn}"),
    "spawned": ("process {word} begins", "provider process {word} begins"),
    "ended": ("process {word} ends", "provider process {word} ends"),
    "gate": ("goes on ({word})", "provider goes on (gate {word})"),
    "kill": ("killed", "provider is killed"),
    "crash": ("killed, and started again", "server   is killed, and started again"),
}
"""For each kind of entry its words on an arrow and on a line of its own."""


def _words(entry: Entry, names: dict[str, str], *, short: bool = False) -> str:
    message = " ".join(entry.messages)
    turn = names.get(entry.turn, "")
    if entry.kind == "read":
        return _read_words(entry, message, turn, short=short)
    if entry.kind == "told":
        return _told_words(entry, message, turn, short=short)
    fates = entry.detail.get("fates")
    said = "ok" if fates is None else ", ".join(f"{name} {fate}" for name, fate in fates.items()) or "no messages"
    about = f"{entry.word} {message}".strip()
    form = _WORDS[entry.kind][0 if short else 1]
    return form.format(word=entry.word, message=message, about=about, turn=turn, said=said, error=entry.error).strip()


def _read_words(entry: Entry, message: str, turn: str, *, short: bool) -> str:
    words = [entry.word, message, f"to {turn}" if turn else "", _status(entry)]
    text = " ".join(word for word in words if word)
    return text if short else f"provider reads {text}"


def _told_words(entry: Entry, message: str, turn: str, *, short: bool) -> str:
    if entry.word.startswith("answer "):
        said = entry.error or " ".join(word for word in ("ok", turn) if word)
        text = said if short else f"answers {entry.word.removeprefix('answer ')} {message}: {said}".replace(" :", ":")
    else:
        text = " ".join(word for word in (entry.word, message, turn, _status(entry)) if word)
        text = text if short else f"tells {text}"
    return text if short else f"provider {text}"


def _status(entry: Entry) -> str:
    params = entry.detail.get("params", {})
    if entry.word == "thread/goal/set":
        return str(params.get("status") or ("active" if params.get("objective") else ""))
    if entry.word == "thread/goal/updated":
        return str((params.get("goal") or {}).get("status", ""))
    if entry.word == "turn/completed":
        return str((params.get("turn") or {}).get("status", ""))
    return ""


def case_words(case: Case) -> list[str]:
    """Give a case in words: the provider's plan, what goes wrong, and the moves."""
    lines = []
    for number, plan in enumerate(case.script.turns, 1):
        steps = [
            f"{step.kind} {step.word or step.text or step.gate}".strip() + _until(step.gate) for step in plan.steps
        ]
        gates = [f"starts after gate {plan.start_gate}"] if plan.start_gate else []
        gates += [f"told after gate {plan.told_gate}"] if plan.told_gate else []
        lines.append(f"turn {number}: " + "; ".join([*gates, *steps]))
    for fault in case.faults:
        which = f"the {fault.method} number {fault.n}" if fault.n else f"every {fault.method}"
        which = which if fault.method else f"message number {fault.n} shown"
        how = f" ({fault.message})" if fault.message else ""
        lines.append(f"fault: {fault.on} {fault.action}: {which}{how}")
    lines += [f"{number}. {move}" for number, move in enumerate(case.moves, 1)]
    return lines


def _until(gate: str) -> str:
    return f" (until gate {gate})" if gate else ""
