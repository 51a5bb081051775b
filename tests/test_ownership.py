"""Two engines, one journal file: who may use a thread, from when on, and what the other one may still do (decisions 6)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from copy import deepcopy
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from stage import LIMIT, state

import goalfsm
from goalfsm import Policy, StaleOwner
from goalfsm._journal import MemoryJournal
from goalfsm._lease import await_lease, new_owner, process_is_gone
from goalfsm._sqlite import SqliteJournal
from goalfsm._sqlite_reader import open_reader
from goalfsm._values import Timeouts
from goalfsm.adapters._scripted.records import Disk
from goalfsm.adapters.simulated import Script, Simulated, gate, turn
from goalfsm.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

HOST = Path(__file__).with_name("owner_host.py")
LEASE = 1.0
SLACK = 2.0  # for a busy machine
ELSEWHERE = "0a1b2c3d-4e5f.1/17/4711/0123abcd"


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "goals.db"


@asynccontextmanager
async def engine_on(journal, disk=None, *, lease=LEASE):
    """An engine on a provider of its own, which knows what was on another one's disk at that moment."""
    provider = Simulated(Script(turns=(turn(gate("never")),)))
    if disk is not None:
        provider.server.disk = deepcopy(disk)
    policy = Policy(timeouts=Timeouts(lease=lease, quiet=0.1))
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(provider, journal=journal, policy=policy) as engine:
            yield engine


async def held_thread(engine):
    """A thread whose message waits for a person."""
    thread = await engine.start_thread()
    await thread.start_goal("hold it")
    message = await thread.submit("whose?", id="m1", when="queue")
    await message.hold("until somebody decides")
    return thread, message


def disk_of(engine):
    return engine.adapter.server.disk


def steps(journal, thread_id):
    with open_reader(journal) as reader:
        return [(stored.seq, stored.epoch) for stored in reader.records(thread_id)]


def holder(journal, thread_id):
    with open_reader(journal) as reader:
        return reader.holder(thread_id)


# -- a holder that lives -----------------------------------------------------------------------------------------------


async def test_a_thread_whose_holder_lives_cannot_be_resumed_and_the_error_says_what_can_be_done(journal):
    async with engine_on(journal) as first:
        thread, message = await held_thread(first)
        async with engine_on(journal, disk_of(first)) as second:
            before = steps(journal, thread.id)
            asked = time.monotonic()
            with pytest.raises(StaleOwner) as refused:
                await second.resume_thread(thread.id)
            assert time.monotonic() - asked < LEASE + SLACK
            assert str(refused.value) == (
                f"thread {thread.id} is in use: its owner (epoch 1) gives heartbeats; leave it to that owner, close that "
                f"engine, or take it with take_over({thread.id!r})"
            )
            assert steps(journal, thread.id) == before
            # The holder did not notice anything, and the other one asked its provider for nothing but a look.
            await message.edit("still mine")
            assert second.adapter.server.requests("thread/resume") == 0


async def test_a_refused_thread_can_be_resumed_once_its_holder_has_left(journal):
    async with engine_on(journal) as first:
        thread, _ = await held_thread(first)
        disk = disk_of(first)
        async with engine_on(journal, disk) as second:
            with pytest.raises(StaleOwner):
                await second.resume_thread(thread.id)
    async with engine_on(journal, disk) as third:
        message = (await third.resume_thread(thread.id)).follow_ups()[0]
        assert (message.id, message.state) == ("m1", "held")


async def test_take_over_works_at_once_and_the_former_owner_writes_nothing_more(journal):
    async with engine_on(journal, lease=60.0) as first:
        thread, message = await held_thread(first)
        async with engine_on(journal, disk_of(first), lease=60.0) as second:
            taken = await second.take_over(thread.id)
            theirs = taken.follow_ups()[0]
            assert (theirs.id, theirs.state) == ("m1", "held")
            with pytest.raises(StaleOwner, match=r"the owner of epoch 2; this side held epoch 1; nothing more is done"):
                await message.release()
            for again in (message.edit("x"), thread.submit("y"), thread.stop()):
                with pytest.raises(StaleOwner, match=r"take_over\('"):
                    await again
            await theirs.release()
            await state(theirs, "delivered")
            assert {epoch for seq, epoch in steps(journal, thread.id) if seq > 0} == {1, 2}
        written = steps(journal, thread.id)
    # Leaving writes nothing either.
    assert steps(journal, thread.id) == written
    assert [epoch for _, epoch in written] == sorted(epoch for _, epoch in written)
    assert first.adapter.server.writes("m1") == 0
    assert second.adapter.server.writes("m1") == 1


async def test_who_was_taken_over_without_knowing_it_does_not_pause_the_goal_when_leaving(journal):
    async with engine_on(journal) as first:
        thread, _ = await held_thread(first)
        async with engine_on(journal, disk_of(first)) as second:
            await second.take_over(thread.id)
            paused = first.adapter.server.requests("thread/goal/set")
    # It did nothing since, so nobody told it; it asked before it acted.
    assert first.adapter.server.requests("thread/goal/set") == paused


async def test_two_engines_can_take_a_thread_from_each_other_any_number_of_times(journal):
    async with engine_on(journal) as first:
        thread, _ = await held_thread(first)
        async with engine_on(journal, disk_of(first)) as second:
            for epoch, engine in ((2, second), (3, first), (4, second), (5, first)):
                taken = await engine.take_over(thread.id)
                await taken.follow_ups()[0].edit(f"as of epoch {epoch}")
                assert holder(journal, thread.id).epoch == epoch
                assert holder(journal, thread.id).owner == engine.owner
            with pytest.raises(StaleOwner):
                await second.resume_thread(thread.id)
            assert taken.follow_ups()[0].text == "as of epoch 5"
    numbers = [seq for seq, _ in steps(journal, thread.id)]
    assert numbers == list(range(1, len(numbers) + 1))


# -- a holder that left ------------------------------------------------------------------------------------------------


async def test_an_engine_that_was_closed_leaves_its_threads_free_at_once(journal):
    async with engine_on(journal, lease=60.0) as first:
        thread, _ = await held_thread(first)
    assert holder(journal, thread.id).beat == 0
    async with engine_on(journal, disk_of(first), lease=60.0) as second:
        assert (await second.resume_thread(thread.id)).follow_ups()[0].state == "held"
        assert holder(journal, thread.id).owner == second.owner


async def test_what_happened_between_looking_and_owning_is_not_lost(journal):
    """An engine that read a thread early takes it as its last owner left it, whatever came in between."""
    provider = Simulated(Script(turns=(turn(gate("never")),)))
    with ExitStack() as until_then:
        first = until_then.enter_context(goalfsm.open_sync(provider, journal=journal))
        thread = first.start_thread()
        thread.start_goal("hold it")
        message = thread.submit("whose?", id="m1", when="queue")
        message.hold()
        async with engine_on(journal, provider.server.disk) as second:
            await second.recover()
            [seen] = second.threads()
            early = seen.follow_ups()[0]
            message.edit("changed since")
            thread.submit("came since", id="m2", when="queue")
            until_then.close()
            await second.resume_thread(thread.id)
            waiting = seen.follow_ups(all=True)
            assert [(m.id, m.text) for m in waiting if m.id == "m1"] == [("m1", "changed since")]
            assert "m2" in [m.id for m in waiting]
            # The handle from before knows it too, and commands through it count.
            assert (early.text, early.state) == ("changed since", "held")
            await early.withdraw()
            assert early.state == "discarded"


@contextmanager
def host(journal):
    """A host process that holds a thread; it is killed at the end if it still runs."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HOST.parents[1]), str(HOST.parent)])}
    command = [sys.executable, str(HOST), str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


async def said(process):
    with anyio.fail_after(LIMIT):
        return await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)


async def told(process):
    first = json.loads(await said(process))
    return first["thread"], msgspec.json.decode(first["disk"], type=Disk), first["owner"]


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
async def test_a_killed_process_leaves_its_threads_free_at_once_on_this_machine(journal, reaped):
    with host(journal) as process:
        thread_id, disk, owner = await told(process)
        assert not process_is_gone(owner)
        process.send_signal(signal.SIGKILL)
        if reaped:
            await anyio.to_thread.run_sync(process.wait, LIMIT)
        else:
            await anyio.to_thread.run_sync(os.waitid, os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_is_gone(owner)
        assert holder(journal, thread_id).beat > 0
        async with engine_on(journal, disk, lease=60.0) as heir:
            assert (await heir.resume_thread(thread_id)).follow_ups()[0].state == "held"


async def test_a_suspended_process_loses_its_threads_after_the_lease_and_does_nothing_when_it_wakes(journal):
    with host(journal) as process:
        thread_id, disk, _ = await told(process)
        process.send_signal(signal.SIGSTOP)
        async with engine_on(journal, disk) as heir:
            await heir.resume_thread(thread_id)
            written = steps(journal, thread_id)
            process.send_signal(signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert "StaleOwner" in (line := await said(process))
            assert "the owner of epoch 2; this side held epoch 1" in line
            assert steps(journal, thread_id) == written


async def test_a_holder_on_another_machine_is_waited_for_one_lease_and_no_longer(journal):
    async with engine_on(journal) as first:
        thread, _ = await held_thread(first)
    store = SqliteJournal(journal)
    await store.start()
    await store.claim(thread.id, ELSEWHERE, expected=1)
    await store.beat(ELSEWHERE)
    await store.aclose()
    async with engine_on(journal, disk_of(first)) as second:
        asked = time.monotonic()
        await second.resume_thread(thread.id)
        assert LEASE <= time.monotonic() - asked < LEASE + SLACK
        assert holder(journal, thread.id).epoch == 3


# -- the lease alone, on a clock of the test's own ---------------------------------------------------------------------


class Jumping(FakeClock):
    """Its wall time jumps by years whenever it is asked."""

    jumps = 0

    def wall(self):
        self.jumps += 1
        return super().wall() + (-1) ** self.jumps * 1e8 * self.jumps


async def held_elsewhere(beats=3):
    journal = MemoryJournal()
    await journal.start()
    await journal.claim("t", ELSEWHERE, expected=0)
    for _ in range(beats):
        await journal.beat(ELSEWHERE)
    return journal


@pytest.mark.parametrize("kind", [FakeClock, Jumping])
async def test_a_lease_runs_on_the_observers_monotonic_clock_whatever_the_wall_clock_does(kind):
    journal, clock = await held_elsewhere(), kind()
    got = []

    async def wait():
        got.append((await await_lease(journal, clock, "t", "me", 3.0), clock.monotonic()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await clock.advance(2.9)
        assert got == []
        await clock.advance(0.2)
    assert got == [(1, pytest.approx(3.0))]


@pytest.mark.parametrize("kind", [FakeClock, Jumping])
async def test_a_heartbeat_within_the_lease_keeps_the_thread(kind):
    journal, clock = await held_elsewhere(), kind()
    refused = []

    async def wait():
        with pytest.raises(StaleOwner, match="gives heartbeats"):
            await await_lease(journal, clock, "t", "me", 3.0)
        refused.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await clock.advance(2.4)
        await journal.beat(ELSEWHERE)
        await clock.advance(0.6)
    assert refused == [pytest.approx(2.5)]


async def test_a_holder_that_retires_while_somebody_waits_is_not_waited_for_any_more():
    journal, clock = await held_elsewhere(), FakeClock()
    got = []

    async def wait():
        got.append(await await_lease(journal, clock, "t", "me", 60.0))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await clock.advance(1.0)
        await journal.retire(ELSEWHERE)
        await clock.advance(10.0)
        assert got == [1]


async def test_of_two_that_waited_for_the_same_lease_one_gets_the_thread():
    journal, clock = await held_elsewhere(), FakeClock()
    won, lost = [], []

    async def take(name):
        await journal.beat(name)
        try:
            won.append(await journal.claim("t", name, expected=await await_lease(journal, clock, "t", name, 3.0)))
        except StaleOwner as error:
            lost.append((error.epoch, error.current))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, "a")
        tasks.start_soon(take, "b")
        await clock.advance(4.0)
    assert (won, lost) == ([2], [(1, 2)])


# -- which process is gone ---------------------------------------------------------------------------------------------


def test_a_process_id_that_was_given_out_again_is_another_process():
    boot, pid, started, own = new_owner().split("/")
    assert not process_is_gone(f"{boot}/{pid}/{started}/{own}")
    assert process_is_gone(f"{boot}/{pid}/{int(started) - 1}/{own}")


@pytest.mark.parametrize(
    "owner", ["", "x", "/1/2/3", ELSEWHERE, "boot/²/1/x", "boot/-1/1/x", "boot/1", f"boot/{10**30}/1/x"]
)
def test_what_proves_nothing_is_no_proof(owner):
    here = new_owner().partition("/")[0]
    assert not process_is_gone(owner)
    assert not process_is_gone(owner.replace("boot", here)) or owner == f"boot/{10**30}/1/x"


def test_the_processes_of_another_container_of_this_machine_are_not_ours_to_judge():
    boot, *rest = new_owner().split("/")
    kernel, _, _namespace = boot.partition(".")
    assert not process_is_gone("/".join([f"{kernel}.1", "99999999", *rest[1:]]))


def test_a_process_that_may_not_be_looked_at_is_not_taken_for_gone(monkeypatch):
    owner = new_owner()
    monkeypatch.setattr("goalfsm._lease._started", lambda _pid: None)
    monkeypatch.setattr("goalfsm._lease._boot", lambda: owner.partition("/")[0])
    assert not process_is_gone(owner)


def test_two_engines_of_one_process_are_two_owners():
    assert new_owner() != new_owner()
