"""The real codex app-server over its pipes, with a model on loopback; and what is no codex app-server at all."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from goalfsm import events as ev
from goalfsm._adapter import Look, Outgoing
from goalfsm._errors import ProviderRefused, TransportClosed
from goalfsm._values import GoalStatus, Policy, Timeouts
from goalfsm.adapters._process import ProcessTransport
from goalfsm.adapters.codex import Codex, find_binary
from goalfsm.testing.mock_model import (
    Hold,
    MockModel,
    block_goal,
    complete_goal,
    cut,
    fail,
    http_error,
    say,
    shell,
    write_codex_home,
)

pytestmark = pytest.mark.anyio
LIMIT = 30.0


@pytest.fixture
def anyio_backend():
    return "asyncio"


class RecordingSink:
    def __init__(self):
        self.heard, self.odds, self.lost_reasons, self.asked, self.goals = [], [], [], [], []
        self.answer = {"decision": "decline"}
        self._more = anyio.Event()

    def _tell(self):
        more, self._more = self._more, anyio.Event()
        more.set()

    def facts(self, thread_id, *events):
        self.heard += events
        self._tell()

    def notify(self, thread_id, notification):
        self.heard.append(notification)
        self._tell()

    def goal(self, thread_id, view):
        self.goals.append(view)

    def odd(self, thread_id, kind, detail):
        self.odds.append((kind, detail))
        self._tell()

    def lost(self, reason):
        self.lost_reasons.append(reason)
        self._tell()

    async def approve(self, request):
        self.asked.append(request.method)
        return self.answer

    def all(self, kind, **fields):
        return [
            each
            for each in self.heard
            if isinstance(each, kind) and all(getattr(each, key) == value for key, value in fields.items())
        ]

    async def until(self, condition):
        with anyio.fail_after(LIMIT):
            while not condition():
                await self._more.wait()

    async def get(self, kind, count=1, **fields):
        await self.until(lambda: len(self.all(kind, **fields)) >= count)
        return self.all(kind, **fields)[count - 1]


async def reached(hold):
    assert await anyio.to_thread.run_sync(hold.reached.wait, LIMIT)


@pytest.fixture
def model():
    with MockModel() as model:
        yield model


@pytest.fixture
def codex(model, tmp_path):
    home = tmp_path / "home"
    return Codex(cwd=tmp_path, codex_home=home, env=write_codex_home(home, model.port))


@pytest.fixture
async def live(codex):
    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    try:
        yield connection, sink, (await connection.start_thread({})).id
    finally:
        await connection.aclose(4)


async def send(connection, thread, client, text, turn=""):
    async with connection.writing():
        connection.send(thread, Outgoing(client, 1, "steer" if turn else "start", turn, text))


def server_pid(connection):
    return connection._transport.pid


# -- the real server --------------------------------------------------------------------------------------------------


@pytest.mark.app_server
async def test_a_goal_of_two_turns_is_told_in_order(live, model):
    connection, sink, thread = live
    model.script(say("first"), complete_goal())
    connection.call(thread, "clear_goal", 1)
    await sink.get(ev.ClearOk, call=1)
    connection.call(thread, "set_goal", 2, objective="do it", token_budget=9_000)
    await sink.get(ev.TurnCompleted, 2)
    told = [type(each).__name__ for each in sink.heard if isinstance(each, ev.TypedEvent)]
    # How often the growing token count is told varies from run to run.
    first = told.index("GoalActive") + 1
    assert [*told[:first], *(each for each in told[first:] if each != "GoalActive")] == [
        *("GoalCleared", "ClearOk", *(["GoalCleared"] * (told.count("GoalCleared") - 1)), "GoalActive", "SetOk"),
        *("TurnStarted", "TurnCompleted", "TurnStarted", "GoalCompleted", "TurnCompleted"),
    ]
    assert sink.goals[-1].status is GoalStatus.COMPLETE
    assert sink.goals[-1].token_budget == 9_000
    assert sink.odds == []
    assert connection.capabilities.goals
    assert connection.capabilities.server.startswith("goalfsm/")


@pytest.mark.app_server
async def test_a_steer_is_acknowledged_echoed_and_found(live, model):
    connection, sink, thread = live
    hold = Hold()
    model.script(say("thinking about it", hold=hold), say("ok then"))
    await send(connection, thread, "m-0", "begin")
    turn = (await sink.get(ev.SendOk, id="m-0")).turn_id
    await reached(hold)
    await send(connection, thread, "m-1", "and this", turn)
    echo = await sink.get(ev.Echo, id="m-1")
    assert echo.turn_id == turn
    await sink.get(ev.TurnCompleted, turn_id=turn)
    connection.look(thread, [Look("m-1", 1, turn, 0), Look("m-9", 3, turn, 7)], 5)
    assert await sink.get(ev.Found, id="m-1") == ev.Found(id="m-1", item=echo.item, turn_id=turn)
    assert await sink.get(ev.Absent) == ev.Absent(id="m-9", attempt=3, gen=7)
    assert (model.shown("and this"), sink.odds) == (1, [])


@pytest.mark.app_server
async def test_a_message_with_line_ends_and_a_megabyte_arrives_verbatim(live, model):
    connection, sink, thread = live
    text = "line\nends\r\n\u2028 and \U0001f9ea " + "x" * 1_000_000
    await send(connection, thread, "m-0", text)
    await sink.get(ev.Echo, id="m-0")
    await sink.get(ev.TurnCompleted)
    assert model.shown(text) == 1


@pytest.mark.app_server
async def test_a_steer_to_a_turn_that_is_over_is_moved_and_says_where_to(live, model):
    connection, sink, thread = live
    await send(connection, thread, "m-0", "begin")
    over = (await sink.get(ev.TurnCompleted)).turn_id
    await send(connection, thread, "m-1", "late", over)
    assert (await sink.get(ev.SendMoved, id="m-1")).found == ""
    hold = Hold()
    model.script(say("again", hold=hold))
    await send(connection, thread, "m-2", "more")
    running = (await sink.get(ev.SendOk, id="m-2")).turn_id
    await reached(hold)
    await send(connection, thread, "m-3", "later", over)
    assert (await sink.get(ev.SendMoved, id="m-3")).found == running
    connection.call(thread, "interrupt_turn", 5, turn_id=over)
    assert (await sink.get(ev.InterruptOther)).found == running
    hold.release()
    await sink.get(ev.TurnCompleted, turn_id=running)
    assert model.shown("late") == model.shown("later") == 0


@pytest.mark.app_server
async def test_pause_then_interrupt_stops_a_goal(live, model):
    connection, sink, thread = live
    hold = Hold()
    model.script(say("working on it", hold=hold))
    connection.call(thread, "set_goal", 1, objective="do it")
    turn = (await sink.get(ev.TurnStarted)).turn_id
    await reached(hold)
    connection.call(thread, "pause_goal", 2)
    await sink.get(ev.PauseOk, call=2)
    assert sink.all(ev.GoalPaused)
    connection.call(thread, "interrupt_turn", 3, turn_id=turn)
    await sink.get(ev.InterruptOk, call=3)
    await sink.get(ev.TurnInterrupted, turn_id=turn)
    connection.call(thread, "interrupt_turn", 4)
    await sink.get(ev.InterruptOk, call=4)
    assert (await connection.get_goal(thread)).status is GoalStatus.PAUSED
    assert len(model.requests) == 1


@pytest.mark.app_server
@pytest.mark.parametrize(("end", "status"), [(complete_goal, GoalStatus.COMPLETE), (block_goal, GoalStatus.BLOCKED)])
async def test_a_pause_leaves_a_goal_that_is_over_as_it_ended(live, model, end, status):
    connection, sink, thread = live
    model.script(end())
    connection.call(thread, "set_goal", 1, objective="do it")
    await sink.get(ev.TurnCompleted)
    connection.call(thread, "pause_goal", 2)
    refused = await sink.get(ev.CallRefused, call=2)
    assert refused.message == f"no active goal to pause: {status}"
    assert (await connection.get_goal(thread)).status is status


@pytest.mark.app_server
@pytest.mark.parametrize(
    ("reply", "fact"),
    [
        (fail("server_error"), ev.GoalBlocked),
        (fail("insufficient_quota"), ev.GoalUsageLimited),
        (http_error(500), ev.GoalBlocked),
        (http_error(429, code="usage_limit_reached"), ev.GoalUsageLimited),
        (cut(), ev.GoalBlocked),
    ],
    ids=["server_error", "insufficient_quota", "http 500", "http 429", "cut stream"],
)
async def test_a_model_that_fails_ends_the_turn_and_the_goal_with_its_words(live, model, reply, fact):
    connection, sink, thread = live
    model.script(reply)
    connection.call(thread, "set_goal", 1, objective="do it")
    failed = await sink.get(ev.TurnFailed)
    assert failed.message
    assert sink.heard.index(sink.all(fact)[0]) < sink.heard.index(failed)
    assert [each.error for each in sink.heard if getattr(each, "kind", "") == "turn_completed"] == [failed.message]


@pytest.mark.app_server
async def test_pausing_where_there_is_no_goal_is_refused(live):
    connection, sink, thread = live
    connection.call(thread, "pause_goal", 1)
    assert (await sink.get(ev.CallRefused, call=1)).message == "no goal exists"


@pytest.mark.app_server
async def test_the_awaited_calls_give_the_providers_words(live):
    connection, _, thread = live
    assert await connection.get_goal(thread) is None
    assert await connection.clear_goal(thread) is False
    with pytest.raises(ProviderRefused, match="no goal exists"):
        await connection.set_goal(thread, status="paused")
    with pytest.raises(ProviderRefused, match="goal objective must not be empty"):
        await connection.set_goal(thread, objective="  ")
    assert (await connection.set_goal(thread, objective="x", status="paused", token_budget=5)).token_budget == 5
    assert await connection.clear_goal(thread) is True
    ephemeral = await connection.start_thread({"ephemeral": True})
    assert ephemeral.ephemeral
    with pytest.raises(ProviderRefused, match="ephemeral thread does not support goals"):
        await connection.get_goal(ephemeral.id)


@pytest.mark.app_server
async def test_the_look_waits_for_the_end_of_the_turn_and_gives_up_in_time(live, model):
    connection, sink, thread = live
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    await send(connection, thread, "m-0", "begin")
    turn = (await sink.get(ev.SendOk, id="m-0")).turn_id
    await reached(hold)
    connection.look(thread, [Look("m-8", 1, turn, 0)], 0.1)
    assert "not over" in (await sink.get(ev.ReadFailed, id="m-8")).message
    connection.look(thread, [Look("m-9", 1, turn, 0), Look("m-7", 1, "", 0)], 20)
    assert (await sink.get(ev.ReadFailed, id="m-7")).attempt == 1
    assert not sink.all(ev.Absent)
    hold.release()
    await sink.get(ev.Absent, id="m-9")
    assert sink.heard.index(sink.all(ev.Absent)[0]) > sink.heard.index(sink.all(ev.TurnCompleted)[0])


@pytest.mark.app_server
async def test_after_a_kill_a_new_process_finds_what_was_delivered_and_proves_what_was_not(codex, model):
    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    thread = (await connection.start_thread({})).id
    hold = Hold()
    model.script(say("working on it", hold=hold), say("more", hold=Hold()))
    connection.call(thread, "set_goal", 1, objective="do it")
    turn = (await sink.get(ev.TurnStarted)).turn_id
    await reached(hold)
    before = connection.position(thread)
    assert before
    await send(connection, thread, "m-1", "seen", turn)
    await sink.get(ev.Echo, 2, id="m-1")
    await anyio.to_thread.run_sync(model.wait_for_requests, 2)
    os.kill(server_pid(connection), signal.SIGKILL)
    await sink.until(lambda: sink.lost_reasons)
    assert "SIGKILL" in sink.lost_reasons[0]
    with pytest.raises(TransportClosed, match="SIGKILL"):
        await connection.get_goal(thread)
    connection.call(thread, "pause_goal", 9)
    await sink.get(ev.CallLost, call=9)
    async with connection.writing():
        with pytest.raises(TransportClosed):
            connection.send(thread, Outgoing("m-3", 1, "steer", turn, "never"))
    await connection.aclose(4)
    assert len(sink.lost_reasons) == 1

    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    try:
        assert (await connection.set_goal(thread, status="paused")).status is GoalStatus.PAUSED
        info = await connection.resume_thread(thread)
        assert (info.id, info.running_turn) == (thread, "")
        assert connection.position(thread) is not None
        looks = [
            Look("m-1", 1, turn, 1, "seen", before, after_resume=True),
            Look("m-2", 2, turn, 1, "unseen", before, after_resume=True),
            Look("m-3", 3, "", 1, "never", before, after_resume=True),
        ]
        connection.look(thread, looks, 5)
        await sink.get(ev.Absent, 2)
        assert sink.all(ev.Found, id="m-1")
        assert sink.all(ev.Absent) == [ev.Absent(id="m-2", attempt=2, gen=1), ev.Absent(id="m-3", attempt=3, gen=1)]
        assert model.shown("seen") == 1
    finally:
        await connection.aclose(4)


def cut_record(path, mark):
    record = Path(path)
    lines = record.read_bytes().splitlines(keepends=True)
    cut = next(index for index, line in enumerate(lines) if mark in line)
    record.write_bytes(b"".join(lines[:cut]))
    for part in record.parents[4].glob("thread_history*"):
        part.unlink()


@pytest.mark.app_server
async def test_an_id_less_line_in_the_providers_record_shows_the_message(codex, model):
    # The 1 ms between the line that the model will see and the item with our id, made by cutting the latter off.
    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    info = await connection.start_thread({})
    hold = Hold()
    model.script(say("working on it", hold=hold), say("more", hold=Hold()))
    await send(connection, info.id, "m-0", "begin")
    turn = (await sink.get(ev.SendOk, id="m-0")).turn_id
    await reached(hold)
    before = connection.position(info.id)
    await send(connection, info.id, "m-1", "the hole", turn)
    await sink.get(ev.Echo, 2, id="m-1")
    os.kill(server_pid(connection), signal.SIGKILL)
    await sink.until(lambda: sink.lost_reasons)
    await connection.aclose(4)
    cut_record(info.path, b'"m-1"')

    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    try:
        await connection.resume_thread(info.id)
        looks = [
            Look("m-1", 1, turn, 1, "the hole", before, after_resume=True),
            Look("m-2", 1, turn, 1, "another", before, after_resume=True),
        ]
        connection.look(info.id, looks, 5)
        assert await sink.get(ev.Absent) == ev.Absent(id="m-2", attempt=1, gen=1)
        assert sink.all(ev.Found) == [ev.Found(id="m-1", turn_id=turn, where="rollout")]
    finally:
        await connection.aclose(4)


@pytest.mark.app_server
async def test_a_thread_that_another_process_still_writes_is_refused(live, codex):
    connection, _, thread = live
    await connection.set_goal(thread, objective="x", status="paused")
    other = await codex.connect(RecordingSink(), Policy())
    try:
        with pytest.raises(ProviderRefused, match="active writer"):
            await other.resume_thread(thread)
    finally:
        await other.aclose(4)


@pytest.mark.app_server
async def test_a_server_without_goals_says_so(model, tmp_path):
    home = tmp_path / "home"
    env = write_codex_home(home, model.port, goals=False)
    connection = await Codex(codex_home=home, env=env).connect(RecordingSink(), Policy())
    try:
        assert not connection.capabilities.goals
        with pytest.raises(ProviderRefused, match="goals feature is disabled"):
            await connection.get_goal((await connection.start_thread({})).id)
    finally:
        await connection.aclose(4)


@pytest.mark.app_server
async def test_a_request_for_approval_is_declined_and_the_turn_goes_on(model, tmp_path):
    home = tmp_path / "home"
    env = write_codex_home(home, model.port)
    codex = Codex(cwd=tmp_path, codex_home=home, env=env, config={"approval_policy": "on-request"})
    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    try:
        thread = (await connection.start_thread({})).id
        model.script(shell(f"touch {tmp_path / 'never'}", escalated=True))
        await send(connection, thread, "m-0", "begin")
        await sink.get(ev.TurnCompleted)
        assert sink.asked == ["item/commandExecution/requestApproval"]
        assert not (tmp_path / "never").exists()
    finally:
        await connection.aclose(4)


@pytest.mark.app_server
async def test_closing_in_mid_turn_leaves_no_process_no_descriptor_and_tells_once(codex, model):
    before = open_pipes()
    sink = RecordingSink()
    connection = await codex.connect(sink, Policy())
    thread = (await connection.start_thread({})).id
    hold = Hold()
    model.script(say("working on it", hold=hold))
    await send(connection, thread, "m-0", "begin")
    await reached(hold)
    pid = server_pid(connection)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(connection.aclose, 4)
    await connection.aclose(4)
    assert len(sink.lost_reasons) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    hold.release()
    assert open_pipes() <= before


def open_pipes():
    folder = "/proc/self/fd"
    found = set()
    for fd in os.listdir(folder) if os.path.isdir(folder) else ():  # noqa: PTH112, PTH208  names are what is wanted
        with contextlib.suppress(OSError):
            word = os.readlink(f"{folder}/{fd}")  # noqa: PTH115  as above
            if word.startswith("pipe:"):
                found.add(word)
    return found


# -- no codex at all --------------------------------------------------------------------------------------------------


def script(tmp_path, body):
    path = tmp_path / "server"
    path.write_text(f"#!{sys.executable}\nimport json, sys, time\n{body}")
    path.chmod(0o755)
    return path


ANSWERING = """
def say(msg):
    print(msg if isinstance(msg, str) else json.dumps(msg), flush=True)
"""
HELLO = (
    ANSWERING
    + """
def hello():
    for _ in range(5):
        msg = json.loads(sys.stdin.readline())
        if "id" in msg:
            say({"id": msg["id"], "result": {"userAgent": "fake"}})
hello()
"""
)


async def refused(binary, **timeouts):
    sink = RecordingSink()
    with pytest.raises(TransportClosed) as caught:
        await Codex(binary=binary).connect(sink, Policy(timeouts=Timeouts(exit=1.0, **timeouts)))
    assert sink.lost_reasons == []
    return str(caught.value)


async def test_a_missing_binary_says_how_to_get_one(tmp_path):
    words = await refused(tmp_path / "nothing")
    assert "does not exist" in words
    assert "pip install 'goalfsm[codex]'" in words


async def test_no_binary_anywhere_says_how_to_get_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TransportClosed, match=r"pip install 'goalfsm\[codex\]'"):
        find_binary()


async def test_a_binary_that_may_not_be_run_says_so(tmp_path):
    path = tmp_path / "plain"
    path.write_text("text")
    assert "not executable" in await refused(path)
    assert "not a file" in await refused(tmp_path)


async def test_a_binary_of_another_kind_of_machine_says_so(tmp_path):
    path = tmp_path / "alien"
    path.write_bytes(b"\x7fXYZ")
    path.chmod(0o755)
    assert "could not be started" in await refused(path)


async def test_a_server_that_ends_before_initialize_gives_its_code_and_last_words(tmp_path):
    body = "print('first', file=sys.stderr)\nsys.exit('\\033[31mno config here\\033[0m')"
    assert await refused(script(tmp_path, body)) == "codex app-server ended with return code 1: no config here"


async def test_a_server_that_never_answers_is_given_up_and_killed(tmp_path):
    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n"
    body += "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    assert "did not answer initialize" in await refused(script(tmp_path, body), start=1.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_server_that_refuses_initialize_is_not_used(tmp_path):
    body = (
        ANSWERING
        + "json.loads(sys.stdin.readline())\nsay({'id': 1, 'error': {'code': -32600, 'message': 'too old'}})\ntime.sleep(60)"
    )
    assert "too old" in await refused(script(tmp_path, body))


async def connected(tmp_path, body, monkeypatch=None):
    sink = RecordingSink()
    return await Codex(binary=script(tmp_path, HELLO + body)).connect(sink, Policy(timeouts=Timeouts(exit=1.0))), sink


async def test_garbage_lines_are_counted_and_the_connection_lives_on(tmp_path):
    body = """
print("not json", flush=True)
print("", flush=True)
sys.stdout.buffer.write(b"\\xff\\xfe\\n"); sys.stdout.buffer.flush()
say([1, 2])
say("[" * 100000)
say({"id": 99, "result": {}})
say({"id": 5, "method": "please/dance", "params": {"threadId": "t"}})
say({"id": 6, "method": "currentTime/read", "params": {"threadId": "t"}})
first, second = json.loads(sys.stdin.readline()), json.loads(sys.stdin.readline())
say({"method": "error", "params": {"threadId": "t", "answers": [first, second]}})
say({"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u" * 300000}}})
say('{"method": "turn/completed", "params": {"threadId": "t", "turn": {"id": "torn')
sys.exit(3)
"""
    connection, sink = await connected(tmp_path, body)
    await sink.until(lambda: sink.lost_reasons)
    await connection.aclose(1)
    assert sink.lost_reasons == ["codex app-server ended with return code 3"]
    assert [kind for kind, _ in sink.odds] == [*["malformed"] * 4, "unanswerable", "unknown_method", "malformed"]
    assert sink.all(ev.TurnStarted) == [ev.TurnStarted(turn_id="u" * 300_000)]
    [answers] = [each.params["answers"] for each in sink.heard if getattr(each, "method", "") == "error"]
    assert sorted((each["id"], each["error"]["code"]) for each in answers) == [(5, -32601), (6, -32601)]


async def test_a_server_that_stops_reading_delays_the_next_write_section_not_the_write(tmp_path):
    body = """
marker = sys.argv[0] + ".go"
import os
while not os.path.exists(marker): time.sleep(0.01)
for _ in range(2):
    msg = json.loads(sys.stdin.readline())
    say({"id": msg["id"], "result": {"turnId": "u"}})
sys.stdin.readline()
"""
    connection, sink = await connected(tmp_path, body)
    await send(connection, "t", "m-1", "x" * 3_000_000, "u")
    with anyio.move_on_after(0.05) as waited:
        await send(connection, "t", "m-2", "y", "u")
    assert waited.cancelled_caught
    (tmp_path / "server.go").touch()
    await send(connection, "t", "m-3", "z", "u")
    await sink.get(ev.SendOk, id="m-1")
    await sink.get(ev.SendOk, id="m-3")
    assert not [each for each in sink.heard if getattr(each, "id", "") == "m-2"]
    await connection.aclose(2)


async def test_sending_outside_the_write_section_is_a_mistake(tmp_path):
    connection, _ = await connected(tmp_path, "sys.stdin.readline()")
    with pytest.raises(RuntimeError, match="writing"):
        connection.send("t", Outgoing("m-1", 1, "start", "", "x"))
    await connection.aclose(2)


async def test_children_of_a_killed_server_do_not_stay(tmp_path):
    body = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
say({"method": "error", "params": {"child": child.pid}})
sys.stdin.readline()
"""
    connection, sink = await connected(tmp_path, body)
    await sink.until(lambda: sink.heard)
    os.kill(server_pid(connection), signal.SIGKILL)
    # The child holds the server's output open: the end is seen all the same.
    await sink.until(lambda: sink.lost_reasons)
    await connection.aclose(2)
    with anyio.fail_after(LIMIT):
        while lives(sink.heard[0].params["child"]):
            await anyio.lowlevel.checkpoint()


def lives(pid):
    # An orphan that nobody reaps stays as a zombie in a container without an init.
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_without_pidfd_the_end_is_seen_too(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    connection, sink = await connected(tmp_path, "sys.exit(4)")
    await sink.until(lambda: sink.lost_reasons)
    assert sink.lost_reasons == ["codex app-server ended with return code 4"]
    await connection.aclose(1)


async def test_what_is_no_json_is_refused_before_a_byte_is_written(tmp_path):
    connection, sink = await connected(tmp_path, "say({'method': 'error', 'params': {'got': sys.stdin.readline()}})")
    await send(connection, "t", "m-1", "half a pair \ud800", "u")
    assert (await sink.get(ev.SendRefused, id="m-1")).attempt == 1
    connection.call("t", "set_goal", 4, objective="\ud800")
    await sink.get(ev.CallRefused, call=4)
    with pytest.raises(ProviderRefused, match="nothing was sent"):
        await connection.set_goal("t", objective="\ud800")
    await connection.aclose(2)
    assert [each.params["got"] for each in sink.heard if getattr(each, "method", "") == "error"] in ([], [""])


async def test_a_goal_set_while_the_pause_was_reading_is_not_paused(tmp_path):
    body = """
first = json.loads(sys.stdin.readline())
second = json.loads(sys.stdin.readline())
goal = {"objective": "x", "status": "active", "createdAt": 1}
say({"id": first["id"], "result": {"goal": goal}})
say({"id": second["id"], "result": {"goal": goal}})
say({"method": "error", "params": {"asked": [first["method"], second["method"], sys.stdin.readline()]}})
"""
    connection, sink = await connected(tmp_path, body)
    connection.call("t", "pause_goal", 1)
    connection.call("t", "set_goal", 2, objective="x")
    await sink.get(ev.SetOk, call=2)
    await connection.aclose(2)
    [asked] = [each.params["asked"] for each in sink.heard if getattr(each, "method", "") == "error"]
    assert asked == ["thread/goal/get", "thread/goal/set", ""]


async def test_a_host_that_fails_to_decide_declines(tmp_path):
    body = """
command = "item/commandExecution/requestApproval"
for number in range(4):
    say({"id": number, "method": command, "params": {"threadId": "t"}})
    say({"method": "error", "params": {"answer": json.loads(sys.stdin.readline()).get("result")}})
sys.stdin.readline()
"""

    class Host(RecordingSink):
        async def approve(self, request):
            self.asked.append(request.thread_id)
            answers = [{"decision": "approve"}, {"decision": "acceptForSession"}, {"decision": object()}]
            if len(self.asked) > 3:
                raise RuntimeError("no idea")
            return answers[len(self.asked) - 1]

    sink = Host()
    connection = await Codex(binary=script(tmp_path, HELLO + body)).connect(sink, Policy(timeouts=Timeouts(exit=1.0)))
    await sink.until(lambda: len(sink.heard) == 4)
    await connection.aclose(2)
    given = [each.params["answer"]["decision"] for each in sink.heard]
    assert given == ["accept", "acceptForSession", "decline", "decline"]
    assert "approval_failed" in {kind for kind, _ in sink.odds}


def test_an_event_loop_that_ends_takes_the_server_with_it(tmp_path):
    async def leave():
        connection, _ = await connected(tmp_path, "time.sleep(600)")
        return server_pid(connection)

    pid = anyio.run(leave)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_closing_before_anything_was_read_ends_the_process(tmp_path):
    transport = ProcessTransport([sys.executable, "-c", "import sys; sys.stdin.read()"], dict(os.environ), "it")
    await transport.aclose(4)
    with pytest.raises(TransportClosed):
        transport.write(b"x\n")
