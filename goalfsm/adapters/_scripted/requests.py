"""A request as it came, and the checks that a typed server makes before it looks at anything (facts 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from goalfsm.adapters._scripted.faults import Fault
from goalfsm.adapters._scripted.records import Message

__all__ = ["Refusal", "Request", "goal_params", "message_of", "text_of"]

STATUSES = ("active", "paused", "blocked", "usageLimited", "budgetLimited", "complete")


class Refusal(Exception):
    """A request is refused, in the real server's words."""

    def __init__(self, message: str, code: int = -32600) -> None:
        self.code = code
        super().__init__(message)


@attrs.frozen
class Request:
    """A request, with the fault that will befall it."""

    id: int | str | None
    method: str
    params: Mapping[str, Any]
    fault: Fault | None = None


def text_of(request: Request, field: str) -> str:
    """Give a text that the request must have.

    Raises:
        Refusal: it has none.
    """
    value = request.params.get(field)
    if value is None:
        raise Refusal(f"Invalid request: missing field `{field}`")
    if not isinstance(value, str):
        raise Refusal(f"Invalid request: invalid type: {_kind(value)}, expected a string")
    return value


def message_of(request: Request) -> Message:
    """Give the user message of a turn/start or turn/steer.

    Raises:
        Refusal: it has none.
    """
    parts = request.params.get("input")
    if not isinstance(parts, list):
        raise Refusal("Invalid request: missing field `input`")
    if not parts:
        raise Refusal("input must not be empty")
    return Message(parts, request.params.get("clientUserMessageId"))


def goal_params(params: Mapping[str, Any]) -> tuple[str | None, str | None, int | None]:
    """Give objective, status and token budget of a thread/goal/set.

    Raises:
        Refusal: one of them is of the wrong kind.
    """
    objective, status, budget = (params.get(field) for field in ("objective", "status", "tokenBudget"))
    if objective is not None and not isinstance(objective, str):
        raise Refusal(f"Invalid request: invalid type: {_kind(objective)}, expected a string")
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool)):
        raise Refusal(f"Invalid request: invalid type: {_kind(budget)}, expected i64")
    if status is not None and status not in STATUSES:
        known = ", ".join(f"`{word}`" for word in STATUSES)
        raise Refusal(f"Invalid request: unknown variant `{status}`, expected one of {known}")
    return objective, status, budget


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, str):
        return f'string "{value}"'
    return "map" if isinstance(value, dict) else "sequence"
