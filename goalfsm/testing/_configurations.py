"""The bounded worlds that are explored by name: rows, turns, start, and how often each thing may go wrong.

They follow the 23 worlds in which the machines were first proved. The world model has a few moves of other kinds, which
`docs/testing.md` names; where it has more than a world of that name needs, the budget leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

__all__ = ["CONFIGURATIONS", "Configuration"]


@attrs.frozen
class Configuration:
    """One bounded world: the arguments of `goalfsm.testing.explorer.explore`.

    Args:
        rows: messages submitted at once, in order: id to when.
        turns: how many turns the provider begins by itself at most.
        start: idle, running, turn or unread.
        echo: whether the stream shows client ids.
        budget: how often each command and each fault may happen.
    """

    rows: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    turns: int = 2
    start: str = "running"
    echo: bool = True
    budget: Mapping[str, int] = attrs.field(factory=dict, hash=False)

    def arguments(self) -> dict[str, Any]:
        """Give what `begin` takes."""
        return attrs.asdict(self, recurse=False)


def _world(rows: int, turns: int, budget: str, start: str = "running", *, echo: bool = True) -> Configuration:
    named: dict[str, int] = {}
    for word in budget.split():
        name, _, times = word.partition("*")
        named[name] = int(times or 1)
    return Configuration({f"m{n}": "auto" for n in range(rows)}, turns, start, echo, named)


CONFIGURATIONS: Final[Mapping[str, Configuration]] = {
    "big_slow": _world(1, 3, "slow_answer slow_start drop_end early_answer_lost stop"),
    "big_death": _world(2, 3, "death fail withdraw"),
    "big_mark": _world(2, 2, "stop fail owner", echo=False),
    "big_crash": _world(2, 2, "crash*2 stop release"),
    "big_owner": _world(2, 2, "owner early_answer_lost withdraw"),
    "big_plain": _world(2, 3, "stop lose_answer crash death release", "idle"),
    "big_steer": _world(2, 2, "stop lose_answer early_answer_lost foreign_interrupt"),
    "big_goal": _world(1, 2, "foreign_set repeat stop release"),
    "big_start": _world(0, 2, "start submit_auto stop refuse early_call_lost early_start_timeout", "idle"),
    "faults": _world(1, 2, "death fail withdraw"),
    "crash": _world(1, 2, "crash stop release"),
    "owner": _world(1, 2, "owner early_answer_lost recall"),
    "start": _world(0, 2, "start submit_auto stop refuse early_start_timeout", "idle"),
    "plain": _world(2, 2, "stop lose_answer crash release foreign_interrupt", "idle"),
    "mark": _world(1, 2, "stop fail early_answer_lost", echo=False),
    "two": _world(2, 2, "stop foreign_interrupt"),
    "steer": _world(1, 2, "stop lose_answer early_answer_lost foreign_interrupt"),
    "slow": _world(1, 2, "slow_answer slow_start drop_end early_answer_lost"),
    "nocall": _world(0, 2, "start submit_auto early_call_lost*2 stop slow_start", "idle"),
    "goal": _world(1, 2, "foreign_set*2 repeat withdraw"),
    "people": _world(
        1, 2, "early_answer_lost lose_answer resolve_unsent withdraw recall expire hand_timeout fence_failed"
    ),
    "crash_owner": _world(2, 2, "crash owner stop*2 slow_answer"),
    "big_people": _world(
        2, 2, "early_answer_lost lose_answer resolve_unsent withdraw expire fence_failed hand_timeout"
    ),
}
"""By name."""
