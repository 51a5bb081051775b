"""What a scripted app-server does, as plain data: turn plans made of steps (facts 4 to 6).

Everything here is frozen and converts to and from JSON with msgspec, so that the same script drives the simulated
adapter in process and the executable double in another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

__all__ = [
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
