"""`check`, `next` and `simulate`: what a spec says, for our machines and for anybody's own alike."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import click
import msgspec

from goalfsm._builtin import builtin_names
from goalfsm._check import check_specs
from goalfsm._errors import UnknownName
from goalfsm._guards import GUARDS
from goalfsm._ir import Guard, Snapshot, Spec
from goalfsm._kernel import Step, Verdict, step, table
from goalfsm.cli import Failure, printable
from goalfsm.cli._input import Happening, find_spec, happenings, load_guards, open_spec

__all__ = ["check", "next_", "simulate"]

_STYLES = {"moved": "green", "ignored": "dim", "stale": "yellow", "rejected": "red", "anomaly": "bold red"}

guards_option = click.option(
    "--guards", metavar="MODULE[:MAPPING]", help="Python module whose public functions (or GUARDS) are the guards."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _print_json(value: Any) -> None:
    click.echo(msgspec.json.encode(value).decode())


def _print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], verdict_at: int) -> None:
    """Print rows: a table for a person at a terminal, tab-separated lines for a program."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(map(printable, row)).rstrip("\t"))
        return
    from rich import box  # noqa: PLC0415  only a person at a terminal needs it
    from rich.console import Console  # noqa: PLC0415  as above
    from rich.table import Table  # noqa: PLC0415  as above
    from rich.text import Text  # noqa: PLC0415  as above

    shown = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        cells = [Text(printable(cell)) for cell in row]
        cells[verdict_at].stylize(_STYLES.get(row[verdict_at], ""))
        shown.add_row(*cells)
    Console(highlight=False).print(shown)


_CHECK = """\b
Examples:
  goalfsm check
  goalfsm check my_machine.toml --guards my_package.guards"""

_NEXT = """\b
Examples:
  goalfsm next follow_up delivering
  goalfsm next my_machine.toml open --json"""

_SIMULATE = """\b
Examples:
  goalfsm simulate follow_up events.jsonl --state delivering
  echo '{"name": "coin", "guards": {"enough": true}}' | goalfsm simulate turnstile.toml -"""


@click.command(epilog=_CHECK)
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@guards_option
@json_option
def check(specs: tuple[str, ...], guards: str | None, as_json: bool) -> None:
    """List every static problem of spec files, with a code and a line each.

    SPEC is a file or a built-in machine; without any, all built-in machines are checked together with their guards.
    Exits 0 without problems, 1 with some, 2 if a file cannot be read at all.
    """
    paths = [find_spec(word) for word in specs or builtin_names()]
    bound = GUARDS if not specs and guards is None else load_guards(guards)
    problems = check_specs(paths, bound)
    if as_json:
        found = [{"code": p.code, "path": p.path, "line": p.line, "text": p.text} for p in problems]
        _print_json({"specs": [str(path) for path in paths], "problems": found})
    else:
        for problem in problems:
            click.echo(printable(str(problem)))
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}" if problems else "no problems"
    click.echo(f"{len(paths)} spec{'' if len(paths) == 1 else 's'}: {count}", err=True)
    if problems:
        raise click.exceptions.Exit(2 if any(problem.code == "GF100" for problem in problems) else 1)


@click.command("next", epilog=_NEXT)
@click.argument("machine")
@click.argument("state", required=False, default="", metavar="STATE")
@guards_option
@json_option
def next_(machine: str, state: str, guards: str | None, as_json: bool) -> None:
    """Show what each event would do in STATE: verdict, guard, target, effects and why.

    Rows of one event are tried from top to bottom; the first whose guard holds is taken.
    The last line of an event without a guard says what is left when none holds.
    """
    spec = open_spec(machine, load_guards(guards))
    if not state:
        raise click.UsageError(f"Missing argument 'STATE'; {spec.machine} has: {', '.join(spec.states)}")
    _known_state(spec, state, "STATE")
    lines = table(spec, state)
    if as_json:
        _print_json({"machine": spec.machine, "state": state, "kind": spec.states[state].kind, "events": lines})
        return
    rows = [
        (
            line.event,
            str(line.verdict),
            f"[{line.guard}]" if line.guard else "",
            line.to,
            " ".join(line.effects),
            line.why,
        )
        for line in lines
    ]
    _print_table(("event", "verdict", "guard", "to", "effects", "why"), rows, 1)
    click.echo(f"{spec.machine} is {state} ({spec.states[state].kind}): {printable(spec.states[state].doc)}", err=True)


def _known_state(spec: Spec, state: str, hint: str) -> None:
    if state not in spec.states:
        raise click.BadParameter(str(UnknownName("state", state, spec.machine, spec.states)), param_hint=hint)


@click.command(epilog=_SIMULATE)
@click.argument("machine")
@click.argument("events", type=click.File("rb"))
@click.option("--state", help="State to start in; by default the initial one.")
@guards_option
@json_option
def simulate(machine: str, events: BinaryIO, state: str | None, guards: str | None, as_json: bool) -> None:
    """Let the events of a file happen to a machine, and print each step.

    EVENTS holds one JSON object per line ("-" reads stdin): the event's name, its fields, and, if you like, "guards":
    the answers for this step; guards it does not name are false. Without it the real guards are asked.

    With --json each step is one line of JSON. Exits 1 if an event was unknown, rejected or an anomaly, 2 if a line
    cannot be read.
    """
    spec = open_spec(machine, load_guards(guards))
    if state is not None:
        _known_state(spec, state, "--state")
    snapshot = spec.snapshot(state)
    where = getattr(events, "name", "<stdin>")
    bad = count = 0
    for happening in happenings(spec, events, where, typed=machine in builtin_names()):
        made = _step(spec, snapshot, happening, f"{where}:{happening.line}")
        _print_step(snapshot, happening, made, as_json=as_json)
        snapshot = made.snapshot
        count += 1
        bad += made.verdict in (Verdict.REJECTED, Verdict.ANOMALY)
    click.echo(f"{spec.machine} is {snapshot.state} after {count} event{'' if count == 1 else 's'}", err=True)
    if bad:
        raise Failure(f"{bad} event{' was' if bad == 1 else 's were'} rejected, or nobody expected them")


def _step(spec: Spec, snapshot: Snapshot, happening: Happening, where: str) -> Step[Snapshot]:
    answers = happening.guards
    if answers is not None:
        spec = spec.bind({name: _constant(answers.get(name, False)) for name in spec.guard_names})
    else:
        spec = spec.bind({name: _asked(spec, name, where) for name in spec.guard_names})
    return step(spec, snapshot, happening.event)


def _constant(answer: bool) -> Guard:
    return lambda _snapshot, _event, _context: answer


def _asked(spec: Spec, name: str, where: str) -> Guard:
    advice = f'answer it in that line: "guards": {{"{name}": true}}'

    def ask(snapshot: Any, event: Any, context: Any) -> bool:
        if name not in spec.guards:
            raise Failure(f"{where}: guard {name!r} is asked, but not bound; use --guards, or {advice}")
        try:
            return bool(spec.guards[name](snapshot, event, context))
        except Exception as error:  # a person's guard may raise anything; ours need a whole core as context
            what = f"{type(error).__name__}: {error}"
            raise Failure(f"{where}: guard {name!r} cannot be asked ({what}); {advice}") from error

    return ask


def _print_step(before: Snapshot, happening: Happening, made: Step[Snapshot], *, as_json: bool) -> None:
    name = happening.event.name
    guard = (made.row.guard if made.row is not None else None) or ""
    if as_json:
        after = msgspec.structs.asdict(made.snapshot)
        _print_json(
            {
                "line": happening.line, "event": name, "from": before.state, "to": after.pop("state"),
                "verdict": made.verdict, "guard": guard, "effects": made.effects, "why": made.why, "data": after,
            }
        )  # fmt: skip
        return
    verdict = click.style(made.verdict, fg=None if made.verdict is Verdict.MOVED else "yellow")
    target = f"{before.state} -> {made.snapshot.state}" if made.verdict is Verdict.MOVED else before.state
    parts = [f"{happening.line}: {name}", verdict, target, f"[{guard}]" if guard else "", " ".join(made.effects)]
    click.echo("  ".join(part for part in (*parts, made.why and f"({printable(made.why)})") if part))
