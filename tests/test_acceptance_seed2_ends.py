"""The goal operation on the real server: how it is cancelled, left, refused and lost: the cases G9-G14, G18 and G19."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import anyio
import pytest
from surfaces import (
    LIMIT,
    Surface,
    WireGate,
    chat_works,
    connection_of,
    goal_on_server,
    in_thread,
    opened,
    reached,
    requests,
    server_pid,
    texts,
    when_called,
)

from goalfsm import ProviderRefused, TransportClosed, open_sync
from goalfsm._run import Run
from goalfsm.adapters.codex import Codex
from goalfsm.testing.mock_model import Hold, complete_goal, say, write_codex_home

pytestmark = [pytest.mark.anyio, pytest.mark.app_server]

ASYNC = Surface("async")


# -- a runner is cancelled ----------------------------------------------------------------------------------------------


def press(*steps):
    """Press Ctrl-C from another thread: wait for each event in turn, then interrupt the main thread, or call."""

    def run():
        for step in steps:
            if isinstance(step, threading.Event):
                assert step.wait(LIMIT)
            elif callable(step):
                step()
            else:
                signal.pthread_kill(threading.main_thread().ident, step)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_by_result(thread):
    thread.start_goal("ship it").result()


def wait_by_run_goal(thread):
    thread.run_goal("ship it")


def wait_by_reading(thread):
    for _event in thread.start_goal("ship it").events():
        pass


@pytest.fixture
def followed(monkeypatch):
    """Is set once somebody waits: an interrupt before that would hit the test, not the call."""
    event = threading.Event()
    follow = Run.follow

    def noting(run):
        follow(run)
        event.set()

    monkeypatch.setattr(Run, "follow", noting)
    return event


WAITS = [wait_by_result, wait_by_run_goal, wait_by_reading]


def sync_chat_works(engine, thread, model, index):
    model.script(say("hello back"))
    assert thread.run("just a chat").final_response == "hello back"
    assert (len(model.requests), model.requests[index].user_texts[-1]) == (index + 1, "just a chat")
    assert engine.live() == []


@pytest.mark.parametrize("wait", WAITS)
def test_g09_keyboard_interrupt_while_waiting_stops_the_goal_and_is_raised_again(codex, model, followed, wait):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    with open_sync(codex) as engine:
        thread = engine.start_thread()
        pressed = press(hold.reached, followed, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            wait(thread)
        pressed.join()
        # At once, not some time later: the clean-up is finished before the interrupt goes on.
        assert (thread.status().turn, thread.status().operation) == ("idle", "interrupted")
        assert thread.goal().status == "paused"
        assert engine.live() == []
        sync_chat_works(engine, thread, model, 2)


@pytest.mark.parametrize("wait", WAITS)
def test_g09_a_second_keyboard_interrupt_joins_the_clean_up_of_the_first(codex, model, followed, wait):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    with open_sync(codex) as engine:
        thread = engine.start_thread()
        connection = connection_of(engine)
        gate = WireGate(connection, b'"paused"')
        pausing = when_called(connection, "pause_goal")
        pressed = press(hold.reached, followed, signal.SIGINT, pausing, gate.shut, signal.SIGINT, gate.open)
        with pytest.raises(KeyboardInterrupt):
            wait(thread)
        pressed.join()
        assert (thread.status().turn, thread.status().operation) == ("idle", "interrupted")
        assert thread.goal().status == "paused"
        assert engine.live() == []
        sync_chat_works(engine, thread, model, 2)


def test_g09_keyboard_interrupt_at_the_very_end_of_a_start_leaves_no_goal_that_nobody_holds(codex, model, monkeypatch):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    with open_sync(codex) as engine:
        thread = engine.start_thread()
        portal = engine._portal._portal
        start = portal.start_task_soon

        def late(function, *args):
            future = start(function, *args)
            future.result(LIMIT)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(portal, "start_task_soon", late)
        with pytest.raises(KeyboardInterrupt):
            thread.start_goal("ship it")
        assert (thread.status().turn, thread.status().operation) == ("idle", "interrupted")
        assert thread.goal().status == "paused"
        assert engine.live() == []
        hold.release()


@pytest.mark.parametrize("wait", ["run_goal", "result"])
async def test_g18_cancelled_runner_stops_the_goal_and_the_cancellation_goes_on(codex, model, wait):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        awaited = thread.run_goal("ship it") if wait == "run_goal" else (await thread.start_goal("ship it")).result()
        task = asyncio.create_task(awaited)
        await reached(hold)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ((await thread.status()).turn, (await thread.status()).operation) == ("idle", "interrupted")
        assert (await thread.goal()).status == "paused"
        assert engine.live() == []
        await chat_works(engine, thread, model, 2)


async def test_g18_a_second_cancel_joins_the_clean_up_of_the_first(codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        task = asyncio.create_task(thread.run_goal("ship it"))
        await reached(hold)
        gate = WireGate(connection_of(engine), b'"paused"')
        task.cancel()
        assert await in_thread(gate.shut.wait, LIMIT)
        task.cancel()
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ((await thread.status()).turn, (await thread.status()).operation) == ("idle", "interrupted")
        assert (await thread.goal()).status == "paused"
        await chat_works(engine, thread, model, 2)


async def test_g18_a_runner_whose_time_is_up_stops_the_goal_too(codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        with anyio.move_on_after(0) as scope:
            await goal.result()
        assert scope.cancelled_caught
        assert ((await thread.status()).turn, (await thread.goal()).status) == ("idle", "paused")
        assert (await goal.result()).status == "interrupted"


@pytest.mark.parametrize("mark", [b'"result":{"goal":{', b'"turn/started"'], ids=["goal_set_unanswered", "turn_unseen"])
@pytest.mark.parametrize("cancels", [1, 2])
async def test_g19_start_cancelled_after_model_work_began_interrupts_that_work(codex, model, mark, cancels):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        gate = WireGate(connection_of(engine), mark)
        task = asyncio.create_task(thread.start_goal("ship it"))
        await reached(hold)
        assert await in_thread(gate.shut.wait, LIMIT)
        for _ in range(cancels):
            task.cancel()
            await anyio.wait_all_tasks_blocked()
        assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ((await thread.status()).turn, (await thread.status()).operation) == ("idle", "interrupted")
        assert (await thread.goal()).status == "paused"
        assert engine.live() == []
        await chat_works(engine, thread, model, 1)


async def test_a_cancelled_ordinary_turn_is_stopped_also_while_its_start_is_on_its_way(codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        gate = WireGate(connection_of(engine), b'"result":{"turn":{')
        task = asyncio.create_task(thread.run("keep busy"))
        await reached(hold)
        assert await in_thread(gate.shut.wait, LIMIT)
        task.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not task.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ((await thread.status()).turn, engine.live()) == ("idle", [])
        await chat_works(engine, thread, model, 1)


async def test_a_cancelled_ordinary_turn_that_waits_behind_another_is_never_sent(codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold), say("done"))
    async with opened(ASYNC, codex) as engine:
        thread = await engine.start_thread()
        first = asyncio.create_task(thread.run("keep busy"))
        await reached(hold)
        # Once while it is being written down, once while it waits.
        for blocked in (False, True):
            second = asyncio.create_task(thread.run("me too"))
            await (anyio.wait_all_tasks_blocked() if blocked else asyncio.sleep(0))
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert thread.follow_ups() == []
        hold.release()
        assert (await first).status == "completed"
        assert model.shown("me too") == 0
        assert engine.live() == []


# -- a reader leaves, the server dies -----------------------------------------------------------------------------------


async def test_g10_closing_the_reader_releases_the_route_and_the_goal_goes_on(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold), complete_goal(), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        assert engine.live() == [thread.id]
        stream = goal.events()
        assert (await anext(stream)).method == "turn/started"
        await reached(hold)
        assert engine.live() == [thread.id]
        await stream.aclose()
        assert engine.live() == []
        assert (await goal_on_server(engine, thread.id)).status == "active"
        assert ((await thread.status()).turn, goal.state) == ("running", "running")
        hold.release()
        await requests(model, 3)
        # Whoever asks again follows it again.
        result = await goal.result()
        assert (result.status, texts(result)) == ("completed", ["thinking about it", "all finished"])


async def test_g11_killed_server_wakes_reader_and_waiter_and_the_thread_can_be_resumed(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        woken = []

        async def read():
            try:
                async for _event in goal.events():
                    pass
            except TransportClosed as error:
                woken.append(str(error))

        async def wait():
            try:
                await goal.result()
            except TransportClosed as error:
                woken.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(wait)
            await reached(hold)
            os.kill(server_pid(engine), signal.SIGKILL)
        assert len(woken) == 2
        assert all(words.startswith("codex app-server was killed by signal SIGKILL") for words in woken)
        assert engine.live() == []
        with pytest.raises(TransportClosed, match="resume_thread"):
            await engine.start_thread()
        again = await engine.resume_thread(thread.id)
        # The goal was active when the server died: resuming must not let it run on without a host's decision.
        assert (await again.goal()).status == "paused"
        await chat_works(engine, again, model, 1)


# -- a start is refused -------------------------------------------------------------------------------------------------


async def test_g12_refused_starts_ask_no_model_and_leave_the_thread_usable(surface, codex, model):
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        ephemeral = await engine.start_thread(ephemeral=True)
        with pytest.raises(ValueError, match=r"^goal objective must not be empty$"):
            await thread.start_goal(" \n\t ")
        with pytest.raises(TypeError, match=r"^goal objective must be a string$"):
            await thread.start_goal(["ship it"])
        with pytest.raises(ValueError, match=r"^goal objective must be at most 4000 characters$"):
            await thread.start_goal("x" * 4001)
        with pytest.raises(ProviderRefused, match=f"^thread must be persisted .*: {ephemeral.id}$"):
            await ephemeral.start_goal("ship it")
        assert engine.live() == []
        assert model.requests == ()
        assert await goal_on_server(engine, thread.id) is None
        assert [status.operation for status in (await thread.status(), await ephemeral.status())] == ["", ""]
        await chat_works(engine, thread, model, 0)
        await chat_works(engine, ephemeral, model, 1)


async def test_g13_switched_off_goals_are_refused_with_the_servers_words_before_any_model_work(
    surface, model, tmp_path
):
    home = tmp_path / "home"
    codex = Codex(cwd=tmp_path, codex_home=home, env=write_codex_home(home, model.port, goals=False))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        for asked in (thread.start_goal, thread.run_goal):
            with pytest.raises(ProviderRefused, match=r"^goals feature is disabled$"):
                await asked("ship it")
        assert engine.live() == []
        assert model.requests == ()
        await chat_works(engine, thread, model, 0)


async def test_g14_busy_thread_refuses_a_goal_and_its_turn_can_still_be_steered(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold), say("heard you"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        results = []

        async def chat():
            results.append(await thread.run("keep busy"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat)
            await reached(hold)
            with pytest.raises(ProviderRefused, match=f"^thread must be idle .*: {thread.id}$"):
                await thread.start_goal("ship it")
            assert len(model.requests) == 1
            message = await thread.submit("by the way", when="steer")
            outcome = await message.settled()
        assert outcome.state == "delivered"
        assert (results[0].status, texts(results[0])) == ("completed", ["heard you"])
        assert [request.shows("by the way") for request in model.requests] == [0, 1]
        assert await goal_on_server(engine, thread.id) is None
        assert engine.live() == []


async def test_g14_busy_thread_refuses_a_goal_and_its_turn_can_still_be_stopped(surface, codex, model):
    hold = Hold()
    model.script(say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        results = []

        async def chat():
            results.append(await thread.run("keep busy"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat)
            await reached(hold)
            with pytest.raises(ProviderRefused, match="must be idle"):
                await thread.run_goal("ship it")
            await thread.stop()
        assert results[0].status == "interrupted"
        await chat_works(engine, thread, model, 1)
