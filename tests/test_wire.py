"""What the wire's messages mean, as a table, and that nothing on it can break the mapper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalfsm import events as ev
from goalfsm._adapter import Look
from goalfsm._values import GoalStatus
from goalfsm.adapters._history import (
    Record,
    Seen,
    UserLine,
    judge_history,
    judge_record,
    read_record,
    seen_in,
)
from goalfsm.adapters._methods import KNOWN_REQUESTS, approval_answer
from goalfsm.adapters._wire import (
    Answered,
    Facts,
    GoalSeen,
    Mapper,
    Noted,
    Odd,
    Pending,
    ServerRequest,
    goal_view,
    pending_for,
)

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
RECORDINGS = sorted(path for path in TRACES.glob("*.jsonl") if not path.name.endswith(".model.jsonl"))
T, U, V = "thread-1", "turn-1", "turn-2"


def goal(status="active", objective="do it", created=7):
    return {"threadId": T, "objective": objective, "status": status, "tokensUsed": 3, "createdAt": created}


REF = goal_view(goal()).ref


def note(method, emitted=1_500, **params):
    return {"method": method, "params": {"threadId": T, **params}, "emittedAtMs": emitted}


def facts_of(heard):
    return [event for each in heard if isinstance(each, Facts) for event in each.events]


def turn(status, turn_id=U, error=None):
    return {"id": turn_id, "status": status, "error": error, "startedAt": 1, "completedAt": 2, "items": []}


def user_item(client="m-1", item="item-uuid"):
    return {"type": "userMessage", "id": item, "clientId": client, "content": [{"type": "text", "text": "hi"}]}


NOTIFICATIONS = [
    (note("turn/started", turn=turn("inProgress")), [ev.TurnStarted(turn_id=U)]),
    (note("turn/completed", turn=turn("completed")), [ev.TurnCompleted(turn_id=U)]),
    (note("turn/completed", turn=turn("interrupted")), [ev.TurnInterrupted(turn_id=U)]),
    (note("turn/completed", turn=turn("failed", error={"message": "no"})), [ev.TurnFailed(turn_id=U, message="no")]),
    (note("turn/completed", turn=turn("failed", error=None)), [ev.TurnFailed(turn_id=U)]),
    (note("thread/goal/updated", goal=goal("active"), turnId=None), [ev.GoalActive(ref=REF)]),
    (note("thread/goal/updated", goal=goal("paused"), turnId=None), [ev.GoalPaused(ref=REF)]),
    (note("thread/goal/updated", goal=goal("blocked"), turnId=U), [ev.GoalBlocked(ref=REF)]),
    (note("thread/goal/updated", goal=goal("usageLimited"), turnId=U), [ev.GoalUsageLimited(ref=REF)]),
    (note("thread/goal/updated", goal=goal("budgetLimited"), turnId=U), [ev.GoalBudgetLimited(ref=REF)]),
    (note("thread/goal/updated", goal=goal("complete"), turnId=U), [ev.GoalCompleted(ref=REF)]),
    (note("thread/goal/updated", goal=None), [ev.GoalCleared()]),
    (note("thread/goal/cleared"), [ev.GoalCleared()]),
    (note("item/started", item=user_item(), turnId=U), [ev.Echo(id="m-1", item="item-uuid", turn_id=U)]),
    (note("item/completed", item=user_item(), turnId=U), [ev.Echo(id="m-1", item="item-uuid", turn_id=U)]),
    (note("item/completed", item=user_item(item="item-1"), turnId=U), [ev.Echo(id="m-1", item="", turn_id=U)]),
    (note("item/completed", item=user_item(client=None), turnId=U), []),
    (note("item/completed", item={"type": "agentMessage", "id": "a", "text": "x"}, turnId=U), []),
    (note("item/agentMessage/delta", turnId=U, itemId="a", delta="x"), []),
    (note("thread/status/changed", status={"type": "idle"}), []),
]


@pytest.mark.parametrize(
    ("msg", "expected"), NOTIFICATIONS, ids=lambda value: value.get("method") if isinstance(value, dict) else ""
)
def test_a_notification_gives_its_facts_and_then_itself(msg, expected):
    heard = Mapper().heard(msg)
    assert facts_of(heard) == expected
    assert isinstance(heard[-1], Noted)
    assert (heard[-1].thread_id, heard[-1].notification.method) == (T, msg["method"])
    assert heard[-1].notification.params == msg["params"]
    assert not [each for each in heard if isinstance(each, Odd)]


def test_a_goal_is_shown_before_its_fact_with_its_raw_word_and_an_unknown_word_is_counted():
    odd, seen, fact, _ = Mapper().heard(note("thread/goal/updated", goal={**goal("asleep"), "tokenBudget": 500}))
    assert isinstance(odd, Odd)
    assert (odd.kind, "asleep" in odd.detail) == ("unknown_status", True)
    assert isinstance(seen, GoalSeen)
    assert isinstance(fact, Facts)
    assert fact.events == (ev.GoalUnrecognised(ref=REF, word="asleep"),)
    assert seen.view is not None
    assert (seen.view.status, seen.view.raw_status) == (GoalStatus.UNKNOWN, "asleep")
    assert (seen.view.token_budget, seen.view.tokens_used, seen.view.objective) == (500, 3, "do it")


def test_the_goals_identity_is_its_objective_and_creation_time():
    assert goal_view(goal("paused")).ref == REF
    assert goal_view(goal(objective="other")).ref != REF
    assert goal_view(goal(created=8)).ref != REF


def test_a_turn_that_ends_with_an_unknown_word_is_over_but_neither_a_success_nor_a_stop():
    odd, fact, _ = Mapper().heard(note("turn/completed", turn=turn("evaporated")))
    assert isinstance(odd, Odd)
    assert odd.kind == "unknown_status"
    assert isinstance(fact, Facts)
    [event] = fact.events
    assert isinstance(event, ev.TurnFailed)
    assert "evaporated" in event.message


def test_what_a_result_is_built_from_is_marked():
    mapper = Mapper()
    counts = {"inputTokens": 5, "cachedInputTokens": 1, "outputTokens": 2, "reasoningOutputTokens": 1, "totalTokens": 7}
    usage = mapper.heard(note("thread/tokenUsage/updated", turnId=U, tokenUsage={"total": counts, "last": counts}))[-1]
    item = mapper.heard(note("item/completed", turnId=U, item={"type": "agentMessage", "id": "a", "text": "x"}))[-1]
    begun = mapper.heard(note("item/started", turnId=U, item={"type": "agentMessage", "id": "a", "text": ""}))[-1]
    started = mapper.heard(note("turn/started", turn=turn("inProgress"), emitted=1_250))[-1]
    ended = mapper.heard(note("turn/completed", turn=turn("failed", error={"message": "no"}), emitted=2_750))[-1]
    found = [each.notification for each in (usage, item, begun, started, ended) if isinstance(each, Noted)]
    assert [each.kind for each in found] == ["usage", "item", "other", "turn_started", "turn_completed"]
    assert [each.turn_id for each in found] == [U] * 5
    assert found[0].usage is not None
    assert found[0].usage.total.total_tokens == 7
    assert found[1].item == {"type": "agentMessage", "id": "a", "text": "x"}
    assert (found[3].started_at, found[4].completed_at, found[4].error) == (1.25, 2.75, "no")


def test_an_unknown_notification_reaches_readers_and_is_counted():
    odd, noted = Mapper().heard(note("thread/dream/started", turnId=U))
    assert isinstance(odd, Odd)
    assert isinstance(noted, Noted)
    assert (odd.thread_id, odd.kind) == (T, "unknown_method")
    assert (noted.thread_id, noted.notification.turn_id) == (T, U)


def test_a_notification_of_no_thread_is_passed_on_without_one():
    [noted] = Mapper().heard({"method": "configWarning", "params": {"summary": "x"}})
    assert isinstance(noted, Noted)
    assert noted.thread_id == ""


# -- answers ----------------------------------------------------------------------------------------------------------

STEER = Pending("send", T, 0, "m-1", 4, "steer", U)
START = Pending("send", T, 0, "m-1", 4, "start")
S = {"id": "m-1", "attempt": 4}


def ok(**result):
    return {"id": 1, "result": result}


def no(message, code=-32600):
    return {"id": 1, "error": {"code": code, "message": message}}


def call(kind, number=3):
    return Pending(kind, T, number)


ANSWERS = [
    (STEER, ok(turnId=U), [ev.SendOk(**S, turn_id=U)]),
    (START, ok(turn=turn("inProgress", V)), [ev.SendOk(**S, turn_id=V)]),
    (STEER, no("no active turn to steer"), [ev.SendMoved(**S, code=-32600, message="no active turn to steer")]),
    (
        STEER,
        no("expected active turn id `a` but found `b-2`"),
        [ev.SendMoved(**S, found="b-2", code=-32600, message="expected active turn id `a` but found `b-2`")],
    ),
    (
        STEER,
        no("expected active turn id a but found b-2"),
        [ev.SendMoved(**S, found="b-2", code=-32600, message="expected active turn id a but found b-2")],
    ),
    (STEER, no("input must not be empty"), [ev.SendRefused(**S, code=-32600, message="input must not be empty")]),
    (START, no("thread not found: x"), [ev.SendRefused(**S, code=-32600, message="thread not found: x")]),
    (call("clear_goal"), ok(cleared=True), [ev.GoalCleared(), ev.ClearOk(call=3)]),
    (call("clear_goal"), ok(cleared=False), [ev.GoalCleared(), ev.ClearOk(call=3)]),
    (call("set_goal"), ok(goal=goal()), [ev.GoalActive(ref=REF), ev.SetOk(call=3)]),
    (
        call("set_goal"),
        no("goals feature is disabled"),
        [ev.CallRefused(call=3, code=-32600, message="goals feature is disabled")],
    ),
    (call("set_goal"), ok(), [ev.CallLost(call=3)]),
    (call("pause_goal"), ok(goal=goal("paused")), [ev.GoalPaused(ref=REF), ev.PauseOk(call=3)]),
    (call("pause_goal", 0), ok(goal=goal("paused")), [ev.GoalPaused(ref=REF)]),
    (call("get_goal"), ok(goal=None), [ev.GoalCleared()]),
    (call("get_goal"), ok(goal=goal("blocked")), [ev.GoalBlocked(ref=REF)]),
    (call("get_goal"), no("thread not found: x"), []),
    (call("interrupt_turn"), ok(), [ev.InterruptOk(call=3)]),
    (call("interrupt_turn"), no("no active turn to interrupt"), [ev.InterruptNone(call=3)]),
    (call("interrupt_turn"), no("expected active turn id a but found b"), [ev.InterruptOther(call=3, found="b")]),
    (call("interrupt_turn"), no("not today", -32603), [ev.InterruptRefused(call=3, code=-32603, message="not today")]),
    (call("interrupt_turn"), {"id": 1, "error": 7}, [ev.CallLost(call=3)]),
    (call("interrupt_turn", 0), ok(), []),
    (
        call("pause_check"),
        ok(goal=None),
        [ev.GoalCleared(), ev.CallRefused(call=3, code=-32600, message="no goal exists")],
    ),
    (
        call("pause_check"),
        ok(goal=goal("complete")),
        [ev.GoalCompleted(ref=REF), ev.CallRefused(call=3, code=-32600, message="no active goal to pause: complete")],
    ),
    (call("pause_check"), ok(goal=goal("paused")), [ev.GoalPaused(ref=REF), ev.PauseOk(call=3)]),
    (call("pause_check"), ok(goal=goal("active")), []),
]


@pytest.mark.parametrize(("pending", "answer", "expected"), ANSWERS)
def test_an_answer_means_what_its_request_was(pending, answer, expected):
    mapper = Mapper()
    mapper.asked(1, pending)
    assert facts_of(mapper.heard(answer)) == expected


@pytest.mark.parametrize("answer", [ok(turnId=V), ok(turnId=None), ok(), {"id": 1, "result": 5}, {"id": 1}, no("x", 0)])
def test_a_steer_answer_that_names_the_wrong_turn_or_none_proves_nothing(answer):
    mapper = Mapper()
    mapper.asked(1, STEER)
    [event] = facts_of(mapper.heard(answer))
    assert isinstance(event, ev.AnswerLost)
    assert (event.id, event.attempt) == ("m-1", 4)


def test_a_goal_that_may_run_is_handed_back_to_be_paused_and_no_other():
    for status, expected in [("active", 1), ("asleep", 1), ("complete", 0), ("blocked", 0), ("paused", 0)]:
        mapper = Mapper()
        mapper.asked(1, Pending("pause_check", T, 3, waiter=object()))
        heard = mapper.heard(ok(goal=goal(status)))
        assert sum(isinstance(each, Answered) for each in heard) == expected, status


def test_an_awaited_answer_comes_after_its_facts_and_only_once():
    mapper = Mapper()
    mapper.asked(1, Pending("set_goal", T, waiter="w"))
    *_, fact, answered = mapper.heard(ok(goal=goal()))
    assert isinstance(fact, Facts)
    assert isinstance(answered, Answered)
    assert (answered.pending.waiter, answered.result, answered.error) == ("w", {"goal": goal()}, None)
    [odd] = mapper.heard(ok(goal=goal()))
    assert isinstance(odd, Odd)
    assert odd.kind == "unanswerable"


GARBAGE = [
    None,
    7,
    "text",
    [],
    [{"method": "turn/started"}],
    {},
    {"id": None},
    {"id": [1], "result": {}},
    {"id": True, "result": {}},
    {"id": "1", "result": {}},
    {"method": 5},
    {"method": ["turn/started"]},
    {"method": "turn/started", "params": 5},
    {"method": "turn/started"},
    {"method": "turn/completed", "params": {"threadId": T, "turn": None}},
    {"method": "turn/completed", "params": {"threadId": 5, "turn": {"id": 5}}},
    {"method": "thread/goal/updated", "params": {"threadId": T, "goal": "active"}},
    {"method": "thread/goal/cleared", "params": {}},
    {"method": "item/completed", "params": {"threadId": T, "turnId": U, "item": []}},
    {"method": "thread/tokenUsage/updated", "params": {"threadId": T, "tokenUsage": {"total": 5}}},
]


@pytest.mark.parametrize("msg", GARBAGE)
def test_garbage_is_counted_and_breaks_nothing(msg):
    mapper = Mapper()
    mapper.asked(1, STEER)
    heard = mapper.heard(msg)
    assert [each.kind for each in heard if isinstance(each, Odd)]
    assert facts_of(heard) == []
    assert facts_of(mapper.heard(ok(turnId=U))) == [ev.SendOk(**S, turn_id=U)]


def test_parts_that_no_fact_rests_on_may_change_their_type():
    told = {"id": U, "status": "completed", "error": [1], "startedAt": "soon", "completedAt": {}, "items": 5}
    heard = Mapper().heard({"method": "turn/completed", "params": {"threadId": T, "turn": told}, "emittedAtMs": "x"})
    assert facts_of(heard) == [ev.TurnCompleted(turn_id=U)]
    strange = {**goal("complete"), "tokenBudget": "much", "tokensUsed": None, "createdAt": [], "objective": 4}
    [fact] = facts_of(Mapper().heard(note("thread/goal/updated", goal=strange)))
    assert isinstance(fact, ev.GoalCompleted)


def test_a_request_of_the_server_is_handed_on_with_its_thread():
    [request] = Mapper().heard({"id": "r", "method": "execCommandApproval", "params": {"conversationId": T}})
    assert request == ServerRequest("r", "execCommandApproval", {"conversationId": T}, T)


def test_a_plain_word_is_answered_in_the_shape_of_each_request():
    command = "item/commandExecution/requestApproval"
    assert approval_answer(command, {}, "decline") == {"decision": "decline"}
    assert approval_answer(command, {}, "approve") == {"decision": "accept"}
    assert approval_answer("execCommandApproval", {}, "approve") == {"decision": "approved"}
    assert approval_answer("item/permissions/requestApproval", {"permissions": {"a": 1}}, "approve") == {
        "permissions": {"a": 1}
    }
    assert approval_answer("item/permissions/requestApproval", {"permissions": {"a": 1}}, "decline") == {
        "permissions": {}
    }
    assert approval_answer("currentTime/read", {}, "approve") is None
    assert {word for word in KNOWN_REQUESTS if approval_answer(word, {}, "decline") is None} == {
        "account/chatgptAuthTokens/refresh",
        "attestation/generate",
        "currentTime/read",
    }


# -- recorded traffic -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not RECORDINGS, reason="the recordings live beside the repository")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_traffic_of_the_real_server_holds_nothing_odd(path):
    mappers: dict[str, Mapper] = {}
    odd, sent, decided, ended = [], 0, 0, 0
    for line in path.read_text().splitlines():
        row = json.loads(line)
        mapper, msg = mappers.setdefault(row.get("conn", ""), Mapper()), row["msg"]
        if row["dir"] == "send":
            if msg.get("method") == "initialize":
                mapper = mappers[row.get("conn", "")] = Mapper()
            if "id" in msg and "method" in msg:
                pending = pending_for(msg, number=1)
                sent += pending.kind == "send"
                mapper.asked(msg["id"], pending)
            continue
        heard = mapper.heard(msg)
        odd += [each for each in heard if isinstance(each, Odd)]
        facts = facts_of(heard)
        decided += sum(isinstance(fact, ev.SendOk | ev.SendMoved | ev.SendRefused | ev.AnswerLost) for fact in facts)
        ended += sum(isinstance(fact, ev.TurnCompleted | ev.TurnFailed | ev.TurnInterrupted) for fact in facts)
    assert odd == []
    assert decided <= sent
    assert ended == path.read_text().count('"method": "turn/completed"')


# -- the history ------------------------------------------------------------------------------------------------------


def look(client="m-1", turn_id=U, *, text="hi", position=None, after_resume=False):
    return Look(client, 4, turn_id, 2, text, position, after_resume)


def page(*turns, more=None):
    return seen_in({"data": list(turns), "nextCursor": more})


def listed(turn_id, status, *items):
    return {"id": turn_id, "status": status, "items": list(items)}


def test_a_message_is_found_once_for_each_item_that_shows_it():
    seen = page(listed(V, "inProgress", user_item(item="b")), listed(U, "completed", user_item(item="a")))
    assert judge_history(look(), seen) == (
        "found",
        [ev.Found(id="m-1", item="b", turn_id=V), ev.Found(id="m-1", item="a", turn_id=U)],
    )


def test_a_numbered_item_of_a_legacy_history_names_no_item():
    assert judge_history(look(), page(listed(U, "completed", user_item(item="item-3"))))[1] == [
        ev.Found(id="m-1", item="", turn_id=U)
    ]


@pytest.mark.parametrize(
    ("wanted", "seen", "verdict"),
    [
        (look(), page(listed(U, "completed")), "absent"),
        (look(), page(listed(U, "inProgress")), "open"),
        (look(), page(listed(U, "evaporated")), "open"),
        (look(), page(), "open"),
        (look(), Seen(), "open"),
        (look(turn_id=""), page(listed(U, "completed")), "unprovable"),
        (look(after_resume=True), page(listed(U, "interrupted")), "absent"),
        (look(after_resume=True), page(listed(U, "inProgress")), "open"),
        (look(after_resume=True), page(listed(V, "completed")), "absent"),
        (look(after_resume=True), page(listed(V, "completed"), more="c"), "open"),
        (look(turn_id="", after_resume=True), page(listed(V, "completed")), "absent"),
    ],
)
def test_absence_counts_only_when_that_read_shows_the_turn_as_over(wanted, seen, verdict):
    assert judge_history(wanted, seen) == (verdict, [])


def test_a_read_of_something_else_shows_nothing():
    for odd in (None, {}, {"data": 5}, {"data": [None, {"id": 5}, {"id": U, "items": None}]}):
        assert seen_in(odd).messages in ((), [])


OVER = page(listed(U, "interrupted"), listed(V, "completed"))


def line(offset=50, text="hi", turn_id=U):
    return UserLine((text,), turn_id, offset)


def after(client="m-1", **fields):
    return look(client, after_resume=True, **{"position": 10, **fields})


def verdicts(looks, *lines, torn=(), size=1000):
    found = judge_record(looks, Record(lines, torn, size), OVER)
    return {event.id: type(event).__name__ for event in found}  # type: ignore[attr-defined]


def test_the_record_shows_a_message_that_no_read_shows():
    assert verdicts([after()], line()) == {"m-1": "Found"}
    assert judge_record([after()], Record([line()], (), 99), OVER) == [ev.Found(id="m-1", turn_id=U, where="rollout")]


def test_a_line_from_before_the_fence_is_not_the_message():
    assert verdicts([after(position=60)], line(offset=50)) == {"m-1": "Absent"}


def test_a_longer_text_that_holds_the_message_is_not_the_message():
    # The server's own goal context is such a line, and it holds many a short text.
    assert verdicts([after()], line(text="say hi there")) == {"m-1": "Absent"}


def test_no_line_with_the_text_proves_absence():
    assert judge_record([after()], Record([line(text="other")], (), 99), OVER) == [
        ev.Absent(id="m-1", attempt=4, gen=2)
    ]


def test_two_messages_with_one_text_and_one_line_both_stay_open():
    assert verdicts([after("m-1"), after("m-2")], line()) == {"m-1": "ReadFailed", "m-2": "ReadFailed"}


def test_two_messages_with_one_text_and_two_lines_claim_one_each():
    looks = [after("m-1", position=10), after("m-2", position=60)]
    assert verdicts(looks, line(50), line(70)) == {"m-1": "Found", "m-2": "Found"}


@pytest.mark.parametrize(
    ("wanted", "lines", "torn", "size"),
    [
        (after(), [line(turn_id=V)], (), 1000),
        (after(), [UserLine(("hi", "picture"), U, 50)], (), 1000),
        (after(position=None), [line()], (), 1000),
        (after(), [], (60,), 1000),
        (after(), [], (), 5),
    ],
    ids=["other turn", "more parts", "no fence position", "torn line", "shortened"],
)
def test_what_does_not_quite_fit_decides_nothing(wanted, lines, torn, size):
    assert verdicts([wanted], *lines, torn=torn, size=size) == {"m-1": "ReadFailed"}


def test_a_line_of_a_turn_that_still_runs_may_be_somebody_elses():
    running = page(listed(U, "inProgress"))
    [event] = judge_record([after(turn_id="")], Record([line()], (), 99), running)
    assert isinstance(event, ev.ReadFailed)


def model_line(text, turn_id=U):
    passed = {"turn_id": turn_id}
    content = [{"type": "input_text", "text": text}]
    payload = {
        "type": "message",
        "role": "user",
        "content": content,
        "internal_chat_message_metadata_passthrough": passed,
    }
    return {"type": "response_item", "payload": payload}


def item_line(text, client):
    item = {"type": "UserMessage", "id": "i", "client_id": client, "content": [{"type": "text", "text": text}]}
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def test_only_user_lines_that_no_item_accounts_for_are_loose(tmp_path):
    record = tmp_path / "rollout.jsonl"
    lines = [model_line("a"), model_line("b"), item_line("b", "m-2"), model_line("a"), item_line("a", None)]
    raw = "".join(json.dumps(each) + "\n" for each in lines)
    record.write_text(raw + '{"type":"response_item","payload":{"role":"us')
    found = read_record(str(record))
    assert [(each.texts, each.turn_id, each.offset) for each in found.loose] == [(("a",), U, 0)]
    assert list(found.torn) == [len(raw)]
    assert found.size == record.stat().st_size
