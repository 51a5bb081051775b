"""Verdicts: what the laws say of one history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from goalfsm.testing.conformance._case import Case
from goalfsm.testing.conformance._door import Fate
from goalfsm.testing.conformance._history import Entry
from goalfsm.testing.conformance._scene import read_scene
from goalfsm.testing.conformance.laws import LAWS, Broken, NotJudged

__all__ = ["Judged", "Verdict", "judge"]

Word = Literal["kept", "broken", "not judged", "undetermined"]


@attrs.frozen
class Verdict:
    """What one law says of one case.

    Args:
        law: its id.
        word: `kept`; `broken`; `not judged`: it does not apply, or the server does not offer what it needs;
            `undetermined`: the case could not be carried out.
        why: one sentence for anything but kept.
        broken: how it was broken.
    """

    law: str
    word: Word
    why: str = ""
    broken: tuple[Broken, ...] = ()


@attrs.frozen
class Judged:
    """One case with every law's verdict and what was seen.

    Args:
        case: the case as it was run.
        verdicts: one per law.
        history: what was seen.
        problem: why it was not carried out to its end, else empty.
    """

    case: Case
    verdicts: tuple[Verdict, ...]
    history: tuple[Entry, ...] = ()
    problem: str = ""

    @property
    def word(self) -> Word:
        """The case's own verdict: the gravest of its laws' verdicts."""
        words = {verdict.word for verdict in self.verdicts}
        return next(word for word in _GRAVITY if word in words)

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The laws that were broken."""
        return tuple(verdict for verdict in self.verdicts if verdict.word == "broken")

    @classmethod
    def undetermined(cls, case: Case, why: str) -> Judged:
        """A case that could not be carried out."""
        return cls(case, tuple(Verdict(law, "undetermined", why) for law in LAWS), problem=why)

    @classmethod
    def not_judged(cls, case: Case, why: str) -> Judged:
        """A case that the server does not offer what it needs for."""
        return cls(case, tuple(Verdict(law, "not judged", why) for law in LAWS), problem=why)


_GRAVITY: tuple[Word, ...] = ("broken", "undetermined", "kept", "not judged")


def judge(
    case: Case,
    entries: Sequence[Entry],
    snapshots: Sequence[tuple[str, Mapping[str, Fate]]],
    lifecycle: Sequence[tuple[str, str]] | None,
    *,
    offers: frozenset[str],
    slack: float,
    problem: str = "",
    died: str = "",
) -> Judged:
    """Judge one history by every law.

    A case that did not come to its end is never called kept; what was broken until then is called so.
    """
    scene = read_scene(
        entries, snapshots, lifecycle=lifecycle, offers=offers, slack=slack, died=died, whole=not problem
    )
    verdicts = []
    for law in LAWS.values():
        try:
            broken = tuple(law.judge(scene))
        except NotJudged as why:
            verdicts.append(Verdict(law.id, "undetermined" if problem else "not judged", problem or str(why)))
            continue
        if broken:
            verdicts.append(Verdict(law.id, "broken", "; ".join(dict.fromkeys(b.how for b in broken)), broken))
        elif problem:
            verdicts.append(Verdict(law.id, "undetermined", problem))
        else:
            verdicts.append(Verdict(law.id, "kept"))
    return Judged(case, tuple(verdicts), tuple(entries), problem)
