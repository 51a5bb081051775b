"""`journal`: the history of threads in a journal file, for people, as JSON, or as a sequence diagram; and its care."""

from __future__ import annotations

import click

from goalfsm._errors import JournalError
from goalfsm._sqlite_reader import open_reader
from goalfsm.cli import Failure
from goalfsm.cli._journal_care import compact, show_stale, verify
from goalfsm.cli._journal_show import follow, show

__all__ = ["journal"]

_MODES = ("follow", "compact", "stale", "verify")


@click.command(
    epilog="""\b
Examples:
  goalfsm journal goals.db
  goalfsm journal goals.db --follow
  goalfsm journal goals.db --thread 019a... --format mermaid > history.mmd
  goalfsm journal goals.db --json | jq '.threads[].messages[] | select(.state == "uncertain")'
  goalfsm journal goals.db --stale --fail-if-stale     before a deploy
  goalfsm journal goals.db --verify                    after one
  goalfsm journal goals.db --compact                   now and then"""
)
@click.argument("file", type=click.Path())
@click.option("--thread", metavar="ID", help="Only this thread.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "mermaid"]),
    default="table",
    show_default=True,
    help="The steps, or a sequence diagram.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow one line a step.")
@click.option("--text", is_flag=True, help="Show what messages say, too.")
@click.option("--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C.")
@click.option("--stale", is_flag=True, help="List the threads whose newest step was judged by other specs than these.")
@click.option("--fail-if-stale", is_flag=True, help="With --stale: exit 1 if there is one.")
@click.option("--verify", is_flag=True, help="Replay the events through the rules; exit 1 at a difference.")
@click.option("--compact", is_flag=True, help="Drop the steps of threads at rest that nobody holds; fates are kept.")
def journal(
    file: str, *, thread: str | None, kind: str, as_json: bool, text: bool, fail_if_stale: bool, **modes: bool
) -> None:
    """Show what happened to every thread of a journal, step by step; the file is only read.

    With --format mermaid it is a sequence diagram of host, goalfsm and provider. What messages say is left out unless
    --text is given. Reading works beside engines that use the file.

    --compact is the one that writes. It leaves alone what is in flight and what an engine holds: it looks for that
    engine's heartbeat, which takes some seconds if that engine is not known to have ended.

    Exits 2 if FILE is no journal, a newer one, or damaged.
    """
    asked = [mode for mode in _MODES if modes[mode]]
    if len(asked) > 1:
        raise click.UsageError(f"--{asked[0]} and --{asked[1]} exclude each other")
    if kind == "mermaid" and (as_json or asked):
        raise click.UsageError(f"--{asked[0] if asked else 'json'} and --format mermaid exclude each other")
    if fail_if_stale and not modes["stale"]:
        raise click.UsageError("--fail-if-stale belongs to --stale")
    try:
        with open_reader(file) as reader:
            if modes["stale"]:
                show_stale(reader, thread, as_json=as_json, fail=fail_if_stale)
            elif modes["verify"]:
                verify(reader, thread, as_json=as_json)
            elif modes["compact"]:
                compact(reader, thread, as_json=as_json)
            elif modes["follow"]:
                follow(reader, thread, as_json=as_json, text=text)
            else:
                show(reader, thread, kind=kind, as_json=as_json, text=text)
    except JournalError as error:
        raise Failure(str(error), 2) from error
