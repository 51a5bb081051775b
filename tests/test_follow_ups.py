"""Messages to a thread, point by point (surface 17 to 25): on the double where writes are counted, on a clock of the test's
own where deadlines are.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest
from stage import GOAL, LIMIT, Frozen, acts, fill_pipe, on, soon, state, steers, taped, turn_runs, until

import goalfsm
from goalfsm import GoalStatus, IllegalCommand, Policy, ProviderRefused, ResultStatus
from goalfsm.adapters.simulated import Fault, Script, Simulated, complete_goal, end, gate, goal_status, say, turn, wait
from goalfsm.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(double, *, policy=None):
    """A goal in its first turn on a double: thread and goal."""
    async with on(double, policy) as engine:
        thread = await engine.start_thread()
        yield thread, await thread.start_goal("x")


@asynccontextmanager
async def in_gap(double, *, policy=None):
    """The same goal between its first turn and its second, which waits for the gate `second`."""
    async with running(double, policy=policy) as (thread, goal):
        await until(goal, lambda: goal.state == "gap")
        yield thread, goal


def gap_script(*steps):
    return turn(say("one")), turn(*steps, complete_goal(), start_gate="second")


def order(double):
    """Client ids in the order in which they were written, with the route."""
    return [(e["method"].removeprefix("turn/"), e["client_id"]) for e in double.log() if e["client_id"]]


async def quiet(thread):
    """Everything written so far was read: an answer to a later question has come."""
    await thread._runtime.engine.connection.get_goal(thread.id)


# -- one id, one message (18) ----------------------------------------------------------------------------------------


async def test_the_same_id_and_text_is_one_message_also_at_once_and_after_its_delivery(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal()))) as (thread, goal):
        handles = await asyncio.gather(*(thread.submit("once", id="m1") for _ in range(5)))
        await asyncio.gather(*(handle.settled() for handle in handles))
        again = await thread.submit("once", id="m1")
        assert (await again.settled()).state == "delivered"
        double.release("go")
        await goal.result()
        assert (await (await thread.submit("once", id="m1")).settled()).turn_id == goal.id
        assert double.writes("m1") == 1
        assert [m.id for m in thread.follow_ups(all=True)] == ["m1"]


@pytest.mark.parametrize("other", [{"text": "twice"}, {"text": "once", "attachments": [{"type": "image", "url": "u"}]}])
async def test_an_id_taken_by_another_content_is_refused_and_nothing_changes(make_double, other):
    async with running(double := make_double(turn(gate("go")))) as (thread, _goal):
        await (await thread.submit("once", id="m1")).settled()
        core = thread._runtime.core
        with pytest.raises(IllegalCommand, match="'m1' is taken by another text") as refused:
            await thread.submit(**other, id="m1")
        assert (refused.value.machine, refused.value.state, refused.value.command) == (
            "follow_up",
            "delivered",
            "submit",
        )
        assert thread._runtime.core is core
        assert double.writes("m1") == 1


async def test_a_returned_message_continues_under_its_id(make_double):
    refuse = Fault.request("turn/steer", "refuse", message="not now, thank you")
    double = make_double(turn(gate("go")), turn(gate("two")), faults=(refuse,))
    async with running(double) as (thread, _goal):
        outcome = await (await thread.submit("again", id="m1")).settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "refusal: not now, thank you")
        message = await thread.submit("again", id="m1")
        # The turn that refused it is not asked again (decisions 14).
        assert message.state == "queued"
        double.release("go")
        await state(message, "delivered")
        assert (double.writes("m1"), double.shown("again")) == (2, 1)


# -- where a message goes (17, 22) -----------------------------------------------------------------------------------


async def test_an_idle_thread_gives_a_message_a_turn_of_its_own(make_double):
    async with on(double := make_double()) as engine:
        thread = await engine.start_thread()
        outcome = await (await thread.submit("hello", id="m1")).settled()
        assert outcome.state == "delivered"
        assert order(double) == [("start", "m1")]


async def test_the_fence_of_a_message_that_begins_its_own_turn_knows_the_size_of_the_providers_record(make_double):
    async with on(double := make_double(turn(say("ok")), faults=(Fault.request("turn/start", "mute"),))) as engine:
        thread = await engine.start_thread()
        message = await thread.submit("hello", id="m1")
        fence = [entry.record for entry in await engine.journal.read(thread.id) if b"write_fence" in entry.record]
        assert len(fence) == 1
        assert b'"position":' in fence[0]
        assert (await message.settled()).state == "delivered"
        assert double.writes("m1") == 1


async def test_a_steer_with_nothing_running_comes_back_with_the_reason(make_double):
    async with on(double := make_double()) as engine:
        thread = await engine.start_thread()
        message = await thread.submit("steer this", id="m1", when="steer")
        outcome = await message.settled()
        assert (outcome.state, outcome.reason.rpartition(": ")[2]) == ("requeued", "nothing runs that it could steer")
        assert outcome.evidence.startswith("zero_bytes")
        await quiet(thread)
        assert acts(double) == ["thread/start"]


async def test_queued_messages_never_join_the_running_turn_and_keep_their_order(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal(), kind="goal"))) as (thread, goal):
        messages = [await thread.submit(f"turn {n}", id=f"m{n}", when="queue") for n in range(3)]
        assert [m.position for m in messages] == [0, 1, 2]
        assert messages[0].reason == "waits for the running operation"
        await quiet(thread)
        assert order(double) == []
        double.release("go")
        await goal.result()
        turns = [(await m.settled()).physical_turn_id for m in messages]
        assert order(double) == [("start", "m0"), ("start", "m1"), ("start", "m2")]
        assert len({goal.id, *turns}) == 4


async def test_the_lane_takes_one_message_at_a_time_in_order(make_double):
    held = Fault.echo("delay", client_id="m0", gate="echo")
    async with running(double := make_double(turn(gate("go"), complete_goal()), faults=(held,))) as (thread, goal):
        messages = [await thread.submit(f"text {n}", id=f"m{n}") for n in range(4)]
        await state(messages[0], "acknowledged")
        await quiet(thread)
        assert (order(double), [m.state for m in messages[1:]]) == ([("steer", "m0")], ["queued"] * 3)
        double.release("echo")
        assert {(await m.settled()).physical_turn_id for m in messages} == {goal.id}
        assert order(double) == [("steer", f"m{n}") for n in range(4)]
        assert [entry["text"] for entry in double.disk().shown] == [f"text {n}" for n in range(4)]


async def test_a_turn_that_is_over_moves_the_message_to_the_next_one_and_only_once(make_double):
    over = Fault.request("turn/steer", "refuse", message="no active turn to steer")
    double = make_double(turn(gate("one")), turn(gate("two"), complete_goal()), faults=(over,))
    async with running(double) as (thread, goal):
        message = await thread.submit("for the next", id="m1")
        await until(message, lambda: message.state == "accepted" and double.writes("m1") == 1)
        double.release("one")
        second = await turn_runs(thread, 2)
        assert (await message.settled()).physical_turn_id == second
        assert [p["expectedTurnId"] for p in steers(double, "m1")] == [goal.id, second]


async def test_two_turns_that_were_over_give_the_message_back(make_double):
    over = Fault.request("turn/steer", "refuse", 0, message="no active turn to steer")
    double = make_double(turn(gate("one")), turn(gate("two")), turn(gate("three")), faults=(over,))
    async with running(double) as (thread, _goal):
        message = await thread.submit("for the next", id="m1")
        await until(message, lambda: message.state == "accepted" and double.writes("m1") == 1)
        double.release("one")
        outcome = await message.settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "refusal: no active turn to steer")
        double.release("two")
        await turn_runs(thread, 3)
        assert double.writes("m1") == 2


async def test_another_refusal_is_not_tried_again(make_double):
    refuse = Fault.request("turn/steer", "refuse", message="cannot steer a review turn")
    double = make_double(turn(gate("one")), turn(gate("two")), faults=(refuse,))
    async with running(double) as (thread, _goal):
        outcome = await (await thread.submit("please", id="m1")).settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "refusal: cannot steer a review turn")
        assert "cannot steer a review turn" in outcome.reason
        double.release("one")
        await turn_runs(thread, 2)
        assert double.writes("m1") == 1


async def test_a_steer_of_the_goal_gives_a_receipt_with_the_logical_id_and_the_words_of_a_refusal(make_double):
    refuse = Fault.request("turn/steer", "refuse", 2, message="cannot steer a review turn")
    double = make_double(turn(say("one")), turn(gate("go"), complete_goal()), faults=(refuse,))
    async with running(double) as (thread, goal):
        second = await turn_runs(thread, 2)
        receipt = await goal.steer("now")
        assert (receipt.turn_id, receipt.state in ("acknowledged", "delivered")) == (goal.id, True)
        assert (await receipt.message.settled()).physical_turn_id == second != goal.id
        with pytest.raises(ProviderRefused, match="cannot steer a review turn"):
            await goal.steer("and now")
        double.release("go")
        await goal.result()
        with pytest.raises(ProviderRefused, match="no active turn to steer"):
            await goal.steer("too late")
        assert len(steers(double)) == 2


async def test_a_pipe_that_takes_nothing_gives_the_message_back_unwritten(make_double):
    double = make_double(turn(gate("go"), thread=0))
    async with on(double, soon(answer=0.3)) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()
        await thread.start_goal("x")
        with Frozen(double):
            await fill_pipe(other)
            outcome = await (await thread.submit("stuck", id="m1")).settled()
            assert (outcome.state, outcome.evidence) == (
                "requeued",
                "zero_bytes: the last check before the write failed",
            )
        await double.received("turn/start", client_id="filler")
        await quiet(thread)
        assert double.writes("m1") == 0


# -- what is known of a message (19, 20) -----------------------------------------------------------------------------


async def test_an_ok_is_never_shown_as_delivered(make_double):
    double = make_double(turn(gate("go"), complete_goal()), faults=(Fault.echo("lose"),))
    async with running(double) as (thread, goal):
        async with taped(goal) as tape:
            message = await thread.submit("into memory", id="m1")
            await state(message, "acknowledged")
            assert message.evidence == ""
            double.release("go")
            outcome = await message.settled()
            await goal.result()
        assert (outcome.state, outcome.evidence) == ("requeued", "read_back: absent after its turn ended")
        assert not tape.notices("delivered")
        assert (double.writes("m1"), double.shown("into memory")) == (1, 0)


async def test_a_lost_answer_is_never_shown_as_not_delivered(make_double):
    double = make_double(
        turn(gate("go"), complete_goal()), faults=(Fault.request("turn/steer", "mute"), Fault.echo("drop"))
    )
    async with running(double, policy=soon(answer=0.1)) as (thread, goal):
        async with taped(goal) as tape:
            message = await thread.submit("perhaps", id="m1")
            assert (await message.settled()).state == "uncertain"
            # While its turn runs it may still be taken: a look proves nothing, and nothing is sent again.
            assert (await message.look_again()).state in ("uncertain", "delivered")
            double.release("go")
            await goal.result()
            await state(message, "delivered")
        assert not tape.notices("requeued")
        assert (double.writes("m1"), double.shown("perhaps")) == (1, 1)


FAKE = Policy()


@asynccontextmanager
async def simulated(*turns, faults=(), policy=FAKE):
    """A goal in its first turn, on a clock that only the test moves."""
    clock = FakeClock()
    adapter = Simulated(Script(turns=turns), faults, clock=clock)
    engines, closing = [], anyio.Event()

    async def host():
        # The engine lives in a task of its own, because its closing too needs the clock to be moved.
        async with goalfsm.open(adapter, policy=policy) as engine:
            engines.append(engine)
            await closing.wait()

    with anyio.fail_after(LIMIT):
        hosting = asyncio.create_task(host())
        try:
            await clock.run_until(lambda: bool(engines) or hosting.done())
            thread = await engines[0].start_thread()
            started = asyncio.create_task(thread.start_goal("x"))
            await clock.run_until(started.done)
            yield clock, adapter, thread, started.result()
        finally:
            closing.set()
            await clock.run_until(hosting.done)
            await hosting


@pytest.mark.parametrize(("shown", "fate"), [("drop", "delivered"), ("lose", "requeued")])
async def test_a_lost_answer_is_decided_within_twenty_seconds_of_its_turns_end(shown, fate):
    faults = (Fault.request("turn/steer", "mute"), Fault.echo(shown))
    async with simulated(turn(wait(2.0), complete_goal()), faults=faults) as (clock, adapter, thread, goal):
        message = await thread.submit("lost", id="m1")
        await clock.run_until(lambda: thread._runtime.core.turn.state == "idle")
        over = clock.monotonic()
        await clock.run_until(lambda: message.state == fate, within=20.0)
        assert clock.monotonic() - over <= 20.0
        assert message.evidence.startswith("read_back")
        assert adapter.server.writes("m1") == 1
        assert goal.state == "completed"


async def test_a_lost_answer_that_nobody_can_look_up_is_told_as_uncertain_in_time():
    faults = (
        Fault.request("turn/steer", "mute"),
        Fault.echo("drop"),
        Fault.request("thread/turns/list", "refuse", 0, code=-32603, message="history is not available"),
    )
    async with simulated(turn(wait(2.0), complete_goal()), faults=faults) as (clock, adapter, thread, _goal):
        message = await thread.submit("lost", id="m1")
        settled = asyncio.create_task(message.settled())
        await clock.run_until(lambda: thread._runtime.core.turn.state == "idle")
        over = clock.monotonic()
        await clock.run_until(settled.done, within=20.0)
        assert (settled.result().state, clock.monotonic() - over <= 20.0) == ("uncertain", True)
        assert adapter.server.writes("m1") == 1


async def test_a_late_refusal_moves_an_uncertain_message_and_a_notice_tells(make_double):
    late = Fault.request("turn/steer", "hold", gate="late")
    double = make_double(turn(gate("go")), turn(gate("two")), faults=(late,))
    async with running(double, policy=soon(answer=0.1)) as (thread, goal):
        async with taped(goal) as tape:
            message = await thread.submit("late", id="m1")
            assert (await message.settled()).state == "uncertain"
            double.release("go")
            await turn_runs(thread, 2)
            double.release("late")
            await state(message, "requeued")
            assert message.evidence.startswith(("refusal", "read_back"))
            await tape.has("follow_up/requeued")
        assert double.writes("m1") == 1


async def test_a_message_shown_twice_raises_one_alarm(make_double):
    double = make_double(turn(gate("go"), complete_goal()), faults=(Fault.echo("duplicate"),))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("twice", id="m1")
        assert (await message.settled()).state == "delivered"
        double.release("go")
        await goal.result()
        assert [a.kind for a in engine.anomalies()] == ["alarm_doubled"]
        assert "'m1'" in engine.anomalies()[0].detail
        assert (message.state, double.writes("m1")) == ("delivered", 1)


async def test_the_same_item_told_twice_is_no_alarm(make_double):
    double = make_double(turn(gate("go"), complete_goal()), faults=(Fault.echo("repeat"),))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        await (await thread.submit("once", id="m1")).settled()
        double.release("go")
        await goal.result()
        assert engine.anomalies() == []


# -- what a person may do (21, 23, 24) -------------------------------------------------------------------------------


async def test_a_message_withdrawn_before_its_write_is_never_written(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal()))) as (thread, goal):
        message = await thread.submit("never mind", id="m1", when="queue")
        await message.withdraw()
        outcome = await message.settled()
        assert (outcome.state, message.position, thread.follow_ups()) == ("discarded", None, [])
        double.release("go")
        await goal.result()
        await quiet(thread)
        assert double.writes("m1") == 0
        with pytest.raises(IllegalCommand, match="discarded"):
            await message.release()


async def test_a_message_withdrawn_while_its_write_waits_for_the_pipe_is_discarded_unwritten(make_double):
    double = make_double(turn(gate("go"), thread=0))
    async with on(double) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()
        await thread.start_goal("x")
        with Frozen(double) as frozen:
            await fill_pipe(other)
            message = await thread.submit("never mind", id="m1")
            await state(message, "delivering")
            await message.withdraw()
            assert message.state == "delivering"
            frozen.thaw()
            assert (await message.settled()).state == "discarded"
        await double.received("turn/start", client_id="filler")
        await quiet(thread)
        assert double.writes("m1") == 0


@pytest.mark.parametrize(("lost", "fate"), [(True, "discarded"), (False, "delivered")])
async def test_a_message_withdrawn_after_its_write_is_discarded_only_if_absence_is_proven(make_double, lost, fate):
    fault = Fault.echo("lose") if lost else Fault.echo("delay", gate="echo")
    async with running(double := make_double(turn(gate("go"), complete_goal()), faults=(fault,))) as (thread, goal):
        message = await thread.submit("never mind", id="m1")
        await state(message, "acknowledged")
        await message.withdraw()
        assert message.state == "acknowledged"
        double.release("echo")
        if not lost:
            await state(message, "delivered")
        double.release("go")
        assert (await message.settled()).state == fate
        await goal.result()
        assert double.writes("m1") == 1


async def test_an_edited_message_is_sent_as_edited_and_a_sent_one_cannot_be_edited(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal(), kind="goal"))) as (thread, goal):
        message = await thread.submit("draft", id="m1", when="queue", meta={"k": 1})
        await message.edit("final")
        assert (message.text, message.meta, message.position) == ("final", {"k": 1}, 0)
        double.release("go")
        await goal.result()
        assert (await message.settled()).state == "delivered"
        assert (double.shown("final"), double.shown("draft"), double.writes("m1")) == (1, 0, 1)
        with pytest.raises(IllegalCommand) as refused:
            await message.edit("too late")
        assert (refused.value.state, refused.value.command) == ("delivered", "edit")
        assert message.text == "final"


async def test_messages_go_in_the_order_they_were_moved_to(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal(), kind="goal"))) as (thread, goal):
        messages = [await thread.submit(f"t{n}", id=f"m{n}", when="queue") for n in range(3)]
        await messages[2].move(0)
        assert [m.id for m in thread.follow_ups()] == ["m2", "m0", "m1"]
        assert [m.position for m in messages] == [1, 2, 0]
        double.release("go")
        await goal.result()
        for message in messages:
            await state(message, "delivered")
        assert order(double) == [("start", "m2"), ("start", "m0"), ("start", "m1")]
        with pytest.raises(IllegalCommand):
            await messages[0].move(0)


@pytest.mark.parametrize("act", ["release", "send_now"])
async def test_a_held_message_goes_once_when_a_person_lets_it(make_double, act):
    async with running(double := make_double(turn(gate("go"), complete_goal()))) as (thread, goal):
        message = await thread.submit("wait for me", id="m1", when="queue")
        await message.hold("not before noon")
        assert (message.state, message.reason, message.position) == ("held", "held: not before noon", 0)
        double.release("go")
        await goal.result()
        await quiet(thread)
        assert (message.state, double.writes("m1")) == ("held", 0)
        await getattr(message, act)()
        await state(message, "delivered")
        assert order(double) == [("start", "m1")]
        with pytest.raises(IllegalCommand):
            await getattr(message, act)()


async def test_send_now_overtakes_the_queue_into_the_running_turn(make_double):
    async with running(double := make_double(turn(gate("go"), complete_goal()))) as (thread, goal):
        first = await thread.submit("first", id="m1", when="queue")
        second = await thread.submit("second", id="m2", when="queue")
        await second.send_now()
        assert (await second.settled()).physical_turn_id == goal.id
        assert (order(double), first.state, first.position) == ([("steer", "m2")], "queued", 0)


async def test_a_stop_holds_the_queue_and_a_resumed_goal_does_not_release_it(make_double):
    async with running(double := make_double(turn(gate("go")), turn(gate("two")))) as (thread, goal):
        messages = [await thread.submit(f"t{n}", id=f"m{n}", when="queue") for n in range(2)]
        await thread.stop()
        assert (await goal.result()).status is ResultStatus.INTERRUPTED
        assert [(m.state, m.reason, m.position) for m in messages] == [("held", "held: stopped", n) for n in range(2)]
        await thread.set_goal(status="active")
        await turn_runs(thread, 1)
        await quiet(thread)
        assert order(double) == []
        await messages[1].send_now()
        await state(messages[1], "delivered")
        assert (order(double), messages[0].state) == ([("steer", "m1")], "held")


async def test_a_message_stopped_before_its_echo_is_read_back_and_not_sent_again(make_double):
    double = make_double(turn(gate("go")), faults=(Fault.echo("delay", gate="never"),))
    async with running(double) as (thread, _goal):
        message = await thread.submit("in memory", id="m1")
        await state(message, "acknowledged")
        await thread.stop()
        outcome = await message.settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "read_back: absent after its turn ended")
        assert double.writes("m1") == 1


@asynccontextmanager
async def in_doubt(make_double):
    """A message that is uncertain for good: its answer was lost, and the history cannot be read."""
    faults = (
        Fault.request("turn/steer", "drop", 1),
        Fault.request("thread/turns/list", "refuse", 0, code=-32603, message="history is not available"),
    )
    double = make_double(turn(gate("go")), turn(gate("two")), faults=faults)
    async with running(double, policy=soon(answer=0.1)) as (thread, _goal):
        message = await thread.submit("doubt", id="m1")
        assert (await message.settled()).state == "uncertain"
        yield double, thread, message


async def test_resend_writes_exactly_once_more(make_double):
    async with in_doubt(make_double) as (double, _thread, message):
        await message.resolve("resend")
        await state(message, "delivered")
        assert (double.writes("m1"), double.shown("doubt")) == (2, 1)


@pytest.mark.parametrize(("how", "fate"), [("discard", "discarded"), ("delivered", "delivered")])
async def test_a_person_may_decide_an_uncertain_message_without_a_write(make_double, how, fate):
    async with in_doubt(make_double) as (double, thread, message):
        assert thread.follow_ups()[0].id == "m1"
        await message.resolve(how)
        outcome = await message.settled()
        assert (outcome.state, outcome.evidence) == (fate, "person")
        double.release("go")
        await turn_runs(thread, 2)
        assert (double.writes("m1"), thread.follow_ups()) == (1, [])
        with pytest.raises(IllegalCommand):
            await message.resolve(how)


@pytest.mark.parametrize("act", ["release", "send_now", "hold", "withdraw_twice", "edit"])
async def test_an_uncertain_message_does_not_move_by_commands_of_the_queue(make_double, act):
    async with in_doubt(make_double) as (double, _thread, message):
        if act == "withdraw_twice":
            await message.withdraw()
            assert message.state == "uncertain"
        else:
            with pytest.raises(IllegalCommand) as refused:
                await getattr(message, act)(*["other"] * (act == "edit"))
            assert refused.value.state == "uncertain"
            assert {"resolve_sent", "resolve_drop"} <= set(refused.value.allowed)
        assert (message.state, double.writes("m1")) == ("uncertain", 1)


async def test_the_list_shows_open_messages_in_queue_order_and_settled_ones_on_request(make_double):
    async with running(make_double(turn(gate("go")))) as (thread, _goal):
        await (await thread.submit("a", id="done")).settled()
        await (await thread.submit("b", id="b", when="queue")).hold()
        await thread.submit("c", id="c", when="queue")
        assert [(m.id, m.state) for m in thread.follow_ups()] == [("b", "held"), ("c", "queued")]
        assert [m.id for m in thread.follow_ups(all=True)] == ["done", "b", "c"]


async def test_cancelling_the_wait_for_a_fate_does_nothing_to_the_message(make_double):
    held = Fault.echo("delay", gate="echo")
    async with running(double := make_double(turn(gate("go")), faults=(held,))) as (thread, goal):
        message = await thread.submit("still wanted", id="m1")
        await state(message, "acknowledged")
        waiter = asyncio.create_task(message.settled())
        await anyio.lowlevel.checkpoint()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert (message.state, goal.state) == ("acknowledged", "running")
        double.release("echo")
        assert (await message.settled()).state == "delivered"
        assert acts(double) == [*GOAL, "turn/steer"]


# -- the goal's status and a waiting message (25) --------------------------------------------------------------------


async def test_a_message_that_waits_when_the_goal_completes_gets_its_own_turn(make_double):
    async with in_gap(double := make_double(*gap_script())) as (thread, goal):
        message = await thread.submit("after it", id="m1")
        await state(message, "accepted")
        await thread.set_goal(status="complete")
        outcome = await message.settled()
        assert outcome.state == "delivered"
        assert outcome.turn_id != (await goal.result()).id == goal.id
        assert order(double) == [("start", "m1")]


async def test_a_message_that_waits_when_the_goal_completes_comes_back_if_the_policy_says_hold(make_double):
    policy = soon(on_goal_complete="hold")
    async with in_gap(double := make_double(*gap_script()), policy=policy) as (thread, goal):
        message = await thread.submit("after it", id="m1")
        await state(message, "accepted")
        await thread.set_goal(status="complete")
        outcome = await message.settled()
        assert (outcome.state, outcome.reason.rpartition(": ")[2]) == ("requeued", "the goal completed first")
        await goal.result()
        await quiet(thread)
        assert order(double) == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("paused", "the goal was paused"),
        ("blocked", "the goal is blocked"),
        ("usage_limited", "the usage limit was reached"),
        ("budget_limited", "the goal's budget was used up"),
        ("", "the goal was cleared"),
    ],
)
async def test_a_message_that_waits_when_the_goal_ends_otherwise_comes_back_with_the_reason(
    make_double, status, reason
):
    async with in_gap(double := make_double(*gap_script())) as (thread, _goal):
        message = await thread.submit("after it", id="m1")
        await state(message, "accepted")
        await (thread.set_goal(status=status) if status else thread.clear_goal())
        outcome = await message.settled()
        assert (outcome.state, outcome.reason.rpartition(": ")[2]) == ("requeued", reason)
        assert outcome.evidence.startswith("zero_bytes")
        await quiet(thread)
        assert (order(double), message.position) == ([], 0)


async def test_an_unknown_goal_status_lets_messages_wait_with_that_reason(make_double):
    double = make_double(turn(goal_status("dreaming")), turn(gate("go"), complete_goal()))
    async with running(double) as (thread, goal):
        await until(goal, lambda: goal.state == "gap" and thread._runtime.core.goal.state == "unknown")
        message = await thread.submit("whenever", id="m1")
        view = await thread.goal()
        assert (view.status, view.raw_status) == (GoalStatus.UNKNOWN, "dreaming")
        assert (message.state in ("queued", "accepted"), message.reason) == (
            True,
            "waits: the goal's status is not known",
        )
        await quiet(thread)
        assert order(double) == []
        await thread.set_goal(status="active")
        second = await turn_runs(thread, 2)
        assert (await message.settled()).physical_turn_id == second
        assert order(double) == [("steer", "m1")]


async def test_a_turn_interrupted_by_somebody_else_gives_waiting_messages_back_and_pauses_the_goal(make_double):
    double = make_double(turn(gate("go"), end("interrupted")))
    async with running(double) as (thread, goal):
        message = await thread.submit("later", id="m1", when="queue")
        double.release("go")
        assert (await goal.result()).status is ResultStatus.INTERRUPTED
        await quiet(thread)
        assert (message.state, (await thread.goal()).status, order(double)) == ("held", GoalStatus.PAUSED, [])


# -- time ------------------------------------------------------------------------------------------------------------


async def test_a_message_expires_while_it_rests_and_is_never_written():
    async with simulated(turn(gate("go"), complete_goal())) as (clock, adapter, thread, goal):
        message = await thread.submit("by noon", id="m1", when="queue", expires_in=60.0)
        await clock.advance(59.0)
        assert message.state == "queued"
        await clock.advance(2.0)
        assert (await message.settled()).state == "expired"
        adapter.release("go")
        await clock.run_until(lambda: goal.state == "completed")
        await clock.advance(5.0)
        assert adapter.server.writes("m1") == 0


async def test_a_message_on_its_way_does_not_expire():
    held = Fault.echo("delay", gate="echo")
    async with simulated(turn(gate("go"), complete_goal()), faults=(held,)) as (clock, adapter, thread, _goal):
        message = await thread.submit("by noon", id="m1", expires_in=5.0)
        await clock.advance(30.0)
        assert message.state == "acknowledged"
        adapter.release("echo")
        await clock.run_until(lambda: message.state == "delivered")


async def test_a_message_that_comes_back_after_its_time_expires_then():
    faults = (Fault.echo("lose"),)
    async with simulated(turn(gate("go"), complete_goal()), faults=faults) as (clock, adapter, thread, _goal):
        message = await thread.submit("by noon", id="m1", expires_in=5.0)
        await clock.advance(30.0)
        assert message.state == "acknowledged"
        adapter.release("go")
        await clock.run_until(lambda: message.state == "expired")
        assert adapter.server.writes("m1") == 1
