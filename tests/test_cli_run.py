"""`goalfsm run` as a person uses it: lines typed in mid turn, Ctrl-C once and twice, and everything that can be wrong."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import pytest
from program import LIMIT, Program, Terminal, environment

from goalfsm.adapters.simulated import (
    Fault,
    block_goal,
    complete_goal,
    fail,
    gate,
    say,
    tool,
    turn,
)
from goalfsm.testing.mock_model import Hold, write_codex_home
from goalfsm.testing.mock_model import say as model_says

OBJECTIVE = "make it so"


@pytest.fixture
def double(make_double):
    return make_double


def run(double, *words):
    return Program("run", OBJECTIVE, "--binary", double.binary, *words)


def record(program):
    return json.loads(program.out[-1])


def fates(program):
    return {fate["id"]: (fate["state"], fate["evidence"]) for fate in record(program)["follow_ups"]}


# -- lines typed while it works ------------------------------------------------------------------------------------------


def test_a_line_typed_in_mid_turn_reaches_that_turn_once_and_its_evidence_is_shown(double):
    server = double(turn(say("at work"), gate("go"), complete_goal(), say("done")))
    with run(server) as program:
        program.wait_for("at work")
        program.type("also the docs")
        program.wait_for("delivered    echo of item")
        server.release("go")
        assert program.end() == 0, program.stderr
        assert "completed" in program.stdout
        assert "m1 also the docs" in program.stdout
    assert server.shown("also the docs") == 1


def test_piped_lines_are_not_lost_when_the_goal_ends_before_they_are_read(double):
    server = double(turn(complete_goal(), say("already done")))
    with run(server, "--json") as program:
        program.type("one")
        program.type("two")
        assert program.end() == 0, program.stderr
        assert [state for state, _ in fates(program).values()] == ["delivered", "delivered"]
    assert [server.shown(text) for text in ("one", "two")] == [1, 1]


def test_a_last_line_without_its_end_counts(double):
    server = double(turn(say("at work"), gate("go"), complete_goal()))
    with run(server, "--json") as program:
        program.process.stdin.write(b"no newline here")
        program.process.stdin.close()
        program.wait_for('"event":"follow_up/delivered"', program.out)
        server.release("go")
        assert program.wait() == 0, program.stderr
    assert server.shown("no newline here") == 1


def test_after_a_goal_that_was_given_up_a_late_line_comes_back_and_nothing_begins(double):
    server = double(
        turn(say("at work"), gate("go"), block_goal(), say("I give up"), gate("end")), user_turn=turn(say("no"))
    )
    with run(server, "--json") as program:
        program.wait_for("at work", program.out)
        server.release("go")
        program.wait_for('"status":"blocked"', program.out)
        program.type("too late")
        program.wait_for('"event":"typed"', program.out)
        server.release("end")
        assert program.end() == 1
        assert record(program)["goal"]["goal_status"] == "blocked"
        assert fates(program)["m1"][0] == "requeued"
    assert server.shown("too late") == 0
    assert server.requests("turn/start") == 0


def test_commands_queue_withdraw_and_list_do_what_they_say(double):
    server = double(turn(say("at work"), gate("go"), complete_goal()), user_turn=turn(say("mine too")))
    with run(server) as program:
        program.wait_for("at work")
        program.type("//etc is a path")
        program.wait_for("m1       delivered")
        program.type("/queue a turn of its own")
        program.wait_for("m2       queued")
        program.type("/queue not this one")
        program.wait_for("m3       queued")
        program.type("/withdraw m3")
        program.wait_for("m3       discarded")
        program.type("/list")
        program.wait_for("queued: a turn of its own")
        program.type("/withdraw m7")
        program.wait_for("there is no message 'm7'; there are: m1, m2, m3")
        program.type("/dance")
        program.wait_for("/dance is no command")
        program.type("/lst")
        program.wait_for("/lst is no command; did you mean '/list'?")
        server.release("go")
        assert program.end() == 0, program.stderr
    assert server.shown("a turn of its own") == 1
    assert server.shown("not this one") == 0
    assert server.shown("/etc is a path") == 1


def test_what_the_agent_and_the_person_write_cannot_steer_the_terminal(double):
    evil = "red \x1b[31m [bold]x[/bold] \x07 bell"
    server = double(turn(say(evil), gate("go"), complete_goal()))
    with run(server) as program:
        program.wait_for("[bold]x[/bold]")
        program.type("also \x1b]0;title\x07 [red]this[/red]")
        program.wait_for("m1       delivered")
        server.release("go")
        assert program.end() == 0, program.stderr
        assert "\x1b" not in program.stdout + program.stderr
        assert "\x07" not in program.stdout + program.stderr
        assert "[red]this[/red]" in program.stderr


def test_without_json_the_data_is_on_stdout_and_the_story_on_stderr(double):
    server = double(turn(complete_goal(), say("the answer is 42")))
    with run(server) as program:
        assert program.end() == 0, program.stderr
        assert program.out[1].startswith("completed  in ")
        assert program.out[2] == "the answer is 42"
        assert program.err[0].split() == ["goal", *OBJECTIVE.split()]


def test_every_line_of_json_is_an_event_and_the_last_one_is_the_result(double, tmp_path):
    server = double(turn(complete_goal(), say("the answer")))
    journal = tmp_path / "goals.db"
    with run(server, "--json", "--journal", journal) as program:
        assert program.end() == 0, program.stderr
        events = [json.loads(line)["event"] for line in program.out]
        assert program.err == []
        result = record(program)
    assert events[0] == "started"
    assert events[-1] == "result"
    assert {"turn/started", "turn/completed", "turn"} <= set(events)
    assert result["goal"]["final_response"] == "the answer"
    assert result["goal"]["goal_status"] == "complete"
    assert result["goal"]["usage"]["total"]["total_tokens"] > 0
    assert result["journal"] == str(journal)


def test_a_failed_goal_says_the_providers_words_and_exits_1(double):
    server = double(turn(say("hm"), fail("the model is on fire")))
    with run(server) as program:
        assert program.end() == 1
        assert "failed" in program.stdout
        assert "the model is on fire" in program.stdout
        assert "Traceback" not in program.stderr


def test_a_message_that_stays_uncertain_makes_the_exit_code_1(double):
    server = double(
        turn(say("at work"), gate("go"), complete_goal(), say("done")),
        faults=(
            Fault.echo("lose"),
            Fault.request("thread/turns/list", "refuse", n=0),
            Fault.request("thread/read", "refuse", n=0),
        ),
    )
    with run(server, "--json") as program:
        program.wait_for("at work", program.out)
        program.type("where am I")
        server.wait_received("turn/steer")
        server.release("go")
        assert program.end(60) == 1
        assert fates(program)["m1"][0] == "uncertain"
        assert record(program)["goal"]["status"] == "completed"


def test_when_the_provider_dies_the_goal_is_lost_and_it_says_so(double):
    server = double(turn(say("at work"), gate("never")))
    with run(server, "--json") as program:
        program.wait_for("at work", program.out)
        server.kill()
        assert program.end() == 1
        assert record(program)["goal"]["status"] == "failed"
        assert record(program)["goal"]["error"]


# -- Ctrl-C --------------------------------------------------------------------------------------------------------------


def test_ctrl_c_in_mid_turn_pauses_the_goal_interrupts_the_turn_and_returns_what_the_agent_has_not_seen(double):
    server = double(turn(say("at work"), tool("sleep", gate="never")))
    with run(server, "--json") as program:
        program.wait_for("commandExecution", program.out)
        program.type("not seen yet")
        program.wait_for('"event":"follow_up/acknowledged"', program.out)
        program.ctrl_c()
        assert program.wait() == 130, program.stderr
        assert record(program)["goal"]["status"] == "interrupted"
        assert record(program)["goal"]["goal_status"] == "paused"
        assert fates(program)["m1"] == ("requeued", "read_back: absent after its turn ended")
    methods = [entry["method"] for entry in server.log()]
    assert methods.index("turn/interrupt") > methods.index("turn/steer")
    goal_sets = [entry["params"] for entry in server.log() if entry["method"] == "thread/goal/set"]
    assert goal_sets[-1]["status"] == "paused"
    assert server.shown("not seen yet") == 0


def test_a_second_ctrl_c_leaves_although_the_provider_never_answers_and_says_what_is_left(double):
    server = double(turn(say("at work"), gate("never")), faults=(Fault.request("turn/interrupt", "drop", n=0),))
    with run(server) as program:
        program.wait_for("at work")
        program.ctrl_c()
        program.wait_for("pausing the goal, then interrupting its turn")
        server.wait_received("turn/interrupt")
        program.ctrl_c()
        assert program.wait(8) == 130, program.stderr
        program.wait_for("not waiting any longer")
        left = program.wait_for("left ")
        assert "the goal is paused" in left
        assert "turn 1 was not seen to end" in left
        assert "Traceback" not in program.stderr


def test_whoever_terminates_it_finds_the_goal_paused(double):
    server = double(turn(say("at work"), gate("never")))
    with run(server, "--json") as program:
        program.wait_for("at work", program.out)
        program.process.terminate()
        assert program.wait(10) == 143, program.stderr
        assert record(program)["goal"]["status"] == "left"
    goal_sets = [entry["params"] for entry in server.log() if entry["method"] == "thread/goal/set"]
    assert goal_sets[-1]["status"] == "paused"


def test_a_reader_of_stdout_that_leaves_ends_it_without_a_traceback_and_the_goal_is_paused(double):
    server = double(turn(say("at work"), gate("more"), say("again"), gate("never")))
    words = [sys.executable, "-m", "goalfsm", "run", OBJECTIVE, "--json", "--binary", str(server.binary)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as process:
        while b"at work" not in process.stdout.readline():
            pass
        process.stdout.close()
        server.release("more")
        assert process.wait(LIMIT) == 1
        assert process.stderr.read() == b""
    goal_sets = [entry["params"] for entry in server.log() if entry["method"] == "thread/goal/set"]
    assert goal_sets[-1]["status"] == "paused"


def test_ctrl_c_while_the_provider_does_not_answer_its_first_request(double):
    server = double(faults=(Fault.request("initialize", "mute"),))
    with run(server) as program:
        server.wait_received("initialize")
        program.ctrl_c()
        assert program.wait(10) == 130
        program.wait_for("nothing was started")


def test_ctrl_c_before_the_first_turn_stops_the_goal_that_was_set(double):
    server = double(turn(say("x"), start_gate="never"))
    with run(server) as program:
        server.wait_received("thread/goal/set")
        program.wait_for("thread ")
        program.ctrl_c()
        assert program.wait() == 130, program.stderr
        assert "Traceback" not in program.stderr
    goal_sets = [entry["params"] for entry in server.log() if entry["method"] == "thread/goal/set"]
    assert goal_sets[-1].get("status") == "paused"


# -- in a terminal -------------------------------------------------------------------------------------------------------


def test_in_a_terminal_a_line_is_edited_below_the_story_and_the_terminal_is_left_as_it_was(double):
    server = double(turn(say("at work\n"), gate("go"), complete_goal(), say("done")))
    with Terminal("run", OBJECTIVE, "--binary", server.binary) as terminal:
        terminal.wait_for("at work")
        terminal.type("also the dogs\x7f\x7f\x7focs\x1b[D\x15keep é this")
        terminal.wait_for("> keep é this")
        terminal.type("\r")
        terminal.wait_for("delivered")
        server.release("go")
        assert terminal.wait() == 0, terminal.shown
        assert "m1 keep é this" in terminal.shown
        assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l")
    assert server.shown("keep é this") == 1


def test_in_a_terminal_the_ctrl_c_key_stops(double):
    server = double(turn(say("at work\n"), gate("never")))
    with Terminal("run", OBJECTIVE, "--binary", server.binary) as terminal:
        terminal.wait_for("at work")
        terminal.type("\x03")
        assert terminal.wait() == 130, terminal.shown
        assert "interrupted" in terminal.shown


# -- what can be wrong ---------------------------------------------------------------------------------------------------


def refused(*words, code):
    with Program("run", *words) as program:
        assert program.end() == code, program.stderr
        assert "Traceback" not in program.stderr
        assert program.out == []
        return program.err[-1]


@pytest.mark.parametrize(
    ("objective", "words"),
    [("", "must not be empty"), ("  \n ", "must not be empty"), ("x" * 4001, "must be at most 4000 characters")],
    ids=["empty", "blank", "too long"],
)
def test_an_objective_that_no_provider_would_take_is_refused_before_anything_is_made(objective, words, tmp_path):
    line = refused(objective, "--journal", tmp_path / "goals.db", code=2)
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_a_binary_that_is_missing_or_no_program_is_named_and_leaves_nothing_behind(tmp_path):
    line = refused(OBJECTIVE, "--binary", tmp_path / "none", "--journal", tmp_path / "goals.db", code=1)
    assert f"{tmp_path / 'none'} does not exist" in line
    assert list(tmp_path.iterdir()) == []
    plain = tmp_path / "plain"
    plain.write_text("no program")
    line = refused(OBJECTIVE, "--binary", plain, "--journal", tmp_path / "goals.db", code=1)
    assert "is not executable" in line
    assert list(tmp_path.iterdir()) == [plain]


def test_a_binary_that_ends_before_it_answers_is_told_with_its_last_words(tmp_path):
    binary = tmp_path / "quits"
    binary.write_text("#!/bin/sh\necho 'no licence' >&2\nexit 3\n")
    binary.chmod(0o700)
    line = refused(OBJECTIVE, "--binary", binary, code=1)
    assert "no licence" in line


def test_a_journal_that_cannot_be_used_starts_no_provider(double, tmp_path):
    server = double()
    assert "is a directory" in refused(OBJECTIVE, "--binary", server.binary, "--journal", tmp_path, code=1)
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, and no database at all" * 100)
    assert "is not an SQLite database" in refused(OBJECTIVE, "--binary", server.binary, "--journal", text, code=1)
    assert text.read_text().startswith("these are notes")
    locked = tmp_path / "locked.db"
    db = sqlite3.connect(locked, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    assert "is locked by another writer" in refused(OBJECTIVE, "--binary", server.binary, "--journal", locked, code=1)
    db.close()
    assert server.log() == []


def test_where_goals_are_switched_off_it_says_so(double):
    assert "goals feature is disabled" in refused(OBJECTIVE, "--binary", double(goals=False).binary, code=1)


def test_options_that_do_not_fit_are_usage_errors():
    assert "key=value" in refused(OBJECTIVE, "--config", "nonsense", code=2)
    assert "--binary is for --provider codex" in refused(OBJECTIVE, "--provider", "simulated", "--binary", "x", code=2)
    refused(OBJECTIVE, "--token-budget", "0", code=2)
    refused(OBJECTIVE, "--cwd", "/nowhere/at/all", code=2)


def test_help_shows_examples_and_what_to_type():
    with Program("run", "--help") as program:
        assert program.end() == 0
        assert "printf 'also the docs" in program.stdout
        assert "/withdraw ID" in program.stdout


def test_the_simulated_provider_needs_nothing():
    with Program("run", "count", "--provider", "simulated", "--json") as program:
        program.type("and backwards")
        assert program.end() == 0, program.stderr
        assert fates(program)["m1"][0] == "delivered"


# -- the real server -----------------------------------------------------------------------------------------------------


def real(model, tmp_path, *words):
    home = tmp_path / "home"
    env = write_codex_home(home, model.port)
    return Program("run", OBJECTIVE, "--codex-home", home, "--cwd", tmp_path, "--json", *words, env=env)


@pytest.mark.app_server
def test_the_real_server_shows_its_model_a_line_typed_in_mid_turn_once(model, tmp_path):
    hold = Hold()
    model.script(model_says("looking around", hold=hold))
    with real(model, tmp_path, "--journal", tmp_path / "goals.db") as program:
        assert hold.reached.wait(30)
        program.wait_for("item/agentMessage/delta", program.out)
        program.type("also the docs")
        program.wait_for('"event":"follow_up/acknowledged"', program.out)
        hold.release()
        assert program.end(60) == 0, program.stderr
        state, evidence = fates(program)["m1"]
        assert state == "delivered"
        assert evidence.startswith("echo of item ")
        assert record(program)["goal"]["goal_status"] == "complete"
    assert model.shown("also the docs") == 1


@pytest.mark.app_server
def test_ctrl_c_pauses_the_real_servers_goal_and_interrupts_its_turn(model, tmp_path):
    hold = Hold()
    model.script(model_says("this takes long", hold=hold))
    with real(model, tmp_path) as program:
        assert hold.reached.wait(30)
        program.wait_for("item/agentMessage/delta", program.out)
        program.ctrl_c()
        assert program.wait(40) == 130, program.stderr
        assert record(program)["goal"]["status"] == "interrupted"
        assert record(program)["goal"]["goal_status"] == "paused"
    assert len(model.requests) == 1
