"""The goal operation on the real server, on both surfaces: the cases G1-G8 and G15-G17 of the acceptance list.

Each test names its situation; what is asserted is what a caller, the model and the server's own record show.
"""

from __future__ import annotations

import time

import anyio
import pytest
from surfaces import LIMIT, Surface, chat_works, connection_of, goal_on_server, opened, reached, texts

from goalfsm import GoalFailed, GoalStatus, ProviderRefused
from goalfsm.testing.mock_model import Hold, complete_goal, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.app_server]


async def test_g01_goal_run_of_two_turns_gives_one_result(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), complete_goal(hold=hold), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        began = time.time()
        goal = await thread.start_goal("  ship the thing \n")
        started = time.time()
        await reached(hold)
        held = time.time()
        hold.release()
        result = await goal.result()
        ended = time.time()
        assert (result.status, result.id) == ("completed", goal.id)
        assert texts(result) == ["step one", "all finished"]
        assert result.final_response == "all finished"
        # Three requests of two tokens each: the totals count all turns, `last` only the last request.
        assert (result.usage.total.total_tokens, result.usage.last.total_tokens) == (6, 2)
        assert (result.usage.total.input_tokens, result.usage.total.output_tokens) == (3, 3)
        slack = 0.002
        assert (held - started) - slack <= result.duration_ms / 1000 <= (ended - began) + slack
        assert began - slack <= result.started_at <= started + slack
        assert held - slack <= result.completed_at <= ended + slack
        assert await goal.result() == result
        view = await thread.goal()
        assert (view.objective, view.status) == ("ship the thing", GoalStatus.COMPLETE)
        assert len(model.requests) == 3
        assert model.requests[0].asks_goal
        assert "<objective>\nship the thing\n</objective>" in model.requests[0].user_texts[-1]
        assert engine.live() == []


async def test_g02_goal_stream_shows_one_logical_lifecycle(surface, codex, model):
    model.script(say("step one"), complete_goal(), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        events = [event async for event in goal.events()]
        methods = [event.method for event in events]
        assert (methods[0], methods[-1]) == ("turn/started", "turn/completed")
        assert (methods.count("turn/started"), methods.count("turn/completed")) == (1, 1)
        named = [event.params["turnId"] for event in events if event.params.get("turnId")]
        named += [event.params["turn"]["id"] for event in events if "turn" in event.params]
        assert set(named) == {goal.id}
        last = events[-1].params["turn"]
        assert (last["status"], last["error"]) == ("completed", None)
        assert last["durationMs"] == (await goal.result()).duration_ms
        physical = list(dict.fromkeys(event.physical_turn_id for event in events if event.physical_turn_id))
        assert len(physical) == 2
        assert physical[0] == goal.id
        said = dict.fromkeys(physical, "")
        for event in events:
            if event.method == "item/agentMessage/delta":
                said[event.physical_turn_id] += event.params["delta"]
        assert said == {physical[0]: "step one", physical[1]: "all finished"}
        assert {event.source for event in events} == {"provider"}


async def test_g03_goal_completed_within_its_first_turn_is_not_continued_and_takes_nothing_more(surface, codex, model):
    model.script(complete_goal(), say("done at once"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        result = await goal.result()
        assert (result.status, texts(result)) == ("completed", ["done at once"])
        with pytest.raises(ProviderRefused, match=r"^no active turn to steer$"):
            await goal.steer("too late")
        with pytest.raises(ProviderRefused, match=r"^no active turn to interrupt$"):
            await goal.interrupt()
        await goal.cancel()
        assert len(model.requests) == 2
        assert model.shown("too late") == 0
        assert (await thread.goal()).status == "complete"
        assert engine.live() == []


async def test_g04_a_paused_older_goal_is_replaced_without_a_trace(surface, codex, model):
    model.script(complete_goal(), say("done"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        old = await thread.set_goal("the yellow submarine", status="paused", token_budget=5_000)
        assert (old.status, old.token_budget) == ("paused", 5_000)
        result = await thread.run_goal("the green bicycle")
        assert result.status == "completed"
        view = await thread.goal()
        assert (view.objective, view.status, view.token_budget) == ("the green bicycle", "complete", None)
        assert await goal_on_server(engine, thread.id) == view
        shown = "\n".join(str(request.body["input"]) for request in model.requests)
        assert "the green bicycle" in shown
        assert "yellow submarine" not in shown
        assert len(model.requests) == 2


async def test_g05_goal_steer_reaches_a_running_continuation(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold), complete_goal("heard you"), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        receipt = await goal.steer("please use blue")
        assert receipt.turn_id == goal.id
        assert receipt.state in ("acknowledged", "delivered")
        result = await goal.result()
        assert texts(result) == ["step one", "heard you", "all finished"]
        assert (result.status, result.id) == ("completed", goal.id)
        assert len(model.requests) == 4
        assert [request.shows("please use blue") for request in model.requests] == [0, 0, 1, 1]
        assert model.requests[2].user_texts[-1] == "please use blue"
        outcome = receipt.message.outcome
        assert (outcome.state, outcome.turn_id) == ("delivered", goal.id)
        assert outcome.physical_turn_id not in ("", goal.id)
        assert engine.live() == []


async def test_g06_goal_interrupt_pauses_continuation_and_leaves_thread_usable(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        await goal.interrupt()
        result = await goal.result()
        assert (result.status, result.id, texts(result)) == ("interrupted", goal.id, ["step one"])
        assert (await thread.goal()).status == "paused"
        assert engine.live() == []
        await chat_works(engine, thread, model, 2)
        assert (await thread.goal()).status == "paused"


async def test_g07_goal_cancel_with_the_id_of_a_turn_that_rolled_over_stops_the_real_turn(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        await reached(hold)
        named = _stale_interrupt(connection_of(engine), goal.id)
        await goal.cancel()
        assert named[0] != goal.id, "the first interrupt would have named the running turn"
        assert len(named) == 2
        assert (await goal.result()).status == "interrupted"
        assert ((await thread.goal()).status, (await thread.status()).turn) == ("paused", "idle")
        assert engine.live() == []
        await chat_works(engine, thread, model, 2)


def _stale_interrupt(connection, over):
    """Let the first interrupt name a turn that is over, as if the news of the next one were still on the wire."""
    asked = []
    call = connection.call

    def stale(thread_id, kind, number, **options):
        if kind == "interrupt_turn":
            asked.append(options["turn_id"])
            if len(asked) == 1:
                options["turn_id"] = over
        call(thread_id, kind, number, **options)

    connection.call = stale
    return asked


@pytest.mark.parametrize(
    "failure",
    [
        ("server_error", "the mock model fell over", GoalStatus.BLOCKED),
        ("insufficient_quota", "Quota exceeded", GoalStatus.USAGE_LIMITED),
    ],
    ids=["server_error", "quota"],
)
async def test_g08_failed_goal_raises_the_providers_words_and_leaves_thread_usable(surface, codex, model, failure):
    code, words, status = failure
    model.script(fail(code, words))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        for _again in range(2):
            with pytest.raises(GoalFailed, match=words) as failed:
                await goal.result()
            assert (failed.value.result.status, failed.value.result.id) == ("failed", goal.id)
        assert words in failed.value.message
        events = [event async for event in goal.events()]
        assert [event.method for event in events].count("turn/completed") == 1
        assert events[-1].params["turn"]["status"] == "failed"
        assert words in events[-1].params["turn"]["error"]["message"]
        assert (await thread.goal()).status == status
        assert len(model.requests) == 1
        assert engine.live() == []
        await chat_works(engine, thread, model, 1)
        assert (await thread.goal()).status == status


async def test_g15_both_surfaces_give_the_same_logical_result_and_stream(codex, model):
    told = []
    for name in ("sync", "async"):
        model.script(say("step one"), complete_goal("nearly"), say("all finished"))
        async with opened(Surface(name), codex) as engine:
            thread = await engine.start_thread()
            goal = await thread.start_goal("ship the thing")
            events = [event.method for event in [event async for event in goal.events()]]
            result = await goal.result()
            items = [(item["type"], item.get("text")) for item in result.items]
            shape = (result.status, items, result.final_response, result.usage, result.id == goal.id)
            # How often the server tells the goal's figures and the limits varies from run to run (facts 9).
            counted = [method for method in events if method.startswith(("turn/", "item/"))]
            told.append((shape, counted, (await thread.goal()).status, engine.live()))
    assert told[0] == told[1]
    assert told[0][0][2] == "all finished"
    assert len(model.requests) == 6


async def test_g16_goal_steer_in_a_continuation_is_seen_by_a_reader_in_its_place(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold), complete_goal("heard you"), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        seen = []

        async def read():
            seen.extend([event async for event in goal.events()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await reached(hold)
            receipt = await goal.steer("please use blue", id="blue")
        assert (receipt.id, receipt.turn_id) == ("blue", goal.id)
        items = [event.params["item"] for event in seen if event.method == "item/completed"]
        order = [(item["type"], item.get("clientId") or item.get("text")) for item in items]
        order = [pair for pair in order if pair[0] in ("agentMessage", "userMessage")]
        assert order == [
            ("agentMessage", "step one"),
            ("userMessage", "blue"),
            ("agentMessage", "heard you"),
            ("agentMessage", "all finished"),
        ]
        told = [event for event in seen if event.source == "goalfsm"]
        assert told[-1].method == "follow_up/delivered"
        assert told[-1].params["id"] == "blue"
        outcome = await receipt.message.settled()
        assert (outcome.state, outcome.turn_id) == ("delivered", goal.id)
        assert outcome.evidence.startswith("echo of item")
        assert model.shown("please use blue") == 1
        assert engine.live() == []


async def test_g17_goal_interrupt_in_a_continuation_ends_reader_and_waiter_alike(surface, codex, model):
    hold = Hold()
    model.script(say("step one"), say("thinking about it", hold=hold))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        seen, results = [], []

        async def read():
            seen.extend([event async for event in goal.events()])

        async def wait():
            results.append(await goal.result())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(wait)
            await reached(hold)
            assert engine.live() == [thread.id]
            await goal.interrupt()
        assert [result.status for result in results] == ["interrupted"]
        assert (seen[-1].method, seen[-1].params["turn"]["status"]) == ("turn/completed", "interrupted")
        with pytest.raises(ProviderRefused, match=r"^no active turn to interrupt$"):
            await goal.interrupt()
        assert (await thread.goal()).status == "paused"
        assert engine.live() == []
        await chat_works(engine, thread, model, 2)


async def test_a_stream_that_is_asked_for_after_the_end_still_tells_everything_from_the_start(surface, codex, model):
    model.script(say("step one"), complete_goal(), say("all finished"))
    async with opened(surface, codex) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("ship it")
        result = await goal.result()
        with anyio.fail_after(LIMIT):
            late = [event async for event in goal.events()]
        assert (late[0].method, late[-1].method) == ("turn/started", "turn/completed")
        said = "".join(event.params["delta"] for event in late if event.method == "item/agentMessage/delta")
        assert said == "".join(texts(result)) == "step oneall finished"
