"""The conformance kit: it finds what is wrong with the server that people write first, and passes goalfsm's own engine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import attrs
import msgspec
import pytest

from goalfsm import Policy
from goalfsm.adapters.codex import Codex
from goalfsm.testing.conformance import (
    CASES,
    LAWS,
    AdapterConformance,
    BlackBoxTarget,
    Bounds,
    Case,
    InProcessTarget,
    Move,
    ServerConformance,
    SystemUnderTest,
    cases,
    examine,
    generate,
    load_cases,
    run_case,
    save_case,
)
from goalfsm.testing.conformance import report as reports
from goalfsm.testing.conformance._describe import Description, NotADescription, read_description
from goalfsm.testing.conformance.goalfsm_server import EVERYTHING, GoalfsmServer

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

from naive_server import NaiveUnderTest  # noqa: E402  an example, not a package

NAIVE = InProcessTarget(NaiveUnderTest)
OWN = InProcessTarget(GoalfsmServer)
FOUR_DEFECTS = {("L1", "doubled"), ("L2", "lost"), ("L4", "wrong turn"), ("L5", "sent after stop")}


def kinds(examination):
    return {(failure.law, failure.kind) for failure in examination.failures}


@pytest.fixture(scope="module")
def naive():
    return examine(NAIVE, cases(), shrinking=2)


# -- what it finds ----------------------------------------------------------------------------------------------------


def test_the_naive_server_loses_doubles_misdirects_and_sends_after_stop(naive):
    assert naive.outcome == "violated"
    assert kinds(naive) >= FOUR_DEFECTS


def test_each_failure_comes_with_a_short_history_and_the_entries_that_show_it(naive):
    for failure in naive.failures:
        assert len(failure.judged.case.moves) <= 5, reports.failure_text(failure)
        assert "►" in reports.failure_text(failure)
        again = run_case(NAIVE, failure.judged.case)
        assert failure.law in {verdict.law for verdict in again.broken}, "the shortest case does not fail again"


class TestGoalfsmsOwnEngine(ServerConformance):
    random_cases = 20
    seed = "goalfsm"

    def make_server(self):
        return GoalfsmServer()


def test_goalfsms_engine_breaks_no_law_in_cases_drawn_from_another_seed():
    found = examine(OWN, [], seed="another", random_cases=30, offers=EVERYTHING, shrinking=5)
    assert found.outcome == "pass", reports.as_text(found)


def test_random_cases_alone_find_the_four_defects_too():
    offers = NaiveUnderTest.offers
    found = examine(NAIVE, [], seed="1", random_cases=80, offers=offers, shrinking=0)
    assert kinds(found) >= FOUR_DEFECTS


def test_every_law_was_broken_or_kept_by_one_of_the_two(naive):
    own = examine(OWN, cases(), shrinking=0)
    assert own.outcome == "pass", reports.as_text(own)
    for law in LAWS:
        assert own.law_words(law).get("kept"), f"{law} is nowhere judged"


# -- what each law sees -----------------------------------------------------------------------------------------------


class Twisted(GoalfsmServer):
    """The engine with one lie or one bad habit."""

    name = "twisted"

    def __init__(self, lie=""):
        super().__init__()
        self.lie = lie
        self.taken = []

    async def submit(self, message_id, text, when):
        self.taken.append(message_id)
        if self.lie == "swallow":
            return
        if self.lie == "refuse but send":
            await super().submit(message_id, text, when)
            raise ValueError("try later")
        if self.lie == "twice":
            await super().submit(message_id + "-again", text, when)
        if self.lie == "queue jumps" and when == "queue":
            when = "auto"
        await super().submit(message_id, text, when)

    async def fates(self):
        fates = dict(await super().fates())
        match self.lie:
            case "swallow":
                return dict.fromkeys(self.taken, "waiting")
            case "all delivered":
                return dict.fromkeys(fates, "delivered")
            case "all returned":
                return dict.fromkeys(fates, "returned")
            case "refuse but send":
                return {}
        return fates

    async def lifecycle(self):
        turns = list(await super().lifecycle())
        return [*turns, ("started", "another")] if self.lie == "two lives" else turns

    async def stop(self):
        if self.lie == "deaf to stop":
            return
        await super().stop()


@pytest.mark.parametrize(
    ("lie", "case", "law", "kind"),
    [
        ("twice", "message-without-a-goal", "L1", "doubled"),
        ("swallow", "three-messages", "L2", "stuck"),
        ("all delivered", "ok-in-a-tool", "L3", "delivered too early"),
        ("all returned", "message-in-a-turn", "L3", "shown yet denied"),
        ("refuse but send", "stop-a-goal", "L3", "refused yet shown"),
        ("queue jumps", "own-turn", "L4", "barged in"),
        ("deaf to stop", "stop-a-goal", "L5", "goal goes on"),
        ("two lives", "many-turns", "L8", "lifecycle"),
    ],
)
def test_one_lie_breaks_the_law_that_is_there_for_it(lie, case, law, kind):
    judged = run_case(InProcessTarget(lambda: Twisted(lie)), CASES[case])
    found = {(verdict.law, broken.kind) for verdict in judged.broken for broken in verdict.broken}
    assert (law, kind) in found, judged


class Eager(GoalfsmServer):
    """Approves whatever is asked as soon as any message comes."""

    def __init__(self):
        async def decide(_request):
            await self.came.wait()
            return "approve"

        super().__init__(policy=Policy(on_exit="leave", approvals=decide))

    async def start(self, provider):
        self.came = anyio.Event()
        await super().start(provider)

    async def submit(self, message_id, text, when):
        self.came.set()
        await super().submit(message_id, text, when)


def test_a_message_that_answers_an_approval_is_found():
    judged = run_case(InProcessTarget(Eager), CASES["approval"])
    assert [(v.law, v.broken[0].kind) for v in judged.broken] == [("L10", "answered by text")]


# -- what cannot be judged --------------------------------------------------------------------------------------------


class Half(SystemUnderTest):
    """Takes messages and never does anything with them."""

    name = "half"
    offers = frozenset({"submit"})

    async def start(self, provider):
        self.pipe = provider.open(lambda _line: None)

    async def submit(self, message_id, text, when):
        return


def test_what_a_server_does_not_offer_is_not_judged_and_no_pass():
    judged = run_case(InProcessTarget(Half), CASES["stop-a-goal"])
    assert judged.word == "not judged"
    assert judged.problem == "the server does not offer start_goal, stop"
    assert examine(InProcessTarget(Half), [CASES["stop-a-goal"]]).outcome == "undetermined"


def test_a_server_without_fates_that_drops_a_message_is_found_all_the_same():
    silent = Case("silent", moves=(Move("submit", "m1"),))
    judged = run_case(InProcessTarget(Half), silent)
    assert [verdict.law for verdict in judged.broken] == ["L2"]


class Sick(Half):
    """Cannot start, hangs, or spins."""

    def __init__(self, how):
        self.how = how

    async def start(self, provider):
        if self.how == "start":
            raise OSError("the port is taken")
        await super().start(provider)

    async def submit(self, message_id, text, when):
        if self.how == "hang":
            await anyio.sleep_forever()
        if self.how == "spin":
            while True:
                await anyio.lowlevel.checkpoint()
        if self.how == "block":
            time.sleep(60)  # noqa: ASYNC251  what a bad server does


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("start", "half could not be started: OSError: the port is taken"),
        ("hang", "no answer to submit within"),
        ("spin", "the server hangs: it was still busy after"),
        ("block", "the server hangs: it "),
    ],
)
def test_a_server_that_is_sick_is_undetermined_within_a_bound(how, words):
    bounds = attrs.evolve(Bounds.virtual(), real=0.6)
    began = time.monotonic()
    judged = run_case(InProcessTarget(lambda: Sick(how), bounds), Case("c", moves=(Move("submit", "m1"),)))
    assert judged.word == "undetermined"
    assert judged.problem.startswith(words)
    assert time.monotonic() - began < 5


def test_a_word_that_nobody_knows_is_nonsense_and_says_how_to_map_it():
    class Odd(Half):
        offers = frozenset({"submit", "fates"})

        async def fates(self):
            return {"m1": "schroedinger"}

    judged = run_case(InProcessTarget(Odd), Case("c", moves=(Move("submit", "m1"),)))
    assert "'schroedinger'" in judged.problem
    assert "[fates]" in judged.problem
    assert judged.word != "kept"


def test_what_a_killed_server_was_asked_is_not_held_against_it():
    class Slow(GoalfsmServer):
        async def submit(self, message_id, text, when):
            if message_id == "m1":
                await anyio.sleep(3600)
            await super().submit(message_id, text, when)

    moves = (Move("submit", "m1", answered=False), Move("restart"), Move("submit", "m2"))
    judged = run_case(InProcessTarget(Slow), Case("killed", moves=moves))
    assert (judged.word, judged.problem) == ("kept", "")


# -- reproducible -----------------------------------------------------------------------------------------------------


def told(judged):
    return [(e.kind, e.word, e.messages, e.turn, round(e.at, 6)) for e in judged.history]


def test_the_same_seed_draws_the_same_cases_and_sees_the_same():
    first, second = (list(generate("7", 12, EVERYTHING)) for _ in range(2))
    assert first == second != list(generate("8", 12, EVERYTHING))
    for case in first[:4]:
        assert told(run_case(OWN, case)) == told(run_case(OWN, case))


def test_a_case_survives_the_way_through_a_file(tmp_path):
    for case in [*cases(), *generate("7", 20, EVERYTHING)]:
        save_case(tmp_path / "case.jsonl", case, law="L1")
        assert load_cases(tmp_path / "case.jsonl") == [case]


def test_a_broken_regression_file_names_the_line(tmp_path):
    file = tmp_path / "case.jsonl"
    save_case(file, CASES["stop-a-goal"])
    file.write_text(file.read_text() + '{"do": "stopp"}\n')
    with pytest.raises(ValueError, match=r"line 6: .*did you mean 'stop'"):
        load_cases(file)


# -- reports ----------------------------------------------------------------------------------------------------------


def test_reports_say_the_same_in_four_shapes(naive):
    text = reports.as_text(naive)
    assert "naive: violated" in text
    assert all(f"{law}: {LAWS[law].says}" in text for law, _ in kinds(naive))
    value = json.loads(reports.as_json(naive))
    assert (value["outcome"], value["exit"]) == ("violated", 1)
    assert {(f["law"], f["kind"]) for f in value["failures"]} == kinds(naive)
    suite = ET.fromstring(reports.as_junit(naive))
    assert int(suite.get("failures")) == sum(len(judged.broken) for judged in naive.judged)
    assert len(suite.findall("testcase/skipped")) == int(suite.get("skipped")) > 0
    markdown = reports.as_markdown(naive)
    assert markdown.count("```mermaid\nsequenceDiagram") == len(naive.failures)


def test_the_page_says_what_the_laws_say():
    page = (ROOT / "docs" / "conformance.md").read_text()
    for law in LAWS.values():
        assert f"| {law.id} | {law.says} | {law.rests_on} |" in page
    for _, kind in FOUR_DEFECTS:
        assert f"**{kind}**" in page


# -- adapters ---------------------------------------------------------------------------------------------------------


class TestCodexAdapter(AdapterConformance):
    def make_adapter(self, stage):
        return Codex(binary=stage.binary)


def test_an_adapter_that_reports_a_loss_twice_is_caught(tmp_path):
    class Stammering(Codex):
        async def connect(self, sink, policy):
            lost = sink.lost
            sink.lost = lambda reason: (lost(reason), lost(reason))
            return await super().connect(sink, policy)

    class Suite(AdapterConformance):
        def make_adapter(self, stage):
            return Stammering(binary=stage.binary)

    with pytest.raises(AssertionError, match="reported 2 times"):
        Suite().test_a08_a_dead_provider_is_reported_once_and_takes_nothing_more(tmp_path)


# -- black boxes ------------------------------------------------------------------------------------------------------

QUICK = Description(start_seconds=40, command_seconds=15, answer_seconds=3.0, settle_seconds=6.0)


def black_box(*command, description=QUICK):
    return BlackBoxTarget([sys.executable, *map(str, command)], description)


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.parametrize("name", ["message-in-the-gap", "stop-with-a-queue", "restart-after-delivery"])
def test_goalfsms_engine_passes_as_a_black_box(name):
    judged = run_case(black_box(EXAMPLES / "conform_goalfsm_driver.py"), CASES[name])
    assert judged.word == "kept", reports.as_text(examine(OWN, [CASES[name]]))


@pytest.mark.parametrize(
    ("name", "law"),
    [("stop-eats-an-ok", "L2"), ("message-in-the-gap", "L4"), ("stop-with-a-queue", "L5"), ("lying-refusal", "L1")],
)
def test_the_naive_server_fails_as_a_black_box(name, law):
    judged = run_case(black_box(EXAMPLES / "naive_server.py"), CASES[name])
    assert law in {verdict.law for verdict in judged.broken}, judged.problem


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit('no database')", "the server ended with status 1; it said: no database"),
        ("print('Listening on port 80')", "the server speaks nonsense: 'Listening on port 80'"),
        ("import time; time.sleep(60)", "the server did not start within 1 s"),
        ('print(\'{"ready": ["submitt"]}\'); input()', "offers 'submitt'; the kit knows cancel"),
        ('print(\'{"ready": ["stop"]}\'); input()', "the server does not offer 'submit'"),
    ],
)
def test_a_black_box_that_cannot_be_judged_says_why(code, words):
    description = Description(start_seconds=1.0 if "sleep" in code else 10.0)
    judged = run_case(BlackBoxTarget([sys.executable, "-uc", code], description), CASES["message-without-a-goal"])
    assert judged.word == "undetermined"
    assert judged.problem.startswith(words), judged.problem


def test_a_command_that_does_not_exist_is_undetermined():
    judged = run_case(BlackBoxTarget(["/nowhere/server"]), CASES["message-without-a-goal"])
    assert judged.problem == "'/nowhere/server' could not be started: No such file or directory"


HTTP_SERVER = """
import http.server, json, os, subprocess, sys, threading
child = subprocess.Popen([os.environ["APP_SERVER"], "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
answers, news, number, fates = {}, threading.Condition(), 0, {}
def read():
    for line in child.stdout:
        message = json.loads(line)
        if message.get("method") == "item/completed" and message["params"]["item"]["type"] == "userMessage":
            fates[message["params"]["item"]["clientId"]] = "seen"
        with news:
            answers[message.get("id")] = message
            news.notify_all()
threading.Thread(target=read, daemon=True).start()
def ask(method, **params):
    global number
    number += 1
    mine = number
    child.stdin.write(json.dumps({"id": mine, "method": method, "params": params}).encode() + b"\\n")
    child.stdin.flush()
    with news:
        news.wait_for(lambda: mine in answers, 10)
    return answers[mine]
ask("initialize", clientInfo={"name": "h", "title": "h", "version": "0"})
thread = ask("thread/start")["result"]["thread"]["id"]
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
    def do_GET(self):
        self.answer(200, {"data": {"messages": [{"key": k, "now": {"word": v}} for k, v in fates.items()]}})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["when"] == "queue":
            return self.answer(409, {"error": "no queue"})
        fates[body["name"]] = "going"
        part = {"type": "text", "text": body["text"]}
        ask("turn/start", threadId=thread, input=[part], clientUserMessageId=body["name"])
        self.answer(202, {})
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

HTTP_DRIVER = """
transport = "http"
ready = "/health"
offers = ["submit", "fates"]
fates = { seen = "delivered", going = "in_flight" }
settle_seconds = 5.0

[commands.submit]
path = "/messages"
body = { name = "{id}", text = "{text}", when = "{when}" }

[commands.fates]
method = "GET"
path = "/messages"
messages = "data.messages"
id = "key"
state = "now.word"
"""


def test_a_server_is_asked_over_http_as_its_description_says(tmp_path):
    server, driver = tmp_path / "server.py", tmp_path / "driver.toml"
    server.write_text(HTTP_SERVER)
    driver.write_text(HTTP_DRIVER)
    target = BlackBoxTarget([sys.executable, str(server), "{port}"], read_description(driver))
    judged = run_case(target, CASES["message-without-a-goal"])
    assert judged.word == "kept", judged.problem
    assert [e.detail["fates"] for e in judged.history if e.detail.get("fates")] == [{"m1": "seen", "m2": "seen"}]
    refused = run_case(target, Case("refused", moves=(Move("submit", "m1", when="queue"),)))
    assert [e.error for e in refused.history if e.kind == "refused"] == ['HTTP 409: {"error": "no queue"}']


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('transport = "telnet"', "Invalid enum value 'telnet'"),
        ('transport = "http"', r"needs \[commands\]"),
        ("colour = 1", "unknown key 'colour'"),
        ("[", "driver.toml"),
        ('offers = ["stop"]', "does not offer 'submit'"),
    ],
)
def test_a_wrong_description_names_what_is_wrong(tmp_path, text, words):
    file = tmp_path / "driver.toml"
    file.write_text(text)
    with pytest.raises(Exception, match=words) as caught:
        read_description(file)
    assert isinstance(caught.value, NotADescription.__base__)


# -- the command ------------------------------------------------------------------------------------------------------


def conform(*args):
    command = [sys.executable, "-m", "goalfsm", "conform", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def test_the_command_exits_with_its_verdict_and_saves_what_broke(tmp_path):
    naive_class = f"{EXAMPLES / 'naive_server.py'}:NaiveUnderTest"
    done = conform("--server-class", naive_class, "--case", "stop-a-goal", "--json", "--save", str(tmp_path))
    assert done.returncode == 1, done.stderr
    value = msgspec.json.decode(done.stdout)
    assert value["outcome"] == "violated"
    saved = sorted(path.name for path in tmp_path.iterdir())
    assert "L5-goal-goes-on.jsonl" in saved
    again = conform("--server-class", naive_class, "--replay", str(tmp_path / "L5-goal-goes-on.jsonl"), "--shrink", "0")
    assert again.returncode == 1
    assert "the stopped goal is still active at the end" in again.stdout
    own = tmp_path / "own.py"
    own.write_text("from goalfsm.testing.conformance.goalfsm_server import GoalfsmServer as Own\n")
    passed = conform("--server-class", f"{own}:Own", "--case", "stop-a-goal", "--random", "3", "--seed", "9")
    assert passed.returncode == 0, passed.stdout
    assert "--random 3 --seed 9" in passed.stderr


def test_the_command_tells_undetermined_from_pass_and_usage_from_both():
    assert conform("--case", "stop-a-goal", "--", sys.executable, "-c", "raise SystemExit(5)").returncode == 3
    assert conform().returncode == 2
    wrong = conform("--case", "stop-a-gaol", "--", "true")
    assert wrong.returncode == 2
    assert "did you mean 'stop-a-goal'" in wrong.stderr
    assert conform("--law", "L99", "--", "true").returncode == 2
    listed = conform("--list")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in (*LAWS, *CASES))


# -- a peer -----------------------------------------------------------------------------------------------------------


def test_the_published_sdk_hangs_where_an_answer_never_comes_and_keeps_a_plain_message():
    pytest.importorskip("openai_codex")
    target = black_box(
        EXAMPLES / "conform_sdk_driver.py", description=read_description(EXAMPLES / "conform_sdk_driver.toml")
    )
    assert run_case(target, CASES["message-in-a-turn"]).word == "kept"
    stuck = run_case(target, CASES["request-lost"])
    assert (stuck.word, stuck.problem) == ("undetermined", "no answer to submit within 6 s")
