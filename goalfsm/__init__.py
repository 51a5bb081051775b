"""goalfsm: explicit state machines for goal lifecycles.

A follow-up reaches the provider at most once, is never silently lost, and its fate is stated with evidence.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goalfsm import effects, events
    from goalfsm._builtin import builtin_names, builtin_spec
    from goalfsm._check import check_spec
    from goalfsm._core import CoreStep, ThreadCore
    from goalfsm._engine import Engine, open  # noqa: A004  the surface's word
    from goalfsm._errors import (
        GoalFailed,
        GoalfsmError,
        IllegalCommand,
        JournalError,
        ProviderRefused,
        SpecError,
        StaleOwner,
        TransportClosed,
        Unjournalable,
        UnknownName,
    )
    from goalfsm._handles import FollowUpHandle, GoalHandle, Receipt, Thread, ThreadStatus
    from goalfsm._kernel import Snapshot, Step, Verdict, step
    from goalfsm._recovery import Found
    from goalfsm._spec import Spec, load_spec
    from goalfsm._states import FollowUpState, OperationState, TurnState
    from goalfsm._sync import SyncEngine, SyncFollowUp, SyncGoal, SyncThread, open_sync
    from goalfsm._values import (
        Anomaly,
        ApprovalRequest,
        GoalStatus,
        GoalView,
        Outcome,
        Policy,
        Result,
        ResultStatus,
        StreamEvent,
        Timeouts,
        TokenCounts,
        Usage,
        When,
    )
    from goalfsm.events import Event
    from goalfsm.interop import to_transitions

__version__ = "0.1.0"

# Loaded on first use: somebody who only steps a machine of their own pays for no engine.
_HOMES = {
    "_builtin": ("builtin_names", "builtin_spec"),
    "_check": ("check_spec",),
    "_core": ("CoreStep", "ThreadCore"),
    "_engine": ("Engine", "open"),
    "_errors": (
        "GoalFailed",
        "GoalfsmError",
        "IllegalCommand",
        "JournalError",
        "ProviderRefused",
        "SpecError",
        "StaleOwner",
        "TransportClosed",
        "UnknownName",
        "Unjournalable",
    ),
    "_handles": ("FollowUpHandle", "GoalHandle", "Receipt", "Thread", "ThreadStatus"),
    "_kernel": ("Snapshot", "Step", "Verdict", "step"),
    "_recovery": ("Found",),
    "_spec": ("Spec", "load_spec"),
    "_states": ("FollowUpState", "OperationState", "TurnState"),
    "_sync": ("SyncEngine", "SyncFollowUp", "SyncGoal", "SyncThread", "open_sync"),
    "_values": (
        "Anomaly",
        "ApprovalRequest",
        "GoalStatus",
        "GoalView",
        "Outcome",
        "Policy",
        "Result",
        "ResultStatus",
        "StreamEvent",
        "Timeouts",
        "TokenCounts",
        "Usage",
        "When",
    ),
    "events": ("Event",),
    "interop": ("to_transitions",),
}
_MODULES = ("effects", "events")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Anomaly",
    "ApprovalRequest",
    "CoreStep",
    "Engine",
    "Event",
    "FollowUpHandle",
    "FollowUpState",
    "Found",
    "GoalFailed",
    "GoalHandle",
    "GoalStatus",
    "GoalView",
    "GoalfsmError",
    "IllegalCommand",
    "JournalError",
    "OperationState",
    "Outcome",
    "Policy",
    "ProviderRefused",
    "Receipt",
    "Result",
    "ResultStatus",
    "Snapshot",
    "Spec",
    "SpecError",
    "StaleOwner",
    "Step",
    "StreamEvent",
    "SyncEngine",
    "SyncFollowUp",
    "SyncGoal",
    "SyncThread",
    "Thread",
    "ThreadCore",
    "ThreadStatus",
    "Timeouts",
    "TokenCounts",
    "TransportClosed",
    "TurnState",
    "Unjournalable",
    "UnknownName",
    "Usage",
    "Verdict",
    "When",
    "builtin_names",
    "builtin_spec",
    "check_spec",
    "effects",
    "events",
    "load_spec",
    "open",
    "open_sync",
    "step",
    "to_transitions",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"goalfsm.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'goalfsm' has no attribute {name!r}")
    value = getattr(import_module(f"goalfsm.{home}"), name)
    if getattr(value, "__module__", "").startswith("goalfsm._"):
        value.__module__ = "goalfsm"
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
