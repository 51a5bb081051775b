"""The executable double over real pipes, spoken to by a client that knows nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import (
    Script,
    TurnPlan,
    approval,
    complete_goal,
    exit_process,
    gate,
    raw,
    say,
    turn,
)
from goalfsm.testing.double import Double


class Client:
    """One process of the double and its pipes."""

    def __init__(self, double: Double, *, hello: bool = True) -> None:
        self.double = double
        self.process = subprocess.Popen(
            [double.binary, "app-server", "-c", "model=x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.last_id = 0
        self.heard: list[Any] = []
        if hello:
            self.ask("initialize", capabilities={"experimentalApi": True})
            self.write({"method": "initialized"})

    def write(self, message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        self.last_id += 1
        self.write({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def read(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise EOFError
        try:
            message = json.loads(line)
        except ValueError:
            message = line
        self.heard.append(message)
        return message

    def until(self, method: str) -> Any:
        while True:
            message = self.read()
            if isinstance(message, dict) and message.get("method") == method:
                return message["params"]

    def ask(self, method: str, **params: Any) -> Any:
        wanted = self.send(method, **params)
        while True:
            message = self.read()
            if isinstance(message, dict) and message.get("id") == wanted and "method" not in message:
                return message["result"] if "result" in message else message["error"]["message"]

    def steer(self, thread: str, turn_id: str, client_id: str = "c1", text: str = "a steer") -> int:
        parts = [{"type": "text", "text": text}]
        params = {"threadId": thread, "expectedTurnId": turn_id, "input": parts, "clientUserMessageId": client_id}
        return self.send("turn/steer", **params)

    def close(self) -> int:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Double] = []
    clients: list[Client] = []

    def make(*turns: TurnPlan, faults: tuple[Fault, ...] = (), hello: bool = True) -> tuple[Double, Client]:
        made.append(Double(tmp_path / "double", Script(turns=turns), faults))
        return made[-1], again(made[-1], hello=hello)

    def again(double: Double, *, hello: bool = True) -> Client:
        clients.append(Client(double, hello=hello))
        return clients[-1]

    make.again = again  # type: ignore[attr-defined]
    yield make
    for client in clients:
        if client.process.poll() is None:
            client.process.kill()
        client.process.wait(10)
        for pipe in (client.process.stdin, client.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
    for double in made:
        double.close()


def running(client: Client) -> tuple[str, str]:
    thread = client.ask("thread/start")["thread"]["id"]
    client.ask("thread/goal/set", threadId=thread, objective="x")
    return thread, client.until("turn/started")["turn"]["id"]


def test_a_goal_runs_in_real_time_and_closing_stdin_ends_the_process(make: Any) -> None:
    _double, client = make(turn(say("pass 0")), turn(complete_goal(), say("done")))
    running(client)
    client.until("turn/completed")
    client.until("turn/completed")
    assert client.close() == 0


def test_a_gate_holds_the_turn_and_every_write_is_counted(make: Any) -> None:
    double, client = make(turn(gate("g"), complete_goal()))
    thread, turn_id = running(client)
    client.steer(thread, turn_id)
    double.wait_received("turn/steer", client_id="c1")
    assert client.until("item/completed")["item"]["clientId"] == "c1"
    double.release("g")
    assert client.until("turn/completed")["turn"]["status"] == "completed"
    assert (double.writes("c1"), double.shown("a steer"), double.writes("c2")) == (1, 1, 0)


def test_a_killed_process_loses_its_memory_and_the_log_does_not(make: Any) -> None:
    double, client = make(turn(gate("g")), turn(complete_goal()), faults=(Fault.echo("delay", gate="never"),))
    thread, turn_id = running(client)
    client.steer(thread, turn_id)
    double.wait_received("turn/steer")
    double.kill()
    assert client.process.wait(10) == -signal.SIGKILL
    second = make.again(double)
    assert double.writes("c1") == 1
    assert second.ask("thread/goal/set", threadId=thread, status="paused")["goal"]["status"] == "paused"
    turns = second.ask("thread/resume", threadId=thread)["thread"]["turns"]
    assert [(each["id"], each["status"], each["items"]) for each in turns] == [(turn_id, "interrupted", [])]
    assert double.shown("a steer") == 0


def test_the_process_ends_after_processing_a_steer_and_before_answering_it(make: Any) -> None:
    double, client = make(turn(gate("g")), faults=(Fault.request("turn/steer", "exit_after", code=3),))
    thread, turn_id = running(client)
    client.steer(thread, turn_id)
    with pytest.raises(EOFError):
        client.until("item/completed")
    assert client.process.wait(10) == 3
    assert double.writes("c1") == 1


def test_the_process_ends_in_mid_turn(make: Any) -> None:
    _double, client = make(turn(say("a"), exit_process(7)))
    running(client)
    with pytest.raises(EOFError):
        client.until("turn/completed")
    assert client.process.wait(10) == 7


def test_the_process_ends_before_its_handshake(make: Any) -> None:
    _double, client = make(faults=(Fault.spawn("exit"),), hello=False)
    with pytest.raises(EOFError):
        client.read()
    assert client.process.wait(10) == 1


def test_a_steer_that_never_gets_an_answer_was_read_all_the_same(make: Any) -> None:
    double, client = make(turn(gate("g"), complete_goal()), faults=(Fault.request("turn/steer", "mute"),))
    thread, turn_id = running(client)
    wanted = client.steer(thread, turn_id)
    double.wait_received("turn/steer")
    assert client.until("item/completed")["item"]["clientId"] == "c1"
    double.release("g")
    client.until("turn/completed")
    assert not [m for m in client.heard if isinstance(m, dict) and m.get("id") == wanted]


def test_anything_can_be_pushed(make: Any) -> None:
    double, client = make()
    double.push({"method": "never/heard", "params": {}})
    client.until("never/heard")
    double.push("{broken")
    assert client.read() == b"{broken\n"


def test_a_server_that_stops_reading_leaves_the_line_in_the_pipe(make: Any) -> None:
    double, client = make(turn(gate("g"), complete_goal()))
    thread, turn_id = running(client)
    double.stop_reading()
    client.steer(thread, turn_id)
    double.release("g")
    client.until("turn/completed")
    assert double.writes("c1") == 0


def test_a_stubborn_process_survives_a_closed_stdin_and_sigterm(make: Any) -> None:
    double, client = make(
        turn(gate("g"), say("still here")), faults=(Fault.spawn("ignore_eof"), Fault.spawn("ignore_term"))
    )
    running(client)
    assert client.process.stdin
    client.process.stdin.close()
    client.process.send_signal(signal.SIGTERM)
    double.release("g")
    client.until("turn/completed")
    os.kill(double.wait_spawned(), signal.SIGKILL)
    assert client.process.wait(10) == -signal.SIGKILL


def test_an_approval_waits_for_its_answer(make: Any) -> None:
    double, client = make(turn(approval(command="rm"), raw("{broken"), complete_goal()))
    running(client)
    client.until("item/commandExecution/requestApproval")
    client.write({"id": client.heard[-1]["id"], "result": {"decision": "decline"}})
    client.until("turn/completed")
    assert double.disk().decisions == [{"id": 0, "result": {"decision": "decline"}}]


def test_a_wait_for_something_that_does_not_come_says_what_came(make: Any) -> None:
    double, _client = make()
    double.wait_received("initialized")
    with pytest.raises(TimeoutError, match="initialize"):
        double.wait_received("turn/steer", timeout=0.01)


def test_the_record_holds_what_the_model_was_shown(make: Any) -> None:
    double, client = make(turn(gate("g"), complete_goal()))
    thread, turn_id = running(client)
    client.steer(thread, turn_id)
    client.until("item/completed")
    path = client.ask("thread/read", threadId=thread)["thread"]["path"]
    kinds = [json.loads(line)["payload"].get("type") for line in Path(path).read_text().splitlines()]
    assert kinds == [None, "message", "item_completed"]
    assert double.shown("a steer") == 1
