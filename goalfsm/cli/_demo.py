"""`demo`: what goalfsm is for, in ten seconds, on a provider that needs nothing but this program."""

from __future__ import annotations

import sys

import click

__all__ = ["demo"]

_EPILOG = """\b
Examples:
  goalfsm demo
  goalfsm demo --speed 3
  goalfsm demo --journal demo.db
  goalfsm demo --json 2>/dev/null | jq .follow_ups"""


@click.command(epilog=_EPILOG)
@click.option("--journal", metavar="FILE", help="SQLite file for the history; default: a private temporary one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--speed", type=click.FloatRange(min=0.1, max=100), default=1.0, show_default=True, help="How many times as fast."
)
def demo(journal: str | None, as_json: bool, speed: float) -> None:
    """Show a goal of three turns and its follow-ups: steered, held in a gap, with a lost answer, returned by a stop.

    The agent is simulated; goalfsm is not: its machines, its journal and its reading back are the real ones. What
    happens is told on stderr, the fates are printed on stdout.

    Exits 0 if every message met the fate that it should.
    """
    import tempfile  # noqa: PLC0415  nothing below is needed for --help
    from pathlib import Path  # noqa: PLC0415  as above

    import anyio  # noqa: PLC0415  as above

    from goalfsm.cli._render import is_terminal  # noqa: PLC0415  as above
    from goalfsm.cli._scenes import Scenes  # noqa: PLC0415  as above
    from goalfsm.cli._screen import Screen  # noqa: PLC0415  as above

    file = journal or str(Path(tempfile.mkdtemp(prefix="goalfsm-demo-")) / "demo.db")
    screen = Screen(live=is_terminal(sys.stderr) and not as_json)
    scenes = Scenes(screen, file, speed)
    screen.below = scenes.below
    with screen:
        wrong = anyio.run(scenes.play)
    if as_json:
        scenes.print_json()
    else:
        scenes.print_table()
    for sentence in wrong:
        click.echo(f"unexpected: {sentence}", err=True)
    if wrong:
        raise click.exceptions.Exit(1)
