"""What a person is told of a message: the evidence for its fate, and one sentence why (surface 20, 21)."""

from __future__ import annotations

from typing import Any

from goalfsm._core import ThreadCore
from goalfsm._guards import live
from goalfsm._machines import FollowUp

__all__ = ["evidence", "not_readable", "reason", "waiting"]

_ZERO_BYTES = {
    "unsent": "it was never handed to the provider",
    "guard_false": "the last check before the write failed",
    "no_fence": "its fence could not be stored",
}


def evidence(row: FollowUp, event: Any) -> str:
    """Say what was seen and where, for the state that a message has just entered; empty where nothing was."""
    if row.state == "delivered":
        return _delivered(row, event)
    if row.state in ("requeued", "discarded"):
        if _unwritten(event):
            return f"zero_bytes: {event.message}"
        return _proof(row.proof, getattr(event, "message", ""))
    return ""


def _unwritten(event: Any) -> bool:
    """Tell a refusal that is nobody's answer (code 0): the message never left this side."""
    return bool(event.name == "send_refused" and event.code == 0)


def _proof(proof: str, words: str) -> str:
    if proof in _ZERO_BYTES:
        return f"zero_bytes: {_ZERO_BYTES[proof]}"
    if proof == "refusal":
        return f"refusal: {words}" if words else "refusal"
    return "read_back: absent after its turn ended" if proof == "absent" else proof


def _delivered(row: FollowUp, event: Any) -> str:
    if row.evidence != "item":
        return row.evidence
    where = getattr(event, "where", "echo") if event.name == "found" else "echo"
    item = f" of item {row.item}" if row.item else ""
    turn = f" in turn {row.turn_id}" if row.turn_id else ""
    return f"{where}{item}{turn}"


def reason(row: FollowUp, event: Any, why: str) -> str:
    """Give one sentence for people on why a message is where it is now."""
    words = getattr(event, "message", "")
    if row.state in _PLAIN:
        return _PLAIN[row.state]
    if row.state == "uncertain":
        return f"it may have been taken: {_doubt(event.name)}"
    if row.state == "discarded":
        return "a person dropped it" if event.name == "resolve_drop" else "it was withdrawn before it was delivered"
    if row.state == "held":
        return f"held: {row.reason}" if row.reason else "held"
    if row.state == "requeued":
        return _requeued(row, event, why)
    return words or why


def _requeued(row: FollowUp, event: Any, why: str) -> str:
    words = getattr(event, "message", "")
    if _unwritten(event):
        return f"not delivered: {words}"
    if row.proof == "refusal" and words:
        return f"the provider refused it: {words}"
    return f"not delivered, nothing was sent by itself again: {_back(event, why)}"


_PLAIN = {
    "admitted": "handed to the running operation",
    "accepted": "taken by the running operation",
    "delivering": "on its way to the provider",
    "acknowledged": "the provider took it into its memory, which is no proof yet",
    "delivered": "the provider showed it",
    "expired": "it was too old",
}

_GOAL_UNKNOWN = "waits: the goal's status is not known"

_DOUBTS = {
    "send_ok": "the provider took it, but its turn had ended without showing it",
    "turn_over": "the provider took it, but its turn ended without showing it",
    "turn_completed": "its turn ended without showing it",
    "turn_failed": "its turn failed before showing it",
    "turn_interrupted": "its turn was interrupted before showing it",
    "answer_lost": "the answer to the send never came",
    "transport_lost": "the connection ended while it was on its way",
    "restarted": "this process ended while it was on its way",
    "owner_changed": "another owner took the thread while it was on its way",
    "echo_lost": "its turn hangs and nothing was heard of it",
}


def _doubt(event: str) -> str:
    return _DOUBTS.get(event, event.replace("_", " "))


_LOOKED = "; looking back did not decide it: "


def not_readable(reason: str, words: str) -> str:
    """Add to the reason of a doubt why looking back did not end it; the last look is the one that is told."""
    return f"{reason}{_LOOKED}{words}" if words else reason


_BACKS = {
    "stop": "the thread was stopped first",
    "stopped": "the thread was stopped first",
    "goal_paused": "the goal was paused",
    "goal_blocked": "the goal is blocked",
    "goal_usage_limited": "the usage limit was reached",
    "goal_budget_limited": "the goal's budget was used up",
    "goal_completed": "the goal completed first",
    "goal_cleared": "the goal was cleared",
    "transport_lost": "the connection to the provider ended first",
    "restarted": "this process ended before anything was sent",
    "owner_changed": "another owner took the thread first",
    "turn_completed": "the turn ended first",
    "turn_failed": "the turn failed first",
    "turn_interrupted": "the turn was interrupted first",
    "absent": "the thread was read back after its turn and does not show it",
    "begin_write": "what it was meant for had changed before the write",
    "submit": "nothing runs that it could steer",
    "resolve_unsent": "a person vouched that it did not arrive",
}


def _back(event: Any, why: str) -> str:
    return _BACKS.get(event.name, why or event.name.replace("_", " "))


def waiting(core: ThreadCore, row: FollowUp) -> str:
    """Say what a message waits for right now; empty if it waits for nothing."""
    if row.state not in ("queued", "admitted", "accepted"):
        return ""
    if row.state != "queued":
        if core.turn.state == "running":
            return ""
        known = core.goal.state != "unknown" or not row.ref
        return "waits for the next turn of the running goal" if known else _GOAL_UNKNOWN
    causes = (
        (not core.recon, "waits: the thread has to be read back first"),
        (core.goal.state == "unknown" and core.turn.state != "running", _GOAL_UNKNOWN),
        (live(core), "waits for the running operation"),
        (core.turn.state == "running", "waits for the running turn to end"),
        (True, "waits for the messages before it"),
    )
    return next(words for holds, words in causes if holds)
