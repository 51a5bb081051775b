"""A case: what the provider does, what goes wrong, what the server is asked to do; plain data that travels as JSONL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, get_args

import attrs
import msgspec

from goalfsm._errors import did_you_mean
from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import Script

__all__ = ["ASKS", "Case", "Move", "NotACase", "load_cases", "save_case"]

Ask = Literal["start_goal", "submit", "stop", "cancel", "restart", "fates"]
Act = Literal["release", "kill_provider", "wait"]
Until = Literal["until_read", "until_told", "until_turn", "until_ended", "until_shown"]

ASKS: Final[tuple[str, ...]] = get_args(Ask)
"""What a server can be asked; one that does not offer some of it is not judged by the cases that need it."""


class NotACase(ValueError):
    """A file holds no case; the message names the line."""


@attrs.frozen
class Move:
    """One thing that the kit does, or waits for.

    Args:
        do: `start_goal`, `submit`, `stop`, `cancel`, `restart` and `fates` ask the server; `release` opens a gate of
            the script, `kill_provider` kills the provider's process, `wait` lets time pass; `until_read` waits for the
            n-th request of a method, `until_told` for the n-th notification, `until_turn` and `until_ended` for the
            n-th turn's start and end being told, `until_shown` for the model being shown a message.
        name: the message's id, the gate's name, the method's word.
        text: the objective, or the message's text.
        when: `auto`, `steer` or `queue`: where the message may go (surface 17).
        n: which one, from 1.
        seconds: how long `wait` takes; with the name `answer` it takes as long as a server waits for an answer.
        answered: whether the next move waits for the server's answer.
    """

    do: Ask | Act | Until
    name: str = ""
    text: str = ""
    when: Literal["auto", "steer", "queue"] = "auto"
    n: int = 1
    seconds: float = 0.0
    answered: bool = True

    def __str__(self) -> str:
        words = [self.do, self.name, f"({self.text})" if self.text else "", "" if self.when == "auto" else self.when]
        words += [f"n={self.n}" if self.n > 1 else "", f"{self.seconds:g} s" if self.seconds else ""]
        words += ["" if self.answered else "without waiting for the answer"]
        return " ".join(word for word in words if word)


@attrs.frozen
class Case:
    """A situation that a server is put into.

    Args:
        name: its name.
        about: what happens, in one sentence.
        script: what the provider and its model do.
        faults: what goes wrong at the provider.
        moves: what the kit does, in order.
        seed: what a generated case was drawn from; empty for a named one.
    """

    name: str
    about: str = ""
    script: Script = attrs.field(factory=Script)
    faults: tuple[Fault, ...] = ()
    moves: tuple[Move, ...] = ()
    seed: str = ""

    @property
    def needs(self) -> frozenset[str]:
        """What the server must offer for this case to be tried; without `fates` it is judged by less."""
        return frozenset(move.do for move in self.moves if move.do in ASKS) - {"fates"}

    @property
    def gates(self) -> tuple[str, ...]:
        """Every gate of the script and the faults, in order of appearance."""
        steps = [step for plan in self.script.turns for step in plan.steps]
        named = [step.gate for step in steps]
        named += [gate for plan in self.script.turns for gate in (plan.start_gate, plan.told_gate)]
        named += [fault.gate for fault in self.faults]
        return tuple(dict.fromkeys(name for name in named if name))


class _Header(msgspec.Struct, frozen=True):
    case: str
    about: str
    script: Script
    faults: tuple[Fault, ...]
    seed: str = ""
    law: str = ""


def save_case(path: Path, case: Case, *, law: str = "") -> None:
    """Write a case as a regression file: a header line, then one move a line.

    Args:
        path: the file.
        case: the case.
        law: id of the law that it broke.
    """
    header = _Header(case.name, case.about, case.script, case.faults, case.seed, law)
    lines = [msgspec.json.encode(header), *(_encode(move) for move in case.moves)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + b"\n")


def _encode(move: Move) -> bytes:
    default = Move(move.do)
    shown = {f.name: getattr(move, f.name) for f in attrs.fields(Move)}
    return msgspec.json.encode({k: v for k, v in shown.items() if k == "do" or v != getattr(default, k)})


def load_cases(path: Path) -> list[Case]:
    """Read a regression file; several cases may follow one another.

    Raises:
        NotACase: a line is neither a header nor a move.
        OSError: the file cannot be read.
    """
    cases: list[Case] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            cases = _with_line(cases, line)
        except (msgspec.DecodeError, ValueError) as problem:
            hint = _hint(line)
            raise NotACase(f"{path}, line {number}: {problem}{hint}") from problem
    if not cases:
        raise NotACase(f"{path}: it is empty: no case")
    return cases


def _with_line(cases: Sequence[Case], line: bytes) -> list[Case]:
    value = msgspec.json.decode(line)
    if isinstance(value, dict) and "case" in value:
        head = msgspec.convert(value, _Header)
        return [*cases, Case(head.case, head.about, head.script, head.faults, seed=head.seed)]
    if not cases:
        raise ValueError("the first line must be a header with the key 'case'")
    move = msgspec.convert(value, Move)
    return [*cases[:-1], attrs.evolve(cases[-1], moves=(*cases[-1].moves, move))]


def _hint(line: bytes) -> str:
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return ""
    known = [*ASKS, *get_args(Act), *get_args(Until)]
    word = value.get("do") if isinstance(value, dict) else None
    return did_you_mean(word, known) if isinstance(word, str) and word not in known else ""
