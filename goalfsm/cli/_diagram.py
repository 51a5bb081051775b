"""`diagram`: a machine as a picture or as tables, ours and anybody's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click

from goalfsm import diagrams
from goalfsm._errors import UnknownName
from goalfsm._ir import Spec
from goalfsm.cli import Failure
from goalfsm.cli._input import open_spec

__all__ = ["diagram"]

_FORMATS = ("mermaid", "overview", "dot", "table", "svg", "png")


@click.command(
    epilog="""\b
Examples:
  goalfsm diagram follow_up
  goalfsm diagram my_machine.toml --format table -o my_machine.md
  goalfsm diagram follow_up --format svg --highlight uncertain -o follow_up.svg"""
)
@click.argument("machine")
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="mermaid", show_default=True, help="What is written."
)
@click.option("--highlight", metavar="STATE", default="", help="Paint this state in a signal colour.")
@click.option("--ignored", is_flag=True, help="Draw ignore rows too; tables always list them.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="File to write; by default stdout.")
def diagram(machine: str, kind: str, highlight: str, ignored: bool, output: str | None) -> None:
    """Draw a machine with every row, its guard and its effects; tables say each why as well.

    overview is a simplified Mermaid picture for newcomers, as the spec's [picture] declares it. svg and png need
    Graphviz; the other formats are text and need nothing.
    """
    spec = open_spec(machine, None)
    if highlight and highlight not in spec.states:
        words = str(UnknownName("state", highlight, spec.machine, spec.states))
        raise click.BadParameter(words, param_hint="--highlight")
    if kind == "png" and output is None and sys.stdout.isatty():
        raise click.UsageError("a png would garble the terminal: name a file with -o")
    drawn = _drawn(spec, kind, highlight, ignored=ignored)
    if output is None:
        click.echo(drawn, nl=False)
        return
    try:
        Path(output).write_bytes(drawn)
    except OSError as error:
        raise Failure(f"{output} cannot be written: {error.strerror or error}", 2) from error


def _drawn(spec: Spec, kind: str, highlight: str, *, ignored: bool) -> bytes:
    if kind in ("svg", "png"):
        return diagrams.image(spec, cast("diagrams.ImageKind", kind), highlight=highlight, ignored=ignored)
    if kind == "table":
        text = diagrams.table(spec, highlight=highlight)
    elif kind == "overview":
        text = diagrams.overview(spec)
    elif kind == "dot":
        text = diagrams.dot(spec, highlight=highlight, ignored=ignored)
    else:
        text = diagrams.mermaid(spec, highlight=highlight, ignored=ignored)
    return text.encode()
