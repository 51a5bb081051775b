"""A history as a sequence diagram: who told whom what, where each message went, and the evidence where it was seen."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

import goalfsm
from goalfsm import diagrams
from goalfsm._errors import JournalError
from goalfsm._history import journal_moments, read_journal
from goalfsm._sequence import Change, Moment, sequence
from goalfsm.adapters.simulated import Simulated
from goalfsm.cli import main

TEXT = "the secret recipe; --> <b>"
HOSTILE = "m --> x; %% <script>\n`|` ß #35; \x00"
SHOWN = "m --> x; %% <script> `|` ß #35; \\x00"
THREAD = "019a-thread"


def traffic(*answer, text=TEXT, message=HOSTILE):
    """Recorded traffic: a turn runs, one message is steered into it, and what the provider says then."""
    steer = {
        "threadId": THREAD,
        "expectedTurnId": "turn-1",
        "clientUserMessageId": message,
        "input": [{"type": "text", "text": text}],
    }
    wire = [
        ("send", {"id": 1, "method": "initialize", "params": {}}),
        ("recv", {"id": 1, "result": {}}),
        (
            "recv",
            {
                "method": "turn/started",
                "params": {"threadId": THREAD, "turn": {"id": "turn-1", "status": "inProgress"}},
            },
        ),
        ("send", {"id": 2, "method": "turn/steer", "params": steer}),
        *answer,
    ]
    return [json.dumps({"dir": way, "msg": msg}) for way, msg in wire]


OK = ("recv", {"id": 2, "result": {"turnId": "turn-1"}})
REFUSED = ("recv", {"id": 2, "error": {"code": -32600, "message": "no active turn to steer"}})


def echo(message=HOSTILE):
    item = {"type": "userMessage", "id": "itm-a9", "clientId": message, "content": [{"type": "text", "text": TEXT}]}
    return ("recv", {"method": "item/started", "params": {"threadId": THREAD, "turnId": "turn-1", "item": item}})


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "traffic.jsonl"

    def write(lines):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return write


def goalfsm_(*words):
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def said(parsers, text):
    """What a reader of the diagram sees, in order; lines of one label run together."""
    (answer,) = parsers.read("mermaid", text)
    assert answer["actors"] == ["host", "goalfsm", "provider"]
    return [(m["from"], m["to"], re.sub(r"\s+", " ", m["text"])) for m in answer["messages"]]


# -- recorded traffic --------------------------------------------------------------------------------------------------


def test_a_message_on_its_way_stands_between_the_lines_that_say_so(parsers, recording):
    result = goalfsm_("replay", recording(traffic(OK, echo())), "--format", "mermaid")
    assert result.exit_code == 0
    story = said(parsers, result.stdout)
    at = {text: number for number, (_, _, text) in enumerate(story)}
    assert ("host", "provider", f"line 4: steer {SHOWN}") in story
    assert ("provider", "goalfsm", f"line 5: send_ok {SHOWN} turn turn-1") in story
    way = [
        f"line 4: steer {SHOWN}",
        f"{SHOWN}: queued → delivering",
        f"{SHOWN}: delivering → acknowledged",
        f"line 6: echo {SHOWN} turn turn-1 item itm-a9",
        f"{SHOWN}: acknowledged → delivered evidence: echo of item itm-a9 in turn turn-1, line 6",
    ]
    assert [text for text in way if text not in at] == []
    assert sorted(at[text] for text in way) == [at[text] for text in way]


def test_a_refusal_is_the_evidence_where_it_was_heard(parsers, recording):
    result = goalfsm_("replay", recording(traffic(REFUSED)), "--format", "mermaid")
    story = said(parsers, result.stdout)
    last = next(entry for entry in story if "evidence" in entry[2])
    assert last == (
        "goalfsm",
        "provider",
        f"{SHOWN}: delivering → requeued evidence: refusal: no active turn to steer, line 5",
    )


def test_what_a_message_says_is_left_out_unless_asked_for(parsers, recording):
    path = recording(traffic(OK, echo()))
    quiet = goalfsm_("replay", path, "--format", "mermaid").stdout
    assert "secret" not in quiet
    told = goalfsm_("replay", path, "--format", "mermaid", "--text").stdout
    assert f"{SHOWN}: {TEXT}" in [text for _, _, text in said(parsers, told)]


def test_the_exit_code_and_warnings_are_those_of_the_report(recording):
    result = goalfsm_("replay", recording(traffic(OK)), "--format", "mermaid")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "sequenceDiagram")
    assert goalfsm_("replay", recording(["no"]), "--format", "mermaid").exit_code == 2
    assert goalfsm_("replay", recording(traffic(OK)), "--format", "mermaid", "--json").exit_code == 2


def test_a_recording_in_which_nothing_happened_is_a_diagram_too(parsers):
    assert [text for _, _, text in said(parsers, diagrams.traffic_sequence(traffic()[:2]))] == ["nothing happened"]


def test_an_alarm_and_what_nobody_expected_are_in_the_picture(parsers):
    event = {"name": "echo", "id": "m-1"}
    moment = Moment(
        "t",
        "line 9",
        event,
        (),
        ({"name": "alarm", "id": "m-1", "kind": "doubled"},),
        ("turn is idle, x",),
        observed=True,
    )
    story = [text for _, _, text in said(parsers, sequence([moment]))]
    assert story == ["thread t", "line 9: echo m-1", "not expected: turn is idle, x", "alarm: m-1 doubled"]


@pytest.mark.parametrize(
    "text", ["", " ", "end", "%%{init: {}}%%", "a;b", "-->>", ":wrap: x", "participant x", "\u2028\ud800", "x" * 3000]
)
def test_any_text_stays_a_text(parsers, text):
    change = Change("follow_up", text or "m", text, text, text, text)
    moment = Moment(
        text,
        text,
        {"name": text, "id": text, "message": text},
        (change,),
        ({"name": "settle", "id": text},),
        (text,),
        {text: text},
    )
    answer = said(parsers, sequence([moment], text=True))
    assert len(answer) == 6


# -- a journal ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "goals.db"
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        thread = engine.start_thread()
        message = thread.submit(TEXT, id="msg-7")
        assert message.settled().state == "delivered"
    return path


def test_the_steps_of_a_journal_are_told_in_order_with_the_evidence(journal):
    result = goalfsm_("journal", journal)
    assert result.exit_code == 0
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [int(row[1]) for row in rows] == list(range(1, len(rows) + 1))
    assert any(row[3] == "submit msg-7" for row in rows)
    assert any(
        "msg-7: acknowledged → delivered" in row[4] and row[5].startswith("echo of item")
        for row in rows
        if len(row) > 5
    )
    assert result.stderr == f"1 thread, {len(rows)} steps\n"
    assert "secret" not in result.stdout
    assert "secret" in goalfsm_("journal", journal, "--text").stdout


def test_a_journal_as_json_keeps_the_text_to_itself_unless_asked(journal):
    quiet = json.loads(goalfsm_("journal", journal, "--json").stdout)
    steps = quiet["threads"][0]["steps"]
    assert steps[0].keys() == {"seq", "epoch", "at", "spec", "event", "moves", "effects", "odd", "told"}
    assert "secret" not in json.dumps(quiet)
    told = json.loads(goalfsm_("journal", journal, "--json", "--text").stdout)
    assert [step["messages"]["msg-7"]["text"] for step in told["threads"][0]["steps"] if step["messages"]] == [TEXT]


def test_a_journal_as_a_diagram_shows_host_goalfsm_and_provider(journal, parsers):
    story = said(parsers, goalfsm_("journal", journal, "--format", "mermaid", "--text").stdout)
    lines = [(a, b, re.sub(r"step \d+: ", "", text)) for a, b, text in story]
    assert ("host", "goalfsm", "submit msg-7") in lines
    assert ("host", "host", f"msg-7: {TEXT}") in lines
    assert ("goalfsm", "provider", "send msg-7, if it still may") in lines
    assert ("goalfsm", "host", "msg-7 is settled") in lines
    evidence = next(text for _, _, text in story if "evidence" in text)
    assert evidence.startswith("msg-7: acknowledged → delivered evidence: echo of item")
    assert (
        diagrams.journal_sequence(journal, text=True)
        == goalfsm_("journal", journal, "--format", "mermaid", "--text").stdout
    )


def test_one_thread_can_be_chosen_and_a_wrong_one_is_named(journal):
    (thread,) = read_journal(journal)
    assert goalfsm_("journal", journal, "--thread", thread).stdout == goalfsm_("journal", journal).stdout
    result = goalfsm_("journal", journal, "--thread", thread[:-1])
    assert result.exit_code == 1
    assert f"did you mean '{thread}'" in result.stderr


def test_reading_changes_nothing_and_works_beside_an_open_engine(tmp_path):
    path = tmp_path / "goals.db"
    with goalfsm.open_sync(Simulated(), journal=path) as engine:
        engine.start_thread().submit(TEXT, id="msg-7").settled()
        before = path.read_bytes()
        assert goalfsm_("journal", path).exit_code == 0
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "there is no journal"),
        (b"", "is empty, so it is no goalfsm journal yet"),
        (b"not a database" * 100, "it is not an SQLite database"),
    ],
)
def test_what_is_no_journal_is_told_and_not_touched(tmp_path, content, text):
    path = tmp_path / "goals.db"
    if content is not None:
        path.write_bytes(content)
    result = goalfsm_("journal", path)
    assert result.exit_code == 2
    assert text in result.stderr
    assert result.stderr.count("\n") == 1
    assert (path.read_bytes() if path.exists() else None) == content


def test_a_database_of_somebody_else_is_no_journal(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE steps (x)")
    db.close()
    with pytest.raises(JournalError, match="no goalfsm journal"):
        read_journal(path)


def test_every_recording_of_the_real_server_can_be_drawn(parsers):
    folder = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
    names = [path for path in sorted(folder.glob("*.jsonl")) if not path.name.endswith(".model.jsonl")]
    if not names:
        pytest.skip("the recordings are not here")
    for path in names:
        with path.open("rb") as lines:
            parsers.read("mermaid", diagrams.traffic_sequence(lines, text=True))
    assert list(journal_moments({})) == []
