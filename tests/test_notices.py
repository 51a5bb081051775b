"""Thread.notices(): what becomes of messages is told, also when nothing runs any more."""

import anyio

import goalfsm
from goalfsm.adapters.simulated import Fault, Script, Simulated, complete_goal, gate, say, turn


def test_every_change_of_a_message_is_told_in_order_with_its_evidence() -> None:
    async def main() -> list[goalfsm.StreamEvent]:
        simulated = Simulated(Script(turns=(turn(gate("go"), complete_goal()), turn(say("hello")))))
        async with goalfsm.open(simulated) as engine:
            thread = await engine.start_thread()
            await thread.start_goal("a goal")
            told: list[goalfsm.StreamEvent] = []
            async with anyio.create_task_group() as tasks:
                started = anyio.Event()

                async def read() -> None:
                    notices = thread.notices()
                    started.set()
                    async for notice in notices:
                        told.append(notice)
                        if notice.method == "follow_up/delivered":
                            return

                tasks.start_soon(read)
                await started.wait()
                await anyio.wait_all_tasks_blocked()
                await thread.submit("while it runs", id="m", when="queue", meta={"user": 7})
                simulated.release("go")
            return told

    told = anyio.run(main)
    states = [notice.params["state"] for notice in told]
    assert states == ["queued", "delivering", "acknowledged", "delivered"]
    assert told[-1].params["evidence"].startswith("echo of item")
    assert {notice.params["meta"]["user"] for notice in told} == {7}
    assert {notice.source for notice in told} == {"goalfsm"}


def test_a_late_proof_after_the_goal_is_told_as_well() -> None:
    async def main() -> list[str]:
        faults = [Fault.echo("drop", client_id="m"), Fault.request("turn/steer", "drop", client_id="m")]
        simulated = Simulated(Script(turns=(turn(gate("go"), complete_goal()),)), faults)
        policy = goalfsm.Policy(timeouts=goalfsm.Timeouts(answer=0.05))
        async with goalfsm.open(simulated, policy=policy) as engine:
            thread = await engine.start_thread()
            await thread.start_goal("a goal")
            states: list[str] = []
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    async for notice in thread.notices():
                        states.append(notice.params["state"])
                        if notice.params["state"] == "uncertain":
                            simulated.release("go")
                        if notice.params["state"] in ("delivered", "requeued"):
                            return

                tasks.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                await thread.submit("its answer is lost", id="m")
            return states

    states = anyio.run(main)
    assert "uncertain" in states
    assert states[-1] in ("delivered", "requeued")
