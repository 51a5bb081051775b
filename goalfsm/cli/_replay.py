"""`replay`: what became of every message in recorded traffic, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from goalfsm._history import observed_moments
from goalfsm._recording import NotATrace
from goalfsm._replay import replay as replay_traffic
from goalfsm._replay_report import Report, ThreadReport
from goalfsm._sequence import Moment, sequence
from goalfsm.cli import Failure, printable
from goalfsm.cli._chart import print_chart
from goalfsm.cli._render import data_console, fates_table, verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["replay"]

_KINDS = {
    "doubled": "was shown twice: two items of the thread carry this client id",
    "evidence_against_proof": "was shown after it had been proven not delivered",
}
_WARNINGS_SHOWN = 20


_EPILOG = """\b
Examples:
  goalfsm replay traffic.jsonl
  goalfsm replay traffic.jsonl --json | jq .threads
  goalfsm replay traffic.jsonl --format mermaid > story.mmd
  zcat traffic.jsonl.gz | goalfsm replay -"""


@click.command(epilog=_EPILOG)
@click.argument("traffic", type=click.File("rb"), metavar="TRAFFIC.jsonl")
@click.option(
    "--provider", type=click.Choice(["codex"]), default="codex", show_default=True, help="Whose protocol it is."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "mermaid"]),
    default="table",
    show_default=True,
    help="The fates, or a sequence diagram.",
)
@click.option("--text", is_flag=True, help="With --format mermaid: show what messages say.")
def replay(traffic: BinaryIO, provider: str, as_json: bool, kind: str, text: bool) -> None:
    """Tell the fate of every message in recorded traffic, as a passive observer; nothing is sent or changed.

    TRAFFIC.jsonl holds one message a line: {"dir": "send" or "recv", "msg": {...}}, and "conn" if there are several
    connections. A message without a client id is called line:N, after the line that sent it. --format mermaid draws
    what happened as a sequence diagram.

    Exits 0 if every message has a proven fate (delivered once, or returned with proof), 1 if one is uncertain,
    delivered twice or still open, or something was met that no machine expects, 2 if this is no readable recording.
    """
    del provider  # there is only one so far
    if as_json and kind == "mermaid":
        raise click.UsageError("--json and --format mermaid exclude each other")
    name = getattr(traffic, "name", "-")
    moments: list[Moment] = []
    try:
        if kind == "mermaid":
            report, moments = observed_moments(traffic)
        else:
            report = replay_traffic(traffic)
    except NotATrace as error:
        raise Failure(f"{name}: {error}", 2) from error
    except OSError as error:
        raise Failure(f"{name}: {error.strerror or error}", 2) from error
    _warn(report.warnings)
    if as_json:
        click.echo(msgspec.json.encode(report.as_json()).decode())
    elif kind == "mermaid":
        print_chart(sequence(moments, text=text))
    else:
        _print_report(report)
    if not report.is_clean:
        raise click.exceptions.Exit(1)


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings[:_WARNINGS_SHOWN]:
        click.echo(f"warning: {printable(warning)}", err=True)
    left = len(warnings) - _WARNINGS_SHOWN
    if left > 0:
        click.echo(f"warning: {left} more like these", err=True)


def _print_report(report: Report) -> None:
    console = data_console()
    for thread in report.threads:
        _print_thread(console, thread)
    console.print(_verdict(report), style="green" if report.is_clean else "bold red")


def _print_thread(console: Console, thread: ThreadReport) -> None:
    console.print(f"thread {printable(thread.id) or '(none named)'}", style="bold")
    if thread.follow_ups:
        console.print(_table(thread))
    console.print(f"  goal: {thread.goal}")
    console.print(f"  operation: {thread.operation or 'none was seen'}")
    for alarm in thread.alarms:
        words = _KINDS.get(alarm.kind, alarm.kind)
        console.print(f"  alarm ({alarm.kind}), line {alarm.line}: {printable(alarm.id)} {words}", style="bold red")
    for anomaly in thread.anomalies:
        where = f"{anomaly.machine} was {anomaly.state} when {anomaly.event} came"
        console.print(f"  {anomaly.verdict}, line {anomaly.line}: {printable(where)}", style="bold red")
    console.print()


def _table(thread: ThreadReport) -> Table:
    rows = [(fate.id, fate.state, fate.turn_id, fate.evidence, fate.reason) for fate in thread.follow_ups]
    return fates_table(("message", "fate", "turn", "evidence", "reason"), rows, 1)


def _verdict(report: Report) -> str:
    fates = report.fates
    if not fates and report.is_clean:
        return "No message was sent in this recording."
    alarms = [alarm for thread in report.threads for alarm in thread.alarms]
    anomalies = sum(len(thread.anomalies) for thread in report.threads)
    bad = [
        _count(sum(fate.state == "uncertain" for fate in fates), "uncertain"),
        _count(sum(fate.is_open for fate in fates), "still open"),
        _count(sum(alarm.kind == "doubled" for alarm in alarms), "delivered twice"),
        _count(sum(alarm.kind != "doubled" for alarm in alarms), "delivered against a proof"),
        _count(anomalies, "anomaly" if anomalies == 1 else "anomalies"),
    ]
    delivered = sum(fate.state == "delivered" for fate in fates)
    returned = sum(fate.is_proven for fate in fates) - delivered
    proven = verdict(delivered, returned, len(fates))
    if report.is_clean:
        return f"{proven}; every fate is proven."
    return f"{proven}; but {', '.join(filter(None, bad))}."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number else ""
