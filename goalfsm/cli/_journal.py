"""`journal`: the history of threads in a journal file, for people, as JSON, or as a sequence diagram."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from goalfsm._history import JournalStep, journal_moments, read_journal
from goalfsm._sequence import Moment, moment_words, sequence
from goalfsm.cli import printable
from goalfsm.cli._chart import print_chart

__all__ = ["journal"]

_HEADS = ("step", "time", "event", "changes", "evidence")


@click.command(
    epilog="""\b
Examples:
  goalfsm journal goals.db
  goalfsm journal goals.db --thread 019a... --format mermaid > history.mmd"""
)
@click.argument("file", type=click.Path())
@click.option("--thread", metavar="ID", help="Only this thread.")
@click.option("--format", "kind", type=click.Choice(["table", "mermaid"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--text", is_flag=True, help="Show what messages say, too.")
def journal(file: str, thread: str | None, kind: str, as_json: bool, text: bool) -> None:
    """Show what happened to every thread of a journal, step by step; the file is only read.

    With --format mermaid it is a sequence diagram of host, goalfsm and provider. What messages say is left out unless
    --text is given.
    """
    if as_json and kind == "mermaid":
        raise click.UsageError("--json and --format mermaid exclude each other")
    threads = read_journal(file, thread)
    if as_json:
        shown = [{"id": name, "steps": [_json(step, text=text) for step in steps]} for name, steps in threads.items()]
        click.echo(msgspec.json.encode({"threads": shown}).decode())
    elif kind == "mermaid":
        print_chart(sequence(journal_moments(threads), text=text))
    else:
        for name, steps in threads.items():
            _print(name, steps, text=text)
        count = sum(map(len, threads.values()))
        words = (f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((len(threads), "thread"), (count, "step")))
        click.echo(", ".join(words), err=True)


def _json(step: JournalStep, *, text: bool) -> dict[str, Any]:
    record = step.record
    shown: dict[str, Any] = {
        "seq": step.seq,
        "epoch": step.epoch,
        "at": record.at,
        "spec": record.spec,
        "event": record.event,
        "moves": [dict(zip(("machine", "id", "from", "to", "event"), move, strict=True)) for move in record.moves],
        "effects": record.effects,
        "odd": [dict(zip(("machine", "id", "state", "event", "verdict"), odd, strict=True)) for odd in record.odd],
        "told": record.told,
    }
    return shown | ({"messages": record.messages} if text else {})


def _print(name: str, steps: Sequence[JournalStep], *, text: bool) -> None:
    rows = list(_rows(name, steps, text=text))
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(map(printable, (name, *row))).rstrip("\t"))
        return
    from rich import box  # noqa: PLC0415  only a person at a terminal needs it
    from rich.console import Console  # noqa: PLC0415  as above
    from rich.table import Table  # noqa: PLC0415  as above
    from rich.text import Text  # noqa: PLC0415  as above

    table = Table(*_HEADS, box=box.SIMPLE_HEAD, pad_edge=False, title=Text(printable(f"thread {name}")))
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console(highlight=False).print(table)


def _rows(name: str, steps: Sequence[JournalStep], *, text: bool) -> Iterator[tuple[str, ...]]:
    for step, moment in zip(steps, journal_moments({name: list(steps)}), strict=True):
        at = datetime.fromtimestamp(step.record.at, UTC).isoformat(timespec="milliseconds")
        yield str(step.seq), at, *_cells(moment, text=text)


def _cells(moment: Moment, *, text: bool) -> tuple[str, str, str]:
    event, changes = moment_words(moment)
    said = [f"{key}: {words}" for key, words in moment.texts.items()] if text else []
    odd = [f"not expected: {words}" for words in moment.odd]
    evidence = [change.evidence for change in moment.changes if change.evidence]
    return event, "; ".join([*changes, *odd, *said]), "; ".join(evidence)
