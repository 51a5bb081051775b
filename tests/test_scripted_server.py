"""The scripted server against what was measured of the real one: the order of what it says, and the words it refuses with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalfsm.adapters._scripted.faults import Fault, Scenario
from goalfsm.adapters._scripted.script import (
    Script,
    TurnPlan,
    block_goal,
    budget_limit,
    client_goal,
    client_steer,
    complete_goal,
    end,
    exit_process,
    fail,
    gate,
    goal_status,
    notify,
    repeat,
    say,
    tool,
    turn,
    usage_limit,
    wait,
)
from goalfsm.adapters._server import ScriptedServer

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
UNKNOWN = "01900000-0000-7000-8000-000000000000"


class Client:
    """Speaks to a server in virtual time and keeps what it hears."""

    def __init__(self, *turns: TurnPlan, faults: tuple[Fault, ...] = (), **script: Any) -> None:
        self.server = ScriptedServer(Script(turns=turns, **script), faults, home=script.pop("home", ""))
        self.now = 0.0
        self.heard: list[dict[str, Any] | bytes] = []
        self.last_id = 0
        self.server.spawn(self.now)
        self.ask("initialize", capabilities={"experimentalApi": True})
        self.thread = self.ask("thread/start")["thread"]["id"]
        self.heard.clear()

    def read(self) -> None:
        self.heard.extend(self.server.outgoing())

    def send(self, method: str, **params: Any) -> int:
        self.last_id += 1
        self.server.receive({"id": self.last_id, "method": method, "params": params}, self.now)
        self.read()
        return self.last_id

    def answer(self, request_id: int) -> dict[str, Any] | None:
        answers = [m for m in self.heard if isinstance(m, dict) and m.get("id") == request_id and "method" not in m]
        return answers[-1] if answers else None

    def ask(self, method: str, **params: Any) -> Any:
        answer = self.answer(self.send(method, **params))
        assert answer is not None, f"{method}: no answer"
        return answer["result"] if "result" in answer else answer["error"]["message"]

    def on(self, method: str, **params: Any) -> Any:
        return self.ask(method, threadId=self.thread, **params)

    def goal(self, objective: str = "x", **params: Any) -> Any:
        return self.on("thread/goal/set", objective=objective, **params)

    def steer(self, turn_id: str, text: str = "a steer", client_id: str = "c1") -> Any:
        parts = [{"type": "text", "text": text}]
        return self.on("turn/steer", expectedTurnId=turn_id, input=parts, clientUserMessageId=client_id)

    def start(self, text: str = "hello", client_id: str = "c1") -> Any:
        return self.on("turn/start", input=[{"type": "text", "text": text}], clientUserMessageId=client_id)

    def run(self, seconds: float = 1.0) -> None:
        until = self.now + seconds
        while (due := self.server.next_wakeup()) is not None and due <= until:
            self.now = max(self.now, due)
            self.server.wake(self.now)
            self.read()
        self.now = until
        self.server.wake(self.now)
        self.read()

    def release(self, name: str) -> None:
        self.server.release(name, self.now)
        self.run(0.5)

    @property
    def turn_ids(self) -> list[str]:
        return [m["params"]["turn"]["id"] for m in self.notifications("turn/started")]

    def notifications(self, method: str) -> list[dict[str, Any]]:
        return [m for m in self.heard if isinstance(m, dict) and m.get("method") == method]

    def order(self) -> list[str]:
        return list(summary(self.heard))

    def restart(self) -> None:
        self.server.spawn(self.now)
        self.read()
        self.ask("initialize", capabilities={})
        self.heard.clear()


def summary(messages: list[Any], requests: dict[int, str] | None = None) -> Iterator[str]:
    """One short line for each message that matters, with turns named in the order in which they appear."""
    turns: dict[str, str] = {}

    def name(turn_id: str | None) -> str:
        return "-" if turn_id is None else turns.setdefault(turn_id, f"t{len(turns) + 1}")

    for message in messages:
        if not isinstance(message, dict):
            continue
        params = message.get("params") or {}
        match message.get("method"):
            case "turn/started":
                yield f"started {name(params['turn']['id'])}"
            case "turn/completed":
                yield f"{params['turn']['status']} {name(params['turn']['id'])}"
            case "thread/goal/updated":
                # How often `active` is repeated within a turn varies from run to run.
                if params["goal"]["status"] != "active" or params["turnId"] is None:
                    yield f"goal {params['goal']['status']} {name(params['turnId'])}"
            case "thread/goal/cleared":
                yield "cleared"
            case "thread/status/changed":
                yield f"status {params['status']['type']}"
            case "item/started" | "item/completed":
                item = params["item"]
                yield f"{message['method']} {item['type']} {item.get('clientId') or ''}".strip()
            case "error":
                yield f"error {params['willRetry']}"
            case None if requests is not None and message.get("id") in requests:
                outcome = message.get("error", {}).get("message", "ok")
                yield f"{requests[message['id']]}: {outcome}"


# -- against the recordings ------------------------------------------------------------------------------------------

USER = turn(wait(0.06), say("ok", seconds=0.005), kind="user")
MESSAGE = "item/started userMessage c1", "item/completed userMessage c1"
SAID = "item/started agentMessage", "item/completed agentMessage"
ASKED = wait(0.03)
"""A model request takes a moment before it says anything."""

RECORDED: dict[str, tuple[TurnPlan, ...]] = {
    "continuations_1": (turn(ASKED, say("pass 0")), turn(ASKED, complete_goal(), ASKED, say("done"))),
    "continuations_3": (*(turn(ASKED, say("pass")) for _ in range(3)), turn(ASKED, complete_goal(), ASKED, say("."))),
    "complete_in_initial": (turn(ASKED, complete_goal(), ASKED, say("done")),),
    "model_blocks_goal": (turn(ASKED, block_goal(), ASKED, say("stuck")),),
    "steer_then_interrupt": (
        turn(wait(0.1), say("first", seconds=5.0)),
        turn(wait(0.08), say("next answer"), kind="user"),
        turn(ASKED, fail("high demand", "internalServerError")),
    ),
    "interrupt_turn": (
        turn(ASKED, say("one")),
        turn(wait(5.0)),
        turn(ASKED, say("ordinary"), kind="user"),
        turn(ASKED, fail("high demand", "internalServerError")),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "pause_mid_turn": (turn(wait(0.08), say("slow", seconds=0.3)), turn(ASKED, complete_goal(), ASKED, say("done"))),
    "clear_mid_turn": (turn(wait(0.08), say("slow", seconds=0.3)),),
    "steer_initial": (turn(wait(0.15), complete_goal(), ASKED, say("done"), delay=0.225),),
    "turn_start_during_goal_turn": (
        turn(wait(0.06), say("cut", seconds=5.0), ASKED, say("first")),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "goal_on_running_user_turn": (
        turn(wait(0.05), say("slow", seconds=0.3), kind="user"),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "fail_server_error": (turn(wait(0.09), fail("goal model failed")), USER),
    "fail_insufficient_quota": (turn(wait(0.05), usage_limit()), USER),
    "replace_paused_goal": (turn(ASKED, say("first")), turn(ASKED, complete_goal(), ASKED, say("done"))),
    "resume_active_goal": (
        turn(ASKED, say("first pass")),
        turn(ASKED, say("cut", seconds=5.0)),
        turn(ASKED, say("second pass")),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "pause_before_resume": (turn(ASKED, say("cut", seconds=5.0)),),
    "steer_during_tool_call": (
        turn(wait(0.2), tool("sleep 1", seconds=1.2), wait(0.05), say("after")),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "token_budget": (
        turn(ASKED, say("a", tokens=(9, 0, 1, 0))),
        turn(ASKED, say("b", tokens=(119, 0, 1, 0))),
        *(turn(ASKED, say("c")) for _ in range(3)),
        turn(ASKED, complete_goal(), ASKED, say("done")),
    ),
    "refused_inputs": (),
    "refused_ephemeral": (),
    "refused_before_initialize": (),
    "steer_no_active_turn": (turn(ASKED, complete_goal(), say("done")),),
    "interrupt_stale_turn_id": (turn(ASKED, say("one")), turn(ASKED, say("cut", seconds=5.0))),
    "steer_stale_turn_id": (
        turn(ASKED, say("one")),
        turn(ASKED, say("cut", seconds=5.0), ASKED, complete_goal(), ASKED, say("done")),
    ),
    "refused_disabled": (),
}


def replay(name: str) -> tuple[list[str], list[str]]:
    """Send what the recorded client sent, when it did; give what it heard and what the scripted server says."""
    rows = [json.loads(line) for line in (TRACES / f"{name}.jsonl").read_text().splitlines()]
    server = ScriptedServer(Script(turns=RECORDED[name], goals=name != "refused_disabled"))
    ours: list[str] = []
    theirs: list[str] = []
    ids: dict[str, str] = {}
    seen = [[], []], [{}, {}]  # turn ids in their order of appearance on either side, and requests by id
    heard: list[list[Any]] = [[], []]
    now = 0.0

    def close() -> None:
        ours.extend(summary(heard[0], seen[1][0]))
        theirs.extend(summary(heard[1], seen[1][0]))
        heard[0].clear()
        heard[1].clear()
        seen[1][0].clear()

    def note(side: int, message: Any) -> None:
        heard[side].append(message)
        for found in (message.get("result"), message.get("params")):
            for kind in ("thread", "turn"):
                if isinstance(found, dict) and isinstance(found.get(kind), dict):
                    known = seen[0][side]
                    if found[kind]["id"] not in known:
                        known.append(found[kind]["id"])
                        if len(seen[0][0]) >= len(known) <= len(seen[0][1]):
                            ids[seen[0][1][len(known) - 1]] = seen[0][0][len(known) - 1]

    def run(until: float) -> None:
        nonlocal now
        while (due := server.next_wakeup()) is not None and due <= until:
            server.wake(due)
            for message in server.outgoing():
                note(0, message)
        now = until

    def renamed(value: Any) -> Any:
        return json.loads("".join(_renamed_words(json.dumps(value), ids)))

    started = False
    for row in rows:
        message = row.get("msg")
        if not isinstance(message, dict):
            continue
        run(max(now, row["t_ms"] / 1000))
        if row["dir"] == "recv":
            note(1, message)
            continue
        if message.get("method") == "initialize" and (message["id"] == 1 or not started):
            close()
            server.spawn(now)
        elif not started:
            server.spawn(now)
        started = True
        if "method" in message and "id" in message:
            seen[1][0][message["id"]] = message["method"]
        server.receive(renamed(message), now)
        for said in server.outgoing():
            note(0, said)
    run(now + 1)
    close()
    return [_words(line, ids) for line in theirs], [_words(line, ids) for line in ours]


def _renamed_words(text: str, ids: dict[str, str]) -> Iterator[str]:
    for theirs, ours in ids.items():
        text = text.replace(theirs, ours)
    yield text


def _words(line: str, ids: dict[str, str]) -> str:
    text = "".join(_renamed_words(line, ids))
    return text.split(", expected one of `initialize`")[0]


@pytest.mark.skipif(not TRACES.exists(), reason="the recordings are not part of the source tree")
@pytest.mark.parametrize("name", RECORDED)
def test_it_says_what_the_real_server_said_in_the_same_order(name: str) -> None:
    theirs, ours = replay(name)
    assert ours == theirs
    assert theirs


# -- what was measured, one by one -----------------------------------------------------------------------------------


def test_a_steer_that_waits_in_memory_is_lost_by_an_interrupt_and_the_goal_stays_active() -> None:
    client = Client(turn(gate("g")))
    client.goal()
    client.run(0.02)
    (turn_id,) = client.turn_ids
    assert client.steer(turn_id) == {"turnId": turn_id}
    assert client.on("turn/interrupt", turnId=turn_id) == {}
    client.run(5)
    assert client.order()[-2:] == ["status idle", "interrupted t1"]
    assert client.server.shown("a steer") == 0
    assert client.on("thread/goal/get")["goal"]["status"] == "active"
    assert client.on("thread/turns/list", itemsView="full")["data"][0]["items"] == []


def test_a_second_interrupt_of_the_same_turn_is_answered_when_the_next_turn_has_ended() -> None:
    client = Client(turn(gate("g")))
    client.goal()
    client.run(0.02)
    (turn_id,) = client.turn_ids
    client.on("turn/interrupt", turnId=turn_id)
    second = client.send("turn/interrupt", threadId=client.thread, turnId=turn_id)
    assert client.on("turn/interrupt", turnId=UNKNOWN) == f"expected active turn id {UNKNOWN} but found {turn_id}"
    assert client.on("turn/interrupt", turnId="") == {}
    client.run(5)
    assert client.answer(second) is None
    client.start()
    client.run(0.02)
    assert client.answer(second) == {"id": second, "result": {}}
    assert client.notifications("turn/completed")[1]["params"]["turn"]["status"] == "completed"


def test_after_an_interrupt_the_goal_goes_on_when_an_ordinary_turn_has_ended() -> None:
    client = Client(turn(gate("g")))
    client.goal()
    client.run(0.02)
    client.on("turn/interrupt", turnId="")
    client.run(5)
    assert len(client.turn_ids) == 1
    client.start()
    client.run(5)
    assert client.order()[-8:] == [
        "completed t2",
        "status active",
        "started t3",
        *SAID,
        "goal complete t3",
        "status idle",
        "completed t3",
    ]


def test_the_same_client_id_twice_is_shown_twice() -> None:
    client = Client(turn(gate("g")))
    client.goal()
    client.run(0.02)
    for _ in range(2):
        client.steer(client.turn_ids[0])
    client.run()
    assert client.server.shown("a steer") == 2
    assert client.server.writes("c1") == 2
    assert len({m["params"]["item"]["id"] for m in client.notifications("item/completed")}) == 2


def test_a_message_cut_by_a_steer_never_ends_and_is_gone_from_history() -> None:
    client = Client(turn(say("cut", seconds=5), say("after"), gate("g")))
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0])
    client.run(0.1)
    assert client.order()[-5:] == ["item/started agentMessage", *MESSAGE, *SAID]
    items = client.on("thread/items/list")["data"]
    assert [item["item"].get("text") for item in items] == [None, "after"]


def test_with_a_patient_model_a_steer_waits_for_the_end_of_the_reply() -> None:
    client = Client(turn(say("whole", seconds=5), gate("g")), instant_interrupt=False)
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0])
    client.run(4)
    assert client.server.shown("a steer") == 0
    client.run(2)
    assert client.order()[-4:] == [*SAID, *MESSAGE]


def test_a_steer_accepted_while_the_turn_ends_keeps_it_open_for_one_more_request() -> None:
    client = Client(turn(gate("g"), complete_goal()))
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0])
    client.release("g")
    assert client.order()[-7:] == ["goal complete t1", *MESSAGE, *SAID, "status idle", "completed t1"]


def test_steers_in_the_gap_are_refused_and_the_found_turn_takes_one_before_it_is_told() -> None:
    client = Client(turn(say("a")), turn(gate("g")))
    client.goal()
    client.run(0.0101)
    (first,) = client.turn_ids
    assert client.steer(first) == "no active turn to steer"
    assert client.on("turn/interrupt", turnId=first) == "no active turn to interrupt"
    client.run(0.004)
    refusal = client.steer(first)
    assert refusal.startswith(f"expected active turn id `{first}` but found `")
    found = refusal.split("`")[3]
    assert client.turn_ids == [first]
    assert client.steer(found) == {"turnId": found}
    client.run(1)
    assert client.turn_ids == [first, found]
    assert client.server.shown("a steer") == 1


@pytest.mark.parametrize(("after", "turns"), [(0.0, 1), (0.004, 2)])
def test_a_pause_in_the_gap_stops_the_next_turn_only_if_it_does_not_exist_yet(after: float, turns: int) -> None:
    client = Client(turn(say("a")), turn(say("b")))
    client.goal()
    client.run(0.0101 + after)
    client.on("thread/goal/set", status="paused")
    client.run(5)
    assert len(client.turn_ids) == turns


def test_pause_then_the_empty_interrupt_stops_a_turn_that_was_not_told_yet() -> None:
    client = Client(turn(say("a")), turn(gate("g")))
    client.goal()
    client.run(0.0141)
    client.on("thread/goal/set", status="paused")
    client.on("turn/interrupt", turnId="")
    client.run(5)
    assert client.order()[-4:] == ["status active", "started t2", "status idle", "interrupted t2"]


def test_turn_start_joins_a_running_turn_and_in_the_gap_goes_before_the_continuation() -> None:
    client = Client(turn(gate("g")))
    client.goal()
    client.run(0.02)
    assert client.start()["turn"]["id"] == client.turn_ids[0]
    client.release("g")
    client = Client(turn(say("a"), kind="goal"))
    client.goal()
    client.run(0.0101)
    user = client.start()["turn"]["id"]
    client.run(5)
    assert client.turn_ids[1] == user
    assert client.order()[-1] == "completed t3"


def test_a_started_turn_is_steerable_before_it_is_told() -> None:
    client = Client()
    turn_id = client.start("one")["turn"]["id"]
    assert client.turn_ids == []
    assert client.steer(turn_id, "two", "c2") == {"turnId": turn_id}
    client.run()
    assert [entry["text"] for entry in client.server.disk.shown] == ["one", "two"]


def test_set_active_alone_does_not_lift_a_budget_limit() -> None:
    client = Client(turn(say("a", tokens=(99, 0, 1, 0))))
    client.goal(tokenBudget=100)
    client.run()
    assert client.order()[-3:] == ["goal budgetLimited t1", "status idle", "completed t1"]
    assert client.on("thread/goal/set", status="active")["goal"]["status"] == "budgetLimited"
    assert client.on("thread/goal/set", status="active", tokenBudget=1000)["goal"]["status"] == "active"


def test_a_new_objective_keeps_the_budget_and_a_cleared_goal_does_not() -> None:
    client = Client()
    client.goal("one", status="paused", tokenBudget=500)
    assert client.goal("two", status="paused")["goal"]["tokenBudget"] == 500
    assert client.on("thread/goal/clear") == {"cleared": True}
    assert client.on("thread/goal/clear") == {"cleared": False}
    assert client.goal("  three ", status="paused")["goal"] | {"createdAt": 0, "updatedAt": 0} == {
        "threadId": client.thread,
        "objective": "three",
        "status": "paused",
        "tokenBudget": None,
        "tokensUsed": 0,
        "timeUsedSeconds": 0,
        "createdAt": 0,
        "updatedAt": 0,
    }


def test_a_summary_omits_later_messages_of_a_turn_and_a_running_turn_is_not_final() -> None:
    client = Client(turn(gate("g"), say("done")))
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0], "one", "c1")
    client.steer(client.turn_ids[0], "two", "c2")
    client.run()
    (full,) = client.on("thread/turns/list", itemsView="full")["data"]
    (short,) = client.on("thread/turns/list", itemsView="summary")["data"]
    assert [item["clientId"] for item in full["items"]] == ["c1", "c2"]
    assert [item["clientId"] for item in short["items"]] == ["c1"]
    assert full["status"] == "inProgress"


def test_a_long_history_is_read_page_by_page_newest_first() -> None:
    client = Client()
    for number in range(5):
        client.start(str(number))
        client.run()
    seen, cursor = [], None
    while True:
        page = client.on("thread/turns/list", limit=2, cursor=cursor)
        seen.extend(turn["id"] for turn in page["data"])
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == client.turn_ids[::-1]


def test_a_legacy_history_numbers_its_items_and_cannot_list_them() -> None:
    client = Client()
    client.thread = client.ask("thread/start", historyMode="legacy")["thread"]["id"]
    client.start()
    client.run()
    assert client.on("thread/items/list") == "thread/items/list is not supported yet"
    (read,) = client.on("thread/turns/list", itemsView="full")["data"]
    assert [item["id"] for item in read["items"]] == ["item-1", "item-2"]


def test_an_unsubscribed_client_hears_only_of_goal_and_status() -> None:
    client = Client()
    client.on("thread/unsubscribe")
    client.heard.clear()
    client.goal()
    client.run()
    assert client.order() == ["goal active -", "status active", "goal complete t1", "status idle"]


def test_two_goals_on_two_threads_go_their_own_ways() -> None:
    client = Client(turn(say("slow", seconds=1), thread=0), turn(say("a"), thread=1))
    client.goal("one")
    first, client.thread = client.thread, client.ask("thread/start")["thread"]["id"]
    client.goal("two")
    client.run(5)
    ends = [m["params"]["threadId"] for m in client.notifications("turn/completed")]
    assert ends == [client.thread, client.thread, first, first]


# -- processes -------------------------------------------------------------------------------------------------------


def test_after_a_kill_an_unprojected_message_is_absent_until_the_thread_is_resumed() -> None:
    client = Client(turn(gate("g")), faults=(Fault.echo("unprojected"),))
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0])
    client.run(0.1)
    client.server.exit(-9)
    client.restart()
    client.on("thread/goal/set", status="paused")
    assert client.on("thread/turns/list", itemsView="full")["data"][0]["items"] == []
    assert client.on("turn/steer", expectedTurnId="x", input=[{}]) == f"thread not found: {client.thread}"
    client.on("thread/resume")
    (turn_read,) = client.on("thread/turns/list", itemsView="full")["data"]
    assert (turn_read["status"], len(turn_read["items"])) == ("interrupted", 1)
    client.run(5)
    assert client.turn_ids == []


def test_in_the_hole_only_the_record_knows_a_message_that_the_model_was_shown() -> None:
    client = Client(turn(gate("g")), faults=(Fault.echo("hole", gate="never"),))
    client.server.home = "home"
    client.thread = client.ask("thread/start")["thread"]["id"]
    client.goal()
    client.run(0.02)
    client.steer(client.turn_ids[0])
    client.run(0.1)
    client.server.exit(-9)
    client.restart()
    client.on("thread/resume")
    assert client.on("thread/items/list")["data"] == []
    assert client.server.shown("a steer") == 1
    kinds = [json.loads(line)["payload"].get("type") for _, line in client.server.rollout()]
    assert kinds == [None, "message"]


def test_a_dead_process_says_and_does_nothing_more() -> None:
    client = Client(turn(say("a"), exit_process(3), complete_goal()))
    client.goal()
    client.run(5)
    assert client.server.exited == 3
    assert client.order()[-1] == "item/completed agentMessage"
    assert client.server.next_wakeup() is None
    assert client.server.disk.threads[client.thread].goal.status == "active"  # type: ignore[union-attr]


# -- faults ----------------------------------------------------------------------------------------------------------


def steered(*faults: Fault, steps: tuple[Any, ...] = (gate("g"), complete_goal())) -> tuple[Client, int]:
    client = Client(turn(*steps), turn(complete_goal()), faults=faults)
    client.goal()
    client.run(0.02)
    params = {"expectedTurnId": client.turn_ids[0], "input": [{"type": "text", "text": "a steer"}]}
    request = client.send("turn/steer", threadId=client.thread, clientUserMessageId="c1", **params)
    client.run(0.1)
    return client, request


@pytest.mark.parametrize(
    ("action", "answers", "shown", "exited"),
    [
        ("drop", 0, 0, None),
        ("mute", 0, 1, None),
        ("twice", 2, 1, None),
        ("refuse", 1, 0, None),
        ("lie", 1, 1, None),
        ("exit_before", 0, 0, 1),
        ("exit_after", 0, 0, 1),
        ("exit_answered", 1, 0, 1),
        ("deaf", 1, 1, None),
    ],
)
def test_a_request_fault_decides_whether_it_is_processed_and_answered(
    action: Any, answers: int, shown: int, exited: int | None
) -> None:
    client, request = steered(Fault.request("turn/steer", action, message="no"))
    assert sum(isinstance(m, dict) and m.get("id") == request for m in client.heard) == answers
    assert client.server.shown("a steer") == shown
    assert client.server.exited == exited
    assert client.server.writes("c1") == 1


def test_an_answer_can_come_after_the_next_turn_has_begun() -> None:
    client, request = steered(Fault.request("turn/steer", "delay", gate="late"), steps=(gate("g"),))
    assert client.answer(request) is None
    assert client.server.shown("a steer") == 1
    client.release("g")
    assert len(client.turn_ids) == 2
    client.release("late")
    assert client.answer(request) is not None


def test_an_answer_can_follow_a_named_notification() -> None:
    client, request = steered(Fault.request("turn/steer", "after", after="item/completed"))
    places = [i for i, m in enumerate(client.heard) if m.get("method") == "item/completed" or m.get("id") == request]
    assert client.heard[places[1]].get("id") == request


def test_a_held_request_is_processed_late() -> None:
    client, request = steered(Fault.request("turn/steer", "hold", gate="late"))
    client.release("g")
    assert client.answer(request) is None
    client.release("late")
    assert client.answer(request) == {"id": request, "error": {"code": -32600, "message": "no active turn to steer"}}


@pytest.mark.parametrize(
    ("action", "told", "shown"), [("drop", 0, 1), ("lose", 0, 0), ("duplicate", 2, 2), ("repeat", 2, 1), ("hole", 0, 1)]
)
def test_an_echo_fault_decides_what_is_told_and_what_is_shown(action: Any, told: int, shown: int) -> None:
    client, _ = steered(Fault.echo(action, gate="never", client_id="c1"))
    assert client.order().count("item/completed userMessage c1") == told
    assert client.server.shown("a steer") == shown


def test_a_read_can_be_stale() -> None:
    client, _ = steered(Fault.request("thread/turns/list", "stale"))
    assert client.on("thread/turns/list", itemsView="full")["data"][0]["items"] == []
    assert len(client.on("thread/turns/list", itemsView="full")["data"][0]["items"]) == 1


@pytest.mark.parametrize(
    ("fault", "order"),
    [
        (Fault.notification("turn/started", "drop"), ["goal complete t1", "completed t1"]),
        (
            Fault.notification("turn/completed", "repeat"),
            ["started t1", "goal complete t1", "completed t1", "completed t1"],
        ),
        (
            Fault.notification("turn/started", "delay", after="turn/completed"),
            ["goal complete t1", "completed t1", "started t1"],
        ),
        (
            Fault.notification("thread/goal/updated", "word", n=0, message="sleeping"),
            ["goal sleeping -", "started t1", "goal sleeping t1", "goal sleeping t1", "completed t1"],
        ),
    ],
)
def test_a_notification_fault_changes_what_is_told_and_nothing_else(fault: Fault, order: list[str]) -> None:
    client = Client(turn(complete_goal()), faults=(fault,))
    client.goal()
    client.run()
    assert [word for word in client.order() if "status" not in word and word != "goal active -"] == order
    assert client.on("thread/goal/get")["goal"]["status"] == "complete"


def test_a_notification_can_be_overtaken_by_the_next_one() -> None:
    client = Client(turn(complete_goal()), faults=(Fault.notification("thread/status/changed", "swap"),))
    client.goal()
    client.run()
    assert client.order()[1:3] == ["started t1", "status active"]


def test_a_late_start_with_a_gate_exists_before_it_is_told() -> None:
    client = Client(TurnPlan((complete_goal(),), told_gate="told"))
    client.goal()
    client.run(5)
    assert client.turn_ids == []
    assert "expected active turn id" in client.steer(UNKNOWN)
    client.release("told")
    assert client.order()[-1] == "completed t1"


def test_steps_of_other_clients_and_strange_words() -> None:
    client = Client(
        turn(
            client_steer("theirs", "x1"),
            client_goal(objective="other"),
            notify("thread/unheard"),
            budget_limit(),
            goal_status("sleeping"),
            repeat("turn/started"),
            end("interrupted"),
        )
    )
    client.goal()
    client.run(5)
    assert client.order()[3:] == [
        "item/started userMessage x1",
        "item/completed userMessage x1",
        "goal active -",
        "goal budgetLimited t1",
        "goal sleeping t1",
        "started t1",
        "status idle",
        "interrupted t1",
    ]
    assert client.notifications("thread/unheard")[0]["params"]["turnId"] == client.turn_ids[0]


def test_lines_that_are_no_requests_get_no_answer() -> None:
    client = Client()
    for line in (b"{broken", b"[]", b'{"id": 900}', b'{"id": 901, "result": {}}', b"1", b"\xff"):
        client.server.receive_line(line, client.now)
    client.run()
    assert client.heard == []


def test_a_scenario_survives_its_json() -> None:
    scenario = Scenario(
        Script(turns=(turn(say("x", gate="g"), fail("no", {"httpConnectionFailed": {}}), delay=1.0, thread=1),)),
        (Fault.request("turn/steer", "mute", n=2, client_id="c"),),
    )
    assert Scenario.decode(scenario.encode()) == scenario


def test_a_misspelled_fault_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown action 'mut'; known: drop, mute"):
        Fault.request("turn/steer", "mut")  # type: ignore[arg-type]
