"""A host in a process of its own, for tests that kill it: it runs an engine on a double and says when what is durable.

    python restart_host.py BINARY JOURNAL SITUATION

It prints one JSON line when the situation is reached and then waits to be killed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import msgspec
from stage import soon, state, until

import goalfsm
from goalfsm.adapters._scripted.records import Disk
from goalfsm.adapters.codex import Codex


async def main(binary, journal, situation):
    async with goalfsm.open(Codex(binary=binary), journal=journal, policy=soon()) as engine:
        thread = await engine.start_thread()
        goal = await thread.start_goal("survive", meta={"owner": "host"})
        if situation == "gap":
            await until(goal, lambda: goal.state == "gap")
        first = await thread.submit("the first", id="m1", meta={"n": 1}, display="first!")
        if situation in ("acknowledged", "shown"):
            await state(first, "acknowledged")
        if situation == "shown":
            disk = Path(binary).with_name("disk.json")
            while not msgspec.json.decode(disk.read_bytes(), type=Disk).shown:
                await engine.connection.get_goal(thread.id)
        if situation == "delivered":
            await first.settled()
        await thread.submit("the second", id="m2", when="queue", meta={"n": 2})
        await thread.submit("the third", id="m3", when="queue")
        held = await thread.submit("the fourth", id="m4", when="queue")
        await held.hold("a reason")
        print(json.dumps({"thread": thread.id, "goal": goal.id, "state": first.state}), flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
