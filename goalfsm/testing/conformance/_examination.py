"""A whole examination: many cases against one server, each failure with its shortest history, and one verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

import attrs

from goalfsm.testing.conformance._case import Case, save_case
from goalfsm.testing.conformance._generate import generate, shrink
from goalfsm.testing.conformance._judging import Judged, Verdict
from goalfsm.testing.conformance._runner import run_case
from goalfsm.testing.conformance._target import Target
from goalfsm.testing.conformance.laws import LAWS, Broken

__all__ = ["EXIT", "Examination", "Failure", "examine"]

Outcome = Literal["pass", "violated", "undetermined"]

EXIT: Final = {"pass": 0, "violated": 1, "undetermined": 3}
"""The exit status of each outcome; 2 is wrong usage."""


@attrs.frozen
class Failure:
    """A broken law with the shortest case that was found to break it.

    Args:
        law: its id.
        kind: the sort of defect.
        how: how it was broken in the shortest case.
        found_in: names of the cases that broke it.
        judged: the shortest case, with what was seen.
    """

    law: str
    kind: str
    how: str
    found_in: tuple[str, ...]
    judged: Judged


@attrs.frozen
class Examination:
    """Everything that was found.

    Args:
        server: how the server is called.
        seed: what random cases were drawn from; empty if there were none.
        judged: every case, in order.
        failures: one per broken law and sort of defect.
        seconds: how long it took.
    """

    server: str
    seed: str
    judged: tuple[Judged, ...]
    failures: tuple[Failure, ...]
    seconds: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """Give the verdict: a law that was broken counts most; what could not be judged is never a pass."""
        words = {judged.word for judged in self.judged}
        if "broken" in words:
            return "violated"
        return "undetermined" if "undetermined" in words or "kept" not in words else "pass"

    def law_words(self, law: str) -> dict[str, int]:
        """Count a law's verdicts."""
        counts: dict[str, int] = {}
        for judged in self.judged:
            for verdict in judged.verdicts:
                if verdict.law == law:
                    counts[verdict.word] = counts.get(verdict.word, 0) + 1
        return counts

    def why_not_judged(self, law: str) -> str:
        """Say why a law was nowhere judged; empty if it was."""
        verdicts = [v for judged in self.judged for v in judged.verdicts if v.law == law]
        if any(v.word in ("kept", "broken") for v in verdicts):
            return ""
        return "; ".join(dict.fromkeys(v.why for v in verdicts if v.why)) or "no case was run"


def examine(
    target: Target,
    cases: Iterable[Case],
    *,
    laws: Iterable[str] | None = None,
    seed: str = "",
    random_cases: int = 0,
    offers: frozenset[str] = frozenset(),
    shrinking: float = 20.0,
    save: Path | None = None,
    tell: Callable[[Judged], None] = lambda _judged: None,
) -> Examination:
    """Judge a server by named cases and by random ones.

    Args:
        target: the server.
        cases: the named cases.
        laws: only these laws; all if None.
        seed: what the random cases are drawn from.
        random_cases: how many are drawn.
        offers: what random cases may ask the server for.
        shrinking: most seconds per broken law that are spent on a shorter case.
        save: a directory for the shortest cases, as regression files.
        tell: hears of each case when it was judged.
    """
    began = time.monotonic()
    wanted = frozenset(LAWS if laws is None else laws)
    judged: list[Judged] = []
    drawn = generate(seed, random_cases, offers) if random_cases else ()
    for case in (*cases, *drawn):
        judged.append(_only(run_case(target, case), wanted))
        tell(judged[-1])
    failures = tuple(_failure(target, law, kind, judged, shrinking) for law, kind in _broken(judged))
    if save is not None:
        for failure in failures:
            save_case(
                save / f"{failure.law}-{failure.kind.replace(' ', '-')}.jsonl", failure.judged.case, law=failure.law
            )
    seconds = time.monotonic() - began
    return Examination(target.name, seed if random_cases else "", tuple(judged), failures, seconds)


def _only(judged: Judged, laws: frozenset[str]) -> Judged:
    return attrs.evolve(judged, verdicts=tuple(v for v in judged.verdicts if v.law in laws))


def _broken(judged: list[Judged]) -> list[tuple[str, str]]:
    found = dict.fromkeys(
        (verdict.law, broken.kind) for one in judged for verdict in one.broken for broken in verdict.broken
    )
    return sorted(found, key=lambda pair: list(LAWS).index(pair[0]))


def _failure(target: Target, law: str, kind: str, judged: list[Judged], seconds: float) -> Failure:
    guilty = [one for one in judged if _how(one, law, kind)]
    # The shortest history first: there is less to take away from it.
    first = min(guilty, key=lambda one: (len(one.case.moves), len(one.history)))
    best = first

    def fails(case: Case) -> bool:
        nonlocal best
        again = run_case(target, case)
        if again.problem or not _how(again, law, kind):
            return False
        best = again
        return True

    if seconds > 0:
        shrink(first.case, fails, seconds=seconds)
    broken = _how(best, law, kind)
    shown = attrs.evolve(best, verdicts=(Verdict(law, "broken", broken[0].how, broken),))
    return Failure(law, kind, broken[0].how, tuple(one.case.name for one in guilty), shown)


def _how(judged: Judged, law: str, kind: str) -> tuple[Broken, ...]:
    return tuple(b for verdict in judged.broken if verdict.law == law for b in verdict.broken if b.kind == kind)
