"""What a scripted app-server does, as plain data: turn plans made of steps, and faults (facts 4 to 9).

Everything here is frozen and converts to and from JSON with msgspec, so that the same script drives the simulated
adapter in process and the executable double in another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import attrs
import msgspec

__all__ = [
    "Fault",
    "Scenario",
    "Script",
    "Step",
    "TurnPlan",
    "approval",
    "block_goal",
    "budget_limit",
    "client_clear",
    "client_goal",
    "client_steer",
    "complete_goal",
    "end",
    "exit_process",
    "fail",
    "gate",
    "goal_status",
    "notify",
    "raw",
    "repeat",
    "retrying",
    "say",
    "stray_answer",
    "tool",
    "turn",
    "usage",
    "usage_limit",
    "wait",
]

StepKind = Literal[
    "say",
    "wait",
    "gate",
    "tool",
    "usage",
    "goal",
    "fail",
    "retrying",
    "approval",
    "notify",
    "raw",
    "repeat",
    "stray_answer",
    "exit",
    "end",
    "client_goal",
    "client_clear",
    "client_steer",
]

Tokens = tuple[int, int, int, int]
"""Input, cached input, output and reasoning output tokens of one model request."""


@attrs.frozen
class Step:
    """One step of a turn plan; the builder functions of this module are the readable way to make one.

    Args:
        kind: what is done.
        text: words to say, a command, a message, a raw line, a client's text.
        gate: name of a gate that the step waits for.
        seconds: time that the step takes.
        tokens: what the step's model request costs.
        word: a status word, a method, an error kind.
        params: payload of a notification, or an answer.
        code: an exit code.
    """

    kind: StepKind
    text: str = ""
    gate: str = ""
    seconds: float = 0.0
    tokens: Tokens = (1, 0, 1, 0)
    word: str = ""
    params: Mapping[str, Any] = attrs.field(factory=dict)
    code: int = 0


def say(text: str, *, seconds: float = 0.0, gate: str = "", tokens: Tokens = (1, 0, 1, 0), phase: str = "") -> Step:
    """Say something; between its first words and its end it takes `seconds` and waits for `gate`.

    A steer that is taken meanwhile cuts the message: it never gets its `item/completed` (facts 5).
    """
    return Step("say", text, gate, seconds, tokens, phase)


def wait(seconds: float) -> Step:
    """Let time pass."""
    return Step("wait", seconds=seconds)


def gate(name: str) -> Step:
    """Stay here until the test releases `name`; a released gate stays open."""
    return Step("gate", gate=name)


def tool(command: str, *, seconds: float = 0.0, gate: str = "", output: str = "") -> Step:
    """Run a command; steers wait in memory until it has ended (facts 5)."""
    return Step("tool", command, gate, seconds, params={"output": output})


def usage(tokens: Tokens) -> Step:
    """Tell a usage update of its own, as after one more model request."""
    return Step("usage", tokens=tokens)


def complete_goal() -> Step:
    """The model says that the goal is complete; nothing happens if it is not active."""
    return Step("goal", word="complete")


def block_goal() -> Step:
    """The model says that the goal is blocked."""
    return Step("goal", word="blocked")


def budget_limit() -> Step:
    """The goal's token budget is used up; the turn goes on to its end (facts 4)."""
    return Step("goal", word="budgetLimited")


def goal_status(word: str) -> Step:
    """Give the goal any status word, also one that no client knows."""
    return Step("goal", word=word, text="any")


def fail(message: str, info: Any = "other", *, goal_status: str = "blocked") -> Step:
    """The model request fails for good; an active goal gets `goal_status` and the turn ends failed (facts 4)."""
    return Step("fail", message, word=goal_status, params={"info": info})


def usage_limit(message: str = "You have hit your usage limit.") -> Step:
    """The account's quota is used up: like `fail`, but the goal becomes usage limited."""
    return fail(message, "usageLimitExceeded", goal_status="usageLimited")


def retrying(message: str = "Reconnecting... waiting for network") -> Step:
    """Tell an error that the server will retry by itself; the turn goes on."""
    return Step("retrying", message)


def approval(method: str = "item/commandExecution/requestApproval", **params: Any) -> Step:
    """Ask the client for a decision and wait for the answer; `ScriptedServer.decisions` keeps it."""
    return Step("approval", word=method, params=params)


def notify(method: str, **params: Any) -> Step:
    """Send any notification; `threadId` and `turnId` are added unless given."""
    return Step("notify", word=method, params=params)


def raw(line: str) -> Step:
    """Write a line as it is, JSON or not."""
    return Step("raw", line)


def repeat(method: str) -> Step:
    """Send this thread's last notification of `method` once more, byte for byte."""
    return Step("repeat", word=method)


def stray_answer(id: int = 9_999_999, **result: Any) -> Step:  # noqa: A002  the wire's own word
    """Answer a request that nobody made."""
    return Step("stray_answer", params=result, code=id)


def exit_process(code: int = 1) -> Step:
    """The server's process ends here, in mid turn."""
    return Step("exit", code=code)


def end(status: Literal["completed", "interrupted"] = "completed") -> Step:
    """End the turn now; `interrupted` is what an interrupt by another client looks like."""
    return Step("end", word=status)


def client_goal(*, objective: str = "", status: str = "") -> Step:
    """Another client sets the goal."""
    return Step("client_goal", objective, word=status)


def client_clear() -> Step:
    """Another client clears the goal."""
    return Step("client_clear")


def client_steer(text: str, client_id: str = "") -> Step:
    """Another client's message reaches the running turn."""
    return Step("client_steer", text, word=client_id)


@attrs.frozen
class TurnPlan:
    """What one physical turn does.

    Args:
        steps: its steps, in order; at their end the turn completes.
        kind: `goal` for turns that the goal starts, `user` for turns of turn/start, empty for either.
        thread: only for the n-th thread of the server (from 0); None for any.
        delay: seconds until it is told as started, instead of the script's.
        start_gate: the turn does not exist before this gate is released.
        told_gate: the turn runs, but is told as started only when this gate is released (facts 5).
    """

    steps: tuple[Step, ...] = ()
    kind: Literal["", "goal", "user"] = ""
    thread: int | None = None
    delay: float | None = None
    start_gate: str = ""
    told_gate: str = ""


def turn(
    *steps: Step,
    kind: Literal["", "goal", "user"] = "",
    thread: int | None = None,
    delay: float | None = None,
    start_gate: str = "",
    told_gate: str = "",
) -> TurnPlan:
    """Plan a turn, step by step."""
    return TurnPlan(steps, kind, thread, delay, start_gate, told_gate)


@attrs.frozen
class Script:
    """What the scripted server and its model do.

    Args:
        turns: plans of the physical turns; each thread takes the first one that fits and that it has not used yet.
        goal_turn: what a goal's turn does when no plan is left.
        user_turn: what an ordinary turn does when no plan is left.
        gap: seconds from a turn's end to the next turn being told (facts 7: median 8 ms).
        told_after: the last part of the gap, in which the next turn exists but is not told yet.
        start: seconds from the answer that started a turn to it being told.
        echo: seconds from a message being accepted to the model being shown it.
        instant_interrupt: a steer cuts the running reply; if not, it waits for the reply's end (facts 5).
        goals: the feature is on.
        noise: send what a real server also sends and no client needs (configWarning, rate limits, ...).
        late_reply: what the model says to a steer that came after the plan's last step.
    """

    turns: tuple[TurnPlan, ...] = ()
    goal_turn: TurnPlan = TurnPlan((say("done"), complete_goal()))
    user_turn: TurnPlan = TurnPlan((say("ok"),))
    gap: float = 0.008
    told_after: float = 0.005
    start: float = 0.01
    echo: float = 0.007
    instant_interrupt: bool = True
    goals: bool = True
    noise: bool = False
    late_reply: str = "understood"


RequestAction = Literal[
    "drop",
    "mute",
    "hold",
    "delay",
    "refuse",
    "lie",
    "after",
    "twice",
    "garble",
    "stale",
    "exit_before",
    "exit_after",
    "exit_answered",
    "deaf",
]
EchoAction = Literal["drop", "lose", "duplicate", "repeat", "delay", "hole", "unprojected"]
NotificationAction = Literal["drop", "repeat", "delay", "swap", "garble", "word", "exit"]
SpawnAction = Literal["exit", "ignore_eof", "ignore_term"]
_ACTIONS: Mapping[str, Any] = {
    "request": RequestAction,
    "echo": EchoAction,
    "notification": NotificationAction,
    "spawn": SpawnAction,
}


@attrs.frozen
class Fault:
    """One thing that goes wrong, once.

    On a **request** (the n-th of `method`, after its arrival was logged): `drop` forgets it; `mute` processes it and
    never answers; `hold` processes it only after `seconds`, `gate` or `after`; `delay` processes it now and answers
    after them; `refuse` answers `code` and `message` without processing it, `lie` after processing it; `after`
    answers right after the next notification of method `after`; `twice` answers twice; `garble` answers with a broken
    line; `stale` answers a read without the last message shown; `exit_before`, `exit_after` and `exit_answered` end
    the process before it is processed, before it is answered, and after; `deaf` reads no further line after it.

    On an **echo** (the n-th message that the model is shown, or the n-th of `client_id`): `drop` does not tell it;
    `lose` shows it to nobody; `duplicate` shows it twice, under two item ids; `repeat` tells the same item twice;
    `delay` holds it in memory; `hole` shows it to the model and writes only the record line without an id, the rest
    after `gate` (facts 6); `unprojected` makes it unreadable until a resume repairs that, if the process dies.

    On a **notification** (the n-th of `method`): `drop`, `repeat`, `delay` (others overtake it), `swap` (the next one
    overtakes it), `garble` (a broken line instead), `word` (the goal's status word becomes `message`), `exit` (the
    process ends right after it).

    On a **spawn** (the n-th connection): `exit` ends the process before its first answer, `ignore_eof` and
    `ignore_term` make it survive a closed stdin or a SIGTERM.

    Args:
        on: what it happens to.
        action: what happens.
        method: the method word; for a spawn unused.
        n: which one, from 1; 0 for every one.
        client_id: count only requests or echoes with this client id.
        seconds: time that it takes.
        gate: a gate that it waits for.
        after: a notification's method that it waits for.
        code: code of a refusal, or of an exit.
        message: words of a refusal, or a status word.
    """

    on: Literal["request", "echo", "notification", "spawn"]
    action: str = attrs.field()
    method: str = ""
    n: int = 1
    client_id: str = ""
    seconds: float = 0.0
    gate: str = ""
    after: str = ""
    code: int = -32600
    message: str = ""

    @action.validator
    def _check_action(self, _attribute: object, value: str) -> None:
        known = get_args(_ACTIONS[self.on])
        if value not in known:
            raise ValueError(f"fault on {self.on}: unknown action {value!r}; known: {', '.join(known)}")

    @classmethod
    def request(cls, method: str, action: RequestAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th request of `method`."""
        return cls("request", action, method, n, **details)

    @classmethod
    def echo(cls, action: EchoAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th message that the model is shown."""
        return cls("echo", action, "", n, **details)

    @classmethod
    def notification(cls, method: str, action: NotificationAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th notification of `method`."""
        return cls("notification", action, method, n, **details)

    @classmethod
    def spawn(cls, action: SpawnAction, n: int = 1, **details: Any) -> Fault:
        """Give a fault of the n-th process."""
        return cls("spawn", action, "", n, **details)


@attrs.frozen
class Scenario:
    """A script with its faults, as it travels to another process."""

    script: Script = Script()
    faults: tuple[Fault, ...] = ()

    def encode(self) -> bytes:
        """Give the JSON text."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes | str) -> Scenario:
        """Read the JSON text.

        Raises:
            msgspec.ValidationError: it does not fit; the message names the path.
        """
        return msgspec.json.decode(data, type=cls)
