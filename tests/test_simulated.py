"""The simulated adapter through the wire code that the real one uses, on a clock that the test moves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import goalfsm
from goalfsm._adapter import Look, Notification, Outgoing
from goalfsm._errors import ProviderRefused, TransportClosed
from goalfsm._values import ApprovalRequest, GoalView, Policy
from goalfsm.adapters.simulated import (
    Fault,
    Script,
    Simulated,
    approval,
    complete_goal,
    gate,
    raw,
    say,
    stray_answer,
    turn,
)
from goalfsm.events import TypedEvent
from goalfsm.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Heard:
    """A sink that keeps everything in one list."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.lost_reasons: list[str] = []

    def facts(self, thread_id: str, *events: TypedEvent) -> None:
        self.all.extend(events)

    def notify(self, thread_id: str, notification: Notification) -> None:
        self.all.append(notification)

    def goal(self, thread_id: str, view: GoalView | None) -> None:
        self.all.append(view)

    def odd(self, thread_id: str, kind: str, detail: str) -> None:
        self.all.append((kind, detail))

    def lost(self, reason: str) -> None:
        self.lost_reasons.append(reason)

    async def approve(self, request: ApprovalRequest) -> Mapping[str, Any]:
        return {"decision": "decline"}

    def names(self, *wanted: str) -> list[str]:
        return [e.name for e in self.all if isinstance(e, TypedEvent) and (not wanted or e.name in wanted)]

    def last(self, name: str) -> Any:
        return [e for e in self.all if isinstance(e, TypedEvent) and e.name == name][-1]

    def odds(self) -> list[str]:
        return [e[0] for e in self.all if isinstance(e, tuple)]


OPEN: list[Any] = []


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    yield
    while OPEN:
        await OPEN.pop().aclose(1)


async def connect(adapter: Simulated, heard: Heard) -> Any:
    connection = await adapter.connect(heard, Policy())
    OPEN.append(connection)
    return connection


def simulated(*turns: Any, faults: tuple[Fault, ...] = (), **script: Any) -> tuple[Simulated, FakeClock, Heard]:
    clock = FakeClock()
    return Simulated(Script(turns=turns, **script), faults, clock=clock), clock, Heard()


async def send(connection: Any, thread: str, text: str, *, turn_id: str = "", client_id: str = "c1") -> None:
    route = "steer" if turn_id else "start"
    async with connection.writing():
        connection.send(thread, Outgoing(client_id, 1, route, turn_id, text))


async def test_a_goal_runs_its_continuation_by_itself_and_nothing_moves_without_the_clock() -> None:
    adapter, clock, heard = simulated(turn(say("pass 0")), turn(complete_goal(), say("all done")))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.settle()
    assert heard.names("turn_started") == []
    await clock.advance(0.010)
    assert heard.names("turn_started", "turn_completed") == ["turn_started", "turn_completed"]
    await clock.advance(0.0079)
    assert heard.names("turn_started") == ["turn_started"]
    await clock.advance(0.001)
    ends = heard.names("turn_started", "turn_completed", "goal_completed")
    assert ends == ["turn_started", "turn_completed", "turn_started", "goal_completed", "turn_completed"]
    await connection.aclose(1)
    assert len(heard.lost_reasons) == 1


async def test_a_steer_reaches_the_model_once_and_its_echo_names_it() -> None:
    adapter, clock, heard = simulated(turn(say("before"), gate("g"), say("after"), complete_goal()))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.02)
    await send(connection, thread, "a steer", turn_id=heard.last("turn_started").turn_id)
    await clock.settle()
    assert heard.names("send_ok", "echo") == ["send_ok"]
    await clock.advance(0.01)
    assert heard.last("echo").id == "c1"
    adapter.release("g")
    await clock.run_until(lambda: "turn_completed" in heard.names())
    assert adapter.server.shown("a steer") == 1
    assert adapter.server.writes("c1") == 1


async def test_a_steer_whose_answer_is_lost_is_found_after_its_turn() -> None:
    adapter, clock, heard = simulated(
        turn(gate("g"), complete_goal()),
        faults=(Fault.request("turn/steer", "mute"), Fault.echo("drop")),
    )
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.02)
    turn_id = heard.last("turn_started").turn_id
    await send(connection, thread, "a steer", turn_id=turn_id)
    await clock.advance(1)
    assert heard.names("send_ok", "echo") == []
    adapter.release("g")
    await clock.advance(1)
    connection.look(thread, [Look("c1", 1, turn_id, 0)], 5)
    await clock.run_until(lambda: "found" in heard.names())
    assert adapter.server.shown("a steer") == 1


async def test_a_steer_in_memory_dies_with_the_process_and_the_goal_stays_active() -> None:
    adapter, clock, heard = simulated(turn(gate("g")), turn(complete_goal()))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.02)
    turn_id = heard.last("turn_started").turn_id
    await send(connection, thread, "a steer", turn_id=turn_id)
    await adapter.received("turn/steer")
    adapter.kill()
    await clock.settle()
    assert len(heard.lost_reasons) == 1
    with pytest.raises(TransportClosed):
        await connection.get_goal(thread)
    again = Heard()
    second = await connect(adapter, again)
    await second.set_goal(thread, status="paused")
    await second.resume_thread(thread)
    await clock.advance(1)
    second.look(thread, [Look("c1", 1, turn_id, 1, "a steer", None, after_resume=True)], 5)
    await clock.run_until(lambda: "absent" in again.names())
    assert again.names("turn_started") == []
    assert adapter.server.shown("a steer") == 0


async def test_an_active_goal_starts_a_turn_when_its_thread_is_resumed() -> None:
    adapter, clock, heard = simulated(turn(gate("g")), turn(complete_goal()))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.02)
    adapter.kill()
    again = Heard()
    second = await connect(adapter, again)
    await clock.advance(1)
    assert again.names("turn_started") == []
    await second.resume_thread(thread)
    await clock.advance(1)
    assert again.names("turn_started", "goal_completed") == ["turn_started", "goal_completed"]


async def test_strange_lines_are_told_and_harm_nothing() -> None:
    adapter, clock, heard = simulated(turn(raw("{broken"), stray_answer(), complete_goal()))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(1)
    assert len(heard.odds()) == 2
    assert "goal_completed" in heard.names()


async def test_a_request_for_approval_holds_the_turn_until_it_is_answered() -> None:
    adapter, clock, heard = simulated(turn(approval(command="rm"), complete_goal()))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(1)
    assert adapter.server.disk.decisions == [{"id": 0, "result": {"decision": "decline"}}]
    assert "goal_completed" in heard.names()


async def test_a_process_that_ends_before_its_handshake_gives_no_connection() -> None:
    adapter, _clock, heard = simulated(faults=(Fault.spawn("exit"),))
    with pytest.raises(TransportClosed):
        await adapter.connect(heard, Policy())
    await connect(adapter, heard)
    assert heard.lost_reasons == []


async def test_a_refusal_keeps_the_servers_words() -> None:
    adapter, _clock, heard = simulated()
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({"ephemeral": True})).id
    with pytest.raises(ProviderRefused, match=f"ephemeral thread does not support goals: {thread}"):
        await connection.set_goal(thread, objective="x")


async def test_the_clock_wakes_sleepers_in_the_order_of_their_deadlines() -> None:
    clock, order = FakeClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        order.append((seconds, clock.monotonic()))

    async with anyio.create_task_group() as group:
        for seconds in (3.0, 1.0, 2.0):
            group.start_soon(sleeper, seconds)
        await clock.advance(2.5)
        assert order == [(1.0, 1.0), (2.0, 2.0)]
        assert clock.monotonic() == 2.5
        group.cancel_scope.cancel()
    assert clock.sleeping == 0


async def test_time_waits_for_worker_threads() -> None:
    clock, order = FakeClock(), []

    async def work() -> None:
        await anyio.to_thread.run_sync(time.sleep, 0.02)
        order.append("worked")

    async def deadline() -> None:
        await clock.sleep(5)
        order.append("deadline")

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        group.start_soon(deadline)
        await clock.advance(10)
    assert order == ["worked", "deadline"]


async def test_waiting_for_something_that_never_comes_ends() -> None:
    clock = FakeClock()
    with pytest.raises(TimeoutError, match="still not so at 0 s"):
        await clock.run_until(lambda: False, real=0.01)


async def test_connecting_again_ends_the_process_before() -> None:
    adapter, clock, heard = simulated(turn(gate("g")))
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.02)
    second = await connect(adapter, Heard())
    assert len(heard.lost_reasons) == 1
    assert (await second.resume_thread(thread)).running_turn == ""


async def test_a_record_is_written_where_the_thread_says(tmp_path: Path) -> None:
    clock, heard = FakeClock(), Heard()
    adapter = Simulated(clock=clock, home=tmp_path)
    connection = await connect(adapter, heard)
    thread = await connection.start_thread({})
    assert thread.path
    before = connection.position(thread.id)
    await send(connection, thread.id, "hello")
    await clock.advance(1)
    assert before
    assert connection.position(thread.id) > before
    assert "hello" in Path(thread.path).read_text()  # noqa: ASYNC240  one small file


async def test_a_faster_script_runs_its_time_faster() -> None:
    clock, heard = FakeClock(), Heard()
    adapter = Simulated(Script(turns=(turn(say("slow", seconds=10), complete_goal()),)), clock=clock, speed=10)
    connection = await connect(adapter, heard)
    thread = (await connection.start_thread({})).id
    await connection.set_goal(thread, objective="x")
    await clock.advance(0.9)
    assert "goal_completed" not in heard.names()
    await clock.advance(0.2)
    assert "goal_completed" in heard.names()


async def test_two_runs_of_the_same_script_are_the_same() -> None:
    async def run() -> list[str]:
        adapter, clock, heard = simulated(turn(say("a", seconds=0.5)), turn(say("b"), complete_goal()))
        connection = await connect(adapter, heard)
        thread = (await connection.start_thread({})).id
        await connection.set_goal(thread, objective="x")
        await clock.advance(0.2)
        await send(connection, thread, "s", turn_id=heard.last("turn_started").turn_id)
        await clock.run_until(lambda: "goal_completed" in heard.names())
        return [repr(each) for each in heard.all]

    assert await run() == await run()


async def test_a_message_of_a_second_run_on_one_journal_is_not_taken_for_that_of_the_first(tmp_path: Path) -> None:
    echoes = []
    for _ in range(2):
        async with goalfsm.open(Simulated(), journal=tmp_path / "goals.db") as engine:
            thread = await engine.start_thread()
            message = await thread.submit("also update the changelog", id="msg-7")
            echoes.append((await message.settled()).evidence)
    assert len(set(echoes)) == 2
