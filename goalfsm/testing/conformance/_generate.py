"""Cases drawn from a seed, and the search for the shortest case that still breaks a law."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import attrs

from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import Script, Step, TurnPlan, complete_goal, gate, say, tool, turn
from goalfsm.testing.conformance._case import Case, Move

__all__ = ["generate", "shrink"]

_COMMANDS: Final = (("submit", 10), ("stop", 2), ("cancel", 1), ("restart", 1), ("fates", 1), ("kill_provider", 1))
_PAUSES: Final = (0.002, 0.006, 0.02, 0.3)
_REQUEST_FAULTS: Final = ("mute", "drop", "refuse", "delay", "hold", "garble", "exit_after", "exit_before")
_ECHO_FAULTS: Final = ("drop", "delay", "lose", "unprojected")
_REFUSALS: Final = ("no active turn to steer", "the message is not acceptable")


def generate(seed: int | str, count: int, offers: frozenset[str]) -> Iterator[Case]:
    """Draw cases; the same seed and offers give the same ones.

    Args:
        seed: printed with every report.
        count: how many.
        offers: what the server can be asked.
    """
    for number in range(1, count + 1):
        name = f"{seed}-{number}"
        yield _draw(random.Random(name), name, offers)  # noqa: S311  reproducible, not secret


def _draw(dice: random.Random, name: str, offers: frozenset[str]) -> Case:
    turns = tuple(_turn(dice, number, last=number == 2) for number in range(3))  # noqa: PLR2004  three turns
    case = Case(f"random-{name}", "Drawn at random.", Script(turns=turns), tuple(_faults(dice)), seed=name)
    gates = [g for g in case.gates if dice.random() < 0.7]  # noqa: PLR2004  some open only at the end
    moves: list[Move] = []
    if "start_goal" in offers and dice.random() < 0.85:  # noqa: PLR2004  most cases have a goal
        moves.append(Move("start_goal", text="make the tests green"))
    messages = 0
    for _ in range(dice.randint(3, 9)):
        kind = dice.random()
        if kind < 0.3 and gates:  # noqa: PLR2004  weights
            moves.append(Move("release", gates.pop(0)))
        elif kind < 0.45:  # noqa: PLR2004  weights
            moves.append(Move("wait", seconds=dice.choice(_PAUSES)))
        else:
            word = _weighted(dice, [(w, n) for w, n in _COMMANDS if w in offers or w == "kill_provider"])
            messages += word == "submit"
            moves.append(_command(dice, word, messages))
    return attrs.evolve(case, moves=tuple(moves))


def _command(dice: random.Random, word: str, messages: int) -> Move:
    if word == "submit":
        when: Any = dice.choice(("auto", "auto", "auto", "queue"))
        return Move("submit", f"m{messages}", when=when, answered=dice.random() < 0.6)  # noqa: PLR2004  weights
    do: Any = word
    return Move(do, answered=word != "stop" or dice.random() < 0.7)  # noqa: PLR2004  weights


def _turn(dice: random.Random, number: int, *, last: bool) -> TurnPlan:
    steps: list[Step] = []
    for place in range(dice.randint(1, 2)):
        name = f"g{number}{place}"
        steps.append(dice.choice([say("working"), gate(name), tool("make", gate=name), say("long", gate=name)]))
    if last:
        steps.append(complete_goal())
    gates: dict[str, Any] = {}
    if number and dice.random() < 0.5:  # noqa: PLR2004  weights
        gates[dice.choice(("start_gate", "told_gate"))] = f"next{number}"
    return turn(*steps, **gates)


def _faults(dice: random.Random) -> Iterator[Fault]:
    if dice.random() < 0.5:  # noqa: PLR2004  half of the cases go wrong by their order alone
        return
    for _ in range(dice.randint(1, 2)):
        if dice.random() < 0.7:  # noqa: PLR2004  weights
            action: Any = dice.choice(_REQUEST_FAULTS)
            # An interrupt that is refused although a turn runs would be a lie that no server can see through.
            methods = ["turn/steer", "turn/steer", "turn/start", *(["turn/interrupt"] if action != "refuse" else [])]
            method = dice.choice(methods)
            details: dict[str, Any] = {}
            if action == "refuse":
                details = {"message": dice.choice(_REFUSALS)}
            elif action in ("delay", "hold"):
                details = {"seconds": dice.choice(_PAUSES)}
            yield Fault.request(method, action, dice.randint(1, 2), **details)
        else:
            echo: Any = dice.choice(_ECHO_FAULTS)
            yield Fault.echo(echo, dice.randint(1, 2), seconds=0.02 if echo == "delay" else 0.0)


def _weighted(dice: random.Random, words: Sequence[tuple[str, int]]) -> str:
    return dice.choices([word for word, _ in words], [weight for _, weight in words])[0]


# -- shrinking -----------------------------------------------------------------------------------------------------


def shrink(case: Case, fails: Callable[[Case], bool], *, tries: int = 200, seconds: float = 30.0) -> Case:
    """Drop moves, faults and turns as long as `fails` holds: delta debugging, largest pieces first.

    Args:
        case: a case that fails.
        fails: runs a smaller case and says whether it fails in the same way.
        tries: most runs.
        seconds: most seconds of the machine's time.
    """
    left = tries
    deadline = time.monotonic() + seconds

    def holds(smaller: Case) -> bool:
        nonlocal left
        left -= 1
        return fails(smaller)

    def goes_on() -> bool:
        return left > 0 and time.monotonic() < deadline

    changed = True
    while changed and goes_on():
        before = case
        case = _without(case, "moves", holds, goes_on)
        case = _without(case, "faults", holds, goes_on)
        case = _simpler(case, holds, goes_on)
        changed = case != before
    return case


def _without(
    case: Case, part: Literal["moves", "faults"], holds: Callable[[Case], bool], goes_on: Callable[[], bool]
) -> Case:
    size = max(len(getattr(case, part)) // 2, 1)
    while size and goes_on():
        place = 0
        while place < len(getattr(case, part)) and goes_on():
            kept = getattr(case, part)
            fewer: Any = (*kept[:place], *kept[place + size :])
            smaller = attrs.evolve(case, moves=fewer) if part == "moves" else attrs.evolve(case, faults=fewer)
            if holds(smaller):
                case = smaller
            else:
                place += size
        size //= 2
    return case


def _simpler(case: Case, holds: Callable[[Case], bool], goes_on: Callable[[], bool]) -> Case:
    turns = case.script.turns
    candidates: list[tuple[TurnPlan, ...]] = [turns[:-1]] if turns else []
    for number, plan in enumerate(turns):
        for place in range(len(plan.steps)):
            fewer = attrs.evolve(plan, steps=(*plan.steps[:place], *plan.steps[place + 1 :]))
            candidates.append((*turns[:number], fewer, *turns[number + 1 :]))
        if plan.start_gate or plan.told_gate:
            plainer = attrs.evolve(plan, start_gate="", told_gate="")
            candidates.append((*turns[:number], plainer, *turns[number + 1 :]))
    for fewer_turns in candidates:
        if not goes_on():
            break
        smaller = attrs.evolve(case, script=attrs.evolve(case.script, turns=fewer_turns))
        if holds(smaller):
            return _simpler(smaller, holds, goes_on)
    return case
