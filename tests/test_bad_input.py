"""What is wrong from the start, and what breaks on the way: one clear error each, and nothing else changes."""

from __future__ import annotations

import math
import os
import signal
import sqlite3

import anyio
import pytest
from surfaces import LIMIT, alive, chat_works, connection_of, in_thread, opened, reached, requests, server_pid

from goalfsm import GoalfsmError, IllegalCommand, JournalError, Policy, ProviderRefused, TransportClosed, Unjournalable
from goalfsm._sqlite import SqliteJournal
from goalfsm._sqlite_file import SCHEMA_VERSION
from goalfsm.adapters.codex import Codex
from goalfsm.testing.mock_model import Hold, say, write_codex_home

pytestmark = pytest.mark.anyio
NOBODY = "01a20000-0000-7000-8000-000000000000"


def written(connection):
    """Collect every line that goes out."""
    lines = []
    write = connection._transport.write

    def noting(line):
        lines.append(line)
        write(line)

    connection._transport.write = noting
    return lines


# -- the goal ---------------------------------------------------------------------------------------------------------


@pytest.mark.app_server
async def test_a_bad_objective_is_refused_before_any_request(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        lines = written(connection_of(engine))
        bad = [
            (ValueError, "goal objective must not be empty", ["", "  ", "\n\t", "\u2003"]),
            (TypeError, "goal objective must be a string", [7, b"ship it", ["ship it"]]),
            (ValueError, "goal objective must be at most 4000 characters", ["x" * 4001, " " + "\u00fc" * 4001 + " "]),
        ]
        for kind, words, objectives in bad:
            for objective in objectives:
                for call in (thread.start_goal, thread.run_goal, thread.set_goal):
                    with pytest.raises(kind, match=f"^{words}$"):
                        await call(objective)
        with pytest.raises(TypeError, match="goal objective must be a string"):
            await thread.start_goal(None)
        with pytest.raises(Unjournalable, match=r"^meta\.when: set cannot be journaled$"):
            await thread.start_goal("ship it", meta={"when": {1}})
        assert lines == []
        assert (model.requests, engine.live()) == ((), [])
        # Four thousand characters are none too many, however many bytes they are.
        result = await thread.run_goal(" " + "\u00fc" * 4000 + "\n")
        assert result.status == "completed"
        assert (await thread.goal()).objective == "\u00fc" * 4000


@pytest.mark.app_server
async def test_an_unknown_or_malformed_thread_is_refused_with_the_servers_words(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        with pytest.raises(ProviderRefused, match=f"thread not found: {NOBODY}|no rollout found .*{NOBODY}"):
            await engine.resume_thread(NOBODY)
        for malformed in ("no-such-thread", "", "x" * 300):
            with pytest.raises(ProviderRefused, match="invalid thread id"):
                await engine.resume_thread(malformed)
        for wrong in (None, 7):
            with pytest.raises(ProviderRefused, match="expected a string"):
                await engine.resume_thread(wrong)
        assert [each.id for each in engine.threads()] == [thread.id]
        assert engine.live() == []
        await chat_works(engine, thread, model, 0)


@pytest.mark.app_server
async def test_an_ephemeral_thread_has_no_goal_and_still_chats(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread(ephemeral=True)
        with pytest.raises(ProviderRefused, match=f"thread must be persisted before starting a goal: {thread.id}"):
            await thread.run_goal("ship it")
        for call in (thread.set_goal("ship it"), thread.pause_goal(), thread.clear_goal()):
            with pytest.raises(ProviderRefused, match="ephemeral thread does not support goals"):
                await call
        assert engine.live() == []
        await chat_works(engine, thread, model, 0)


@pytest.mark.app_server
async def test_switched_off_goals_are_told_by_every_goal_call(surface, model, tmp_path):
    home = tmp_path / "home"
    codex = Codex(cwd=tmp_path, codex_home=home, env=write_codex_home(home, model.port, goals=False))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        for call in (
            thread.set_goal("ship it"),
            thread.pause_goal(),
            thread.clear_goal(),
            thread.start_goal("ship it"),
        ):
            with pytest.raises(ProviderRefused, match=r"^goals feature is disabled$"):
                await call
        assert engine.live() == []
        await chat_works(engine, thread, model, 0)


@pytest.mark.app_server
async def test_the_servers_refusals_of_a_goal_change_leave_the_goal_as_it_was(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        with pytest.raises(ProviderRefused, match="no goal exists"):
            await thread.pause_goal()
        before = await thread.set_goal("ship it", status="paused")
        with pytest.raises(ProviderRefused, match="unknown variant `sleeping`"):
            await thread.set_goal(status="sleeping")
        for budget in (0, -1):
            with pytest.raises(ProviderRefused, match="goal budgets must be positive"):
                await thread.set_goal(token_budget=budget)
            with pytest.raises(ProviderRefused, match="goal budgets must be positive"):
                await thread.start_goal("another one", token_budget=budget)
        assert model.requests == ()
        assert engine.live() == []
        assert before.objective == "ship it"
        await chat_works(engine, thread, model, 0)


# -- messages -----------------------------------------------------------------------------------------------------------

ODD_PARTS = [
    ({"attachments": [{"type": "image", "data": {1}}]}, r"attachments\[0\]\.data: set"),
    ({"attachments": [{"type": "a"}, {"data": [b"raw"]}]}, r"attachments\[1\]\.data\[0\]: bytes"),
    ({"attachments": [{"type": "a", "at": math.nan}]}, r"attachments\[0\]\.at: float .*nan is no JSON number"),
    ({"attachments": [{"type": "a", "at": -math.inf}]}, r"attachments\[0\]\.at: float .*inf is no JSON number"),
    ({"attachments": [{"type": "a", "n": 2**64}]}, r"attachments\[0\]\.n: int .*64 bits"),
    ({"attachments": [{"type": "a", 7: "x"}]}, r"attachments\[0\]\[7\]: int .*keys must be text"),
    ({"attachments": [{"type": "a", "t": "\ud800"}]}, r"attachments\[0\]\.t: str .*lone surrogate"),
    ({"attachments": [{"\udfff": "x"}]}, r"attachments\[0\].*lone surrogate"),
    ({"attachments": [{"t": ("a", "b")}]}, r"attachments\[0\]\.t: tuple"),
    ({"text": "half a \ud83d pair"}, r"text: str .*lone surrogate"),
    ({"id": "\udc00"}, r"id: str .*lone surrogate"),
    ({"display": {"rows": {2}}}, r"display\.rows: set"),
    ({"meta": {"a": [{}, {"b": object()}]}}, r"meta\.a\[1\]\.b: object"),
]


@pytest.mark.app_server
async def test_what_the_journal_could_not_give_back_is_refused_with_its_path_and_nothing_is_submitted(
    surface, codex, model, tmp_path
):
    async with opened(surface, codex, journal=tmp_path / "journal") as engine:
        thread = await engine.start_thread()
        lines = written(connection_of(engine))
        for part, words in ODD_PARTS:
            arguments = {"text": "look at this", **part}
            with pytest.raises(Unjournalable, match=f"^{words}") as refused:
                await thread.submit(arguments.pop("text"), **arguments)
            assert isinstance(refused.value, TypeError)
            assert str(refused.value).startswith(refused.value.path)
        with pytest.raises(Unjournalable, match=r"attachments\[0\]\.data: set"):
            await thread.run("look at this", attachments=[{"type": "image", "data": {1}}])
        assert thread.follow_ups(all=True) == []
        assert (lines, model.requests) == ([], ())
        await chat_works(engine, thread, model, 0)


@pytest.mark.app_server
async def test_a_loop_inside_a_value_is_refused_like_any_other_odd_part(surface, codex):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        endless = {"type": "a"}
        endless["again"] = endless
        with pytest.raises(Unjournalable, match=r"attachments\[0\]\.again.*deep"):
            await thread.submit("look at this", attachments=[endless])
        assert thread.follow_ups(all=True) == []


@pytest.mark.app_server
async def test_wrong_arguments_of_a_message_are_named(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        wrong = [
            (TypeError, "text must be a string, not int", {"text": 7}),
            (TypeError, r"attachments\[0\] must be a provider input item \(a dict\), not str", {"attachments": ["x"]}),
            (ValueError, "when must be one of auto, steer, queue, not 'soon'", {"when": "soon"}),
            (ValueError, "expires_in must be a positive number of seconds, not 0", {"expires_in": 0}),
            (ValueError, "expires_in must be a positive number of seconds, not nan", {"expires_in": math.nan}),
            (ValueError, "id must be a non-empty string, not ''", {"id": ""}),
            (ValueError, "id must be a non-empty string, not 7", {"id": 7}),
        ]
        for kind, words, part in wrong:
            arguments = {"text": "look at this", **part}
            with pytest.raises(kind, match=f"^{words}$"):
                await thread.submit(arguments.pop("text"), **arguments)
        assert thread.follow_ups(all=True) == []
        first = await thread.submit("one text", id="m-1", when="queue")
        with pytest.raises(IllegalCommand, match="the id 'm-1' is taken by another text"):
            await thread.submit("another text", id="m-1")
        assert (await first.settled()).state == "delivered"
        assert model.shown("another text") == 0


# -- the program ----------------------------------------------------------------------------------------------------------


def program(path, body, mode=0o755):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def bad_programs(folder):
    (folder / "folder").mkdir()
    lines = "echo warming up >&2\necho cannot read the config >&2"
    return {
        "missing": (folder / "none", r"none does not exist; install codex with: pip install 'goalfsm\[codex\]'"),
        "not_on_the_path": ("no-such-codex-program", "no-such-codex-program does not exist; install codex"),
        "not_executable": (program(folder / "plain", "", 0o644), r"plain is not executable; allow it with: chmod \+x"),
        "a_folder": (folder / "folder", "folder is not a file; it should be the codex program"),
        "no_program": (_raw(folder / "noise", b"\x00\x01"), "codex app-server could not be started: .*noise: "),
        "exits": (program(folder / "exits", f"{lines}\nexit 3"), "ended with return code 3: cannot read the config$"),
        "exits_silently": (program(folder / "silent", "exit 0"), "codex app-server ended with return code 0$"),
        "dies": (program(folder / "dies", "kill -9 $$"), "codex app-server was killed by signal SIGKILL$"),
    }


def _raw(path, content):
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "what",
    ["missing", "not_on_the_path", "not_executable", "a_folder", "no_program", "exits", "exits_silently", "dies"],
)
async def test_a_program_that_is_no_server_is_one_error_and_leaves_nothing(surface, tmp_path, what):
    binary, words = bad_programs(tmp_path)[what]
    journal = tmp_path / "journal"
    for _again in range(2):
        with anyio.fail_after(LIMIT), pytest.raises(TransportClosed, match=words):
            async with surface.open(Codex(binary=binary), journal):
                pytest.fail("it opened")
    # The journal was let go of: whoever opens it next finds it whole and free.
    other = SqliteJournal(journal, busy_timeout=0.1)
    await other.start()
    assert await other.threads() == []
    await other.aclose()


@pytest.mark.app_server
async def test_a_server_killed_in_mid_turn_ends_the_call_and_is_told_everywhere(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        caught = []

        async def chat():
            with pytest.raises(TransportClosed, match="killed by signal SIGKILL") as error:
                await thread.run("keep busy")
            caught.append(error.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat)
            await reached(hold)
            pid = server_pid(engine)
            os.kill(pid, signal.SIGKILL)
        assert len(caught) == 1
        assert not alive(pid)
        assert engine.live() == []
        for call in (engine.start_thread(), thread.start_goal("ship it"), thread.goal(), thread.set_goal("ship it")):
            with pytest.raises(TransportClosed, match=r"resume_thread\(\) starts it anew"):
                await call
        again = await engine.resume_thread(thread.id)
        assert model.shown("keep busy") == 1
        await chat_works(engine, again, model, 1)


def kill_around_the_write(connection, pid, moment):
    """Let the server die just before the next message is written, or after it but before it could be read."""
    send = connection.send

    def cut(thread_id, message):
        if moment == "before_the_write":
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            os.kill(pid, signal.SIGSTOP)
        send(thread_id, message)
        os.kill(pid, signal.SIGKILL)

    connection.send = cut


@pytest.mark.app_server
@pytest.mark.parametrize("moment", ["before_the_write", "after_the_write"])
async def test_a_server_killed_around_a_steer_leaves_the_message_with_a_proven_fate(surface, codex, model, moment):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        kill_around_the_write(connection_of(engine), server_pid(engine), moment)
        message = await thread.submit("by the way", id="m-1")
        outcome = await message.settled()
        if moment == "before_the_write":
            assert outcome.state == "requeued"
            assert outcome.evidence.startswith("zero_bytes: no byte was written: ")
        else:
            assert outcome.state == "uncertain"
            assert outcome.reason == "it may have been taken: the connection ended while it was on its way"
        with pytest.raises(TransportClosed, match="SIGKILL"):
            await goal.result()
        again = await engine.resume_thread(thread.id)
        outcome = await message.settled()
        assert (outcome.state, model.shown("by the way")) == ("requeued", 0)
        assert outcome.evidence.startswith("zero_bytes" if moment == "before_the_write" else "read_back: absent")
        # Nothing went again by itself; the same id with the same text goes on.
        sent = await again.submit("by the way", id="m-1")
        assert (await sent.settled()).state == "delivered"
        assert [request.shows("by the way") for request in await requests(model, 2)] == [0, 1]


@pytest.mark.app_server
@pytest.mark.parametrize("moment", ["before_the_write", "after_the_write"])
async def test_a_server_killed_during_goal_steer_is_told_by_it(surface, codex, model, moment):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        kill_around_the_write(connection_of(engine), server_pid(engine), moment)
        if moment == "before_the_write":
            with pytest.raises(TransportClosed, match="no byte was written"):
                await goal.steer("by the way")
        else:
            receipt = await goal.steer("by the way")
            assert (receipt.state, receipt.turn_id) == ("uncertain", goal.id)
        for _again in range(2):
            with pytest.raises(TransportClosed, match="SIGKILL"):
                await goal.result()
        for call in (goal.steer("and this"), goal.interrupt()):
            with pytest.raises(TransportClosed, match="SIGKILL"):
                await call
        await goal.cancel()
        assert (goal.state, engine.live(), len(thread.follow_ups())) == ("lost", [], 1)


@pytest.mark.app_server
async def test_an_internal_error_on_one_thread_ends_its_calls_and_no_others(surface, codex, model, monkeypatch):
    async with opened(surface, codex) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()

        def broken(*_args):
            raise RuntimeError("a bug")

        monkeypatch.setattr(connection_of(engine), "send", broken)
        with pytest.raises(TransportClosed, match="nothing more will be learned of it here"):
            await thread.run("hello")
        with pytest.raises(GoalfsmError, match=r"stopped after an internal error: RuntimeError\('a bug'\)"):
            await thread.submit("hello")
        assert "a bug" in (await thread.status()).anomalies
        assert [odd.kind for odd in engine.anomalies()] == ["internal_error"]
        monkeypatch.undo()
        await chat_works(engine, other, model, 0)


# -- the journal ------------------------------------------------------------------------------------------------------------


def newer_journal(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE later (x)")
    db.execute(f"PRAGMA application_id = {0x676F616C}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.commit()
    db.close()


def other_database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE customers (x)")
    db.commit()
    db.close()


BAD_JOURNALS = {
    "a_folder": (lambda path: path.mkdir(), "is a directory; name a file in it"),
    "no_database": (lambda path: path.write_bytes(b"just words\n" * 200), "it is not an SQLite database"),
    "somebody_elses": (other_database, "is an SQLite database but no goalfsm journal"),
    "newer": (newer_journal, f"is of version {SCHEMA_VERSION + 1}, this goalfsm reads up to {SCHEMA_VERSION}"),
    "in_no_folder": (lambda _path: None, "there is no directory"),
}


@pytest.mark.parametrize("what", BAD_JOURNALS)
async def test_a_journal_that_cannot_be_used_is_one_error_and_no_server_is_started(surface, tmp_path, what):
    make, words = BAD_JOURNALS[what]
    path = tmp_path / "gone" / "journal" if what == "in_no_folder" else tmp_path / "journal"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    codex = Codex(binary=program(tmp_path / "server", f"touch {tmp_path}/started"))
    with anyio.fail_after(LIMIT), pytest.raises(JournalError, match=words) as error:
        async with surface.open(codex, path):
            pytest.fail("it opened")
    assert str(path) in str(error.value)
    assert not (tmp_path / "started").exists()
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [file.name for file in tmp_path.iterdir() if "-wal" in file.name or "-shm" in file.name] == []


@pytest.mark.app_server
async def test_a_locked_journal_is_one_error_and_can_be_used_once_it_is_free(surface, codex, tmp_path):
    path = tmp_path / "journal"
    async with surface.open(codex, path) as engine:
        thread = await engine.start_thread()
    locker = sqlite3.connect(path, isolation_level=None)
    locker.execute("BEGIN EXCLUSIVE")
    with anyio.fail_after(LIMIT), pytest.raises(JournalError, match="it is locked by another writer"):
        async with surface.open(codex, SqliteJournal(path, busy_timeout=0.05)):
            pytest.fail("it opened")
    locker.execute("ROLLBACK")
    locker.close()
    async with surface.open(codex, SqliteJournal(path, busy_timeout=0.05)) as engine:
        assert await engine.recover() == []
        assert [each.id for each in engine.threads()] == [thread.id]


@pytest.mark.app_server
async def test_a_journal_locked_later_refuses_the_message_and_the_engine_goes_on_once_it_is_free(
    surface, codex, model, tmp_path
):
    path = tmp_path / "journal"
    async with opened(surface, codex, journal=SqliteJournal(path, busy_timeout=0.05)) as engine:
        thread = await engine.start_thread()
        lines = written(connection_of(engine))
        locker = await in_thread(sqlite3.connect, path, isolation_level=None, check_same_thread=False)
        locker.execute("BEGIN IMMEDIATE")
        for call in (thread.submit("by the way", id="m-1"), thread.start_goal("ship it")):
            with pytest.raises(JournalError, match="could not be written: it is locked by another writer"):
                await call
        assert thread.follow_ups(all=True) == []
        assert (lines, model.requests, engine.live()) == ([], (), [])
        locker.execute("ROLLBACK")
        locker.close()
        await chat_works(engine, thread, model, 0)
        assert (await (await thread.submit("by the way", id="m-1")).settled()).state == "delivered"


async def test_something_that_is_no_journal_is_refused_at_once(surface, tmp_path):
    with pytest.raises(TypeError, match="journal must be None, a path or a Journal; int has no start"):
        async with surface.open(Codex(binary=tmp_path / "none"), 7):
            pytest.fail("it opened")


def test_a_policy_with_an_unknown_word_is_refused():
    for wrong in ({"on_exit": "stay"}, {"on_restart": "x"}, {"on_goal_complete": ""}, {"approvals": "maybe"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Policy(**wrong)
    with pytest.raises(TypeError, match="timeouts"):
        Policy(timeouts=3)
