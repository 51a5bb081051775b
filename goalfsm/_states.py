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

    def _states(name: str, machine: str) -> type[StrEnum]:
        spec = builtin_spec(machine)
        enum = StrEnum(name, [(state.upper(), state) for state in spec.states])
        lines = "\n".join(f"- {state.name}: {state.doc}" for state in spec.states.values())
        enum.__doc__ = f"The states of the {machine} machine.\n\n{lines}"
        return enum

    FollowUpState = _states("FollowUpState", "follow_up")
    OperationState = _states("OperationState", "operation")
    TurnState = _states("TurnState", "turn")
