"""`goalfsm journal` in daily use: following, compacting, the gate before a deploy, verifying, and files that are no good."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import owner_host
import pytest
from click.testing import CliRunner

import goalfsm
from goalfsm._fold import decode_record, encode_record, spec_version
from goalfsm._history import read_journal
from goalfsm._sqlite_schema import checksum
from goalfsm._verify import first_difference
from goalfsm.adapters.simulated import Script, Simulated, gate, say, turn
from goalfsm.cli import main
from goalfsm.cli._journal_show import _LOOK_EVERY

HOST = owner_host.__file__
ROOT = Path(HOST).parents[1]
HOSTILE = "m\x1b[31m\n9"


def goalfsm_(*words):
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def path(tmp_path):
    return tmp_path / "goals.db"


def after(provider):
    """The provider's next process, on the same disk."""
    later = Simulated()
    later.server.disk = provider.server.disk
    return later


def delivered(engine, *ids):
    thread = engine.start_thread()
    for message_id in ids:
        assert thread.submit(f"text of {message_id}", id=message_id).settled().state == "delivered"
    thread.run("and its turn ends")
    return thread.id


@pytest.fixture
def finished(path):
    """A journal whose engine has left; two messages are delivered."""
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        return delivered(engine, "m1", HOSTILE)


def change(path, thread, work, *, which=-1):
    """Change one record of a journal as another version would have written it."""
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT id, seq, epoch, record FROM steps WHERE thread_id = ? ORDER BY seq", (thread,)
        ).fetchall()
        number, seq, epoch, data = rows[which]
        record = decode_record(data)
        work(record)
        data = encode_record(record)
        db.execute(
            "UPDATE steps SET record = ?, crc = ? WHERE id = ?", (data, checksum(thread, seq, epoch, data), number)
        )
    db.close()
    return seq


# -- compaction --------------------------------------------------------------------------------------------------------


def test_compaction_drops_the_steps_of_a_finished_thread_and_keeps_its_fates(path, finished):
    before = read_journal(path)[finished]
    fates = [(m.id, m.row.state, m.evidence, m.reason) for m in before.messages]
    assert ("m1", "delivered") in [fate[:2] for fate in fates]
    result = goalfsm_("journal", path, "--compact")
    assert result.exit_code == 0
    assert result.stdout == f"{finished}\tcompacted\t{len(before.steps)} steps dropped, {len(fates)} fates kept\n"
    assert result.stderr.startswith(f"1 of 1 thread compacted: {len(before.steps)} steps dropped, ")
    after = read_journal(path)[finished]
    assert (after.steps, after.before) == ([], len(before.steps))
    assert [(m.id, m.row.state, m.evidence, m.reason) for m in after.messages] == fates

    shown = goalfsm_("journal", path).stdout
    assert f"{finished}\t1-{len(before.steps)}\t\tcompacted (as of step {len(before.steps)})\t" in shown
    assert "m1: delivered" in shown
    assert "echo of item" in shown
    assert "m1#58; delivered" in goalfsm_("journal", path, "--format", "mermaid").stdout
    [thread] = json.loads(goalfsm_("journal", path, "--json").stdout)["threads"]
    assert thread["compacted"] == len(before.steps)
    assert [m["state"] for m in thread["messages"]] == ["delivered"] * len(fates)


def test_a_host_goes_on_with_a_compacted_thread_and_knows_its_ids(path):
    provider = Simulated()
    with goalfsm.open_sync(provider, journal=path) as engine:
        thread = delivered(engine, "m1")
    assert goalfsm_("journal", path, "--compact").exit_code == 0
    provider = after(provider)
    with goalfsm.open_sync(provider, journal=path) as engine:
        again = engine.resume_thread(thread)
        assert again.submit("text of m1", id="m1").state == "delivered"
        assert again.submit("new", id="m2").settled().state == "delivered"
    steps = read_journal(path)[thread].steps
    assert steps
    assert provider.server.writes("m1") == 1
    # A second compaction takes what came since.
    assert f"{len(steps)} steps dropped" in goalfsm_("journal", path, "--compact").stdout
    assert "there are no steps to drop" in goalfsm_("journal", path, "--compact").stdout


def test_a_thread_that_an_engine_holds_is_left_alone(path):
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        thread = delivered(engine, "m1")
        before = len(read_journal(path)[thread].steps)
        result = goalfsm_("journal", path, "--compact")
        assert (result.exit_code, result.stdout) == (0, f"{thread}\tleft\tits owner lives\n")
        assert len(read_journal(path)[thread].steps) == before


def test_a_thread_whose_process_was_killed_in_mid_flight_is_left_for_its_restart(path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(
        [sys.executable, HOST, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as host:
        try:
            thread = json.loads(host.stdout.readline())["thread"]
        finally:
            host.send_signal(signal.SIGKILL)
    result = goalfsm_("journal", path, "--compact")
    assert (result.exit_code, result.stdout) == (0, f"{thread}\tleft\tits operation is running\n")
    done = json.loads(goalfsm_("journal", path, "--compact", "--json").stdout)
    assert [(t["thread_id"], t["dropped"]) for t in done["threads"]] == [(thread, 0)]


def test_one_thread_can_be_compacted_alone(path):
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        first, second = delivered(engine, "a"), delivered(engine, "b")
    assert goalfsm_("journal", path, "--compact", "--thread", first).stdout.startswith(f"{first}\tcompacted")
    histories = read_journal(path)
    assert (len(histories[first].steps), len(histories[second].steps) > 0) == (0, True)


# -- before and after a deploy -----------------------------------------------------------------------------------------


def test_a_journal_of_this_build_is_not_stale(path, finished):
    result = goalfsm_("journal", path, "--stale", "--fail-if-stale")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"0 threads of 1 judged by other specs than {spec_version()}")


@pytest.mark.parametrize("compacted", [False, True])
def test_a_thread_that_other_specs_judged_is_listed_and_may_stop_a_deploy(path, finished, compacted, monkeypatch):
    change(path, finished, lambda record: setattr(record, "spec", "of-old"))
    spec = "of-old"
    if compacted:
        spec = spec_version()
        assert goalfsm_("journal", path, "--compact").exit_code == 0
        for module in ("_fold", "_snapshot", "cli._journal_care"):
            monkeypatch.setattr(f"goalfsm.{module}.spec_version", lambda: "of-later")
    result = goalfsm_("journal", path, "--stale")
    assert (result.exit_code, result.stdout) == (0, f"{finished}\t{spec}\t0\n")
    assert goalfsm_("journal", path, "--stale", "--fail-if-stale").exit_code == 1
    told = json.loads(goalfsm_("journal", path, "--stale", "--json").stdout)
    assert told["stale"] == [{"id": finished, "spec": spec, "open": 0}]


def test_the_rules_agree_with_a_journal_of_this_build(path, finished):
    result = goalfsm_("journal", path, "--verify")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith("the rules agree with the journal\n")


def test_a_goal_with_steers_a_stop_and_a_restart_verifies(path):
    provider = Simulated(Script(turns=(turn(say("one"), gate("never")), turn(gate("never")))))
    policy = goalfsm.Policy(on_goal_complete="hold")
    with goalfsm.open_sync(provider, journal=path, policy=policy) as engine:
        thread = engine.start_thread()
        thread.start_goal("go on")
        thread.submit("steered", id="m1")
        queued = thread.submit("later", id="m2", when="queue", expires_in=600)
        queued.edit("later, and better")
        thread.stop()
        name = thread.id
    provider = after(provider)
    with goalfsm.open_sync(provider, journal=path) as engine:
        again = engine.resume_thread(name)
        again.follow_ups()[0].withdraw()
    result = goalfsm_("journal", path, "--verify", "--json")
    assert [thread["difference"] for thread in json.loads(result.stdout)["threads"]] == [None]
    assert result.exit_code == 0


def test_the_first_step_that_the_rules_judge_otherwise_is_named(path, finished):
    def falsify(record):
        record.moves = [(*move[:3], "requeued", move[4]) if move[0] == "follow_up" else move for move in record.moves]

    found = [step.seq for step in read_journal(path)[finished].steps if step.record.event["name"] == "echo"]
    assert change(path, finished, falsify, which=found[0] - 1) == found[0]
    result = goalfsm_("journal", path, "--verify")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{finished}\t{found[0]}\techo\tmoves\t")
    assert "the rules differ from the journal in 1 thread" in result.stderr


def test_a_difference_under_other_specs_says_that_it_may_be_meant(path, finished):
    def of_old(record):
        record.spec, record.event = "of-old", {"name": "an_event_of_old"}

    change(path, finished, of_old)
    result = goalfsm_("journal", path, "--verify")
    assert result.exit_code == 1
    assert "this build cannot read it" in result.stdout
    assert "1 of them at a step that other specs judged, where that may be meant" in result.stderr


def test_a_compacted_thread_verifies_from_its_snapshot_on(path):
    provider = Simulated()
    with goalfsm.open_sync(provider, journal=path) as engine:
        thread = delivered(engine, "m1")
    goalfsm_("journal", path, "--compact")
    with goalfsm.open_sync(after(provider), journal=path) as engine:
        engine.resume_thread(thread).submit("new", id="m2").settled()
    told = json.loads(goalfsm_("journal", path, "--verify", "--json").stdout)["threads"][0]
    assert told["first"] > 1
    assert told["steps"] > 0
    assert told["difference"] is None
    assert first_difference(None, []) is None


# -- following ---------------------------------------------------------------------------------------------------------


def test_following_shows_what_was_there_and_then_each_step_as_it_is_written(path):
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        thread = engine.start_thread()
        message = thread.submit("the first", id="m1")
        message.settled()
        with subprocess.Popen(
            [sys.executable, "-m", "goalfsm", "journal", str(path), "--follow", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True,
        ) as reader:  # fmt: skip
            lines = iter(reader.stdout.readline, "")
            events = (msgspec.json.decode(line) for line in lines)
            assert next(e for e in events if e["event"].get("id") == "m1")["event"]["name"] == "submit"
            thread.submit("the second", id="m2")
            second = next(e for e in events if e["event"].get("id") == "m2")
            assert (second["thread"], second["event"]["name"]) == (thread.id, "submit")
            assert "messages" not in second
            reader.send_signal(signal.SIGINT)
            assert (reader.wait(20), reader.stderr.read()) == (0, "")
    assert _LOOK_EVERY < 1


def test_at_a_terminal_the_fates_have_colours_and_nothing_in_the_file_can_steer_it(path, finished):
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "goalfsm", "journal", str(path)],
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=env,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:
            pass
        os.close(ours)
        assert process.wait(20) == 0
    text = shown.decode()
    assert "\x1b[32mm1: acknowledged → delivered\x1b[0m" in text
    assert "\x1b[31m\n" not in text
    assert "m\\x1b[31m\\n9" in text
    assert "\\x1b[31m" in goalfsm_("journal", path).stdout


# -- what does not fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [[], ["--stale"], ["--verify"], ["--compact"], ["--follow"], ["--json"]])
def test_a_damaged_newer_or_foreign_file_is_one_line_and_exit_2(path, finished, mode, tmp_path):
    with sqlite3.connect(path) as db:
        db.execute("UPDATE steps SET record = x'7b7d' WHERE seq = 3")
    db.close()
    newer, foreign = tmp_path / "newer.db", tmp_path / "foreign.db"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA application_id = 1735352684")
        db.execute("PRAGMA user_version = 99")
    db.close()
    foreign.write_bytes(b"no database" * 99)
    for file, words in (
        (newer, "of version 99"),
        (foreign, "not an SQLite database"),
        (tmp_path, "is a directory"),
        (tmp_path / "none.db", "there is no journal"),
    ):
        result = goalfsm_("journal", file, *mode)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
        assert words in result.stderr
    result = goalfsm_("journal", path, *mode)
    if mode == ["--compact"]:  # the other threads of a damaged file can still be compacted
        assert "record 3 is damaged" in result.stdout
    else:
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "record 3 is damaged" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--follow", "--compact"], ["--stale", "--verify"], ["--fail-if-stale"], ["--follow", "--format", "mermaid"],
        ["--json", "--format", "mermaid"],
    ],
)  # fmt: skip
def test_options_that_do_not_fit_together_are_a_usage_error(path, words):
    assert goalfsm_("journal", path, *words).exit_code == 2


@pytest.mark.parametrize("mode", [[], ["--stale"], ["--verify"], ["--compact"], ["--follow"]])
def test_a_thread_that_is_not_there_is_named_with_the_nearest_one(path, finished, mode):
    result = goalfsm_("journal", path, "--thread", finished[:-1], *mode)
    assert result.exit_code == 1
    assert f"did you mean '{finished}'" in result.stderr


def test_help_has_an_example_of_every_mode():
    shown = goalfsm_("journal", "--help").stdout
    assert all(f"goals.db --{mode}" in shown for mode in ("follow", "compact", "stale", "verify"))
