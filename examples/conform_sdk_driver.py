"""The goal machinery of the published Python SDK (`openai-codex`) as a black box for the conformance kit.

goalfsm conform --driver examples/conform_sdk_driver.toml -- python examples/conform_sdk_driver.py

Its goal operations have no public entry in 0.163.0, so this driver calls the client's private parts as the SDK's own
code would: `start_goal_operation`, `turn_steer` on the state's active turn, `cancel_goal_operation`. It adds no queue
and no memory of its own: what it answers is what the SDK raised or returned. The SDK keeps nothing of a message once
the answer is there, so no fates are offered.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Mapping
from typing import Any

from openai_codex._goal import _GoalNotificationStream
from openai_codex.client import CodexClient, CodexConfig
from openai_codex.errors import InvalidRequestError

_FOUND = re.compile(r"but found `?([0-9a-f-]+)`?")


class SdkServer:
    """One thread, at most one goal operation."""

    def __init__(self) -> None:
        self.client = CodexClient(CodexConfig(codex_bin=os.environ["APP_SERVER"]))
        self.client.start()
        self.client.initialize()
        self.thread_id = self.client.thread_start().thread.id
        self.state: Any = None
        self.turns: list[tuple[str, str]] = []

    def start_goal(self, objective: str) -> None:
        """Start the logical goal; its stream is read by a thread."""
        self.state, _ = self.client.start_goal_operation(self.thread_id, objective)
        threading.Thread(target=self._follow, args=(self.state,), daemon=True).start()

    def _follow(self, state: Any) -> None:
        client = self.client
        stream = _GoalNotificationStream(
            state,
            next_notification=lambda: client.next_goal_notification(state),
            unregister=lambda: client.unregister_goal_operation(state),
            cancel_goal=lambda: client.cancel_goal_operation(state),
        )
        try:
            for event in stream:
                if event.method in ("turn/started", "turn/completed"):
                    self.turns.append((event.method.removeprefix("turn/"), event.payload.turn.id))
        except Exception as problem:  # noqa: BLE001  whoever reads the stream is told; there is nobody here
            print(f"the stream ended: {problem!r}", file=sys.stderr)

    def submit(self, text: str, when: str) -> None:
        """Steer the goal's turn (the next one in a gap, once more if a refusal names another); else start a turn."""
        if when == "queue":
            raise ValueError("the SDK has no queue")
        state = self.state
        if state is None or state.is_finished():
            self.client.turn_start(self.thread_id, text)
        else:
            self._steer(state, text)

    def _steer(self, state: Any, text: str) -> None:
        turn_id = state.active_turn()
        if turn_id is None:
            raise InvalidRequestError(-32600, "no active turn to steer")
        try:
            self.client.turn_steer(self.thread_id, turn_id, text)
        except InvalidRequestError as refusal:
            found = _FOUND.search(str(refusal))
            turn_id = found.group(1) if found else state.active_turn(after=turn_id)
            if turn_id is None:
                raise
            self.client.turn_steer(self.thread_id, turn_id, text)

    def stop(self) -> None:
        """Cancel the goal operation, as its `interrupt` would."""
        if self.state is not None:
            self.client.cancel_goal_operation(self.state)

    def answer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Do one command of the kit."""
        match command["do"]:
            case "start_goal":
                self.start_goal(command["objective"])
            case "submit":
                self.submit(command["text"], command["when"])
            case "stop" | "cancel":
                self.stop()
            case "lifecycle":
                return {"lifecycle": self.turns}
        return {}


def main() -> None:
    """Serve the kit's JSON lines, each command on a thread of its own: the SDK's calls block."""
    server = SdkServer()
    said = threading.Lock()

    def say(message: Mapping[str, Any]) -> None:
        with said:
            print(json.dumps(message), flush=True)

    def serve(command: Mapping[str, Any]) -> None:
        try:
            answer: dict[str, Any] = {"ok": True, **server.answer(command)}
        except Exception as problem:  # noqa: BLE001  said in the answer
            answer = {"ok": False, "error": f"{type(problem).__name__}: {problem}"}
        say({"n": command["n"], **answer})

    say({"ready": ["start_goal", "submit", "stop", "cancel", "lifecycle"]})
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
