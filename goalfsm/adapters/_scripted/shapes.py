"""The JSON shapes of a codex app-server, as recorded (facts 1, 2, 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goalfsm.adapters._scripted.records import Goal, Thread, TurnRecord

__all__ = [
    "agent_message",
    "command",
    "content",
    "goal_json",
    "rollout_item",
    "rollout_response",
    "session",
    "thread_json",
    "token_usage",
    "turn_error",
    "turn_json",
    "user_message",
]

MODEL = "scripted"


def content(parts: Sequence[Any]) -> list[dict[str, Any]]:
    """Give input parts as an item shows them."""
    return [{**part, "text_elements": []} if part.get("type") == "text" else dict(part) for part in parts]


def goal_json(thread_id: str, goal: Goal) -> dict[str, Any]:
    """Give the goal as answers and notifications show it."""
    return {
        "threadId": thread_id,
        "objective": goal.objective,
        "status": goal.status,
        "tokenBudget": goal.token_budget,
        "tokensUsed": goal.tokens_used,
        "timeUsedSeconds": goal.seconds_used,
        "createdAt": goal.created_at,
        "updatedAt": goal.updated_at,
    }


def turn_error(message: str, info: Any, details: str | None = None) -> dict[str, Any]:
    """Give the error of a turn or of an `error` notification."""
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}


def turn_json(turn: TurnRecord, view: str, items: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Give a turn with `items` in the named view (`notLoaded`, `summary`, `full`)."""
    return {
        "id": turn.id,
        "rootTurnId": turn.id,
        "items": list(items),
        "itemsView": view,
        "status": turn.status,
        "error": turn.error,
        "startedAt": turn.started_at,
        "completedAt": turn.completed_at,
        "durationMs": turn.duration_ms,
    }


def thread_json(
    thread: Thread, status: Mapping[str, Any], updated_at: int, turns: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Give a thread as thread/start, thread/resume and thread/read show it."""
    return {
        "id": thread.id,
        "extra": None,
        "sessionId": thread.id,
        "forkedFromId": None,
        "parentThreadId": None,
        "preview": thread.goal.objective if thread.goal else "",
        "ephemeral": thread.ephemeral,
        "historyMode": "legacy" if thread.legacy else "paginated",
        "modelProvider": MODEL,
        "model": MODEL,
        "reasoningEffort": None,
        "createdAt": thread.created_at,
        "updatedAt": updated_at,
        "recencyAt": updated_at,
        "status": dict(status),
        "path": thread.path or None,
        "cwd": thread.cwd,
        "cliVersion": "0.163.0",
        "source": "vscode",
        "canAcceptDirectInput": None if status.get("type") == "notLoaded" else True,
        "gitInfo": None,
        "name": None,
        "turns": list(turns),
    }


def session(thread: Mapping[str, Any]) -> dict[str, Any]:
    """Give the answer to thread/start and thread/resume around a thread."""
    return {
        "thread": dict(thread),
        "model": MODEL,
        "modelProvider": MODEL,
        "serviceTier": None,
        "cwd": thread["cwd"],
        "approvalPolicy": "never",
        "approvalsReviewer": "user",
        "sandbox": {"type": "readOnly", "networkAccess": False},
        "reasoningEffort": None,
    }


def user_message(item_id: str, client_id: str | None, parts: Sequence[Any]) -> dict[str, Any]:
    """Give a user message as an item."""
    return {"type": "userMessage", "id": item_id, "clientId": client_id, "content": content(parts)}


def agent_message(item_id: str, text: str, phase: str) -> dict[str, Any]:
    """Give the model's message as an item."""
    return {
        "type": "agentMessage",
        "id": item_id,
        "text": text,
        "phase": phase or None,
        "memoryCitation": None,
        "delivery": None,
        "questions": None,
    }


def command(item_id: str, text: str, cwd: str, output: str | None) -> dict[str, Any]:
    """Give a command as an item; `output` is None while it runs."""
    return {
        "type": "commandExecution",
        "id": item_id,
        "command": text,
        "cwd": cwd,
        "status": "inProgress" if output is None else "completed",
        "commandActions": [{"type": "unknown", "command": text}],
        "aggregatedOutput": output,
        "exitCode": None if output is None else 0,
        "durationMs": None,
    }


def token_usage(total: Sequence[int], last: Sequence[int]) -> dict[str, Any]:
    """Give the token figures of a usage update."""
    return {"total": _tokens(total), "last": _tokens(last), "modelContextWindow": 258_400}


def _tokens(figures: Sequence[int]) -> dict[str, int]:
    asked, cached, given, reasoned = figures
    return {
        "totalTokens": asked + given,
        "inputTokens": asked,
        "cachedInputTokens": cached,
        "cacheWriteInputTokens": 0,
        "outputTokens": given,
        "reasoningOutputTokens": reasoned,
    }


def rollout_response(stamp: str, turn_id: str, parts: Sequence[Any]) -> dict[str, Any]:
    """Give the record's line for what the model will see: no client id (facts 6)."""
    shown = [{"type": "input_text", "text": part["text"]} for part in parts if part.get("type") == "text"]
    payload = {
        "type": "message",
        "role": "user",
        "content": shown,
        "internal_chat_message_metadata_passthrough": {"turn_id": turn_id},
    }
    return {"timestamp": stamp, "type": "response_item", "payload": payload}


def rollout_item(stamp: str, thread_id: str, turn_id: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Give the record's line for a shown message: this one carries the client id (facts 6)."""
    shown = {"type": "UserMessage", "id": item["id"], "client_id": item["clientId"], "content": item["content"]}
    payload = {"type": "item_completed", "thread_id": thread_id, "turn_id": turn_id, "item": shown}
    return {"timestamp": stamp, "type": "event_msg", "payload": payload}
