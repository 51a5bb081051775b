"""Random lives of a thread with people, a provider and faults, judged at every step: run it, or add rules of your own.

    from goalfsm.testing import ThreadLives

    class TestLives(ThreadLives.TestCase):
        settings = hypothesis.settings(max_examples=50, stateful_step_count=40)

Bounded search (`goalfsm explore`) is complete in small worlds; this one goes where those bounds do not reach: many
messages, many turns, every fault at once, and every command out of season.
"""

# ruff: noqa: S101  these are assertions of a test that its users run

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goalfsm import events as ev
from goalfsm._guards import IN_LANE
from goalfsm.testing._faults import faults
from goalfsm.testing._laws import broken, unsettled
from goalfsm.testing._making import Move, make
from goalfsm.testing._moves import commands, free, last_resort
from goalfsm.testing._world import Happened, begin

__all__ = ["ThreadLives"]

PROVIDER = frozenset({"process", "begin", "calm", "show", "end", "mark", "perish"})
RARE = frozenset({"crash", "owner", "death", "foreign_word", "foreign_clear", "early_silence", "fail"})
ROWS_AT_MOST = 5
STOPS_AT_MOST = 4
CROWD = 3


class ThreadLives(RuleBasedStateMachine):
    """One thread with people, a provider and bad luck; every rule is something that happens in reality."""

    @initialize(
        start=st.sampled_from(["idle", "running", "running", "turn", "unread"]),
        echo=st.sampled_from([True, True, True, False]),
        on_goal_complete=st.sampled_from(["start", "hold"]),
    )
    def a_thread(self, start: Any, echo: bool, on_goal_complete: Any) -> None:
        """Begin a thread of any kind."""
        self.world = begin(start=start, turns=6, echo=echo, on_goal_complete=on_goal_complete)
        self.way: list[Move] = []
        self.well = True

    def make(self, move: Move) -> Happened | None:
        """Let a move happen, and judge what the core did by every law."""
        self.way.append(move)
        self.well = False
        world, happened = make(self.world, move)
        problems = [] if happened is None else broken(happened)
        if problems:
            raise AssertionError(f"{problems} after {self.way}")
        self.world = world
        self.well = True
        return happened

    def pick(self, data: Any, moves: Iterable[Move]) -> Happened | None:
        """Draw one of the moves, if there are any, and make it."""
        moves = list(moves)
        if moves:
            return self.make(data.draw(st.sampled_from(moves)))
        return None

    # -- by itself -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.wire)
    @rule()
    def the_host_hears_the_next_message(self) -> None:
        """E6, E21: news in wire order; answers may come before or after what they caused."""
        self.make(("hear",))

    @rule(data=st.data())
    def the_provider_goes_on(self, data: Any) -> None:
        """E13, E19, E30: turns roll over, the goal completes in mid turn, memory is shown or not yet."""
        self.pick(data, (move for move in free(self.world) if move[0] in PROVIDER))

    @precondition(lambda self: self.world.todo)
    @rule(data=st.data())
    def the_host_does_some_of_its_work(self, data: Any) -> None:
        """E7, E16: effects in any order; the write section asks with the true owner and transport."""
        self.pick(data, (move for move in free(self.world) if move[0] == "do"))

    @rule(data=st.data())
    def anything_happens_by_itself(self, data: Any) -> None:
        """P12: deadlines, late answers, and where nothing else would happen the clocks of last resort."""
        self.pick(data, list(free(self.world)) or list(last_resort(self.world)))

    @rule()
    def the_whole_wire_is_read(self) -> None:
        """E6: the usual case, in which the host is faster than the provider."""
        while self.world.wire:
            self.make(("hear",))

    # -- people --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.core.rows) < ROWS_AT_MOST)
    @rule(when=st.sampled_from(["auto", "auto", "steer", "queue"]))
    def a_person_submits(self, when: str) -> None:
        """P4, E28: into the running turn, only there, or as a turn of its own."""
        self.make(("submit", when))

    @rule(data=st.data())
    def a_person_does_what_the_state_allows(self, data: Any) -> None:
        """E24, E32: send now, hold, release, withdraw, recall, move, edit, resolve, start, adopt."""
        allowed = (command for command in commands(self.world) if not isinstance(command, ev.Stop))
        self.pick(data, (("ask", c) for c in allowed if self.world.core.handle(c).rejected is None))

    @rule(data=st.data())
    def a_person_asks_out_of_season(self, data: Any) -> None:
        """E25: a command that the state does not allow changes nothing anywhere."""
        asked = [command for command in commands(self.world) if self.world.core.handle(command).rejected is not None]
        if not asked:
            return
        before = self.world
        happened = self.make(("ask", data.draw(st.sampled_from(asked))))
        assert self.world.core is before.core
        assert happened is not None
        assert happened.step.effects == ()

    @precondition(lambda self: self.world.core.stops < STOPS_AT_MOST)
    @rule()
    def a_person_stops(self) -> None:
        """E15, E31, E33: nothing unwritten goes out, the pause comes first, the queue is held."""
        self.make(("ask", ev.Stop()))
        assert not any(row.state in ("admitted", "accepted", "queued") for row in self.world.core.rows)

    @rule(data=st.data())
    def a_message_grows_old(self, data: Any) -> None:
        """P16: only a resting message expires."""
        self.pick(
            data, (("tell", ev.Expire(row.id)) for row in self.world.core.rows if len(self.world.core.rows) >= CROWD)
        )

    # -- bad luck ------------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def something_goes_wrong(self, data: Any) -> None:
        """E3, E4, E12, E21: answers lost, late or refused; echoes dropped, late, repeated; others meddle."""
        self.pick(data, (move for move in faults(self.world) if move[0] not in RARE))

    @precondition(lambda self: len(self.way) % 5 == 0)
    @rule(data=st.data())
    def disaster_strikes(self, data: Any) -> None:
        """E17, E26, E34, E39, P10: the transport dies, the process dies, another owner comes, a turn fails."""
        self.pick(data, (move for move in faults(self.world) if move[0] in RARE))

    # -- always --------------------------------------------------------------------------------------------------------

    @invariant()
    def one_message_at_a_time(self) -> None:
        """E28."""
        assert sum(row.state in IN_LANE for row in self.world.core.rows) <= 1

    @invariant()
    def the_model_was_shown_nothing_twice(self) -> None:
        """E1, P3."""
        resent = dict(self.world.books.resent)
        for row in self.world.core.rows:
            shown = sum(item[0] == row.id for item in self.world.provider.items)
            assert shown <= 1 + resent.get(row.id, 0), f"{row.id} was shown {shown} times after {self.way}"

    @invariant()
    def captured_fences_are_empty_at_rest(self) -> None:
        """Composition 1: a message that rests carries nothing of an admission into the next one."""
        for row in self.world.core.rows:
            if row.state in ("queued", "held", "requeued"):
                assert (row.op, row.ref, row.route, row.turn_id, row.tries, row.written, row.wish) == (
                    0,
                    "",
                    "",
                    "",
                    0,
                    False,
                    "",
                )

    def teardown(self) -> None:
        """E2, E20, P2: left alone, everything is settled, or open for a reason that a person is told."""
        if not getattr(self, "well", False):
            return
        for _ in range(600):
            by_itself = next(iter(free(self.world)), None) or next(iter(last_resort(self.world)), None)
            if by_itself is None:
                break
            self.make(by_itself)
        else:
            raise AssertionError(f"no rest after {self.way}")
        assert unsettled(self.world) == "", f"{unsettled(self.world)} after {self.way}"
