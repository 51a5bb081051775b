"""How it usually goes wrong: the server that people write first. A flag, a queue, steer or else start.

Nothing here is absurd. Each line was written by somebody who thought about it, and each of the four classic defects is
in it: a message that is lost, one that is sent twice, one that is steered to a turn that is over, and one that goes out
after the user pressed stop. The conformance kit finds them, each with its shortest history:

    goalfsm conform -- python examples/naive_server.py
    goalfsm conform --server-class examples/naive_server.py:NaiveUnderTest

It speaks the kit's JSON lines on stdin and stdout, and starts the program that the variable APP_SERVER names.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from goalfsm.testing.conformance import Provider, SystemUnderTest

PATIENCE = 5.0
"""Seconds after which a request counts as failed."""


class Wire(Protocol):
    """Whatever carries lines to the app-server."""

    def write(self, line: bytes) -> None:
        """Send a line."""


class RequestRefused(Exception):
    """The app-server answered with an error."""


class NaiveServer:
    """One chat on one thread."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.thread_id = ""
        self.turn_id = ""  # the last turn heard of: the goal is still running, isn't it?
        self.busy = False
        self.queue: list[str] = []
        self.texts: dict[str, str] = {}
        self.fates: dict[str, str] = {}
        self.wire: Wire | None = None
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the app-server -----------------------------------------------------------------------------------------------

    async def start(self, wire: Wire) -> None:
        """Say hello; open the chat's thread, and send again whatever was not ticked off before a crash."""
        self.wire = wire
        await self.request("initialize", {"clientInfo": {"name": "naive", "title": "naive", "version": "0"}})
        self._write({"method": "initialized"})
        if not self.store.exists():
            answer = await self.request("thread/start", {"cwd": "."})
            self.thread_id = answer["thread"]["id"]
            self._save()
            return
        saved = json.loads(self.store.read_text())
        self.thread_id, self.texts, self.fates = saved["thread"], saved["texts"], saved["fates"]
        await self.request("thread/resume", {"threadId": self.thread_id})
        for message_id, fate in self.fates.items():
            if fate == "waiting":
                self._spawn(self._send(message_id))

    def feed(self, line: bytes) -> None:
        """Take a line of the app-server."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if "method" not in message:
            future = self._answers.pop(message.get("id"), None)
            if future is not None and not future.done():
                if "error" in message:
                    future.set_exception(RequestRefused(message["error"]["message"]))
                else:
                    future.set_result(message["result"])
        elif message["method"] == "turn/started":
            self.turn_id = message["params"]["turn"]["id"]
            self.busy = True
        elif message["method"] == "turn/completed":
            self.busy = False
            if self.queue:
                self._spawn(self._own_turn(self.queue.pop(0)))

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the app-server."""
        self._number += 1
        number = self._number
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(future, PATIENCE)

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self.wire is not None
        self.wire.write(json.dumps(message).encode() + b"\n")

    # -- the chat -----------------------------------------------------------------------------------------------------

    async def start_goal(self, objective: str) -> None:
        """Start a goal and wait for its first turn."""
        await self.request("thread/goal/set", {"threadId": self.thread_id, "objective": objective})
        for _ in range(300):
            if self.busy:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError("the goal did not start")

    async def submit(self, message_id: str, text: str, when: str) -> None:
        """Take a message: into the running turn, or into the queue, or as a turn of its own."""
        self.texts[message_id], self.fates[message_id] = text, "waiting"
        self._save()
        if when == "queue" and self.busy:
            self.queue.append(message_id)
        elif when == "queue":
            await self._own_turn(message_id)
        else:
            await self._send(message_id)

    async def stop(self) -> None:
        """Interrupt what runs."""
        if self.turn_id:
            await self.request("turn/interrupt", {"threadId": self.thread_id, "turnId": self.turn_id})

    async def _send(self, message_id: str) -> None:
        if self.turn_id:
            try:
                await self.request("turn/steer", {"expectedTurnId": self.turn_id, **self._input(message_id)})
            except (RequestRefused, TimeoutError):
                pass  # too late for that turn: let it have its own
            else:
                self._tick_off(message_id)
                return
        await self._own_turn(message_id)

    async def _own_turn(self, message_id: str) -> None:
        try:
            await self.request("turn/start", self._input(message_id))
        except (RequestRefused, TimeoutError):
            self.queue.insert(0, message_id)
            return
        self._tick_off(message_id)

    def _input(self, message_id: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": self.texts[message_id]}]
        return {"threadId": self.thread_id, "input": parts, "clientUserMessageId": message_id}

    def _tick_off(self, message_id: str) -> None:
        self.fates[message_id] = "delivered"
        self._save()

    def _save(self) -> None:
        self.store.write_text(json.dumps({"thread": self.thread_id, "texts": self.texts, "fates": self.fates}))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self) -> None:
        """Forget everything that is in memory."""
        for task in self._tasks:
            task.cancel()


async def _quietly(work: Any) -> None:
    try:
        await work
    except Exception as problem:  # noqa: BLE001  it must not take the server down
        print(f"failed in the background: {problem!r}", file=sys.stderr)


# -- behind the kit's doors -------------------------------------------------------------------------------------------


class NaiveUnderTest(SystemUnderTest):
    """The same server in process, for runs that are always the same."""

    name = "naive"
    offers = frozenset({"start_goal", "submit", "stop", "restart", "fates"})

    def __init__(self) -> None:
        self.server: NaiveServer | None = None
        self._wire: Any = None

    @property
    def _running(self) -> NaiveServer:
        assert self.server is not None
        return self.server

    async def start(self, provider: Provider) -> None:
        """Start it on the kit's pipes."""
        server = self.server = NaiveServer(provider.home / "naive.json")
        self._wire = provider.open(server.feed)
        await server.start(self._wire)

    async def start_goal(self, objective: str) -> None:
        """Pass it on."""
        await self._running.start_goal(objective)

    async def submit(self, message_id: str, text: str, when: str) -> None:
        """Pass it on."""
        await self._running.submit(message_id, text, when)

    async def stop(self) -> None:
        """Pass it on."""
        await self._running.stop()

    async def fates(self) -> Mapping[str, str]:
        """Give what it believes."""
        return dict(self._running.fates)

    async def crash(self) -> None:
        """Drop everything but the file."""
        self._running.drop()
        self._wire.close()

    async def close(self) -> None:
        """End it."""
        await self.crash()


class _ChildProcess:
    """The app-server as a child process."""

    def __init__(self, process: asyncio.subprocess.Process, feed: Callable[[bytes], None]) -> None:
        self._process = process
        self._reading = asyncio.create_task(self._read(feed))

    async def _read(self, feed: Callable[[bytes], None]) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            feed(line)

    def write(self, line: bytes) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)


async def _answer(server: NaiveServer, command: Mapping[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "start_goal":
            await server.start_goal(command["objective"])
        case "submit":
            await server.submit(command["id"], command["text"], command["when"])
        case "stop":
            await server.stop()
        case "fates":
            return {"fates": server.fates}
        case other:
            raise ValueError(f"unknown command {other!r}")
    return {}


async def _serve() -> None:
    server = NaiveServer(Path(os.environ["GOALFSM_HOME"]) / "naive.json")
    child = await asyncio.create_subprocess_exec(
        os.environ["APP_SERVER"], "app-server", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await server.start(_ChildProcess(child, server.feed))
    print(json.dumps({"ready": ["start_goal", "submit", "stop", "restart", "fates"]}), flush=True)

    async def serve(command: Mapping[str, Any]) -> None:
        try:
            answer = {"ok": True, **await _answer(server, command)}
        except Exception as problem:  # noqa: BLE001  said in the answer
            answer = {"ok": False, "error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps({"n": command["n"], **answer}), flush=True)

    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    serving = set()
    async for line in reader:
        serving.add(asyncio.create_task(serve(json.loads(line))))


if __name__ == "__main__":
    asyncio.run(_serve())
