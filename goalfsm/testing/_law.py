"""What a law is: a function that looks at one event and gives a sentence that says how it was broken, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from goalfsm._core import Move
from goalfsm.testing._world import Happened

__all__ = ["LAWS", "Law", "law", "row_moves"]

Law = Callable[[Happened], str]

LAWS: Final[dict[str, Law]] = {}
"""Every law by name."""


def law(function: Law) -> Law:
    """Put a law into the book."""
    LAWS[function.__name__] = function
    return function


def row_moves(happened: Happened) -> list[Move]:
    """List the changes of state that messages went through in this step."""
    return [move for move in happened.step.moves if move.machine == "follow_up" and move.source != move.target]
