"""The job of job.toml on other libraries, each as its own documentation advises, with the same guard and effect.

A peer that is not installed is left out (`pip install -e '.[bench]'`). Each `*_job` gives a fresh live machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from benchmarks.job import PLAIN, current, sink
from benchmarks.measure import Laps

START, STOP = PLAIN

TRANSITIONS: list[dict[str, Any]] = [
    {"trigger": "start", "source": "idle", "dest": "running", "conditions": "is_current", "after": "ring"},
    {"trigger": "stop", "source": "running", "dest": "idle", "conditions": "is_current", "after": "ring"},
]


# -- transitions: one machine shared by all models (its advice for many), no automatic transitions --------------------


class Model:
    """The model of `transitions`: the job's data, its guard and its effect."""

    def __init__(self) -> None:
        self.gen, self.turn_id, self.attempt = 0, "", 0

    def is_current(self, event: Any) -> bool:
        return current(self, event)

    def ring(self, _event: Any) -> None:
        sink("ring")


def _transitions(home: str, name: str) -> tuple[Any, Callable[[], Any]]:
    machine_class = getattr(import_module(home), name)
    machine = machine_class(
        model=None,
        states=["idle", "running"],
        transitions=TRANSITIONS,
        initial="idle",
        auto_transitions=False,
        send_event=False,
    )

    def make() -> Any:
        model = Model()
        machine.add_model(model)
        return model

    return machine, make


def transitions_job() -> Callable[[], Any]:
    return _transitions("transitions", "Machine")[1]


def transitions_own() -> Callable[[], Any]:
    def make() -> Any:
        model = Model()
        import_module("transitions").Machine(
            model=model, states=["idle", "running"], transitions=TRANSITIONS, initial="idle", auto_transitions=False
        )
        return model

    return make


def _triggers(model: Any) -> Laps:
    def run(laps: int) -> None:
        for _ in range(laps):
            model.start(START)
            model.stop(STOP)

    return run


def transitions_plain() -> Laps:
    return _triggers(transitions_job()())


def transitions_locked() -> Laps:
    return _triggers(_transitions("transitions.extensions", "LockedMachine")[1]())


def transitions_async() -> Laps:
    model = _transitions("transitions.extensions.asyncio", "AsyncMachine")[1]()

    async def main(laps: int) -> None:
        for _ in range(laps):
            await model.start(START)
            await model.stop(STOP)

    return lambda laps: asyncio.run(main(laps))


# -- python-statemachine: StateMachine (fewer checks than StateChart), bound events, no listeners ---------------------


def statemachine_job() -> Callable[[], Any]:
    library = import_module("statemachine")

    class Job(library.StateMachine):  # type: ignore[misc,name-defined]
        idle = library.State(initial=True)
        running = library.State()
        start = idle.to(running, cond="is_current", on="ring")
        stop = running.to(idle, cond="is_current", on="ring")

        def __init__(self) -> None:
            self.gen, self.turn_id, self.attempt = 0, "", 0
            super().__init__()

        # `event` is a reserved word of its callbacks.
        def is_current(self, told: Any) -> bool:
            return current(self, told)

        def ring(self) -> None:
            sink("ring")

    return Job


def statemachine() -> Laps:
    job = statemachine_job()()

    def run(laps: int) -> None:
        for _ in range(laps):
            job.start(told=START)
            job.stop(told=STOP)

    return run


# -- automat: the typed builder ---------------------------------------------------------------------------------------
# It has no guards. Inside the machine a guard is an output that sends one of two further inputs (which is why inputs
# without a result may be sent from outputs); outside, every caller asks the guard itself.


def automat_job() -> Callable[[], Any]:
    class Inputs(Protocol):
        def start(self, event: Any) -> None: ...

        def stop(self, event: Any) -> None: ...

        def go(self, event: Any) -> None: ...

        def stay(self, event: Any) -> None: ...

    builder = import_module("automat").TypeMachineBuilder(Inputs, Slots)
    idle, running = builder.state("idle"), builder.state("running")

    def decide(inputs: Inputs, core: Slots, event: Any) -> None:
        if current(core, event):
            inputs.go(event)
        else:
            inputs.stay(event)

    def ring(_inputs: Inputs, _core: Slots, _event: Any) -> None:
        sink("ring")

    idle.upon(Inputs.start).loop()(decide)
    idle.upon(Inputs.go).to(running)(ring)
    idle.upon(Inputs.stay).loop().returns(None)
    running.upon(Inputs.stop).loop()(decide)
    running.upon(Inputs.go).to(idle)(ring)
    running.upon(Inputs.stay).loop().returns(None)
    factory = builder.build()
    return lambda: factory(Slots())


class Slots:
    """The job's data where a library keeps it in an object of the host."""

    __slots__ = ("attempt", "gen", "turn_id")

    def __init__(self) -> None:
        self.gen, self.turn_id, self.attempt = 0, "", 0


def automat() -> Laps:
    job = automat_job()()

    def run(laps: int) -> None:
        for _ in range(laps):
            job.start(START)
            job.stop(STOP)

    return run


def automat_unguarded() -> Laps:
    class Inputs(Protocol):
        def start(self) -> None: ...

        def stop(self) -> None: ...

    builder = import_module("automat").TypeMachineBuilder(Inputs, Slots)
    idle, running = builder.state("idle"), builder.state("running")

    def ring(_inputs: Inputs, _core: Slots) -> None:
        sink("ring")

    idle.upon(Inputs.start).to(running)(ring)
    running.upon(Inputs.stop).to(idle)(ring)
    core = Slots()
    job = builder.build()(core)

    def run(laps: int) -> None:
        for _ in range(laps):
            if current(core, START):
                job.start()
            if current(core, STOP):
                job.stop()

    return run


# -- sismic: the guard is Python text in its statechart, compiled once and kept by its evaluator ----------------------

SISMIC = """
statechart:
  name: job
  root state:
    name: root
    initial: idle
    states:
      - name: idle
        transitions:
          - event: start
            target: running
            guard: current(job, event.told)
            action: sink('ring')
      - name: running
        transitions:
          - event: stop
            target: idle
            guard: current(job, event.told)
            action: sink('ring')
"""


def sismic_job() -> Callable[[], Any]:
    chart = import_module("sismic.io").import_from_yaml(SISMIC)
    interpreter = import_module("sismic.interpreter").Interpreter

    def make() -> Any:
        live = interpreter(chart, initial_context={"job": Model(), "current": current, "sink": sink})
        live.execute()
        return live

    return make


def sismic() -> Laps:
    event = import_module("sismic.model").Event
    job = sismic_job()()

    def run(laps: int) -> None:
        for _ in range(laps):
            job.queue(event("start", told=START)).execute_once()
            job.queue(event("stop", told=STOP)).execute_once()

    return run


# -- xstate-statemachine: its synchronous interpreter -----------------------------------------------------------------


def xstate_job() -> Callable[[], Any]:
    library = import_module("xstate_statemachine")
    logging.getLogger("xstate_statemachine").setLevel(logging.ERROR)
    config = {
        "id": "job",
        "initial": "idle",
        "context": {"job": None},
        "states": {
            "idle": {"on": {"START": {"target": "running", "guard": "current", "actions": "ring"}}},
            "running": {"on": {"STOP": {"target": "idle", "guard": "current", "actions": "ring"}}},
        },
    }
    logic = library.MachineLogic(
        guards={"current": lambda context, event: current(context["job"], event.payload["told"])},
        actions={"ring": lambda _interpreter, _context, _event, _action: sink("ring")},
    )
    machine = library.create_machine(config, logic=logic)

    def make() -> Any:
        live = library.SyncInterpreter(machine).start()
        live.context["job"] = Model()
        return live

    return make


def xstate() -> Laps:
    job = xstate_job()()

    def run(laps: int) -> None:
        for _ in range(laps):
            job.send("START", told=START)
            job.send("STOP", told=STOP)

    return run


STEPPING: dict[str, Callable[[], Laps]] = {
    "automat_unguarded": automat_unguarded,
    "automat": automat,
    "transitions": transitions_plain,
    "xstate-statemachine": xstate,
    "transitions_locked": transitions_locked,
    "transitions_async": transitions_async,
    "sismic": sismic,
    "python-statemachine": statemachine,
}
LIVING: dict[str, Callable[[], Callable[[], Any]]] = {
    "automat": automat_job,
    "sismic": sismic_job,
    "transitions": transitions_job,
    "transitions_own": transitions_own,
    "xstate-statemachine": xstate_job,
    "python-statemachine": statemachine_job,
}


def installed(table: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Build every peer of a table that can be imported."""
    found: dict[str, Any] = {}
    for name, build in table.items():
        try:
            found[name] = build()
        except ModuleNotFoundError:
            continue
    return found
