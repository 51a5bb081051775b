"""What people get of an exploration: one of three verdicts, the shortest way, and exit codes that never flatter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from goalfsm import Event, UnknownName, builtin_spec, load_spec
from goalfsm.cli import main
from goalfsm.testing.explorer import CONFIGURATIONS, Configuration, explore, read_trace
from goalfsm.testing.own import explore_spec
from goalfsm.testing.specs import running_specs, without_guard

SMALL = Configuration({"a": "auto"}, turns=1, budget={"stop": 1})
TURNSTILE = Path(__file__).parent.parent / "examples" / "turnstile.toml"


def run(*arguments, **more):
    return CliRunner().invoke(main, ["explore", *arguments], **more)


@pytest.fixture
def unsafe():
    """The core without the look at what is true at the instant of the write."""
    with running_specs(without_guard(builtin_spec("follow_up"), "may_write")):
        yield


def test_a_small_world_is_proved():
    found = explore(SMALL)
    assert (found.verdict, found.exhausted, found.problem, found.path) == ("proved", True, "", ())
    assert found.worlds > 100
    assert found.worlds_per_s > 0


def test_a_search_that_hits_a_bound_proves_nothing():
    for found in (explore(SMALL, limit=10), explore("steer", seconds=0)):
        assert (found.verdict, found.exhausted) == ("undetermined", False)
        assert "not finished within" in found.problem


def test_a_violation_comes_with_the_shortest_way_and_can_be_walked_again(unsafe):
    found = explore(SMALL)
    assert (found.verdict, len(found.path)) == ("violated", 3)
    assert "no_write_after_a_stop" in found.problem
    bounds, moves, problems = read_trace(found.trace())
    assert (bounds, tuple(moves)) == (found.configuration, found.path)
    assert any("no_write_after_a_stop" in problem for problem in problems)
    assert found.diagram().startswith("sequenceDiagram\n")
    assert "stop" in found.diagram()


def test_after_the_block_the_built_in_machines_run_again(unsafe):
    with running_specs():
        assert explore(SMALL).verdict == "violated"
    assert explore(SMALL).verdict == "violated"


def test_the_built_in_machines_are_back_after_a_mutated_run():
    with running_specs(without_guard(builtin_spec("follow_up"), "may_write")):
        pass
    assert explore(SMALL).verdict == "proved"


def test_what_a_budget_cannot_name_is_refused_with_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'stop'"):
        explore(Configuration(budget={"stpo": 1}))
    with pytest.raises(UnknownName, match="crash"):
        explore("crach")


def test_there_are_23_configurations_and_all_can_be_begun():
    assert len(CONFIGURATIONS) == 23
    for name in CONFIGURATIONS:
        assert explore(name, limit=50).worlds > 10, name


def test_command_line_proves_with_exit_0_and_one_object():
    done = run("--turns", "1", "--faults", "stop", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert (answer["verdict"], answer["exhausted"], answer["violations"]) == ("proved", True, [])
    assert {"worlds", "depth", "seconds", "worlds_per_s"} <= set(answer)


def test_command_line_says_undetermined_with_exit_3():
    done = run("--config", "crash", "--limit", "20", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["verdict"] == "undetermined"


def test_command_line_prints_saves_and_replays_a_violation(unsafe, tmp_path):
    done = run("--turns", "1", "--faults", "stop", "--save", str(tmp_path))
    assert done.exit_code == 1
    assert (tmp_path / "custom.jsonl").read_text() == done.stdout
    assert (tmp_path / "custom.mmd").read_text().startswith("sequenceDiagram")
    again = run("--replay", str(tmp_path / "custom.jsonl"))
    assert again.exit_code == 1
    assert "no_write_after_a_stop" in again.stderr
    assert run("--replay", "-", input="{}").exit_code == 2


def test_a_saved_way_is_harmless_once_the_guard_is_back(tmp_path):
    with running_specs(without_guard(builtin_spec("follow_up"), "may_write")):
        way = explore(SMALL).trace()
    done = run("--replay", "-", input=way)
    assert done.exit_code == 0
    assert "no law is broken" in done.stderr


def test_command_line_refuses_unknown_names_with_exit_2():
    for wrong in (["--faults", "stap"], ["--config", "crach"], ["--environment", "nowhere:at_all", "--spec", "turn"]):
        assert run(*wrong).exit_code == 2, wrong


def test_every_built_in_machine_alone_reaches_every_state():
    for machine in ("goal", "turn", "operation"):
        done = run("--spec", machine, "--limit", "3000", "--json")
        found = json.loads(done.stdout)["explorations"][0]
        assert found["unreached"] == [], machine


def test_an_own_machine_is_explored_with_any_event_in_any_order():
    found = explore_spec(load_spec(TURNSTILE))
    assert (found.verdict, found.unreached) == ("proved", ())
    assert found.worlds >= 2


def test_an_invariant_of_ones_own_gives_the_shortest_way_as_lines_for_simulate(tmp_path):
    spec = load_spec(TURNSTILE)
    last = list(spec.states)[-1]
    found = explore_spec(spec, invariant=lambda _before, _event, step: step.snapshot.state != last)
    assert found.verdict == "violated"
    events = tmp_path / "events.jsonl"
    events.write_text(found.trace())
    done = CliRunner().invoke(main, ["simulate", str(TURNSTILE), str(events)])
    assert f"{spec.machine} is {last}" in done.stderr


def test_an_environment_that_sends_what_the_machine_does_not_expect_is_a_violation(tmp_path):
    path = tmp_path / "turnstile.toml"
    jam = 'jam = { origin = "provider", doc = "The arm is stuck." }\n'
    row = '{ from = ["locked"], event = ["jam"], do = ["give_back"], why = "no way through" },\n]'
    path.write_text(TURNSTILE.read_text().replace("push =", jam + "push =").rstrip().removesuffix("]") + row)
    spec = load_spec(path)
    events = [Event("coin", amount=1), Event("jam")]
    assert explore_spec(spec).verdict == "proved"
    found = explore_spec(spec, environment=lambda _snapshot: events)
    assert found.verdict == "violated"
    assert [line["name"] for line in found.path] == ["coin", "jam"]
