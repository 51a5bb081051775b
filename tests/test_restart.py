"""A host process killed with SIGKILL, and its journal opened by the next one (surface 26, 27; rules P10).

The dead host's server ends by itself, since its stdin is closed (facts 8). What it had shown the model is on its disk;
what only its memory held is lost.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from stage import LIMIT, acts, on, pauses, soon, state, steers, until

import goalfsm
from goalfsm import GoalStatus, IllegalCommand, StaleOwner
from goalfsm.adapters.codex import Codex
from goalfsm.adapters.simulated import Fault, complete_goal, gate, say, turn
from goalfsm.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


class Later(Codex):
    """The provider, with a clock of the test's own for the engine."""


HOST = Path(__file__).with_name("restart_host.py")


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal.db"


async def killed_host(double, journal, situation="submitted"):
    """Let a host reach a situation, kill it, and wait until its server has ended; give what it said."""
    path = os.pathsep.join([str(HOST.parents[1]), str(HOST.parent)])
    command = [sys.executable, str(HOST), str(double.binary), str(journal), situation]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as host:  # noqa: ASYNC220  killed below
        try:
            with anyio.fail_after(LIMIT):
                line = await anyio.to_thread.run_sync(host.stdout.readline, abandon_on_cancel=True)
            server = double.wait_spawned()
        finally:
            host.send_signal(signal.SIGKILL)
    await anyio.to_thread.run_sync(gone, server)
    said = json.loads(line)
    return said["thread"], said["goal"], said["state"]


def gone(pid):
    """Return once a process that is not ours has ended."""
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(ended)
    assert poll.poll(LIMIT * 1000), f"process {pid} did not end"
    os.close(ended)


def writes(double):
    return {m: double.writes(m) for m in ("m1", "m2", "m3", "m4")}


async def test_a_killed_host_finds_each_message_and_the_queue_goes_on_once(make_double, journal):
    double = make_double(turn(gate("never")), faults=(Fault.echo("delay", gate="never"),))
    thread_id, _goal, _ = await killed_host(double, journal, "acknowledged")
    assert writes(double) == {"m1": 1, "m2": 0, "m3": 0, "m4": 0}
    async with on(double, journal=journal) as engine:
        found = await engine.recover()
        assert [(f.thread_id, f.id, f.state) for f in found] == [
            (thread_id, "m1", "uncertain"),
            (thread_id, "m2", "queued"),
            (thread_id, "m3", "queued"),
            (thread_id, "m4", "held"),
        ]
        assert "this process ended while it was on its way" in found[0].reason
        assert found[3].reason == "held: a reason"
        assert {"resolve_sent", "resolve_drop"} <= set(found[0].choices)
        # Finding sends nothing, and asks nothing of the provider.
        assert pauses(double) == 0
        assert double.requests("thread/resume") == 0

        thread = await engine.resume_thread(thread_id)
        assert (await thread.goal()).status is GoalStatus.PAUSED
        first, second, third, fourth = (m for m in thread.follow_ups(all=True) if m.id.startswith("m"))
        assert (first.state, first.evidence) == ("requeued", "read_back: absent after its turn ended")
        for message in (second, third):
            await state(message, "delivered")
        assert (fourth.state, fourth.reason) == ("held", "held: a reason")
        assert [m.meta for m in (first, second)] == [{"n": 1}, {"n": 2}]
        assert writes(double) == {"m1": 1, "m2": 1, "m3": 1, "m4": 0}
        after = acts(double)[acts(double).index("turn/steer") + 1 :]
        assert after == ["thread/goal/set", "thread/resume", "turn/start", "turn/start"]
        # The thread was not loaded when its goal was paused: nothing started by itself.
        assert [t.status for t in double.disk().threads[thread_id].turns] == ["interrupted", "completed", "completed"]


async def test_the_same_id_is_one_message_across_a_restart(make_double, journal):
    double = make_double(turn(gate("never")))
    thread_id, goal_id, _ = await killed_host(double, journal, "delivered")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        thread = await engine.resume_thread(thread_id)
        first = await thread.submit("the first", id="m1")
        outcome = await first.settled()
        assert (outcome.state, outcome.turn_id, outcome.physical_turn_id) == ("delivered", goal_id, goal_id)
        assert outcome.evidence.startswith("echo of item")
        assert first.meta == {"n": 1}
        with pytest.raises(IllegalCommand, match="taken by another text"):
            await thread.submit("something else", id="m1")
        second = await thread.submit("the second", id="m2", when="queue")
        assert (second.state, len(thread.follow_ups())) == ("held", 3)
        assert writes(double) == {"m1": 1, "m2": 0, "m3": 0, "m4": 0}


async def test_on_restart_hold_holds_what_was_queued_until_a_person_lets_it_go(make_double, journal):
    double = make_double(turn(gate("never")))
    thread_id, _goal, _ = await killed_host(double, journal, "delivered")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        thread = await engine.resume_thread(thread_id)
        waiting = thread.follow_ups()
        assert [(m.id, m.state, m.reason) for m in waiting] == [
            ("m2", "held", "held: a restart"),
            ("m3", "held", "held: a restart"),
            ("m4", "held", "held: a reason"),
        ]
        await engine.connection.get_goal(thread_id)
        assert writes(double) == {"m1": 1, "m2": 0, "m3": 0, "m4": 0}
        await waiting[1].release()
        await state(waiting[1], "delivered")
        assert writes(double) == {"m1": 1, "m2": 0, "m3": 1, "m4": 0}


async def test_a_message_accepted_in_the_gap_comes_back_with_proof(make_double, journal):
    double = make_double(turn(say("one")), turn(start_gate="never"))
    thread_id, _goal, told = await killed_host(double, journal, "gap")
    assert told in ("admitted", "accepted")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        [found, *_] = await engine.recover()
        assert (found.id, found.state, found.evidence) == (
            "m1",
            "requeued",
            "zero_bytes: it was never handed to the provider",
        )
        thread = await engine.resume_thread(thread_id)
        assert thread.follow_ups()[0].state == "requeued"
        assert (steers(double), double.writes("m1")) == ([], 0)


async def test_a_message_shown_before_the_kill_and_never_told_is_found(make_double, journal):
    double = make_double(turn(gate("never")), faults=(Fault.echo("drop"),))
    thread_id, goal_id, _ = await killed_host(double, journal, "shown")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        assert (await engine.recover())[0].state == "uncertain"
        thread = await engine.resume_thread(thread_id)
        first = thread.follow_ups(all=True)[0]
        assert (first.id, first.state, first.outcome.physical_turn_id) == ("m1", "delivered", goal_id)
        assert first.evidence.startswith("read_back of item")
        assert (double.writes("m1"), double.shown("the first")) == (1, 1)


async def test_a_message_that_only_the_record_shows_is_found_there(make_double, journal):
    # The model was shown it, and the kill came before the item of the history was written (facts 6).
    double = make_double(turn(gate("never")), faults=(Fault.echo("hole", gate="never"),))
    thread_id, _goal, _ = await killed_host(double, journal, "shown")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        thread = await engine.resume_thread(thread_id)
        first = thread.follow_ups(all=True)[0]
        assert (first.id, first.state) == ("m1", "delivered")
        assert first.evidence.startswith("rollout")
        assert (double.writes("m1"), double.shown("the first")) == (1, 1)


async def test_the_goal_goes_on_after_a_restart_only_if_the_policy_says_so(make_double, journal):
    double = make_double(turn(gate("never")), turn(gate("go"), complete_goal()))
    thread_id, goal_id, _ = await killed_host(double, journal, "delivered")
    policy = soon(on_restart="hold", resume_goals=True)
    async with on(double, policy, journal=journal) as engine:
        thread = await engine.resume_thread(thread_id)
        runtime = thread._runtime
        await until(thread, lambda: runtime.live() and runtime.core.turn.state == "running")
        running = runtime.core.turn.turn_id
        assert running != goal_id
        assert (await thread.goal()).status is GoalStatus.ACTIVE
        assert engine.live() == [thread_id]
        message = await thread.submit("welcome back", id="m9")
        assert (await message.settled()).physical_turn_id == running
        double.release("go")
        await state(message, "delivered")
        assert pauses(double) == 1


async def test_a_second_restart_finds_what_the_first_one_left(make_double, journal):
    double = make_double(turn(gate("never")), faults=(Fault.echo("delay", gate="never"),))
    thread_id, _goal, _ = await killed_host(double, journal, "acknowledged")
    for _ in range(2):
        async with on(double, soon(on_restart="hold"), journal=journal) as engine:
            await engine.recover()
            thread = await engine.resume_thread(thread_id)
            assert [(m.id, m.state) for m in thread.follow_ups()] == [
                ("m1", "requeued"),
                ("m2", "held"),
                ("m3", "held"),
                ("m4", "held"),
            ]
            assert thread.follow_ups()[0].evidence == "read_back: absent after its turn ended"
    assert writes(double) == {"m1": 1, "m2": 0, "m3": 0, "m4": 0}


async def test_recovering_without_resuming_changes_nothing_for_the_next_one(make_double, journal):
    double = make_double(turn(gate("never")))
    thread_id, _goal, _ = await killed_host(double, journal, "delivered")
    for _ in range(2):
        async with on(double, journal=journal) as engine:
            assert [(f.id, f.state) for f in await engine.recover()] == [
                ("m2", "queued"),
                ("m3", "queued"),
                ("m4", "held"),
            ]
            assert [thread.id for thread in engine.threads()] == [thread_id]
            assert engine.live() == []
    assert writes(double) == {"m1": 1, "m2": 0, "m3": 0, "m4": 0}


async def test_a_message_that_grew_too_old_while_nobody_ran_is_not_sent(make_double, journal):
    double = make_double(turn(gate("never")))
    async with on(double, soon(on_exit="leave"), journal=journal) as engine:
        thread = await engine.start_thread()
        await thread.start_goal("x")
        await thread.submit("by noon", id="m1", when="queue", expires_in=60.0)
        await thread.submit("any time", id="m2", when="queue")
    clock = FakeClock(wall=time.time() + 3600.0)
    codex = Later(binary=double.binary)
    codex.clock = clock
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(codex, journal=journal, policy=soon()) as engine:
            thread = await engine.resume_thread(thread.id)
            old, young = thread.follow_ups(all=True)
            await state(old, "expired")
            await state(young, "delivered")
    assert (double.writes("m1"), double.writes("m2")) == (0, 1)


async def test_a_successor_owns_what_waits_and_the_former_owner_writes_nothing_more(make_double, journal):
    double, heir = make_double(turn(gate("never"))), make_double()
    async with on(double, journal=journal) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("x")
        message = await thread.submit("whose?", id="m1", when="queue")
        await message.hold("until somebody decides")
        before = acts(double)
        shutil.copy(double.home / "disk.json", heir.home / "disk.json")
        async with on(heir, journal=journal) as second:
            theirs = (await second.take_over(thread.id)).follow_ups()[0]
            assert (theirs.id, theirs.state, theirs.reason) == ("m1", "held", "held: until somebody decides")
            with pytest.raises(StaleOwner, match="the owner of epoch 2; this side held epoch 1"):
                await message.release()
            with pytest.raises(StaleOwner):
                await goal.result()
            with pytest.raises(StaleOwner):
                await message.settled()
            await theirs.release()
            await state(theirs, "delivered")
        assert (message.state, engine.live()) == ("held", [])
    # Leaving does not pause a goal that is somebody else's by now.
    assert acts(double) == before
    assert (double.writes("m1"), heir.writes("m1")) == (0, 1)
