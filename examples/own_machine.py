"""A machine of your own, declared in a file, stepped by the same kernel as goalfsm's.

The command line takes the guards from here too: `--guards examples.own_machine`.
"""

from pathlib import Path

import goalfsm


def enough(_snapshot: object, event: goalfsm.Event, _context: object) -> bool:
    """A coin must be worth at least 50."""
    return bool(event.amount >= 50)


if __name__ == "__main__":
    spec = goalfsm.load_spec(Path(__file__).with_name("turnstile.toml"), guards={"enough": enough})
    state = spec.snapshot()
    for event in (goalfsm.Event("coin", amount=20), goalfsm.Event("coin", amount=50), goalfsm.Event("push")):
        step = goalfsm.step(spec, state, event)
        print(f"{state.state:9} {event.name:5} -> {step.verdict:8} {step.snapshot.state:9} {', '.join(step.effects)}")
        state = step.snapshot
