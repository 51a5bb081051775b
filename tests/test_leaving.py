"""Leaving the engine: within five seconds, with the goal paused (or left, if so decided), and without leftovers."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from surfaces import LIMIT, alive, goal_on_server, opened, reached, server_pid

import goalfsm
from goalfsm import Policy, TransportClosed, open_sync
from goalfsm.testing.mock_model import Hold, complete_goal, say

pytestmark = [pytest.mark.anyio, pytest.mark.app_server]


@pytest.mark.parametrize(("policy", "status"), [("pause", "paused"), ("leave", "active")])
async def test_leaving_while_a_goal_runs_ends_the_server_in_time_and_decides_the_goal(
    surface, codex, model, policy, status
):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with surface.open(codex, policy=Policy(on_exit=policy)) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        pid = server_pid(engine)
        left = time.monotonic()
    assert time.monotonic() - left < 5
    assert not alive(pid)
    with pytest.raises(TransportClosed, match=r"engine is closed|ended by this side"):
        await goal.result()
    assert (goal.state, engine.live()) == ("lost", [])
    async with opened(surface, codex) as engine:
        view = await goal_on_server(engine, thread.id)
        assert (view.objective, view.status) == ("ship it", status)
    assert len(model.requests) == 1


@pytest.mark.parametrize("policy", ["pause", "leave"])
async def test_leaving_leaves_a_goal_that_is_over_as_it_ended(surface, codex, model, policy):
    model.script(complete_goal(), say("done"))
    async with surface.open(codex, policy=Policy(on_exit=policy)) as engine:
        thread = await engine.start_thread()
        await thread.run_goal("ship it")
    async with opened(surface, codex) as engine:
        assert (await goal_on_server(engine, thread.id)).status == "complete"


async def test_leaving_wakes_whoever_still_waits(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    woken = []

    async def wait(awaited):
        try:
            await awaited
        except TransportClosed as error:
            woken.append(str(error))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks, surface.open(codex) as engine:
            thread = await engine.start_thread()
            goal = await thread.start_goal("ship it")
            queued = await thread.submit("later", when="queue")
            tasks.start_soon(wait, goal.result())
            tasks.start_soon(wait, queued.settled())
            await reached(hold)
    assert len(woken) == 2
    for call in (thread.submit("too late"), thread.start_goal("too late"), engine.start_thread(), thread.goal()):
        with pytest.raises(TransportClosed, match="engine is closed"):
            await call
    # What it knew can still be asked.
    assert [(message.id, message.state) for message in thread.follow_ups()] == [(queued.id, "queued")]
    assert [each.id for each in engine.threads()] == [thread.id]


def server_children():
    """The processes that are children of this one, zombies included."""
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def descriptors():
    gc.collect()
    found = {}
    for fd in Path("/proc/self/fd").iterdir():
        # The one that this very listing reads from is gone by now.
        with suppress(OSError):
            found[fd.name] = str(fd.readlink())
    return found


def model_done():
    """Wait for the model's own threads: they end a little after the server has hung up."""
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(LIMIT)


def test_leaving_the_sync_engine_leaves_no_process_descriptor_or_thread(codex, model, tmp_path):
    children, threads, before = server_children(), set(threading.enumerate()), descriptors()
    for _ in range(2):
        hold = Hold()
        model.script(say("thinking about it", hold=hold))
        with open_sync(codex, tmp_path / "journal") as engine:
            thread = engine.start_thread()
            goal = thread.start_goal("ship it")
            next(stream := goal.events())
            assert server_children() > children
            assert hold.reached.wait(LIMIT)
        hold.release()
        stream.close()
    model_done()
    assert server_children() == children
    assert set(threading.enumerate()) == threads
    assert descriptors() == before


async def test_leaving_the_async_engine_leaves_no_process_descriptor_thread_or_task(codex, model, tmp_path):
    children, threads, tasks = server_children(), set(threading.enumerate()), asyncio.all_tasks()
    before = descriptors()
    for _ in range(2):
        hold = Hold()
        model.script(say("thinking about it", hold=hold))
        async with goalfsm.open(codex, tmp_path / "journal") as engine:
            thread = await engine.start_thread()
            goal = await thread.start_goal("ship it")
            async for event in goal.events():
                if event.method == "item/agentMessage/delta":
                    break
            assert server_children() > children
            await thread.submit("by the way", when="queue")
        hold.release()
    model_done()
    assert server_children() == children
    assert set(threading.enumerate()) == threads
    assert asyncio.all_tasks() == tasks
    assert descriptors() == before
