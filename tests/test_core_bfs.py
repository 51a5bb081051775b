"""Every interleaving of a few small worlds: no law is broken, and from every world everything can still be settled."""

from __future__ import annotations

import pytest

from goalfsm.testing._search import search
from goalfsm.testing._world import begin

WORLDS = {
    "one message, a stop and a lost answer": {
        "rows": {"a": "auto"}, "budget": {"stop": 1, "lose_answer": 1},
    },
    "two messages and a stop": {"rows": {"a": "auto", "b": "auto"}, "budget": {"stop": 1}},
    "two messages, a turn of its own behind the goal": {
        "rows": {"a": "auto", "b": "queue"}, "budget": {"foreign_pause": 1},
    },
    "the process dies while a message is out": {"rows": {"a": "auto"}, "turns": 1, "budget": {"crash": 1, "stop": 1, "release": 1}},
    "the transport dies": {"rows": {"a": "auto"}, "turns": 1, "budget": {"death": 1, "fail": 1, "withdraw": 1}},
    "another owner comes": {"rows": {"a": "auto"}, "budget": {"owner": 1, "early_answer_lost": 1, "recall": 1}},
    "ordinary turns": {"rows": {"a": "auto", "b": "queue"}, "start": "idle", "budget": {"stop": 1, "lose_answer": 1}},
    "a goal is started, stopped, refused": {
        "rows": {}, "start": "idle", "turns": 1,
        "budget": {"start": 1, "stop": 1, "refuse": 1, "submit_auto": 1},
    },
    "a provider without echo": {"rows": {"a": "auto"}, "echo": False, "turns": 1, "budget": {"stop": 1, "fail": 1}},
    "write requests repeat and fences fail": {
        "rows": {"a": "auto"}, "turns": 1, "budget": {"write_twice": 1, "fence_failed": 1, "hand_timeout": 1, "withdraw": 1},
    },
    "a goal whose status cannot be read, then another goal": {
        "rows": {"a": "auto"}, "budget": {"foreign_word": 1, "foreign_set": 1},
    },
    "a goal set while an ordinary turn is stopped": {
        "rows": {"a": "auto"}, "start": "idle", "turns": 1, "budget": {"stop": 1, "foreign_set": 1},
    },
    "a turn that refuses everything": {"rows": {"a": "auto", "b": "auto"}, "turns": 1, "budget": {"refuse": 1, "release": 1}},
    "a goal found running after a restart": {"rows": {"a": "auto"}, "start": "unread", "turns": 1, "budget": {"stop": 1, "adopt": 1}},
}  # fmt: skip


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_no_interleaving_breaks_a_law(world):
    found = search(begin(**world), limit=60_000)
    assert found.problem == "", "\n".join([found.problem, *map(str, found.path)])
    assert found.exhausted
    assert found.worlds > 50
