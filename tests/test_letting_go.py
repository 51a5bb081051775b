"""A message that came back goes again only when a person says so, and then with the wish that the person has now."""

import anyio
import pytest

import goalfsm
from goalfsm.adapters.simulated import Script, Simulated


@pytest.mark.parametrize("how", ["release", "send_now", "submit again"])
def test_a_message_only_to_steer_that_came_back_becomes_a_turn_of_its_own_once_let_go(how: str) -> None:
    async def main() -> tuple[str, goalfsm.Outcome, int]:
        simulated = Simulated(Script())
        async with goalfsm.open(simulated) as engine:
            thread = await engine.start_thread()
            message = await thread.submit("steer me", id="m", when="steer")
            first = (await message.settled()).state
            if how == "release":
                await message.release()
            elif how == "send_now":
                await message.send_now()
            else:
                assert (await thread.submit("steer me", id="m")).id == "m"
            async for notice in thread.notices():
                if notice.params["state"] in ("delivered", "uncertain"):
                    break
            return first, message.outcome, simulated.server.writes("m")

    with_limit = anyio.run(_within, main)
    first, outcome, writes = with_limit
    assert first == "requeued"
    assert outcome.state == "delivered"
    assert writes == 1


async def _within(main):
    with anyio.fail_after(10):
        return await main()
