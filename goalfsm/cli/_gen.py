"""`gen`: write the diagrams and tables that are generated from specs, or verify that they are up to date."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import click

from goalfsm._builtin import builtin_names
from goalfsm._generated import files_of, outdated, passages, strays
from goalfsm._ir import Spec
from goalfsm.cli import Failure, printable
from goalfsm.cli._input import open_spec

__all__ = ["gen"]


@click.command(
    epilog="""\b
Examples:
  goalfsm gen --check
  goalfsm gen my_machine.toml --into docs/machines --page README.md"""
)
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if anything is not what it would be.")
@click.option("--into", type=click.Path(file_okay=False), default="diagrams", show_default=True, help="Folder.")
@click.option(
    "--page",
    "pages",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Markdown file with generated passages; by default README.md, if there is one.",
)
def gen(specs: tuple[str, ...], check: bool, into: str, pages: tuple[str, ...]) -> None:
    """Write the diagrams and tables of machines: all built-in ones, or those of your own spec files.

    Per machine: a page with tables and pictures (.md), the picture as Mermaid (.mmd) and as DOT (.dot). In Markdown
    files what stands between <!-- generated: overview MACHINE --> (or diagram, or table) and <!-- end generated --> is
    written anew; MACHINE may be a file. The output depends on the specs alone: there are no dates in it.
    """
    loaded = cache(lambda word: open_spec(word, None))
    folder = Path(into)
    files: dict[Path, str] = {}
    for word in specs or builtin_names():
        files |= _files(folder, loaded(word), word if specs else f"specs/{word}.toml", files)
    pages = pages or tuple(page for page in ("README.md",) if Path(page).is_file())
    for page in pages:
        files[Path(page)] = passages(Path(page).read_text(encoding="utf-8"), loaded, page)
    wrong = outdated(files)
    left = strays(folder, files)
    if check:
        _report(wrong, left)
        return
    for path in wrong:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[path].encode())
        click.echo(printable(f"wrote {path}"), err=True)
    for path in left:
        path.unlink()
        click.echo(printable(f"removed {path}"), err=True)
    click.echo(f"{len(files)} files, {len(wrong)} written", err=True)


def _files(folder: Path, spec: Spec, source: str, known: dict[Path, str]) -> dict[Path, str]:
    files = {folder / name: text for name, text in files_of(spec, source).items()}
    twice = next((path for path in files if path in known), None)
    if twice is not None:
        raise Failure(f"{source}: another spec has a machine {spec.machine!r} too, and both would be {twice}", 2)
    return files


def _report(wrong: list[Path], left: list[Path]) -> None:
    for path in wrong:
        click.echo(printable(f"{path}: {'is not what the specs say' if path.exists() else 'is missing'}"))
    for path in left:
        click.echo(printable(f"{path}: is generated from no spec any more"))
    if wrong or left:
        raise Failure("generated files are out of date; run `goalfsm gen`")
