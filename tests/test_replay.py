"""`replay` against every recording of the real app-server, judged by what the model was shown, not by the wire."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalfsm import events as ev
from goalfsm._observed import ObservedThread
from goalfsm._recording import NotATrace
from goalfsm._replay import replay
from goalfsm._replay_report import AnomalySeen, Fate, Report, ThreadReport
from goalfsm.cli import main

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT.parent / "shared" / "traces"
NAMES = sorted(p.name.removesuffix(".jsonl") for p in TRACES.glob("*.jsonl") if not p.name.endswith(".model.jsonl"))

needs_traces = pytest.mark.skipif(not NAMES, reason=f"no recordings: {os.path.relpath(TRACES, ROOT)} does not exist")
every_trace = pytest.mark.parametrize("name", NAMES or [pytest.param("none", marks=needs_traces)])

# The process was killed, or its stdin was closed, while these were on their way. Nothing on the wire proves what became
# of them: of the four in steer_kill_resume the model was later shown one (cid-kr-9) that no read ever showed.
UNCERTAIN = {
    "killed_mid_turn": {"cid-accepted", "cid-unanswered"},
    "stdin_closed_mid_turn": {"cid-accepted"},
    "steer_kill_resume": {"cid-kr-0", "cid-kr-1", "cid-kr-8", "cid-kr-9"},
}
SHOWN_ALL_THE_SAME = {"steer_kill_resume": {"cid-kr-9"}}
DOUBLED = {"queue_during_goal": ["cid-q1"], "steer_same_client_id_twice": ["cid-dup"]}


def lines_of(name: str) -> list[str]:
    return (TRACES / f"{name}.jsonl").read_text("utf-8").splitlines()


def records_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(name)]


def as_lines(records: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(record) for record in records]


# -- the truth, from the side of the model -----------------------------------------------------------------------------


def texts_sent(name: str) -> dict[tuple[str, str], str]:
    """(thread, message id) -> text, for every message that a recorded client sent."""
    found = {}
    for number, record in enumerate(records_of(name), 1):
        msg = record["msg"]
        if record["dir"] == "send" and msg.get("method") in ("turn/steer", "turn/start", "thread/queue/add"):
            params = msg["params"]
            key = params.get("threadId", ""), params.get("clientUserMessageId") or f"line:{number}"
            found[key] = "\n".join(part["text"] for part in params.get("input", []))
    return found


def same_text(shown: str, text: str) -> bool:
    cut = re.fullmatch(r"(.*)\.\.\.<(\d+) chars>", shown, re.DOTALL)
    return shown == text or (cut is not None and text.startswith(cut[1]) and len(text) == int(cut[2]))


def times_shown(name: str) -> Counter[str]:
    """How often the model was shown each text: per conversation, as often as its fullest request holds it."""
    path = TRACES / f"{name}.model.jsonl"
    requests = [json.loads(line)["user"] for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    # A request that does not go on with the one before it belongs to another thread's conversation.
    last: list[list[str]] = []
    for user in requests:
        earlier = next((known for known in reversed(last) if user[: len(known)] == known), None)
        if earlier is not None:
            last.remove(earlier)
        last.append(user)
    texts = set(texts_sent(name).values())
    return Counter({text: sum(same_text(word, text) for user in last for word in user) for text in texts})


def fates_by_key(report: Report) -> dict[tuple[str, str], Fate]:
    return {(thread.id, fate.id): fate for thread in report.threads for fate in thread.follow_ups}


def doubled(report: Report) -> list[str]:
    return [alarm.id for thread in report.threads for alarm in thread.alarms if alarm.kind == "doubled"]


@every_trace
def test_no_recording_of_the_real_server_holds_an_anomaly(name: str) -> None:
    report = replay(TRACES / f"{name}.jsonl")
    assert [anomaly for thread in report.threads for anomaly in thread.anomalies] == []
    assert report.warnings == ()


@every_trace
def test_every_message_has_the_fate_that_the_model_proves(name: str) -> None:
    report = replay(TRACES / f"{name}.jsonl")
    texts, shown, fates = texts_sent(name), times_shown(name), fates_by_key(report)

    assert set(fates) == set(texts), "one entry per message"
    for key, fate in fates.items():
        if key[1] in UNCERTAIN.get(name, ()):
            assert fate.state == "uncertain"
            assert fate.reason
            continue
        assert fate.state in ("delivered", "requeued"), fate
        assert fate.evidence, fate

    # Texts sent once tell their own fate; of equal texts as many were delivered as the model was shown.
    claimed = Counter(texts[key] for key, fate in fates.items() if fate.state == "delivered")
    claimed.update(texts[key] for key in texts for alarmed in doubled(report) if key[1] == alarmed)
    hidden = Counter(texts[key] for key in texts if key[1] in SHOWN_ALL_THE_SAME.get(name, ()))
    assert +claimed == +(shown - hidden)
    assert doubled(report) == DOUBLED.get(name, [])


@every_trace
def test_the_exit_code_says_whether_every_fate_is_proven(name: str) -> None:
    result = run(str(TRACES / f"{name}.jsonl"), "--json")
    assert result.exit_code == int(name in UNCERTAIN or name in DOUBLED)
    assert set(json.loads(result.stdout)) == {"threads"}
    assert result.stderr == ""


@needs_traces
@pytest.mark.parametrize(
    ("name", "goal", "operation"),
    [
        ("continuations_3", "complete", "completed"),
        ("interrupt_pause_first", "paused", "interrupted"),
        ("clear_mid_turn", "none", "completed"),
        ("fail_in_continuation", "blocked", "completed"),
        ("interrupt_stale_turn_id", "active", "interrupted"),
        ("sigterm_mid_turn", "active", "running"),
        ("pause_before_resume", "paused", "lost"),
        ("goal_set_from_other_process", "paused", "completed"),
    ],
)
def test_goal_and_operation_end_as_the_recorded_thread_did(name: str, goal: str, operation: str) -> None:
    (thread,) = replay(TRACES / f"{name}.jsonl").threads
    assert (thread.goal, thread.operation) == (goal, operation)


@needs_traces
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_recorder_that_missed_notifications_never_makes_a_false_claim(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([n for n in NAMES if 0 < len(records_of(n)) < 120 and texts_sent(n)]))
    texts, shown = texts_sent(name), times_shown(name)
    kept = [
        line
        for line, record in zip(lines_of(name), records_of(name), strict=True)
        if not (record["dir"] == "recv" and "method" in record["msg"]) or data.draw(st.booleans())
    ]
    report = replay(kept)
    assert [anomaly for thread in report.threads for anomaly in thread.anomalies] == []
    once = {text for text, count in Counter(texts.values()).items() if count == 1}
    for key, fate in fates_by_key(report).items():
        text = texts.get(key)  # a message without a client id is called after its line, which moved
        if text in once and fate.state == "delivered":
            assert shown[text] >= 1
        if text in once and fate.state == "requeued":
            assert shown[text] == 0


@needs_traces
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_recording_that_ends_early_leaves_its_messages_open_and_is_no_anomaly(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([n for n in NAMES if texts_sent(n)]))
    lines = lines_of(name)
    whole, cut = fates_by_key(replay(lines)), data.draw(st.integers(1, len(lines)))
    report = replay(lines[:cut])
    assert [anomaly for thread in report.threads for anomaly in thread.anomalies] == []
    for key, fate in fates_by_key(report).items():
        if fate.state == "delivered":
            assert whole[key].state == "delivered"
        if fate.state == "requeued":
            assert whole[key].state in ("requeued", "delivered")


# -- small recordings, written here ------------------------------------------------------------------------------------

THREAD, TURN = "t-1", "turn-1"


class Wire:
    """Writes a recording the way a recorder would."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last = 0
        self.ask("initialize", {})
        self.ok({"userAgent": "x"})
        self.ask("thread/start", {})
        self.ok({"thread": {"id": THREAD, "turns": [], "status": {"type": "idle"}}})

    def put(self, direction: str, msg: Any, **more: Any) -> Wire:
        self.lines.append(json.dumps({"t_ms": len(self.lines), "dir": direction, "msg": msg, **more}))
        return self

    def ask(self, method: str, params: dict[str, Any]) -> Wire:
        self.last += 1
        return self.put("send", {"id": self.last, "method": method, "params": params})

    def ok(self, result: Any, to: int | None = None) -> Wire:
        return self.put("recv", {"id": to or self.last, "result": result})

    def refused(self, message: str, to: int | None = None) -> Wire:
        return self.put("recv", {"id": to or self.last, "error": {"code": -32600, "message": message}})

    def told(self, method: str, **params: Any) -> Wire:
        return self.put("recv", {"method": method, "params": {"threadId": THREAD, **params}})

    def began(self, turn: str = TURN) -> Wire:
        return self.told("turn/started", turn={"id": turn, "status": "inProgress"})

    def ended(self, status: str = "completed", turn: str = TURN) -> Wire:
        return self.told("turn/completed", turn={"id": turn, "status": status, "error": None})

    def steer(self, text: str = "hello", client: str | None = "m1", turn: str = TURN) -> Wire:
        label = {} if client is None else {"clientUserMessageId": client}
        given = [{"type": "text", "text": text}]
        return self.ask("turn/steer", {"threadId": THREAD, "expectedTurnId": turn, "input": given, **label})

    def shows(self, item: str, text: str = "hello", client: str | None = "m1", turn: str = TURN) -> Wire:
        return self.told("item/started", turnId=turn, item=user_item(item, text, client))

    def turns(self, *turns: dict[str, Any]) -> Wire:
        return self.ask("thread/turns/list", {"threadId": THREAD, "itemsView": "full"}).ok({"data": list(turns)})

    def fates(self) -> dict[str, str]:
        return {fate.id: fate.state for fate in replay(self.lines).fates}

    def restarted(self) -> Wire:
        self.last = 0
        return self.ask("initialize", {}).ok({"userAgent": "x"})


def user_item(item: str, text: str = "hello", client: str | None = "m1") -> dict[str, Any]:
    content = [{"type": "text", "text": text, "text_elements": []}]
    return {"type": "userMessage", "id": item, "clientId": client, "content": content}


def turn_read(*items: dict[str, Any], view: str = "full", status: str = "completed") -> dict[str, Any]:
    return {"id": TURN, "status": status, "itemsView": view, "items": list(items)}


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_ok_alone_is_not_delivery_and_the_turns_end_makes_it_uncertain(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN})
    assert wire.fates() == {"m1": "acknowledged"}
    assert wire.ended().fates() == {"m1": "uncertain"}


def test_a_full_read_of_the_ended_turn_without_the_message_returns_it_with_proof(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).ended("interrupted").turns(turn_read(status="interrupted"))
    (fate,) = replay(wire.lines).fates
    assert fate.state == "requeued"
    assert "read_back" in fate.evidence


@pytest.mark.parametrize("turn", [turn_read(view="summary"), turn_read(status="inProgress")])
def test_a_summary_or_a_read_of_a_running_turn_proves_no_absence(wire: Wire, turn: dict[str, Any]) -> None:
    assert wire.began().steer().ok({"turnId": TURN}).ended().turns(turn).fates() == {"m1": "uncertain"}


def test_a_summary_that_shows_the_message_proves_delivery(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).ended().turns(turn_read(user_item("i1"), view="summary"))
    assert wire.fates() == {"m1": "delivered"}


@pytest.mark.parametrize(("cursor", "fate"), [(None, "requeued"), ("more", "uncertain")])
def test_a_list_of_items_proves_absence_only_if_it_is_whole(wire: Wire, cursor: str | None, fate: str) -> None:
    wire.began().steer().ok({"turnId": TURN}).ended().ask("thread/items/list", {"threadId": THREAD})
    assert wire.ok({"data": [], "nextCursor": cursor}).fates() == {"m1": fate}


def test_a_list_of_items_asked_before_the_turns_end_proves_no_absence(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).ask("thread/items/list", {"threadId": THREAD})
    assert wire.ended().ok({"data": [], "nextCursor": None}).fates() == {"m1": "uncertain"}


def test_after_a_new_process_absence_proves_nothing_but_presence_does(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).steer("second", "m2").restarted()
    wire.ask("thread/resume", {"threadId": THREAD})
    wire.ok({"thread": {"id": THREAD, "status": {"type": "idle"}, "turns": [turn_read(status="interrupted")]}})
    assert wire.fates() == {"m1": "uncertain", "m2": "uncertain"}
    assert wire.turns(turn_read(user_item("i2", "second", "m2"))).fates() == {"m1": "uncertain", "m2": "delivered"}


def test_a_refused_second_initialize_is_no_new_process(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).ask("initialize", {}).refused("Already initialized")
    assert wire.fates() == {"m1": "acknowledged"}


def test_a_message_shown_after_its_refusal_raises_an_alarm(wire: Wire) -> None:
    wire.began().steer().refused("no active turn to steer").shows("i1")
    report = replay(wire.lines)
    assert [alarm.kind for thread in report.threads for alarm in thread.alarms] == ["evidence_against_proof"]
    assert not report.is_clean


def test_the_last_attempt_counts_after_a_refusal(wire: Wire) -> None:
    wire.began().steer(turn="old").refused(f"expected active turn id `old` but found `{TURN}`")
    assert wire.fates() == {"m1": "requeued"}
    assert wire.steer().ok({"turnId": TURN}).shows("i1").fates() == {"m1": "delivered"}
    assert replay(wire.lines).is_clean


def test_a_refused_second_send_says_nothing_of_the_first(wire: Wire) -> None:
    wire.began().steer().steer(turn="old")
    wire.ok({"turnId": TURN}, to=3).refused(f"expected active turn id `old` but found `{TURN}`", to=4)
    assert wire.fates() == {"m1": "acknowledged"}
    assert wire.shows("i1").fates() == {"m1": "delivered"}
    assert replay(wire.lines).is_clean


def test_a_second_item_for_one_client_id_is_a_double_once_per_item(wire: Wire) -> None:
    wire.began().steer().ok({"turnId": TURN}).shows("i1").shows("i2").shows("i2").shows("i3")
    assert doubled(replay(wire.lines)) == ["m1", "m1"]


def test_messages_without_an_id_are_told_by_text_and_turn_if_there_is_one_for_each(wire: Wire) -> None:
    wire.began().steer(client=None).ok({"turnId": TURN}).steer(client=None).ok({"turnId": TURN}).shows(
        "i1", client=None
    )
    first, second = wire.fates()
    assert first.startswith("line:")
    assert wire.fates() == {first: "acknowledged", second: "acknowledged"}, "nobody can tell which one it was"
    assert wire.shows("i2", client=None).fates() == {first: "delivered", second: "delivered"}


def test_a_message_without_an_id_is_not_told_by_another_text_turn_or_time(wire: Wire) -> None:
    wire.began().shows("i0", client=None).steer(client=None).ok({"turnId": TURN})
    wire.shows("i1", "other", client=None).shows("i2", client=None, turn="turn-2")
    assert list(wire.fates().values()) == ["acknowledged"]


def test_absence_of_a_message_without_an_id_is_never_proven(wire: Wire) -> None:
    wire.began().steer(client=None).ok({"turnId": TURN}).ended().turns(turn_read())
    assert list(wire.fates().values()) == ["uncertain"]


def test_a_queued_message_is_open_until_it_is_shown(wire: Wire) -> None:
    given = [{"type": "text", "text": "hello"}]
    wire.ask("thread/queue/add", {"threadId": THREAD, "clientUserMessageId": "m1", "input": given})
    assert wire.ok({"queuedSubmission": {"id": "q"}}).fates() == {"m1": "acknowledged"}
    assert wire.began().ended().fates() == {"m1": "acknowledged"}
    assert wire.began("turn-2").shows("i1", turn="turn-2").fates() == {"m1": "delivered"}


def test_a_refused_queue_add_comes_back_with_the_providers_words(wire: Wire) -> None:
    wire.ask("thread/queue/add", {"threadId": THREAD, "clientUserMessageId": "m1", "input": []})
    (fate,) = replay(wire.refused("thread/queue/add requires experimentalApi capability").lines).fates
    assert fate.state == "requeued"
    assert "experimentalApi" in fate.evidence


def test_a_stale_read_of_the_goal_does_not_take_it_back(wire: Wire) -> None:
    goal = {"objective": "x", "createdAt": 1}
    wire.told("thread/goal/updated", turnId=None, goal={**goal, "status": "active"})
    wire.ask("thread/goal/get", {"threadId": THREAD})
    wire.told("thread/goal/updated", turnId=None, goal={**goal, "status": "complete"})
    wire.ok({"goal": {**goal, "status": "active"}})
    assert replay(wire.lines).threads[0].goal == "complete"


def test_a_second_client_that_hears_later_does_not_take_the_goal_back(wire: Wire) -> None:
    def told(conn: str, status: str, stamp: int) -> None:
        params = {"threadId": THREAD, "turnId": None, "goal": {"objective": "x", "createdAt": 1, "status": status}}
        wire.put("recv", {"method": "thread/goal/updated", "params": params, "emittedAtMs": stamp}, conn=conn)

    told("A", "active", 1000)
    told("A", "complete", 1005)
    told("B", "active", 1000)
    assert replay(wire.lines).threads[0].goal == "complete"


def test_odd_messages_are_warnings_and_never_fatal(wire: Wire) -> None:
    wire.put("recv", 5).put("recv", {"id": 99, "result": {}}).put("send", None).put("recv", {"method": 7})
    wire.told("turn/started", turn="nonsense").told("thread/brandNew").put("recv", {"id": 4, "method": "approve"})
    report = replay(wire.lines)
    assert len(report.warnings) == 4
    assert report.is_clean


def test_a_fact_that_no_machine_expects_is_listed_with_its_line() -> None:
    thread = ObservedThread(THREAD)
    thread.sent(3, "m1", "steer", conn="", turn_id=TURN, content="")
    thread.answered(4, ev.SendOk("m1", 3, TURN))
    thread.feed(5, ev.Absent("m1", 1))
    report = thread.report()
    assert report.anomalies == (AnomalySeen(5, "follow_up", "acknowledged", "absent", "stale"),)
    assert [fate.state for fate in report.follow_ups] == ["acknowledged"]


# -- the command -------------------------------------------------------------------------------------------------------


def run(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *args], input=stdin)


@pytest.fixture
def trace(tmp_path: Path, wire: Wire) -> Path:
    path = tmp_path / "traffic.jsonl"
    path.write_text("\n".join(wire.began().steer().ok({"turnId": TURN}).shows("i1").ended().lines) + "\n")
    return path


def test_proven_fates_exit_0_and_are_told_in_a_table_and_a_sentence(trace: Path) -> None:
    result = run(str(trace))
    assert result.exit_code == 0
    for word in ("m1", "delivered", TURN, "echo of item i1", "operation: completed", "every fate is proven"):
        assert word in result.stdout


def test_json_is_the_whole_of_stdout_and_has_the_documented_shape(trace: Path) -> None:
    assert json.loads(run(str(trace), "--json", "--provider", "codex").stdout) == {
        "threads": [
            {
                "id": THREAD,
                "goal": "none",
                "operation": "completed",
                "follow_ups": [
                    {
                        "id": "m1",
                        "state": "delivered",
                        "turn_id": TURN,
                        "evidence": f"echo of item i1 in turn {TURN}, line 8",
                        "reason": "the provider shows it in its thread",
                    }
                ],
                "anomalies": [],
                "alarms": [],
            }
        ]
    }


def test_a_recording_comes_from_stdin_too(trace: Path) -> None:
    assert run("-", stdin=trace.read_bytes()).exit_code == 0


@needs_traces
def test_a_tampered_second_item_is_reported_as_doubled(tmp_path: Path) -> None:
    records = records_of("steer_initial")
    echo = next(
        r for r in records if r["msg"].get("method") == "item/completed" and "clientId" in r["msg"]["params"]["item"]
    )
    again = json.loads(json.dumps(echo).replace(echo["msg"]["params"]["item"]["id"], "another-item"))
    records.insert(records.index(echo) + 1, again)
    path = tmp_path / "tampered.jsonl"
    path.write_text("\n".join(as_lines(records)))

    result = run(str(path), "--json")
    (thread,) = json.loads(result.stdout)["threads"]
    assert result.exit_code == 1
    assert [alarm["kind"] for alarm in thread["alarms"]] == ["doubled"]
    assert thread["alarms"][0]["line"] == records.index(again) + 1
    assert "1 delivered twice" in run(str(path)).stdout


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\n\n \n", "empty"),
        (b"hello\n", "line 1: not JSON"),
        (b"\x00\xff\xfe\x80" * 50, "line 1: not JSON"),
        (b'{"dir": "send", "msg"', "line 1: not JSON"),
        (b"[1, 2]\n", "line 1: not a recorded message"),
        (b'{"t_ms": 1, "user": []}\n', "line 1: not a recorded message"),
        (b'{"dir": "sideways", "msg": {}}\n', "line 1: not a recorded message"),
        (b'{"dir": "recv", "msg": {}}\n{"dir": "recv"}\n', "line 2: not a recorded message"),
        (b'{"dir": "recv", "msg": {}}\noops\n{"dir": "recv", "msg": {}}\n', "line 2: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
    ],
)
def test_what_is_no_recording_exits_2_with_one_message_and_no_data(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    result = run(str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert path.read_bytes() == content
    with pytest.raises(NotATrace, match=re.escape(says)):
        replay(path)


def test_a_missing_file_and_a_directory_exit_2(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.jsonl", tmp_path):
        result = run(str(path))
        assert (result.exit_code, result.stdout) == (2, "")
        assert str(path) in result.stderr


def test_a_torn_last_line_is_a_warning_on_stderr(trace: Path) -> None:
    whole = trace.read_text()
    for torn in (whole[:-30], whole + '{"t_ms": 9, "dir": "re'):
        trace.write_text(torn)
        result = run(str(trace), "--json")
        assert result.exit_code == 0
        assert "torn" in result.stderr
        assert json.loads(result.stdout)["threads"][0]["follow_ups"][0]["state"] == "delivered"


def test_an_anomaly_exits_1_and_is_told(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met = Report((ThreadReport(THREAD, "none", anomalies=(AnomalySeen(7, "turn", "idle", "halt", "anomaly"),)),))
    monkeypatch.setattr("goalfsm.cli._replay.replay_traffic", lambda _source: met)
    result = run(str(trace))
    assert result.exit_code == 1
    assert "anomaly, line 7: turn was idle when halt came" in result.stdout


def test_an_open_message_exits_1_and_says_that_the_recording_ended_first(tmp_path: Path, wire: Wire) -> None:
    path = tmp_path / "open.jsonl"
    path.write_text("\n".join(wire.began().steer().lines))
    result = run(str(path))
    assert result.exit_code == 1
    assert "delivering" in result.stdout
    assert "1 still open" in result.stdout


def test_what_a_recording_says_can_neither_style_nor_steer_a_terminal(tmp_path: Path, wire: Wire) -> None:
    path = tmp_path / "hostile.jsonl"
    hostile = "[bold]m\x1b]0;owned\x07\n\u202egnp"
    path.write_text("\n".join(wire.began().steer(client=hostile).refused("[red]\x1b[2J[/nope]").lines))
    result = run(str(path))
    assert result.exit_code == 0
    assert "[bold]m\\x1b]0;owned\\x07\\n\\u202egnp" in result.stdout
    assert "[red]\\x1b[2J[/nope]" in result.stdout
    assert not set("\x1b\x07\u202e") & set(result.stdout)
