"""Serves a `SystemUnderTest` as a black box: the JSON lines of the kit on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from goalfsm.testing.conformance.door_inprocess import InProcess, SystemUnderTest

__all__ = ["Environment", "serve"]


@attrs.frozen
class Environment:
    """Where the kit put a black box: stands for the provider in `SystemUnderTest.start`.

    Args:
        binary: the stand-in for the `codex` program.
        home: a directory that survives a restart.
    """

    binary: Path = attrs.field(factory=lambda: Path(os.environ["APP_SERVER"]))
    home: Path = attrs.field(factory=lambda: Path(os.environ["GOALFSM_HOME"]))


def serve(server: SystemUnderTest) -> None:
    """Serve until stdin ends."""
    asyncio.run(_serve(server))


async def _serve(server: SystemUnderTest) -> None:
    door = InProcess(server)
    place: Any = Environment()
    await door.start(place)
    _say({"ready": sorted(server.offers)})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    serving: set[asyncio.Task[None]] = set()
    async for line in reader:
        task = asyncio.create_task(_answer(door, msgspec.json.decode(line)))
        serving.add(task)
        task.add_done_callback(serving.discard)
    await door.aclose()


async def _answer(door: InProcess, command: Mapping[str, Any]) -> None:
    try:
        answer: dict[str, Any] = {"ok": True, **await _done(door, command)}
    except Exception as problem:  # noqa: BLE001  said in the answer
        answer = {"ok": False, "error": str(problem) or type(problem).__name__}
    _say({"n": command["n"], **answer})


async def _done(door: InProcess, command: Mapping[str, Any]) -> Mapping[str, Any]:
    match command["do"]:
        case "fates":
            return {"fates": {name: fate.raw for name, fate in (await door.fates()).items()}}
        case "lifecycle":
            return {"lifecycle": list(await door.lifecycle())}
        case word:
            return await door.ask(word, {key: value for key, value in command.items() if key not in ("n", "do")})


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
    sys.stdout.flush()
