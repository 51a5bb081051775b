"""What a law is: a function that looks at one event and gives a sentence that says how it was broken, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from goalfsm._core import Move
from goalfsm.testing._world import Happened

__all__ = ["LAWS", "TRUTHS", "Law", "law", "law_of_truth", "row_moves"]

Law = Callable[[Happened], str]

LAWS: Final[dict[str, Law]] = {}
"""Every law by name."""


TRUTHS: Final[dict[str, Law]] = {}
"""Those of them that look at more than the step and the books: at the provider, the pipe, the true owner."""


def law(function: Law) -> Law:
    """Put a law into the book that looks at the step and at the books alone."""
    LAWS[function.__name__] = function
    return function


def law_of_truth(function: Law) -> Law:
    """Put a law into the book that judges the step by the truth."""
    TRUTHS[function.__name__] = function
    return law(function)


def row_moves(happened: Happened) -> list[Move]:
    """List the changes of state that messages went through in this step."""
    return [move for move in happened.step.moves if move.machine == "follow_up" and move.source != move.target]
