"""A process, its server or both die at every named point of a message's way; what is stated afterwards is the truth.

The truth is the double's: its disk holds everything that its model was ever shown.
"""

from __future__ import annotations

import signal
from functools import partial
from multiprocessing import get_context

import anyio
import anyio.to_thread
import pytest
from stage import on, soon, state

import goalfsm
from goalfsm._journal import MemoryJournal
from goalfsm._sqlite import SqliteJournal
from goalfsm.adapters.codex import Codex
from goalfsm.adapters.simulated import gate, say, turn
from goalfsm.testing.crash import POINTS, CrashAdapter, CrashJournal, CrashPlan

pytestmark = pytest.mark.anyio

HOSTS = get_context("forkserver")
HOSTS.set_forkserver_preload(["goalfsm.adapters.codex", "goalfsm.testing.crash", "goalfsm._sqlite", "anyio"])

TEXT = "the only one"
PATIENCE = 60.0  # seconds for a host's whole life on a busy machine
# Submission, fence, and the next word of the provider: every way has at least these records of its own.
APPENDS = [(f"{side}_append", nth) for nth in (1, 2, 3) for side in ("before", "after")]
OTHERS = [(point, 1) for point in POINTS if not point.endswith("append")]
STEERS = [("steer", *place) for place in [*APPENDS, *OTHERS]]
STARTS = [("start", *place) for place in OTHERS if not place[0].endswith("settle")]
KILLS = [
    *[(strike, *case) for case in STEERS for strike in ("process", "both")],
    *[("process", *case) for case in STARTS],
]


async def submit(engine, plan, case, tell):
    """Bring a thread to where the message has a way to go, then let it go; the plan counts from the submission on."""
    way, point, nth = case
    thread = await engine.start_thread()
    if way == "steer":
        await thread.start_goal("survive")
    else:
        await thread.run("so that the thread is on record")
    tell(f"thread {thread.id}")
    plan.point, plan.nth = point, plan.hits[point] + nth
    message = await thread.submit(TEXT, id="m1")
    tell("acknowledged")
    return thread, message


def host(binary, journal, kill, pipe):
    """A host process that dies on its way."""

    async def live():
        strike, *case = kill
        plan = CrashPlan(strike=strike)
        provider = CrashAdapter(Codex(binary=binary), plan)
        async with goalfsm.open(provider, CrashJournal(SqliteJournal(journal), plan), soon()) as engine:
            _thread, message = await submit(engine, plan, case, pipe.send)
            await message.settled()
            pipe.send(f"settled {message.state}")
            await anyio.sleep_forever()

    anyio.run(live)


def dead(process, pipe):
    """Wait until a host has died; give what it said."""
    said = []
    try:
        while pipe.poll(PATIENCE):
            said.append(pipe.recv())
    except EOFError:
        process.join()
        return said
    process.kill()
    raise AssertionError(f"the host did not die; it said {said}")


def turns_of(way):
    return (turn(gate("never")),) if way == "steer" else (turn(say("hello")), turn(gate("never")))


def named(case):
    return "-".join(map(str, case))


@pytest.mark.parametrize("kill", KILLS, ids=named)
async def test_a_process_killed_at_a_point_of_a_message_s_way_states_its_true_fate(make_double, tmp_path, kill):
    double, journal = make_double(*turns_of(kill[1])), tmp_path / "journal.db"
    ours, theirs = HOSTS.Pipe(duplex=False)
    process = HOSTS.Process(target=host, args=(double.binary, journal, kill, theirs), daemon=True)
    process.start()
    theirs.close()
    said = await anyio.to_thread.run_sync(dead, process, ours)
    ours.close()
    assert process.exitcode == -signal.SIGKILL
    async with on(double, soon(on_restart="hold"), journal=journal, limit=PATIENCE) as engine:
        await engine.recover()
        thread = await engine.resume_thread(said[0].removeprefix("thread "))
        check_truth(double, thread, acknowledged="acknowledged" in said, told=said[-1])


@pytest.mark.parametrize("case", STEERS, ids=named)
async def test_a_server_killed_at_a_point_of_a_message_s_way_leaves_its_true_fate(make_double, tmp_path, case):
    double, journal = make_double(*turns_of(case[0])), tmp_path / "journal.db"
    plan, said = CrashPlan(strike="server"), []
    provider = CrashAdapter(Codex(binary=double.binary), plan)
    with anyio.fail_after(PATIENCE):
        async with goalfsm.open(provider, CrashJournal(SqliteJournal(journal), plan), soon()) as engine:
            thread, message = await submit(engine, plan, case, said.append)
            while engine.connection is not None:
                await thread._runtime.changed.wait()
            assert plan.struck
            await message.settled() if message.state != "queued" else None
            await engine.resume_thread(thread.id)
            await state(message, "delivered", "requeued")
            check_truth(double, thread, acknowledged=True, told="")
            fate = (message.state, message.evidence)
    async with on(double, soon(on_restart="hold"), journal=journal, limit=PATIENCE) as engine:
        again = (await engine.resume_thread(thread.id)).follow_ups(all=True)
        assert [(m.state, m.evidence) for m in again if m.id == "m1"] == [fate]


def check_truth(double, thread, *, acknowledged, told):
    shown = double.shown(TEXT)
    found = [m for m in thread.follow_ups(all=True) if m.id == "m1"]
    assert shown <= 1
    if not found:
        # It was not acknowledged, so nobody was promised anything; and nothing of it was sent.
        assert (acknowledged, shown) == (False, 0)
        return
    [message] = found
    assert message.reason
    if shown:
        assert (message.state, bool(message.evidence)) == ("delivered", True)
    else:
        assert message.state in ("requeued", "held")
        assert double.writes("m1") == 0 or message.evidence
    if told.startswith("settled"):
        assert message.state == told.removeprefix("settled ")


# -- stopping instead of dying -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
async def test_whatever_waits_at_a_point_goes_on_after_the_release_as_if_nothing_had_been(make_double, point):
    double = make_double(turn(gate("never")))
    plan = CrashPlan(strike="stop")
    provider = CrashAdapter(Codex(binary=double.binary), plan)
    with anyio.fail_after(PATIENCE):
        async with goalfsm.open(provider, CrashJournal(MemoryJournal(), plan), soon()) as engine:
            thread = await engine.start_thread()
            await thread.start_goal("survive")
            plan.point, plan.nth = point, plan.hits[point] + 1
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(thread.submit, TEXT, id="m1"))
                await plan.reached.wait()
                if point in ("before_write", "before_fence", "before_append", "after_fence"):
                    assert double.writes("m1") == 0
                plan.release()
            [message] = [m for m in thread.follow_ups(all=True) if m.id == "m1"]
            await state(message, "delivered")
            assert (double.writes("m1"), double.shown(TEXT)) == (1, 1)


def test_a_plan_for_a_point_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is no crash point 'in_between'; there are before_append, after_append"):
        CrashPlan("in_between")
