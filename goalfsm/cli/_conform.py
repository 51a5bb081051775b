"""`conform`: judge any server that drives `codex app-server`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from goalfsm._errors import did_you_mean
from goalfsm.cli import Failure, printable

if TYPE_CHECKING:
    from goalfsm.testing.conformance._case import Case
    from goalfsm.testing.conformance._judging import Judged
    from goalfsm.testing.conformance._target import Target

__all__ = ["conform"]

_FORMATS = {"json": "as_json", "junit": "as_junit", "markdown": "as_markdown"}
_COLOURS = {"kept": "green", "broken": "red", "undetermined": "yellow"}


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExamples:\n  goalfsm conform -- python examples/naive_server.py\n"
    "  goalfsm conform --driver driver.toml --random 20 --seed 7 -- ./server --codex {app_server} --port {port}",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--driver",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How to ask the server (TOML or JSON); without it, JSON lines.",
)
@click.option(
    "--server-class", metavar="FILE.py:CLASS", help="Judge a SystemUnderTest in this process instead of a command."
)
@click.option("--case", "names", multiple=True, metavar="NAME", help="Only these cases; see --list.")
@click.option("--law", "laws", multiple=True, metavar="ID", help="Only these laws; see --list.")
@click.option("--random", "drawn", type=click.IntRange(0), default=0, help="Draw so many further cases.")
@click.option("--seed", default="1", show_default=True, help="What they are drawn from.")
@click.option(
    "--replay",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run the cases of a regression file instead.",
)
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Write regression files to this directory."
)
@click.option("--shrink", type=click.FloatRange(0), default=20.0, help="Seconds to look for each shortest history.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--format", "shape", type=click.Choice(["text", *_FORMATS]), default="text", help="What is printed.")
@click.option("--list", "listed", is_flag=True, help="List the laws and the cases.")
def conform(  # noqa: PLR0917  click hands them over by name
    command: tuple[str, ...],
    driver: Path | None,
    server_class: str | None,
    names: tuple[str, ...],
    laws: tuple[str, ...],
    drawn: int,
    seed: str,
    replay: Path | None,
    save: Path | None,
    shrink: float,
    as_json: bool,
    shape: str,
    listed: bool,
) -> None:
    """Judge a server by what its provider saw and by what it says of its messages.

    COMMAND starts the server (write -- before it). It is pointed at a scripted stand-in for `codex app-server`:
    {app_server} in COMMAND, the variable APP_SERVER, or the program `codex` on its PATH. GOALFSM_HOME names a directory
    that survives a restart; {home} and {port} are filled in too.

    Without a driver description it is asked by JSON lines on its stdin and stdout. It begins with {"ready": [...]},
    what it offers of start_goal, submit, stop, cancel, restart, fates, lifecycle; then {"n": 1, "do": "submit",
    "id": "m1", "text": "...", "when": "auto"} is answered by {"n": 1, "ok": true} or {"n": 1, "ok": false, "error":
    "..."}, and {"n": 2, "do": "fates"} by {"n": 2, "ok": true, "fates": {"m1": "delivered"}}.

    Exits 0 if every law that could be judged was kept, 1 if one was broken, 3 if the server could not be judged,
    2 for wrong usage.
    """
    if listed:
        _list()
        return
    from goalfsm.testing.conformance import report  # noqa: PLC0415  only a run needs it
    from goalfsm.testing.conformance._door import CannotJudge  # noqa: PLC0415  see above
    from goalfsm.testing.conformance._examination import EXIT, examine  # noqa: PLC0415  see above

    try:
        target, offers = _target(command, driver, server_class)
    except CannotJudge as problem:
        raise Failure(str(problem), 2) from problem
    examination = examine(
        target,
        _cases(names, replay),
        laws=_laws(laws),
        seed=seed,
        random_cases=drawn,
        offers=offers,
        shrinking=shrink,
        save=save,
        tell=_tell,
    )
    if drawn:
        click.echo(f"seed {seed}: --random {drawn} --seed {seed} draws the same cases again", err=True)
    shape = "json" if as_json else shape
    if shape == "text":
        click.echo("\n".join(map(printable, report.as_text(examination).splitlines())))
    else:
        text = getattr(report, _FORMATS[shape])(examination)
        click.echo(text.decode() if isinstance(text, bytes) else text)
    sys.exit(EXIT[examination.outcome])


def _target(command: tuple[str, ...], driver: Path | None, server_class: str | None) -> tuple[Target, frozenset[str]]:
    from goalfsm.testing.conformance._case import ASKS  # noqa: PLC0415  only a run needs it
    from goalfsm.testing.conformance._describe import read_description  # noqa: PLC0415  see above
    from goalfsm.testing.conformance._target import InProcessTarget  # noqa: PLC0415  see above
    from goalfsm.testing.conformance.door_blackbox import BlackBoxTarget  # noqa: PLC0415  see above

    if bool(command) == bool(server_class):
        raise click.UsageError("give either a command (after --) or --server-class")
    if server_class:
        made = _load(server_class)
        return InProcessTarget(made), frozenset(made().offers)
    description = read_description(driver)
    return BlackBoxTarget(command, description), frozenset(description.offers or ASKS)


def _load(spec: str) -> Callable[[], Any]:
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not file or not path.is_file():
        raise click.UsageError(f"--server-class wants FILE.py:CLASS, and there is no file {file or spec!r}")
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    assert loaded is not None and loaded.loader is not None  # noqa: S101, PT018  it is a file
    module = importlib.util.module_from_spec(loaded)
    sys.modules[path.stem] = module
    loaded.loader.exec_module(module)
    made = getattr(module, name, None)
    if not callable(made):
        raise click.UsageError(f"{file} has no {name!r}{did_you_mean(name, vars(module))}")
    factory: Callable[[], Any] = made
    return factory


def _cases(names: tuple[str, ...], replay: Path | None) -> list[Case]:
    from goalfsm.testing.conformance._case import NotACase, load_cases  # noqa: PLC0415  only a run needs it
    from goalfsm.testing.conformance.scenarios import CASES, cases  # noqa: PLC0415  see above

    if replay is not None:
        try:
            return load_cases(replay)
        except NotACase as problem:
            raise Failure(str(problem), 2) from problem
    for name in names:
        if name not in CASES:
            raise click.UsageError(f"no case {name!r}{did_you_mean(name, CASES)}")
    return cases(*names)


def _laws(names: tuple[str, ...]) -> tuple[str, ...] | None:
    from goalfsm.testing.conformance.laws import LAWS  # noqa: PLC0415  only a run needs it

    for name in names:
        if name not in LAWS:
            raise click.UsageError(f"no law {name!r}; known: {', '.join(LAWS)}")
    return names or None


def _tell(judged: Judged) -> None:
    broken = ", ".join(verdict.law for verdict in judged.broken)
    why = broken or (judged.problem if judged.word in ("undetermined", "not judged") else "")
    word = click.style(f"{judged.word:12}", fg=_COLOURS.get(judged.word))
    click.echo(f"{word} {judged.case.name}  {printable(why)}".rstrip(), err=True)


def _list() -> None:
    from goalfsm.testing.conformance.laws import LAWS  # noqa: PLC0415  only this needs it
    from goalfsm.testing.conformance.scenarios import CASES  # noqa: PLC0415  see above

    for law in LAWS.values():
        click.echo(f"{law.id:4} {law.says} [{law.rests_on}]")
    click.echo()
    for case in CASES.values():
        click.echo(f"{case.name:26} {case.about}")
