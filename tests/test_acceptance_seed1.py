"""A queued follow-up during a goal: the fourteen situations, on the real protocol over real pipes (rules F, T1 to T14).

The double of the app-server writes down every line it reads, so the number of writes is counted, not assumed. Words of
the situations mean here: run id = the logical id; authority and routes of an owner = `meta`; held = requeued with proof;
fenced = uncertain, where the thread cannot be read back (with a read-back the proven fate follows).
"""

from __future__ import annotations

import asyncio
import shutil

import anyio
import pytest
from stage import (
    GOAL,
    Frozen,
    GatedJournal,
    acts,
    fill_pipe,
    on,
    pauses,
    soon,
    state,
    steers,
    taped,
    turn_runs,
    until,
)

from goalfsm import GoalFailed, GoalStatus, ResultStatus, StaleOwner
from goalfsm._guards import IN_LANE
from goalfsm.adapters.simulated import Fault, client_goal, complete_goal, fail, gate, say, turn

pytestmark = pytest.mark.anyio

AUTHORITY = {"grants": ["repo:write"], "routes": ["room-1"], "purpose": "scheduled"}
UNREADABLE = Fault.request("thread/turns/list", "refuse", 0, code=-32603, message="history is not available")


def last(*steps):
    return turn(*steps, complete_goal())


def in_order(words, *wanted):
    """Whether these words came, and no others, in this order; those of a set in any."""
    rest = list(words)
    for words_here in wanted:
        part = words_here if isinstance(words_here, set) else {words_here}
        came, rest = rest[: len(part)], rest[len(part) :]
        assert set(came) == part, f"{came} instead of {part} in {words}"
    return not rest


async def ended(goal):
    result = await goal.result()
    assert (result.status, result.id) == (ResultStatus.COMPLETED, goal.id)
    return result


# -- T1 to T6: delivered once, to the right turn ---------------------------------------------------------------------


async def test_t01_initial_goal_turn_with_runtime_authority_steers_same_run_once(make_double):
    double = make_double(last(say("before"), gate("go"), say("after")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("fix the tests", meta=AUTHORITY)
        async with taped(goal) as tape:
            await tape.has("before")
            message = await thread.submit("check the docs too", id="m1")
            outcome = await message.settled()
            assert (outcome.state, outcome.turn_id, outcome.physical_turn_id) == ("delivered", goal.id, goal.id)
            assert outcome.evidence.startswith("echo of item")
            double.release("go")
            await ended(goal)
            await tape.has("turn/completed")
        assert in_order(
            tape.words(),
            "turn/started", "before", {"user:check the docs too", "follow_up/delivered"}, "after", "turn/completed",
        )  # fmt: skip
        assert goal.meta == AUTHORITY
        assert acts(double) == [*GOAL, "turn/steer"]
        assert [p["expectedTurnId"] for p in steers(double, "m1")] == [goal.id]


async def test_t02_file_follow_up_uses_context_but_records_only_display_files(make_double):
    double = make_double(last(gate("go")))
    image = {"type": "localImage", "path": "/private/scan.png"}
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        display = {"text": "see the scan", "files": ["scan.png"]}
        async with taped(goal) as tape:
            message = await thread.submit("see /private/scan.png", id="m1", attachments=[image], display=display)
            await message.settled()
            double.release("go")
            await ended(goal)
            await tape.has("turn/completed")
        assert [p["input"] for p in steers(double)] == [[{"type": "text", "text": "see /private/scan.png"}, image]]
        [notice] = tape.notices("delivered")
        assert notice.params["display"] == display
        assert "/private" not in repr(notice.params)
        assert acts(double) == [*GOAL, "turn/steer"]


async def test_t03_scheduled_goal_and_continuation_ignore_automatic_saved_routes(make_double):
    double = make_double(turn(gate("one")), last(gate("two")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        saved = [{"routes": ["room-2"]}, {"routes": []}]
        first = await thread.submit("to the first turn", id="m1", meta=saved[0])
        assert (await first.settled()).physical_turn_id == goal.id
        double.release("one")
        second_turn = await turn_runs(thread, 2)
        second = await thread.submit("to the second turn", id="m2", meta=saved[1])
        assert (await second.settled()).physical_turn_id == second_turn != goal.id
        double.release("two")
        await ended(goal)
        assert [(p["clientUserMessageId"], p["expectedTurnId"]) for p in steers(double)] == [
            ("m1", goal.id),
            ("m2", second_turn),
        ]
        assert (goal.meta, [first.meta, second.meta]) == (AUTHORITY, saved)
        assert not [entry for entry in double.log() if "room-" in repr(entry)]
        assert acts(double) == [*GOAL, "turn/steer", "turn/steer"]


async def test_t04_goal_created_after_admission_does_not_rotate_logical_authority(make_double):
    double = make_double(
        turn(say("looking"), gate("goal"), client_goal(objective="grown", status="active"), gate("go"), kind="user"),
        faults=(Fault.echo("delay", client_id="m1", gate="echo"),),
    )
    journal = GatedJournal()
    async with on(double, journal=journal) as engine:
        thread = await engine.start_thread()
        run = asyncio.create_task(thread.run("an ordinary turn", meta=AUTHORITY))
        turn_id = await turn_runs(thread, 1)
        journal.hold()
        submit = asyncio.create_task(thread.submit("and this", id="m1"))
        await journal.waiting.wait()
        double.release("goal")
        # What this read finds was told before its answer: the news of the goal waits behind the admission by now.
        grown = await until_active(engine, thread)
        journal.let_go()
        message = await submit
        await state(message, "acknowledged")
        assert message._message.row.ref == grown.ref
        double.release("echo", "go")
        outcome = await message.settled()
        result = await run
        assert outcome.state == "delivered"
        assert (outcome.turn_id, outcome.physical_turn_id, result.id) == (turn_id, turn_id, turn_id)
        assert acts(double) == ["thread/start", "turn/start", "turn/steer"]


async def until_active(engine, thread):
    with anyio.fail_after(5):
        while (view := await engine.connection.get_goal(thread.id)) is None or view.status is not GoalStatus.ACTIVE:
            pass
        return view


async def test_t05_native_continuation_retains_initial_authority_and_steers_once(make_double):
    double = make_double(turn(say("one")), last(gate("go")))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        second_turn = await turn_runs(thread, 2)
        message = await thread.submit("now", id="m1")
        outcome = await message.settled()
        assert (outcome.state, outcome.turn_id, outcome.physical_turn_id) == ("delivered", goal.id, second_turn)
        assert engine.live() == [thread.id]
        double.release("go")
        await ended(goal)
        assert [p["expectedTurnId"] for p in steers(double)] == [second_turn]
        assert goal.meta == AUTHORITY
        assert acts(double) == [*GOAL, "turn/steer"]


async def test_t06_gap_follow_up_waits_on_existing_stream_then_steers_next_turn_once(make_double):
    double = make_double(turn(say("one")), turn(gate("go"), complete_goal(), say("two"), start_gate="second"))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        async with taped(goal) as tape:
            await until(goal, lambda: goal.state == "gap")
            message = await thread.submit("in between", id="m1")
            await state(message, "accepted")
            assert "next turn" in message.reason
            # The answer to a read shows that everything before it went out: there was no steer.
            await engine.connection.get_goal(thread.id)
            assert (acts(double), message._message.row.turn_id) == (GOAL, "")
            double.release("second")
            outcome = await message.settled()
            second_turn = await turn_runs(thread, 2)
            assert (outcome.state, outcome.turn_id, outcome.physical_turn_id) == ("delivered", goal.id, second_turn)
            double.release("go")
            await ended(goal)
            await tape.has("turn/completed")
        assert tape.words().count("turn/started") == 1
        assert tape.words().index("one") < tape.words().index("user:in between") < tape.words().index("two")
        assert acts(double) == [*GOAL, "turn/steer"]


# -- T7: a stop beats what waits -------------------------------------------------------------------------------------


async def test_t07_stop_fence_in_native_gap_settles_held_followup_without_send(make_double):
    double = make_double(turn(say("one")), turn(start_gate="never"))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        await until(goal, lambda: goal.state == "gap")
        waiting = await thread.submit("held in the gap", id="m1")
        behind = await thread.submit("behind it", id="m2")
        await state(waiting, "accepted")
        await thread.stop()
        outcome = await waiting.settled()
        assert (outcome.state, outcome.evidence) == ("requeued", "zero_bytes: it was never handed to the provider")
        assert "stopped" in outcome.reason
        assert (waiting.position, behind.position, behind.state) == (0, 1, "held")
        assert (waiting._message.row.attempt, waiting._message.row.turn_id) == (0, "")
        assert not [row for row in thread._runtime.core.rows if row.state in IN_LANE]
        assert (await goal.result()).status is ResultStatus.INTERRUPTED
        assert (steers(double), double.requests("turn/start"), pauses(double)) == ([], 0, 1)
        assert acts(double) == [*GOAL, "thread/goal/set", "turn/interrupt"]
        # Nothing goes by itself afterwards, also not when the goal is resumed.
        await thread.set_goal(status="active")
        double.release("never")
        await turn_runs(thread, 1)
        assert (waiting.state, behind.state, steers(double)) == ("requeued", "held", [])


# -- T8, T9, T14: the writer is blocked in a full pipe ---------------------------------------------------------------


async def blocked_delivery(thread, other):
    """A message whose fence is durable, and which waits to be written behind a pipe that takes nothing more."""
    await fill_pipe(other)
    message = await thread.submit("never written", id="m1")
    await state(message, "delivering")
    assert message._message.row.attempt == 1
    assert not message._message.row.written
    return message


def heir_of(double, make_double):
    """Another process of the provider on the same disk as the frozen one."""
    heir = make_double()
    shutil.copy(double.home / "disk.json", heir.home / "disk.json")
    return heir


async def test_t08_writer_owner_change_requeues_held_without_sending_or_replacing_owner(make_double, tmp_path):
    double = make_double(turn(gate("go"), thread=0))
    journal = tmp_path / "journal.db"
    async with on(double, journal=journal) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()
        await thread.start_goal("x", meta=AUTHORITY)
        with Frozen(double) as frozen:
            message = await blocked_delivery(thread, other)
            async with on(heir_of(double, make_double), journal=journal) as second:
                successor = await second.take_over(thread.id)
                theirs = successor._runtime
                core, seq, epoch = theirs.core, theirs.seq, await second.journal.epoch(thread.id)
                frozen.thaw()
                outcome = await message.settled()
                assert (outcome.state, outcome.evidence) == (
                    "requeued",
                    "zero_bytes: the last check before the write failed",
                )
                assert message.position == 0
                # The successor took the fenced message for uncertain, looked, and proved that nothing had arrived.
                [inherited] = successor.follow_ups()
                assert (inherited.id, inherited.state) == ("m1", "requeued")
                assert inherited.evidence.startswith("read_back")
                with pytest.raises(StaleOwner):
                    await thread.submit("too late")
                assert theirs.core is core
                assert theirs.seq == seq == len(await second.journal.read(thread.id))
                assert await second.journal.epoch(thread.id) == epoch
                assert [row.epoch for row in await second.journal.read(thread.id)][-1] == epoch
        await double.received("turn/start", client_id="filler")
        await engine.connection.get_goal(thread.id)
        assert (steers(double), pauses(double), double.requests("turn/interrupt")) == ([], 0, 0)


async def test_t09_cancellation_after_delivery_starts_settles_once_without_successor_cleanup(make_double, tmp_path):
    double = make_double(turn(gate("go"), thread=0))
    journal = tmp_path / "journal.db"
    async with on(double, journal=journal) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        runner = asyncio.create_task(goal.result())
        with Frozen(double) as frozen:
            message = await blocked_delivery(thread, other)
            waiter = asyncio.create_task(message.settled())
            async with on(heir_of(double, make_double), journal=journal) as second:
                successor = await second.take_over(thread.id)
                theirs = successor._runtime
                core, seq = theirs.core, theirs.seq
                runner.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await runner
                with pytest.raises(StaleOwner):
                    await waiter
                assert (goal.state, engine.live()) == ("detached", [])
                frozen.thaw()
                await state(message, "requeued")
                assert message.evidence.startswith("zero_bytes")
                assert (theirs.core is core, theirs.seq) == (True, seq)
                assert len(await second.journal.read(thread.id)) == seq
                assert successor.follow_ups()[0].state == "requeued"
        await double.received("turn/start", client_id="filler")
        await engine.connection.get_goal(thread.id)
        assert (steers(double), pauses(double), double.requests("turn/interrupt")) == ([], 0, 0)
        with pytest.raises(StaleOwner):
            await goal.result()


async def test_t14_repeated_cancel_detaches_goal_only_admission_and_settles_waiter(make_double):
    double = make_double(turn(gate("go"), thread=0))
    async with on(double, soon(call=0.1, stop=3.0)) as engine:
        thread, other = await engine.start_thread(), await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        runner = asyncio.create_task(goal.result())
        with Frozen(double) as frozen:
            message = await blocked_delivery(thread, other)
            waiter = asyncio.create_task(message.settled())
            for _ in range(3):
                runner.cancel()
                await anyio.lowlevel.checkpoint()
            # Nothing answers: the stop ends by its bound, unconfirmed, and says so by keeping the thread closed.
            with pytest.raises(asyncio.CancelledError):
                await runner
            assert goal.state == "interrupted"
            assert engine.live() == []
            assert not (await thread.status()).reconciled
            frozen.thaw()
            outcome = await waiter
        assert (outcome.state, outcome.evidence) == ("requeued", "zero_bytes: the last check before the write failed")
        assert not [row for row in thread._runtime.core.rows if row.state in IN_LANE]
        await double.received("turn/start", client_id="filler")
        await engine.connection.get_goal(thread.id)
        assert (steers(double), double.writes("m1")) == ([], 0)


# -- T10 to T13: acknowledged, or perhaps ----------------------------------------------------------------------------


async def test_t10_ack_boundary_retains_already_started_next_turn_without_losing_readiness(make_double):
    double = make_double(
        turn(gate("one")),
        last(say("progress"), gate("two"), say("more")),
        faults=(Fault.request("turn/steer", "delay", gate="ack"),),
    )
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        async with taped(goal) as tape:
            message = await thread.submit("to the first turn", id="m1")
            assert (await message.settled()).physical_turn_id == goal.id
            double.release("one")
            await tape.has("progress")
            double.release("ack")
            second_turn = await turn_runs(thread, 2)
            again = await thread.submit("to the second turn", id="m2")
            assert (await again.settled()).physical_turn_id == second_turn
            double.release("two")
            await ended(goal)
            await tape.has("turn/completed")
        assert in_order(
            tape.words(),
            "turn/started", {"user:to the first turn", "follow_up/delivered"}, "progress",
            {"user:to the second turn", "follow_up/delivered"}, "more", "turn/completed",
        )  # fmt: skip
        told = [e.physical_turn_id for e in tape.events if e.params.get("turnId") and e.physical_turn_id != goal.id]
        assert set(told) == {second_turn}
        assert {e.params["turnId"] for e in tape.events if e.params.get("turnId")} == {goal.id}
        assert acts(double) == [*GOAL, "turn/steer", "turn/steer"]


async def test_t10_ack_after_the_rollover_with_an_untold_echo_is_read_back_while_turn_two_goes_on(make_double):
    double = make_double(
        turn(gate("one")),
        last(say("progress"), gate("two")),
        faults=(Fault.request("turn/steer", "delay", gate="ack"), Fault.echo("drop")),
    )
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        async with taped(goal) as tape:
            message = await thread.submit("to the first turn", id="m1")
            await until_shown(double, engine, thread, "to the first turn")
            double.release("one")
            await tape.has("progress")
            second_turn = await turn_runs(thread, 2)
            assert message.state == "delivering"
            double.release("ack")
            outcome = await message.settled()
            assert (outcome.state, outcome.physical_turn_id, goal.state) == ("delivered", goal.id, "running")
            assert outcome.evidence.startswith("read_back of item")
            again = await thread.submit("to the second turn", id="m2")
            assert (await again.settled()).physical_turn_id == second_turn
            double.release("two")
            await ended(goal)
            await tape.has("turn/completed")
        assert [e.params["id"] for e in tape.notices("delivered")] == ["m1", "m2"]
        assert acts(double) == [*GOAL, "turn/steer", "turn/steer"]


async def until_shown(double, engine, thread, text):
    with anyio.fail_after(5):
        while not double.shown(text):
            await engine.connection.get_goal(thread.id)


# Where the thread cannot be read back the fate stays uncertain; where it can, what is proven follows.
FATES = pytest.mark.parametrize(
    ("shown", "readable", "fate", "evidence"),
    [
        (False, False, "uncertain", ""),
        (True, False, "uncertain", ""),
        (False, True, "requeued", "read_back: absent after its turn ended"),
        (True, True, "delivered", "read_back of item"),
    ],
    ids=["lost-unreadable", "shown-unreadable", "lost", "shown"],
)


def faults_of(shown, readable, *more):
    return (Fault.echo("drop" if shown else "lose"), *(() if readable else (UNREADABLE,)), *more)


@FATES
async def test_t11_cancel_during_accepted_handoff_settles_by_evidence_without_replay(
    make_double, shown, readable, fate, evidence
):
    # The read-back is held until the cancel was made: the message is in doubt while its run goes from turn to turn.
    held = Fault.request("thread/turns/list", "hold", 2, gate="read")
    double = make_double(turn(gate("one")), turn(start_gate="never"), faults=(held, *faults_of(shown, readable)))
    async with on(double, soon() if readable else soon(read_back=0.3)) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        runner = asyncio.create_task(goal.result())
        message = await thread.submit("accepted", id="m1")
        await state(message, "acknowledged")
        waiter = asyncio.create_task(message.settled())
        if shown:
            await until_shown(double, engine, thread, "accepted")
        double.release("one")
        await until(goal, lambda: goal.state == "gap")
        assert message.state == "uncertain"
        runner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await runner
        assert (goal.state, engine.live()) == ("interrupted", [])
        if readable:
            double.release("read")
        outcome = await waiter
        assert outcome.state == fate
        assert outcome.evidence.startswith(evidence)
        assert [handle.id for handle in thread.follow_ups()] == ([] if fate == "delivered" else ["m1"])
        assert message.position == (0 if fate == "requeued" else None)
        assert (double.writes("m1"), double.requests("turn/start"), pauses(double)) == (1, 0, 1)


@FATES
async def test_t12_failed_terminal_at_ack_cannot_strand_or_replay_pending_followup(
    make_double, shown, readable, fate, evidence
):
    double = make_double(turn(gate("one"), fail("the model is gone")), faults=faults_of(shown, readable))
    async with on(double) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        runner = asyncio.create_task(goal.result())
        async with taped(goal) as tape:
            message = await thread.submit("accepted", id="m1")
            await state(message, "acknowledged")
            if shown:
                await until_shown(double, engine, thread, "accepted")
            double.release("one")
            with pytest.raises(GoalFailed, match="the model is gone") as failed:
                await runner
            outcome = await message.settled()
            assert outcome.state == fate
            assert outcome.evidence.startswith(evidence)
            await tape.has("turn/completed")
        assert failed.value.result.status is ResultStatus.FAILED
        assert tape.words().count("turn/completed") == 1
        assert engine.live() == []
        assert (double.writes("m1"), acts(double)) == (1, [*GOAL, "turn/steer"])


@FATES
async def test_t13_uncertain_goal_steer_preserves_progress_but_cannot_replay_original_prompt(
    make_double, shown, readable, fate, evidence
):
    answer = Fault.request("turn/steer", "mute")
    double = make_double(
        turn(gate("one"), say("progress"), gate("two")),
        last(say("done")),
        faults=faults_of(shown, readable, answer),
    )
    async with on(double, soon(answer=0.2)) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x", meta=AUTHORITY)
        async with taped(goal) as tape:
            message = await thread.submit("lost", id="m1")
            first = await message.settled()
            assert (first.state, first.physical_turn_id, goal.state) == ("uncertain", goal.id, "running")
            assert "never came" in first.reason
            double.release("one")
            await tape.has("progress")
            assert message.state == "uncertain"
            double.release("two")
            await ended(goal)
            await tape.has("turn/completed")
            outcome = await message.settled()
            assert outcome.state == fate
            assert outcome.evidence.startswith(evidence)
        assert "done" in tape.words()
        assert goal.meta == AUTHORITY
        assert (double.writes("m1"), acts(double)) == (1, [*GOAL, "turn/steer"])
