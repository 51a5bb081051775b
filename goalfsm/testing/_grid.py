"""What every event means in every state, for each answer of the guards: the text by which a machine is pinned."""

from __future__ import annotations

from goalfsm._ir import ZERO, Spec
from goalfsm._kernel import step
from goalfsm.events import Event

__all__ = ["grid"]


def grid(spec: Spec) -> str:
    """Give the text of a machine's grid: one line per state, event and answer of its guards, sorted.

    Each guard of the pair is tried as the only one that holds (so the rows behind an earlier guard show as well), then
    none of them. The steps are really taken: this is what the kernel does, not what the file says.
    """
    alone = {
        holds: spec.bind({guard: (lambda *_, answer=guard == holds: answer) for guard in spec.guard_names})
        for holds in (*spec.guard_names, "")
    }
    lines = []
    for state in spec.states:
        for name in spec.events:
            guards = dict.fromkeys(row.guard for row in spec.rows_of(state, name) if row.guard)
            lines += [_line(alone[holds], state, name, holds) for holds in (*guards, "")]
    return "\n".join(sorted(lines)) + "\n"


def _line(answered: Spec, state: str, name: str, holds: str) -> str:
    fields = {field: ZERO[kind] for field, kind in answered.events[name].fields.items()}
    made = step(answered, answered.snapshot(state), Event(name, **fields))
    line = f"{state} {name} -> {f'[{holds}] ' if holds else ''}{made.verdict}"
    if made.verdict == "moved":
        line += f" {made.snapshot.state} {' '.join(made.effects)}".rstrip()
    return line
