"""The states of the built-in machines as enums, made from the specs (surface 1): nothing is listed by hand."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from goalfsm._builtin import builtin_spec

__all__ = ["FollowUpState", "OperationState", "TurnState"]

if TYPE_CHECKING:
    FollowUpState = StrEnum
    OperationState = StrEnum
    TurnState = StrEnum
else:
    FollowUpState = StrEnum("FollowUpState", [(n.upper(), n) for n in builtin_spec("follow_up").states])
    OperationState = StrEnum("OperationState", [(n.upper(), n) for n in builtin_spec("operation").states])
    TurnState = StrEnum("TurnState", [(n.upper(), n) for n in builtin_spec("turn").states])
