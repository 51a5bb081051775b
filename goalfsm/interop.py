"""A bridge to `transitions`: the same machine as a `Machine` with triggers, for those who have tools around it.

It is also our second opinion: it shares the declaration with the kernel and none of its code, and a property-based test
drives both with the same events (style 2, habit 19). `transitions` is imported when a bridge is built, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from goalfsm._errors import GoalfsmError
from goalfsm._ir import ZERO, Guard, Row, Spec
from goalfsm.events import Event

if TYPE_CHECKING:
    from transitions import EventData, Machine

__all__ = ["Model", "to_transitions"]


class Model:
    """What the bridge's triggers act on.

    `transitions` adds one trigger per event (`model.goal_active(ref="x")`), `trigger(name, **fields)` and `state`.
    A trigger returns whether a row was taken; the whole answer stands in the attributes.

    Attributes:
        data: the saved fields by name; each is also an attribute of the model unless an event has that name.
        context: handed to the guards; set it before a trigger.
        verdict: what became of the last event: moved, ignored, stale, rejected or anomaly; empty before the first.
        effects: names of the effects of the row that was taken, in order.
        why: that row's reason.
    """

    state: str
    trigger: Callable[..., bool]

    def __init__(self, spec: Spec) -> None:
        fields = msgspec.structs.asdict(spec.snapshot())
        del fields["state"]
        self.spec = spec
        self.data: dict[str, Any] = fields
        self.context: Any = None
        self.verdict = ""
        self.effects: tuple[str, ...] = ()
        self.why = ""

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no attribute: triggers are, so an event hides a field of its name.
        if name not in ("spec", "data") and name not in self.spec.events and name in self.data:
            return self.data[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def to_transitions(spec: Spec, graph: bool | str = False, guards: Mapping[str, Guard] | None = None) -> Machine:
    """Build a `transitions` machine with one model out of a spec.

    Args:
        spec: the machine.
        graph: True gives the machine `get_graph()` with the pure-text Mermaid engine; the name of another engine of
            `transitions` ("graphviz", "pygraphviz") selects that one.
        guards: bound in addition to those of the spec.

    Returns:
        The machine; `machine.model` is a `Model`.

    Raises:
        GoalfsmError: an event or a field has a name that `transitions` needs for itself.
    """
    spec = spec.bind(guards or {})
    model = Model(spec)
    for name, declared in spec.events.items():
        if name in ("trigger", "state", *vars(model)):
            raise GoalfsmError(f"{spec.machine}: transitions cannot have an event named {name!r}")
        for field in ("self", "model"):
            if field in declared.fields:
                raise GoalfsmError(f"{spec.machine}: transitions cannot have a field named {field!r} (event {name!r})")
    kind, options = _machine_class(graph, spec.machine)
    machine: Machine = kind(
        model=model,
        states=[{"name": state.name, "final": state.kind == "final"} for state in spec.states.values()],
        initial=spec.initial,
        auto_transitions=False,
        send_event=True,
        ignore_invalid_triggers=True,
        finalize_event=[_settle],
        name=spec.machine,
        **options,
    )
    for row in spec.rows:
        for event in row.events:
            machine.add_transition(
                trigger=event,
                source=list(row.sources),
                dest=row.to,
                conditions=[] if row.guard is None else [_condition(spec, row.guard)],
                before=[_taker(row)],
            )
    return machine


def _machine_class(graph: bool | str, title: str) -> tuple[Callable[..., Machine], dict[str, Any]]:
    if not graph:
        from transitions import Machine  # noqa: PLC0415  most users of goalfsm never need it

        return Machine, {}
    from transitions.extensions import GraphMachine  # noqa: PLC0415  as above

    engine = "mermaid" if graph is True else graph
    return GraphMachine, {"graph_engine": engine, "show_conditions": True, "title": title}


def _condition(spec: Spec, name: str) -> Callable[[EventData], bool]:
    def holds(asked: EventData) -> bool:
        if name not in spec.guards:
            raise GoalfsmError(f"{spec.machine}: guard {name!r} is not bound")
        model = cast(Model, asked.model)
        snapshot = spec.snapshot(model.state, **model.data)
        return bool(spec.guards[name](snapshot, Event(asked.event.name, **asked.kwargs), model.context))

    holds.__name__ = name  # the graph shows it
    return holds


def _taker(row: Row) -> Callable[[EventData], None]:
    def take(asked: EventData) -> None:
        model = cast(Model, asked.model)
        data = dict(model.data)
        cleared = row.clear if row.to is None else (*model.spec.states[row.to].clear, *row.clear)
        for field in cleared:
            data[field] = ZERO[model.spec.data[field]]
        for field in row.save:
            if field not in asked.kwargs:
                raise GoalfsmError(f"{model.spec.machine}: event {asked.event.name!r} has no field {field!r}")
            data[field] = asked.kwargs[field]
        data.update(row.set)
        # transitions sets the state after this; everything that may raise is behind us.
        model.data, model.effects, model.why = data, row.do, row.why
        model.verdict = "moved" if row.kind == "row" else "ignored"

    return take


def _settle(asked: EventData) -> None:
    if asked.result:
        return
    model = cast(Model, asked.model)
    origin = model.spec.events[asked.event.name].origin
    listed = any(model.state in row.sources and asked.event.name in row.events for row in model.spec.rows)
    model.effects, model.why = (), ""
    if asked.error is not None:
        model.verdict = ""
    elif listed:
        model.verdict = "rejected" if origin == "command" else "stale"
    else:
        words = {"reject": "rejected", "anomaly": "anomaly", "ignore": "ignored"}
        model.verdict = words[model.spec.unlisted[origin]]
