"""What nobody expects on the wire: counted and shown in `engine.anomalies()`, never fatal (surface 29)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from stage import GOAL, acts, on, pauses, soon, state, steers, taped, turn_runs, until

from goalfsm import ResultStatus, TransportClosed
from goalfsm.adapters.simulated import (
    Fault,
    approval,
    complete_goal,
    exit_process,
    gate,
    goal_status,
    notify,
    raw,
    repeat,
    say,
    stray_answer,
    turn,
)

pytestmark = pytest.mark.anyio


def kinds(engine):
    return Counter(odd.kind for odd in engine.anomalies())


async def goal_through(double, policy=None):
    """Run a goal to its end on a double; give the kinds of anomalies, and what the stream said."""
    async with on(double, policy) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        async with taped(goal) as tape:
            result = await goal.result()
            await tape.has("turn/completed")
        assert (result.status, result.id, goal.state) == (ResultStatus.COMPLETED, goal.id, "completed")
        assert tape.words().count("turn/completed") == tape.words().count("turn/started") == 1
        # The thread is as good as before: an ordinary turn works.
        assert (await thread.run("and now?")).final_response == "ok"
        return engine.anomalies(), tape.words(), result


def last(*steps):
    return turn(*steps, complete_goal(), say("done"), kind="goal")


@pytest.mark.parametrize(
    ("lines", "kind", "count"),
    [
        ((raw("{broken"), raw("\x00\xff"), raw("[1, 2]"), raw("17"), raw('"text"')), "malformed", 5),
        ((raw('{"method": 7}'), raw('{"params": {}}'), raw("{}")), "malformed", 3),
        ((stray_answer(ok=True), stray_answer(12345)), "unanswerable", 2),
        ((raw('{"id": null, "error": {"code": 1, "message": "?"}}'),), "unanswerable", 1),
    ],
    ids=["not an object", "no message", "answers to nobody", "an error to nobody"],
)
async def test_lines_that_mean_nothing_are_counted_and_the_goal_goes_on(make_double, lines, kind, count):
    odd, words, _ = await goal_through(make_double(last(say("before"), *lines, say("after"))))
    assert [a.kind for a in odd] == [kind] * count
    assert words[1:4] == ["before", "after", "done"]


async def test_what_is_odd_reaches_the_hosts_log_with_its_thread_and_without_any_text(make_double, caplog):
    double = make_double(last(goal_status("dreaming"), goal_status("active"), say("a secret")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        await (await thread.start_goal("a secret")).result()
    [record] = [each for each in caplog.records if each.name == "goalfsm" and each.levelname == "WARNING"]
    assert (record.getMessage(), record.thread_id) == ("unknown_status", thread.id)
    assert "secret" not in repr(vars(record))


async def test_an_empty_line_is_nothing(make_double):
    odd, _, _ = await goal_through(make_double(last(raw(""), raw("   "))))
    assert odd == []


async def test_a_method_that_no_client_knows_reaches_readers_and_harms_nobody(make_double):
    double = make_double(last(notify("thread/dreamt", dream="of sheep")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        async with taped(goal) as tape:
            await goal.result()
            await tape.has("turn/completed")
        [dreamt] = [event for event in tape.events if event.method == "thread/dreamt"]
        assert (dreamt.params["dream"], dreamt.params["turnId"], dreamt.source) == ("of sheep", goal.id, "provider")
        assert kinds(engine) == {"unknown_method": 1}


@pytest.mark.parametrize("method", ["turn/completed", "turn/started", "item/completed", "thread/goal/updated"])
async def test_a_notification_told_twice_changes_nothing(make_double, method):
    fault = Fault.notification(method, "repeat", 0)
    _, words, result = await goal_through(make_double(turn(say("one")), last(), faults=(fault,)))
    assert [word for word in words if word in ("one", "done")] == ["one", "done"] or method == "item/completed"
    assert result.final_response == "done"


async def test_a_late_completion_of_an_older_turn_does_not_end_the_running_one(make_double):
    double = make_double(turn(say("one")), last(complete_goal(), repeat("turn/completed"), gate("go"), say("two")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        second = await turn_runs(thread, 2)
        await until(thread, lambda: thread._runtime.core.goal.state == "complete")
        message = await thread.submit("still there?", id="m1")
        # Its echo comes after the late completion on the wire: that one was handled and ended nothing.
        assert (await message.settled()).physical_turn_id == second
        assert (goal.state, thread._runtime.core.turn.state) == ("running", "running")
        double.release("go")
        result = await goal.result()
        assert (result.status, result.final_response) == (ResultStatus.COMPLETED, "done")
        assert double.writes("m1") == 1


@pytest.mark.parametrize("action", ["drop", "garble"])
@pytest.mark.parametrize("method", ["turn/completed", "turn/started", "thread/goal/updated"])
async def test_a_lost_notification_of_the_first_turn_does_not_strand_the_goal(make_double, method, action):
    number = 2 if method == "turn/started" else 1
    fault = Fault.notification(method, action, number)
    odd, _, result = await goal_through(make_double(turn(say("one")), turn(say("two")), last(), faults=(fault,)))
    assert result.final_response == "done"
    assert ("malformed" in [a.kind for a in odd]) == (action == "garble")


async def test_an_unknown_goal_status_is_shown_with_its_word(make_double):
    double = make_double(turn(goal_status("dreaming"), goal_status("active")), last())
    odd, _, _ = await goal_through(double)
    assert [(a.kind, "dreaming" in a.detail) for a in odd] == [("unknown_status", True)]


async def test_an_answer_that_comes_twice_is_counted_once(make_double):
    double = make_double(turn(gate("go"), complete_goal()), faults=(Fault.request("turn/steer", "twice"),))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        assert (await (await thread.submit("hi", id="m1")).settled()).state == "delivered"
        double.release("go")
        await goal.result()
        assert (kinds(engine), double.writes("m1")) == ({"unanswerable": 1}, 1)


async def test_a_torn_answer_to_a_steer_is_no_refusal(make_double):
    double = make_double(
        turn(gate("go"), complete_goal()), faults=(Fault.request("turn/steer", "garble"), Fault.echo("drop"))
    )
    async with on(double, soon(answer=0.1)) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("hi", id="m1")
        assert (await message.settled()).state == "uncertain"
        double.release("go")
        await goal.result()
        await state(message, "delivered")
        assert (kinds(engine), double.writes("m1")) == ({"malformed": 1}, 1)


async def test_a_refusal_that_was_a_lie_raises_an_alarm_and_the_evidence_wins(make_double):
    lie = Fault.request("turn/steer", "lie", message="no, thank you")
    double = make_double(turn(gate("go"), complete_goal()), faults=(lie,))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("hi", id="m1")
        await state(message, "delivered")
        double.release("go")
        await goal.result()
        [alarm] = engine.anomalies()
        assert (alarm.kind.startswith("alarm_"), "'m1'" in alarm.detail) == (True, True)
        assert (message.evidence.startswith("echo of item"), double.writes("m1")) == (True, 1)


# -- the server asks -------------------------------------------------------------------------------------------------

REQUESTS = {
    "item/commandExecution/requestApproval": ({"decision": "decline"}, {"decision": "accept"}),
    "item/fileChange/requestApproval": ({"decision": "decline"}, {"decision": "accept"}),
}


async def decided(double, approvals=None):
    policy = soon(**({} if approvals is None else {"approvals": approvals}))
    odd, _, _ = await goal_through(double, policy)
    return odd, [decision.get("result", decision.get("error")) for decision in double.disk().decisions]


@pytest.mark.parametrize("method", REQUESTS)
async def test_an_approval_is_declined_by_default_and_shown(make_double, method):
    odd, answers = await decided(make_double(last(approval(method, command="rm -rf"))))
    assert answers == [REQUESTS[method][0]]
    assert [(a.kind, method in a.detail) for a in odd] == [("declined", True)]


@pytest.mark.parametrize("method", REQUESTS)
async def test_an_approval_is_given_if_the_policy_says_so(make_double, method):
    odd, answers = await decided(make_double(last(approval(method))), "approve")
    assert (answers, odd) == ([REQUESTS[method][1]], [])


async def test_a_host_may_answer_approvals_itself_and_take_its_time(make_double):
    asked, may_go = [], asyncio.Event()

    async def ask(request):
        asked.append((request.method, request.params["command"], bool(request.thread_id)))
        await may_go.wait()
        return {"decision": "acceptForSession"}

    double = make_double(last(approval(command="ls"), say("ran it")))
    async with on(double, soon(approvals=ask)) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        async with taped(goal) as tape:
            await tape.has("turn/started")
            # While the host thinks, everything else goes on: a message reaches the turn that waits for it.
            assert (await (await thread.submit("hurry", id="m1")).settled()).state == "delivered"
            assert double.disk().decisions == []
            may_go.set()
            await goal.result()
        assert double.disk().decisions == [{"id": 0, "result": {"decision": "acceptForSession"}}]
        assert (asked, engine.anomalies()) == ([("item/commandExecution/requestApproval", "ls", True)], [])


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("approve", {"decision": "accept"}),
        ("decline", {"decision": "decline"}),
        ({"decision": "cancel"}, {"decision": "cancel"}),
    ],
)
async def test_a_host_callback_may_be_plain_and_answer_in_a_word(make_double, answer, sent):
    odd, answers = await decided(make_double(last(approval())), lambda _request: answer)
    assert (answers, odd) == ([sent], [])


async def test_a_host_callback_that_fails_declines_and_is_shown(make_double):
    def broken(_request):
        raise LookupError("no idea")

    odd, answers = await decided(make_double(last(approval())), broken)
    assert answers == [{"decision": "decline"}]
    assert [(a.kind, "no idea" in a.detail) for a in odd] == [("approval_failed", True)]


async def test_a_request_that_nobody_knows_gets_an_error_and_is_shown(make_double):
    odd, answers = await decided(make_double(last(approval("item/dance/requestApproval"))))
    assert [answer["code"] for answer in answers] == [-32601]
    assert [a.kind for a in odd] == ["unknown_method"]


# -- the server ends in the middle of a steer ------------------------------------------------------------------------


async def after_resume(engine, thread_id, double):
    again = await engine.resume_thread(thread_id)
    assert (await again.status()).reconciled
    assert [entry["method"] for entry in double.log()].count("initialize") == 2
    return again


@pytest.mark.parametrize("action", ["exit_before", "exit_after", "exit_answered"])
async def test_a_server_that_ends_during_a_steer_leaves_it_uncertain_until_the_thread_is_read_back(make_double, action):
    double = make_double(turn(gate("go")), faults=(Fault.request("turn/steer", action, code=3),))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("lost?", id="m1")
        waiting = await thread.submit("not yet sent", id="m2", when="queue")
        with pytest.raises(TransportClosed, match="return code 3"):
            await goal.result()
        outcome = await message.settled()
        assert (outcome.state, "connection ended" in outcome.reason) == ("uncertain", True)
        assert (waiting.state, waiting.reason) == ("queued", "waits: the thread has to be read back first")
        assert engine.live() == []
        await after_resume(engine, thread.id, double)
        outcome = await message.settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "read_back: absent after its turn ended")
        # What was in doubt rests now and blocks nobody; what was never sent goes on, once.
        await state(waiting, "delivered")
        assert (double.writes("m1"), double.writes("m2"), message.state) == (1, 1, "requeued")
        assert pauses(double) == 1


async def test_a_server_that_showed_a_steer_and_ended_before_the_answer_is_read_back_as_delivered(make_double):
    faults = (Fault.request("turn/steer", "mute"), Fault.echo("drop"))
    double = make_double(turn(gate("go"), exit_process(1)), faults=faults)
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("shown", id="m1")
        await double.received("turn/steer")
        double.release("go")
        with pytest.raises(TransportClosed):
            await goal.result()
        assert (await message.settled()).state == "uncertain"
        await after_resume(engine, thread.id, double)
        outcome = await message.settled()
        fate = "delivered" if double.shown("shown") else "requeued"
        assert (outcome.state, outcome.evidence.startswith("read_back")) == (fate, True)
        assert (double.writes("m1"), len(steers(double))) == (1, 1)


async def test_a_server_killed_in_the_gap_gives_a_waiting_message_back(make_double):
    double = make_double(turn(say("one")), turn(start_gate="never"))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        await until(goal, lambda: goal.state == "gap")
        message = await thread.submit("in the gap", id="m1")
        await state(message, "accepted")
        double.kill()
        outcome = await message.settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "zero_bytes: it was never handed to the provider")
        with pytest.raises(TransportClosed, match="SIGKILL"):
            await goal.result()
        await after_resume(engine, thread.id, double)
        assert (message.state, acts(double)) == ("requeued", [*GOAL, "thread/goal/set", "thread/resume"])
