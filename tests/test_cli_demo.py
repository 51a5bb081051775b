"""`goalfsm demo` as a newcomer runs it: in a pipe, as JSON, in a terminal."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path

from program import Program, Terminal

FAST = ("--speed", "20")


def run(*words):
    with Program("demo", *FAST, *words) as program:
        return program, program.end()


def test_json_holds_the_fate_of_each_message_with_its_evidence(tmp_path):
    program, code = run("--json", "--journal", tmp_path / "demo.db")
    assert code == 0, program.stderr
    record = json.loads(program.stdout)
    fates = {fate["id"]: fate for fate in record["follow_ups"]}
    assert {name: fate["state"] for name, fate in fates.items()} == {
        "m1": "delivered",
        "m2": "delivered",
        "m3": "delivered",
        "m4": "requeued",
    }
    assert fates["m1"]["evidence"].startswith("echo of item ")
    assert fates["m2"]["evidence"].startswith("echo of item ")
    assert fates["m3"]["evidence"].startswith("read_back of item ")
    assert fates["m4"]["evidence"].startswith("read_back: absent")
    assert [fate["seen_by_agent"] for fate in fates.values()] == [1, 1, 1, 0]
    goal = record["goal"]
    assert goal["status"] == "completed"
    assert {fates[name]["turn_id"] for name in ("m1", "m2", "m3")} == {goal["id"]}
    assert len({fates[name]["physical_turn_id"] for name in ("m1", "m2", "m3")}) == 3
    assert record["stopped_goal"]["status"] == "interrupted"
    assert record["journal"] == str(tmp_path / "demo.db")


def test_the_journal_is_a_private_sqlite_file_that_the_demo_names():
    program, code = run("--json")
    assert code == 0, program.stderr
    journal = Path(json.loads(program.stdout)["journal"])
    try:
        assert str(journal) in program.stderr
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600
        assert stat.S_IMODE(journal.parent.stat().st_mode) == 0o700
        with sqlite3.connect(journal) as db:
            assert db.execute("SELECT count(*) FROM steps").fetchone()[0] > 20
        db.close()
    finally:
        for file in journal.parent.iterdir():
            file.unlink()
        journal.parent.rmdir()


def test_one_journal_takes_the_demo_twice(tmp_path):
    for _ in range(2):
        program, code = run("--json", "--journal", tmp_path / "demo.db")
        assert code == 0, program.stderr


def test_in_a_pipe_the_story_is_on_stderr_and_the_table_on_stdout_without_control_codes(tmp_path):
    program, code = run("--journal", tmp_path / "demo.db")
    assert code == 0, program.stderr
    assert "\x1b" not in program.stdout + program.stderr
    rows = [line.split() for line in program.out if line.strip().startswith("m")]
    assert [row[0] for row in rows] == ["message", "m1", "m2", "m3", "m4"]
    assert "4 messages: 3 delivered, 1 returned with proof. The agent saw none twice." in program.out
    story = [line for line in program.err if line.startswith("m3 ")]
    assert [line.split()[1] for line in story[1:]] == ["uncertain", "delivered"]
    assert "waits for the next turn" in next(line for line in program.err if line.startswith("m2       accepted"))


def test_in_a_terminal_the_fates_have_their_colours_and_the_cursor_comes_back(tmp_path):
    with Terminal("demo", *FAST, "--journal", tmp_path / "demo.db") as terminal:
        code = terminal.wait()
    assert code == 0, terminal.shown
    assert "\x1b[32mdelivered" in terminal.raw
    assert "\x1b[33mrequeued" in terminal.raw
    assert "\x1b[35muncertain" in terminal.raw
    assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l")
    assert terminal.shown.count("m4 tag it as well") == 1


def test_a_journal_that_cannot_be_used_is_one_line(tmp_path):
    program, code = run("--journal", tmp_path)
    assert code == 1
    assert program.out == []
    assert [line for line in program.err if "is a directory" in line]
    assert "Traceback" not in program.stderr
