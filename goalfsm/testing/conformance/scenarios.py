"""The named cases: small, deterministic, each a situation in which servers are known to go wrong (rules F and G)."""

from __future__ import annotations

from typing import Any, Final

from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.script import (
    Script,
    TurnPlan,
    approval,
    client_goal,
    complete_goal,
    end,
    fail,
    gate,
    goal_status,
    notify,
    raw,
    repeat,
    say,
    stray_answer,
    tool,
    turn,
)
from goalfsm.testing.conformance._case import Case, Move

__all__ = ["CASES", "cases"]

CASES: Final[dict[str, Case]] = {}
"""Every named case by its name."""

GOAL: Final = Move("start_goal", text="make the tests green")


def _case(
    name: str, about: str, *moves: Move, turns: tuple[TurnPlan, ...] = (), faults: Any = (), **script: Any
) -> None:
    CASES[name] = Case(name, about, Script(turns=turns, **script), tuple(faults), moves)


def _submit(message: str, text: str = "", **options: Any) -> Move:
    return Move("submit", message, text, **options)


def _last(*steps: Any, **options: Any) -> TurnPlan:
    return turn(*steps, complete_goal(), **options)


STEER: Final = Move("until_read", "turn/steer")
HELD_TURN: Final = _last(say("working"), gate("go"), say("done"))

# -- a message, undisturbed -------------------------------------------------------------------------------------------

_case(
    "message-in-a-turn", "A follow-up while a turn runs.",
    GOAL, Move("until_turn"), _submit("m1"), Move("until_shown", "m1"), Move("release", "go"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "message-without-a-goal", "A message to an idle thread becomes a turn of its own.",
    _submit("m1"), Move("until_shown", "m1"), Move("until_ended"), _submit("m2"), Move("until_shown", "m2"),
)  # fmt: skip
_case(
    "three-messages", "Three follow-ups in a row keep their order.",
    GOAL, Move("until_turn"), _submit("m1"), _submit("m2"), _submit("m3"), Move("release", "go"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "own-turn", "A message that is to have a turn of its own waits until the goal is over.",
    GOAL, Move("until_turn"), _submit("m1", when="queue"), Move("release", "one"), Move("until_turn", n=2),
    Move("wait", seconds=0.2), Move("release", "two"),
    turns=(turn(gate("one")), _last(gate("two"))),
)  # fmt: skip
_case(
    "many-turns", "One goal of three physical turns is one logical turn.",
    GOAL, Move("until_turn", n=2), _submit("m1"), Move("release", "go"),
    turns=(turn(say("one")), turn(say("two"), gate("go")), _last(say("three"))),
)  # fmt: skip

# -- an ok is not a delivery ------------------------------------------------------------------------------------------

_case(
    "ok-in-a-tool", "The provider says ok while a tool runs; the model is shown the message only after it.",
    GOAL, Move("until_turn"), _submit("m1"), STEER, Move("wait", seconds=0.1), Move("fates"), Move("release", "tool"),
    Move("until_shown", "m1"),
    turns=(_last(tool("make", gate="tool"), say("done")),),
)  # fmt: skip
_case(
    "stop-eats-an-ok", "A message that the provider had said ok to is lost with the turn that a stop cuts.",
    GOAL, Move("until_turn"), _submit("m1"), STEER, Move("wait", seconds=0.1), Move("stop"),
    turns=(_last(tool("make", gate="never-before-the-end"), say("done")),),
)  # fmt: skip
_case(
    "foreign-cut", "Another client cuts the turn that had taken the message into memory.",
    GOAL, Move("until_turn"), _submit("m1"), STEER, Move("wait", seconds=0.1), Move("release", "cut"),
    Move("until_ended"),
    turns=(turn(gate("cut"), end("interrupted")),),
    faults=[Fault.echo("delay", gate="never-before-the-end")],
)  # fmt: skip

# -- the gap ----------------------------------------------------------------------------------------------------------

_case(
    "message-in-the-gap", "A follow-up between two turns of a goal belongs to the next one.",
    GOAL, Move("until_ended"), _submit("m1", answered=False), Move("wait", seconds=0.1), Move("release", "next"),
    Move("until_shown", "m1"), Move("release", "go"),
    turns=(turn(say("one")), _last(gate("go"), start_gate="next")),
)  # fmt: skip
_case(
    "rollover-untold", "The next turn runs already, and its start has not been told.",
    GOAL, Move("until_ended"), _submit("m1", answered=False), Move("wait", seconds=0.1), Move("release", "told"),
    Move("until_shown", "m1"), Move("release", "go"),
    turns=(turn(say("one")), _last(gate("go"), told_gate="told")),
)  # fmt: skip
_case(
    "stop-in-the-gap", "Stop between two turns, with a message waiting for the next one.",
    GOAL, Move("until_ended"), _submit("m1", answered=False), Move("wait", seconds=0.1), Move("stop"),
    Move("release", "next"),
    turns=(turn(say("one")), _last(gate("go"), start_gate="next")),
)  # fmt: skip
_case(
    "refused-as-over", "The provider says that no turn runs; the message may go to the next one.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), STEER, Move("release", "go"),
    turns=(turn(gate("go")), _last(gate("end"))),
    faults=[Fault.request("turn/steer", "refuse", message="no active turn to steer")],
)  # fmt: skip
_case(
    "refused-for-good", "The provider refuses the message for another reason.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), STEER, Move("wait", seconds=0.1), Move("release", "go"),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "refuse", 0, code=-32603, message="the message is not acceptable")],
)  # fmt: skip

# -- stop -------------------------------------------------------------------------------------------------------------

_case(
    "stop-with-a-queue", "Stop while two messages wait for turns of their own.",
    GOAL, Move("until_turn"), _submit("m1", when="queue"), _submit("m2", when="queue"), Move("stop"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "stop-a-goal", "A stopped goal stays stopped, also after the next ordinary turn.",
    GOAL, Move("until_turn"), Move("stop"), _submit("m1", answered=False),
    turns=(turn(gate("one")), turn(say("goes on"))),
)  # fmt: skip
_case(
    "stop-and-submit", "A stop and a message at the same moment.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), Move("stop"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "stop-twice", "Two stops at once.",
    GOAL, Move("until_turn"), Move("stop", answered=False), Move("stop"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "cancel-a-goal", "The run is cancelled in mid turn.",
    GOAL, Move("until_turn"), Move("cancel"),
    turns=(turn(gate("one")), turn(say("goes on"))),
)  # fmt: skip

# -- lost answers -----------------------------------------------------------------------------------------------------

_case(
    "answer-lost", "The model is shown the message; the answer to the steer never comes, and neither does its echo.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), Move("until_shown", "m1"), Move("wait", "answer"),
    Move("release", "go"),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "mute"), Fault.echo("drop")],
)  # fmt: skip
_case(
    "request-lost", "The provider forgets the steer: no answer, and the model is never shown the message.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), STEER, Move("wait", "answer"), Move("release", "go"),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "drop")],
)  # fmt: skip
_case(
    "start-answer-lost", "A turn of its own begins; the answer to its turn/start never comes.",
    _submit("m1", answered=False), Move("until_shown", "m1"), Move("wait", "answer"),
    faults=[Fault.request("turn/start", "mute")],
)  # fmt: skip
_case(
    "lying-refusal", "The provider takes the message, and answers with an error that proves nothing of the kind.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), STEER, Move("wait", seconds=0.2), Move("release", "go"),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "garble")],
)  # fmt: skip

# -- crashes ----------------------------------------------------------------------------------------------------------

_case(
    "provider-dies", "The provider is killed after it said ok.",
    GOAL, Move("until_turn"), _submit("m1"), STEER, Move("wait", seconds=0.1), Move("kill_provider"),
    turns=(_last(tool("make", gate="tool")),),
)  # fmt: skip
_case(
    "provider-dies-unanswered", "The provider ends after it took the message and before it answered.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), STEER, Move("wait", seconds=0.3),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "exit_after")],
)  # fmt: skip
_case(
    "restart-with-a-queue", "The server is killed while a message waits for a turn of its own, and started again.",
    GOAL, Move("until_turn"), _submit("m1", when="queue"), Move("restart"),
    turns=(HELD_TURN,),
)  # fmt: skip
_case(
    "restart-after-delivery", "The server is killed after the model was shown the message and before the answer came.",
    GOAL, Move("until_turn"), _submit("m1", answered=False), Move("until_shown", "m1"), Move("restart"),
    turns=(HELD_TURN,),
    faults=[Fault.request("turn/steer", "mute"), Fault.echo("drop")],
)  # fmt: skip
_case(
    "restart-in-a-tool", "The server is killed while the message is in the provider's memory only.",
    GOAL, Move("until_turn"), _submit("m1"), STEER, Move("wait", seconds=0.1), Move("restart"),
    turns=(_last(tool("make", gate="tool")),),
)  # fmt: skip

# -- what else a provider does ----------------------------------------------------------------------------------------

_case(
    "goal-fails", "The goal's turn fails while a message waits.",
    GOAL, Move("until_turn"), _submit("m1", when="queue"), Move("release", "go"),
    turns=(turn(gate("go"), fail("the model is gone")),),
)  # fmt: skip
_case(
    "goal-paused-elsewhere", "Another client pauses the goal while a message waits in the gap.",
    GOAL, Move("until_ended"), _submit("m1", answered=False), Move("wait", seconds=0.2),
    turns=(turn(say("one"), client_goal(status="paused")),),
)  # fmt: skip
_case(
    "twice-told", "A turn's end is told twice, the second time after the next turn has begun.",
    GOAL, Move("until_turn", n=2), Move("release", "again"), Move("wait", seconds=0.1), _submit("m1"),
    Move("release", "go"),
    turns=(turn(say("one")), _last(gate("again"), repeat("turn/completed"), gate("go"))),
)  # fmt: skip
_case(
    "odd-traffic", "A torn line, an unknown notification, a stray answer and an unknown status word.",
    GOAL, Move("until_turn"), Move("release", "odd"), Move("wait", seconds=0.1), _submit("m1"), Move("release", "go"),
    turns=(
        turn(
            gate("odd"), raw('{"method":"turn/com'), notify("thread/never/heard/of"), stray_answer(),
            goal_status("napping"), gate("go"), goal_status("active"),
        ),
        _last(say("done")),
    ),
)  # fmt: skip
_case(
    "approval", "A message comes while the provider waits for a decision.",
    GOAL, Move("until_told", "item/commandExecution/requestApproval"), _submit("m1", "yes, go ahead", answered=False),
    Move("wait", seconds=0.3),
    turns=(_last(approval(command="rm -rf build"), say("done")),),
)  # fmt: skip


def cases(*names: str) -> list[Case]:
    """Give the named cases, all without names.

    Raises:
        KeyError: there is no such case.
    """
    return [CASES[name] for name in names] if names else list(CASES.values())
