"""Printing a Mermaid chart."""

from __future__ import annotations

import click

__all__ = ["print_chart"]

# Mermaid's own default (maxTextSize); pages that render charts rarely allow more.
_RENDERED = 50_000


def print_chart(text: str) -> None:
    """Print a chart, and say so if it is too long for most pages to draw."""
    click.echo(text, nl=False)
    if len(text) > _RENDERED:
        words = f"warning: {len(text)} signs; Mermaid draws at most {_RENDERED} unless its maxTextSize is raised"
        click.echo(words, err=True)
