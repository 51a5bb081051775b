"""A host in a process of its own that holds a thread, for tests that kill or suspend it.

    python owner_host.py JOURNAL

It prints one JSON line (its thread, its provider's disk, its owner name) and then, for every line on stdin, changes its
message and prints what came of it; the end of stdin closes the engine.
"""

from __future__ import annotations

import json
import sys

import anyio
import anyio.to_thread
import msgspec

import goalfsm
from goalfsm.adapters.simulated import Script, Simulated, gate, turn


async def main(journal):
    provider = Simulated(Script(turns=(turn(gate("never")),)))
    async with goalfsm.open(provider, journal=journal) as engine:
        thread = await engine.start_thread()
        await thread.start_goal("hold it")
        message = await thread.submit("later", id="m1", when="queue")
        await message.hold("until somebody decides")
        disk = msgspec.json.encode(provider.server.disk).decode()
        print(json.dumps({"thread": thread.id, "disk": disk, "owner": engine.owner}), flush=True)
        while await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            try:
                await message.edit("later, and better")
                print("done", flush=True)
            except goalfsm.GoalfsmError as error:
                print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
