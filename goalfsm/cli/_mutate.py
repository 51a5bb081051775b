"""`mutate`: change the built-in machines a little, in every way, and see what notices."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from goalfsm._builtin import builtin_names
from goalfsm._errors import did_you_mean
from goalfsm.cli import printable
from goalfsm.cli._input import load_function

if TYPE_CHECKING:
    from goalfsm.testing.mutants import Judged

__all__ = ["mutate"]

_EPILOG = """\b
Examples:
  goalfsm mutate --machine turn
  goalfsm mutate --sample 40 --seed 7 --sequences golden:first_failure
  goalfsm mutate --machine goal --json 2>/dev/null | jq .survivors"""


@click.command(epilog=_EPILOG)
@click.option("--machine", "machines", multiple=True, metavar="M", help="Only this built-in machine; may be repeated.")
@click.option("--sequences", metavar="MODULE:FUNCTION", help="Also run these tests; gives the first that fails, or ''.")
@click.option("--sample", type=click.IntRange(1), help="Judge so many, drawn from all, instead of every one.")
@click.option("--seed", type=int, default=1, show_default=True, help="What a sample is drawn from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def mutate(machines: tuple[str, ...], sequences: str | None, sample: int | None, seed: int, as_json: bool) -> None:
    """Change each row of the built-in machines in every small way, and print the changes that nothing notices.

    Asked in this order: the static check, the sequences, small explorations, and the pinned grid, which notices every
    difference of a table but says nothing of what it is good for; so what only the grid noticed is counted by itself.
    Mutants that are no change are declared in goalfsm/testing/equivalent.toml, with the reason.

    Exits 0 if nothing survived that is not declared, 1 if something did, 2 for wrong usage.
    """
    from goalfsm.testing.mutants import judge, mutants, sampled  # noqa: PLC0415  only a run needs it

    for name in machines:
        if name not in builtin_names():
            raise click.BadParameter(
                f"no machine {name!r}{did_you_mean(name, builtin_names())}", param_hint="--machine"
            )
    run = load_function(sequences, "--sequences")
    wanted = [mutant for name in machines or builtin_names() for mutant in mutants(name)]
    if sample is not None:
        wanted = sampled(wanted, sample, seed)
        click.echo(f"seed {seed}: {len(wanted)} mutants drawn", err=True)
    found: list[Judged] = []
    for mutant in wanted:
        found.append(judge(mutant, sequences=run))
        _tell(found, len(wanted))
    _report(found, as_json=as_json)
    if any(not one.killer and not one.equivalent for one in found):
        raise click.exceptions.Exit(1)


def _tell(found: list[Judged], count: int) -> None:
    last = found[-1]
    if not last.killer and not last.equivalent:
        click.echo(f"survives: {printable(last.mutant.name)} (line {last.mutant.line})", err=True)
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{len(found)} of {count}", err=True, nl=len(found) == count)
    elif not len(found) % 50:
        click.echo(f"{len(found)} of {count}", err=True)


def _report(found: list[Judged], *, as_json: bool) -> None:
    killers = Counter(one.killer for one in found if one.killer)
    survivors = [one.mutant.name for one in found if not one.killer and not one.equivalent]
    answer: dict[str, Any] = {
        "mutants": len(found), "killed": sum(killers.values()), "killers": dict(killers),
        "equivalent": sum(1 for one in found if not one.killer and one.equivalent), "survivors": survivors,
        "only_the_grid": [one.mutant.name for one in found if one.killer == "grid"],
    }  # fmt: skip
    if as_json:
        click.echo(msgspec.json.encode(answer).decode())
        return
    by = ", ".join(f"{count} by {name}" for name, count in killers.items())
    click.echo(f"{len(found)} mutants: {answer['killed']} killed ({by}), {answer['equivalent']} equivalent")
    click.echo(f"survivors: {len(survivors)}")
    for name in survivors:
        click.echo(f"  {printable(name)}")
