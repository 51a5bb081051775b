"""What a changed machine is noticed by, and that what nobody can notice is declared with a reason."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from goalfsm import builtin_names, builtin_spec
from goalfsm.cli import main
from goalfsm.testing.mutants import equivalents, judge, mutants, sampled


@pytest.mark.parametrize("machine", builtin_names())
def test_every_row_is_dropped_and_every_mutant_has_a_name_of_its_own(machine):
    found = mutants(machine)
    assert len({mutant.name for mutant in found}) == len(found)
    assert sum("row dropped" in mutant.name for mutant in found) == len(builtin_spec(machine).rows)


def the(machine, words):
    return next(mutant for mutant in mutants(machine) if words in mutant.name)


@pytest.mark.parametrize(
    ("machine", "words", "killer"),
    [
        ("follow_up", "begin_write [may_write]: guard dropped", "static"),  # the rows behind it are dead
        ("follow_up", "begin_write [may_write]: guard negated", "explore"),
        ("operation", "starting|running|.. + stop: pause_goal dropped", "explore"),
        ("turn", "idle|unknown + turn_failed [new_turn]: tell_turn_failed dropped", "grid"),
    ],
)
def test_who_notices_what(machine, words, killer):
    assert judge(the(machine, words)).killer == killer


def test_sequences_of_ones_own_are_asked_before_the_explorations():
    mutant = the("operation", "starting|running|.. + stop: pause_goal dropped")
    judged = judge(mutant, sequences=lambda: "test_that_fails")
    assert (judged.killer, judged.how) == ("sequences", "test_that_fails")


def test_a_sample_is_the_same_for_the_same_seed():
    every = mutants("turn")
    assert sampled(every, 7, 3) == sampled(every, 7, 3)
    assert len(sampled(every, 7, 3)) == 7
    assert sampled(every, 1000, 1) == every


def test_everything_declared_equivalent_is_a_mutant_and_has_a_reason():
    names = {mutant.name for machine in builtin_names() for mutant in mutants(machine)}
    for name, why in equivalents().items():
        assert name in names
        assert len(why) > 20


def test_command_line_judges_a_sample():
    done = CliRunner().invoke(main, ["mutate", "--machine", "goal", "--sample", "3", "--json"])
    answer = json.loads(done.stdout)
    assert answer["mutants"] == 3 == answer["killed"] + answer["equivalent"] + len(answer["survivors"])
    assert done.exit_code == (1 if answer["survivors"] else 0)


def test_command_line_refuses_an_unknown_machine():
    assert CliRunner().invoke(main, ["mutate", "--machine", "gaol"]).exit_code == 2
