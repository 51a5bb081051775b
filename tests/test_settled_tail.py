"""Settled messages leave the core's memory; the one that settles last is still told, in place and after a restart."""

from __future__ import annotations

import anyio
import pytest
from stage import LIMIT, on, soon

from goalfsm._compose import SETTLED_TAIL
from goalfsm.adapters.simulated import gate, turn

pytestmark = pytest.mark.anyio


async def test_the_oldest_message_that_is_delivered_last_is_told_and_stays_delivered(make_double, tmp_path):
    double, journal = make_double(turn(gate("go"))), tmp_path / "journal.db"
    async with on(double, journal=journal) as engine:
        thread = await engine.start_thread()
        first = await thread.submit("the first", id="first", when="queue")
        late = await thread.submit("held back", id="late", when="queue")
        await late.hold("until the others are through")
        double.release("go")
        await first.settled()
        for number in range(SETTLED_TAIL + 2):
            await (await thread.submit(f"message {number}", id=f"m{number}", when="queue")).settled()
        await late.release()
        with anyio.fail_after(LIMIT / 2):
            outcome = await late.settled()
        assert (outcome.state, outcome.evidence[:4]) == ("delivered", "echo")
    async with on(double, soon(on_restart="hold"), journal=journal) as engine:
        thread = await engine.resume_thread(thread.id)
        states = {message.id: (message.state, message.evidence) for message in thread.follow_ups(all=True)}
        assert states["late"] == ("delivered", outcome.evidence)
        assert {state for state, _ in states.values()} == {"delivered"}
