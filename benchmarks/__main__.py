"""`python -m benchmarks`: everything side by side in one run. stdout is data, stderr is talk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import cores, imports, journal, kernel, memory, scale, stream
from benchmarks.measure import Progressing
from benchmarks.report import Section, Table, as_json, budget_table, budgets, page, tables

SECTIONS: dict[str, ModuleType] = {
    "kernel": kernel,
    "core": cores,
    "memory": memory,
    "scale": scale,
    "stream": stream,
    "journal": journal,
    "imports": imports,
}
ROUNDS, QUICK_ROUNDS = 9, 3
ROOT = Path(__file__).resolve().parents[1]


def _chosen(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return tuple(SECTIONS)
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    for name in names:
        if name not in SECTIONS:
            raise click.BadParameter(f"no section {name!r}; there are {', '.join(SECTIONS)}")
    return names


@click.command()
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object.")
@click.option("--only", callback=_chosen, metavar="A,B", help=f"Sections to run, of {', '.join(SECTIONS)}.")
@click.option("--rounds", type=click.IntRange(1), default=None, help=f"Interleaved rounds; {ROUNDS} by default.")
@click.option(
    "--quick", is_flag=True, help="Three short rounds of everything: to see that it works, not what it costs."
)
@click.option("--write-docs", is_flag=True, help="Write docs/benchmarks.md and its plots from this run.")
def main(*, as_data: bool, only: tuple[str, ...], rounds: int | None, quick: bool, write_docs: bool) -> None:
    """Measure goalfsm beside hand-written tables and other libraries, in one run of interleaved rounds."""
    rounds = rounds or (QUICK_ROUNDS if quick else ROUNDS)
    if write_docs and set(only) != set(SECTIONS):
        raise click.UsageError("--write-docs needs all sections: a page holds figures of one run")
    progressing = Progressing()
    found: dict[str, Section] = {}
    for name in only:
        module = SECTIONS[name]
        steps: Callable[[int], int] = module.steps
        with progressing.section(name, steps(rounds)) as tell:
            found[name] = module.measure(rounds, tell, quick=quick)
    if as_data:
        click.echo(json.dumps(as_json(found), indent=2, ensure_ascii=False))
    else:
        _show(found)
    if write_docs:
        _write(found)


def _show(found: dict[str, Section]) -> None:
    console = Console(file=sys.stdout)
    told = [table for section in found.values() for table in tables(section)]
    for table in [*told, budget_table(budgets(found.values()))]:
        console.print(_rich(table))


def _rich(table: Table) -> RichTable:
    shown = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if number else "left")
    for row in table.rows:
        shown.add_row(*row)
    return shown


def _write(found: dict[str, Section]) -> None:
    from benchmarks.plots import draw  # noqa: PLC0415  needs an extra

    drawn = draw(ROOT / "docs" / "benchmarks", found)
    target = ROOT / "docs" / "benchmarks.md"
    target.write_text(page(Path(__file__).with_name("page.md"), found), encoding="utf-8")
    click.echo(f"wrote docs/benchmarks.md and {len(drawn)} plots", err=True)


if __name__ == "__main__":
    main()
