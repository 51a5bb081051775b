"""`check`, `next` and `simulate` as a person uses them, with a machine of their own as well as with ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from goalfsm.cli import COMMANDS, main

TURNSTILE = """\
machine = "turnstile"
initial = "locked"

[states]
locked = { doc = "Nobody passes." }
open   = { doc = "One person may pass." }

[events]
coin = { origin = "command", fields = { worth = "int" } }
push = { origin = "command" }
jam  = { origin = "host" }

[effects]
turn = "Let one person through."

[transitions]
rows = [
  { from = ["locked"], event = ["coin"], to = "open", if = "enough", save = ["worth"], why = "paid" },
  { from = ["open"], event = ["push"], to = "locked", clear = ["worth"], do = ["turn"], why = "one coin, one person" },
]
ignore = [
  { from = ["open"], event = ["coin", "jam"], why = "open already" },
]
"""

GUARDS = """\
def enough(snapshot, event, context):
    return event.worth >= 2
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "turnstile.toml").write_text(TURNSTILE, encoding="utf-8")
    (tmp_path / "turnstile_guards.py").write_text(GUARDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "turnstile_guards", raising=False)
    return tmp_path


def goalfsm(*words, stdin=None):
    result = CliRunner().invoke(main, words, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


# -- check -----------------------------------------------------------------------------------------------------------


def test_our_own_machines_are_checked_with_their_guards():
    result = goalfsm("check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "4 specs: no problems\n"


def test_a_machine_of_ones_own_is_checked_with_ones_own_guards(here):
    result = goalfsm("check", "turnstile.toml", "--guards", "turnstile_guards")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 spec: no problems\n")


def test_every_problem_of_every_file_is_listed_and_the_exit_is_1(here):
    (here / "bad.toml").write_text(TURNSTILE.replace('to = "open"', 'to = "opne"').replace('"turn"', '"trun"'))
    result = goalfsm("check", "bad.toml", "turnstile.toml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "GF105 bad.toml:18: row 1: unknown state 'opne'; did you mean 'open'?",
        "GF108 bad.toml:19: row 2: unknown effect 'trun'; did you mean 'turn'?",
    ]
    assert result.stderr == "2 specs: 2 problems\n"


def test_problems_as_json(here):
    (here / "bad.toml").write_text(TURNSTILE.replace('why = "paid"', 'why = ""'))
    result = goalfsm("check", "bad.toml", "--json")
    assert json.loads(result.stdout) == {
        "specs": ["bad.toml"],
        "problems": [{"code": "GF121", "path": "bad.toml", "line": 18, "text": "row 1: no 'why': say the reason"}],
    }


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["check", "folow_up"], "'folow_up' is neither a file nor a built-in machine"),
        (["check", "folow_up"], "did you mean 'follow_up'?"),
        (["check", "turnstile.toml", "--guards", "no.such"], "'no.such' cannot be imported: ModuleNotFoundError"),
        (["check", "turnstile.toml", "--guards", "json:loads"], "'json:loads' is no mapping of names to guards"),
        (["check", "."], "1 spec: 1 problem"),
        (["check", "binary.toml"], "1 spec: 1 problem"),
        (["next", "binary.toml", "x"], "GF100 binary.toml:1: is not UTF-8 text"),
        (["next", "turnstile.toml"], "Missing argument 'STATE'; turnstile has: locked, open"),
        (["next", "turnstile.toml", "zzz"], "unknown state 'zzz'; there are: locked, open"),
        (["next", "turnstile.toml", "opn"], "turnstile: unknown state 'opn'; did you mean 'open'?"),
        (["simulate", "turnstile.toml", "-", "--state", "opn"], "did you mean 'open'?"),
        (["simulate", "turnstile.toml", "missing.jsonl"], "missing.jsonl"),
        (["simulate", "turnstile.toml", "."], "Is a directory"),
        (["simulte"], "no such command 'simulte'; did you mean 'simulate'?"),
        (["check", "x" * 5000], "File name too long"),
        (["check", "a\0b"], "is neither a file nor a built-in machine"),
    ],
)
def test_what_cannot_be_used_or_read_is_exit_2_with_a_reason(here, words, text):
    (here / "binary.toml").write_bytes(b"\xff\xfe\x00")
    result = goalfsm(*words)
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_guard_module_that_fails_on_import_is_named_with_its_reason(here):
    (here / "exploding.py").write_text("1 / 0\n")
    result = goalfsm("check", "turnstile.toml", "--guards", "exploding")
    assert result.exit_code == 2
    assert "'exploding' cannot be imported: ZeroDivisionError: division by zero" in result.stderr


def test_control_characters_of_a_file_never_reach_the_terminal(here):
    (here / "evil.toml").write_text(TURNSTILE.replace('why = "paid"', 'why = "\\u001b[2Jpaid"'), encoding="utf-8")
    result = goalfsm("next", "evil.toml", "locked")
    assert "\x1b" not in result.output
    assert "\\x1b[2Jpaid" in result.stdout


# -- next ------------------------------------------------------------------------------------------------------------


def test_next_shows_what_every_event_would_do(here):
    result = goalfsm("next", "turnstile.toml", "locked")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "coin\tmoved\t[enough]\topen\t\tpaid",
        "coin\trejected",
        "push\trejected",
        "jam\tanomaly",
    ]
    assert result.stderr == "turnstile is locked (wait): Nobody passes.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_person_at_a_terminal_gets_a_table(here):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "goalfsm", "next", "turnstile.toml", "locked"]
    env = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "PYTHONPATH": str(Path(__file__).parent.parent)}
    subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=env, timeout=60, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "event" in shown.splitlines()[1]
    assert "[enough]" in shown
    assert "\t" not in shown


def test_next_as_json_for_a_machine_of_ours():
    shown = json.loads(goalfsm("next", "follow_up", "acknowledged", "--json").stdout)
    assert (shown["machine"], shown["state"], shown["kind"]) == ("follow_up", "acknowledged", "call")
    (echo,) = [line for line in shown["events"] if line["event"] == "echo"]
    assert (echo["verdict"], echo["to"], echo["effects"]) == ("moved", "delivered", ["settle"])


# -- simulate --------------------------------------------------------------------------------------------------------


def test_a_machine_of_ones_own_runs_with_its_guards(here):
    (here / "day.jsonl").write_text(lines({"name": "coin", "worth": 2}, {"name": "coin", "worth": 1}, {"name": "push"}))
    result = goalfsm("simulate", "turnstile.toml", "day.jsonl", "--guards", "turnstile_guards")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1: coin  moved  locked -> open  [enough]  (paid)",
        "2: coin  ignored  open  (open already)",
        "3: push  moved  open -> locked  turn  (one coin, one person)",
    ]
    assert result.stderr == "turnstile is locked after 3 events\n"


def test_the_events_may_answer_the_guards_themselves(here):
    events = lines({"name": "coin", "worth": 0, "guards": {"enough": True}}, {"name": "jam"})
    result = goalfsm("simulate", "turnstile.toml", "-", "--json", stdin=events)
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"line": 1, "event": "coin", "from": "locked", "to": "open", "verdict": "moved", "guard": "enough",
         "effects": [], "why": "paid", "data": {"worth": 0}},
        {"line": 2, "event": "jam", "from": "open", "to": "open", "verdict": "ignored", "guard": "",
         "effects": [], "why": "open already", "data": {"worth": 0}},
    ]  # fmt: skip


def test_a_refused_command_and_an_unexpected_fact_are_shown_and_end_in_exit_1(here):
    result = goalfsm("simulate", "turnstile.toml", "-", stdin=lines({"name": "push"}, {"name": "jam"}))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["1: push  rejected  locked", "2: jam  anomaly  locked"]
    assert "2 events were rejected, or nobody expected them" in result.stderr


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ('{"name": "coyn"}', 1, "<stdin>:2: turnstile: unknown event 'coyn'; did you mean 'coin'?"),
        ('{"name": "coin", "wort": 1}', 1, "<stdin>:2: event 'coin': unknown field 'wort'; did you mean 'worth'?"),
        ('{"name": "coin", "worth": "1"}', 1, "event 'coin': field 'worth' must be int, not '1'"),
        ('{"name": "coin", "worth": true}', 1, "field 'worth' must be int, not True"),
        ('{"name": "coin", "guards": {"enuf": true}}', 1, "turnstile: unknown guard 'enuf'"),
        ('{"name": "coin", "guards": ["enough"]}', 2, '"guards" must be an object of true and false'),
        ('{"name": "coin", "guards": {"enough": true}}', 1, "event 'coin' has no field 'worth', which the row"),
        (
            '{"name": "coin", "worth": 3}',
            1,
            "<stdin>:2: guard 'enough' is asked, but not bound; use --guards, or answer",
        ),
        ('{"name": "coin"', 2, "<stdin>:2: not JSON: "),
        ('["coin"]', 2, "<stdin>:2: an event is an object"),
        ('{"event": "coin"}', 2, '<stdin>:2: "name" must be the name of an event'),
        ('{"name": 7}', 2, '"name" must be the name of an event'),
        ("[" * 100_000, 2, "<stdin>:2: not JSON: "),
        (b'{"name": "\xff"}', 2, "<stdin>:2: not JSON: "),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number(here, line, code, text):
    line = line if isinstance(line, bytes) else line.encode()
    result = goalfsm("simulate", "turnstile.toml", "-", stdin=b"\xef\xbb\xbf\n" + line + b"\n")
    assert result.exit_code == code
    assert text in result.stderr
    assert result.stdout == ""


def test_a_guard_that_raises_is_named_with_what_it_said(here):
    stdin = lines({"name": "coin"})
    result = goalfsm("simulate", "turnstile.toml", "-", "--guards", "turnstile_guards", stdin=stdin)
    assert result.exit_code == 1
    assert (
        "<stdin>:1: guard 'enough' cannot be asked (AttributeError: event 'coin' has no field 'worth')" in result.stderr
    )


def test_our_own_machines_fill_in_fields_and_ask_their_guards_where_those_need_no_core():
    events = lines(
        {"name": "goal_active", "ref": "r1"}, {"name": "goal_active", "ref": "r1"}, {"name": "goal_active", "ref": "r2"},
        {"name": "transport_lost", "message": "closed"},
    )  # fmt: skip
    result = goalfsm("simulate", "goal", "-", stdin=events)
    assert result.exit_code == 0
    assert [line.split("  ")[1:4] for line in result.stdout.splitlines()] == [
        ["moved", "unknown -> active", "(set, resumed, or un-cleared)"],
        ["moved", "active -> active", "[same_goal]"],
        ["moved", "active -> active", "tell_goal_changed"],
        ["moved", "active -> unknown", "(someone else may have changed it since; must be read again)"],
    ]


def test_a_guard_of_ours_that_needs_the_whole_core_is_answered_in_the_line():
    result = goalfsm("simulate", "follow_up", "-", stdin=lines({"name": "send_now"}))
    assert result.exit_code == 1
    assert '"guards": {"may_admit": true}' in result.stderr
    answered = lines({"name": "send_now", "guards": {"may_admit": True}}, {"name": "recall", "guards": {}})
    result = goalfsm("simulate", "follow_up", "-", stdin=answered)
    assert result.exit_code == 0
    assert "queued -> admitted" in result.stdout
    assert "admitted -> requeued" in result.stdout


# -- the group -------------------------------------------------------------------------------------------------------


def test_help_names_every_command_and_each_command_has_examples():
    overview = goalfsm("--help")
    assert all(name in overview.stdout for name in COMMANDS)
    for name in ("check", "next", "simulate"):
        assert "Example" in goalfsm(name, "--help").stdout


ONLY_HELP = """
import runpy, sys
sys.argv = ["goalfsm", "--help"]
try:
    runpy.run_module("goalfsm", run_name="__main__")
except SystemExit as end:
    assert not end.code
heavy = {"rich", "transitions", "hypothesis", "sqlite3", "anyio", "goalfsm.cli._specs"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_module_runs_like_the_command_and_help_imports_no_command():
    done = subprocess.run(
        [sys.executable, "-c", ONLY_HELP],
        capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: goalfsm ")


def test_a_command_whose_extra_is_missing_says_which(monkeypatch):
    monkeypatch.setitem(COMMANDS, "demo", ("goalfsm.cli._nowhere:demo", "nothing"))
    result = goalfsm("demo")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: 'demo' needs goalfsm.cli._nowhere, which is not installed\n",
    )


def test_the_version_is_shown():
    assert goalfsm("--version").stdout.startswith("goalfsm")
