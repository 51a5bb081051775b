"""`explore`: every interleaving of a bounded world, with the shortest way to whatever goes wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import msgspec

from goalfsm._errors import did_you_mean
from goalfsm.cli import Failure, printable
from goalfsm.cli._input import load_function, load_guards, open_spec

if TYPE_CHECKING:
    from goalfsm.testing.explorer import Configuration, Exploration
    from goalfsm.testing.own import SpecExploration

__all__ = ["explore"]

_EXIT = {"proved": 0, "violated": 1, "undetermined": 3}
_COLOURS = {"proved": "green", "violated": "red", "undetermined": "yellow"}
_EPILOG = """\b
Examples:
  goalfsm explore --follow-ups 1 --turns 2 --faults stop,lose_answer
  goalfsm explore --config crash --seconds 60
  goalfsm explore --replay way.jsonl --diagram
  goalfsm explore --spec my_machine.toml --invariant my_tests:never_twice"""


@click.command(epilog=_EPILOG)
@click.option("--config", "names", multiple=True, metavar="NAME", help="A named configuration; see --list.")
@click.option("--all", "every", is_flag=True, help="All named configurations, one after the other.")
@click.option("--follow-ups", type=click.IntRange(0, 5), default=1, show_default=True, help="Messages from the start.")
@click.option("--turns", type=click.IntRange(0, 9), default=2, show_default=True, help="Turns that begin at most.")
@click.option("--start", type=click.Choice(["idle", "running", "turn", "unread"]), default="running", show_default=True)
@click.option("--no-echo", is_flag=True, help="The provider does not echo client ids.")
@click.option("--faults", default="", metavar="A,B*2,...", help="What may go wrong or be asked, how often; see --list.")
@click.option("--send-now", type=click.IntRange(0), default=0, help="How often a person asks to send a message now.")
@click.option("--limit", type=click.IntRange(1), default=1_000_000, show_default=True, help="Worlds at most, for each.")
@click.option("--seconds", type=click.FloatRange(0), help="Seconds at most, for each.")
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Write violations (JSONL, Mermaid) here."
)
@click.option("--replay", type=click.File("r"), metavar="FILE", help="Go a saved way again instead.")
@click.option("--diagram", is_flag=True, help="Print the way to a violation as a Mermaid sequence diagram.")
@click.option("--spec", metavar="SPEC", help="Explore this machine of your own instead.")
@click.option("--guards", metavar="MODULE[:MAPPING]", help="With --spec: its guards; else each is answered both ways.")
@click.option("--environment", metavar="MODULE:FUNCTION", help="With --spec: the events that may come in a snapshot.")
@click.option("--invariant", metavar="MODULE:FUNCTION", help="With --spec: what must hold at every step.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--list", "listed", is_flag=True, help="List configurations and what a budget can name.")
def explore(**options: Any) -> None:
    """Explore every interleaving of people, provider and faults around the core, within bounds.

    Exits 0 if the laws were proved within the bounds that are printed, 1 if one was violated (the shortest way is
    printed), 3 if a bound of the search was hit first, which proves nothing, 2 for wrong usage.
    """
    if options["listed"]:
        _list()
    elif options["replay"] is not None:
        _replay(options)
    elif options["spec"] is not None:
        _own(options)
    else:
        _explore(options)


def _explore(options: dict[str, Any]) -> None:
    from goalfsm.testing import explorer  # noqa: PLC0415  only a run needs it

    wanted: Sequence[Configuration | str] = options["names"] or [_custom(options)]
    if options["every"]:
        wanted = tuple(explorer.CONFIGURATIONS)
    for name in options["names"]:
        if name not in explorer.CONFIGURATIONS:
            raise click.UsageError(f"no configuration {name!r}{did_you_mean(name, explorer.CONFIGURATIONS)}")
    found: list[Exploration] = []
    for one in wanted:
        watch = _watch(one if isinstance(one, str) else "custom")
        found.append(explorer.explore(one, limit=options["limit"], seconds=options["seconds"], watch=watch))
        _say(found[-1].name, found[-1])
    for exploration in found:
        if exploration.verdict == "violated":
            _show(exploration, options)
    if options["as_json"]:
        _print_json(found)
    elif len(found) > 1:
        _total(found)
    # A law that is broken somewhere matters more than a search that was not finished elsewhere.
    verdicts = {exploration.verdict for exploration in found}
    sys.exit(next(_EXIT[word] for word in ("violated", "undetermined", "proved") if word in verdicts))


def _custom(options: dict[str, Any]) -> Configuration:
    from goalfsm.testing.explorer import BUDGETS, Configuration  # noqa: PLC0415  only a run needs it

    budget: dict[str, int] = {"send_now": options["send_now"]} if options["send_now"] else {}
    for word in filter(None, options["faults"].split(",")):
        name, _, times = word.strip().partition("*")
        if name not in BUDGETS or not (times or "1").isdigit():
            raise click.UsageError(f"--faults cannot name {word!r}{did_you_mean(name, BUDGETS)}; see --list")
        budget[name] = int(times or 1)
    rows = {f"m{n}": "auto" for n in range(options["follow_ups"])}
    return Configuration(rows, options["turns"], options["start"], not options["no_echo"], budget)


def _watch(name: str) -> Callable[[int, int, float], None]:
    """Tell how far a search is: redrawn in place at a terminal, a line every few seconds elsewhere."""
    live = sys.stderr.isatty()
    last = [time.monotonic()]

    def tell(worlds: int, depth: int, passed: float) -> None:
        now = time.monotonic()
        if now - last[0] < (0.2 if live else 5):
            return
        last[0] = now
        rate = worlds / passed if passed else 0
        text = f"{name}: {worlds:,} worlds, depth {depth}, {rate:,.0f}/s"
        click.echo(f"\r\x1b[K{text}" if live else text, err=True, nl=not live)

    return tell


def _say(name: str, found: Exploration | SpecExploration) -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    word = click.style(f"{found.verdict:12}", fg=_COLOURS[found.verdict])
    counted = f"{found.worlds:>11,} worlds {found.steps:>11,} steps  depth {found.depth:>3}"
    click.echo(f"{word} {name:12} {counted} {found.seconds:8.1f} s {found.worlds_per_s:8,.0f}/s", err=True)
    if found.problem:
        click.echo(f"    {printable(found.problem)}", err=True)


def _show(found: Exploration, options: dict[str, Any]) -> None:
    if options["save"] is not None:
        options["save"].mkdir(parents=True, exist_ok=True)
        for ending, text in ((".jsonl", found.trace()), (".mmd", found.diagram())):
            path = options["save"] / f"{found.name}{ending}"
            path.write_text(text, encoding="utf-8")
            click.echo(f"    written: {printable(str(path))}", err=True)
    if not options["as_json"]:
        click.echo(found.diagram() if options["diagram"] else found.trace(), nl=False)


def _total(found: list[Exploration]) -> None:
    worlds = sum(one.worlds for one in found)
    passed = sum(one.seconds for one in found)
    counts = {word: sum(one.verdict == word for one in found) for word in _EXIT}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    click.echo(f"{len(found)} configurations: {words}; {worlds:,} worlds in {passed:.1f} s", err=True)


def _print_json(found: Sequence[Exploration | SpecExploration]) -> None:
    worlds, passed = sum(one.worlds for one in found), sum(one.seconds for one in found)
    problems = [
        {"name": getattr(one, "name", getattr(one, "machine", "")), "problem": one.problem, "trace": one.trace()}
        for one in found
        if one.verdict == "violated"
    ]
    verdicts = [one.verdict for one in found]
    verdict = next(word for word in ("violated", "undetermined", "proved") if word in verdicts)
    answer = {
        "verdict": verdict, "worlds": worlds, "depth": max(one.depth for one in found),
        "exhausted": all(one.exhausted for one in found), "violations": problems, "seconds": round(passed, 3),
        "worlds_per_s": round(worlds / passed) if passed else 0, "explorations": [_numbers(one) for one in found],
    }  # fmt: skip
    click.echo(msgspec.json.encode(answer).decode())


def _numbers(found: Exploration | SpecExploration) -> dict[str, Any]:
    out = attrs.asdict(found, recurse=False, filter=lambda field, _value: field.name not in ("path", "configuration"))
    if (bounds := getattr(found, "configuration", None)) is not None:
        out["configuration"] = attrs.asdict(bounds, recurse=False)
    return {**out, "seconds": round(found.seconds, 3), "worlds_per_s": round(found.worlds_per_s)}


def _replay(options: dict[str, Any]) -> None:
    from goalfsm._errors import GoalfsmError  # noqa: PLC0415  only a run needs it
    from goalfsm.testing import explorer  # noqa: PLC0415  as above

    try:
        bounds, moves, problems = explorer.read_trace(options["replay"].read())
    except GoalfsmError as error:
        raise Failure(str(error), 2) from error
    way = explorer.Exploration(
        "replay", bounds, "violated", 0, 0, len(moves), False, 0.0, "; ".join(problems), tuple(moves)
    )
    click.echo(way.diagram() if options["diagram"] else way.trace(), nl=False)
    for problem in problems:
        click.echo(printable(problem), err=True)
    click.echo(f"{len(moves)} moves: {'a law is broken' if problems else 'no law is broken'}", err=True)
    sys.exit(1 if problems else 0)


def _own(options: dict[str, Any]) -> None:
    from goalfsm.testing.own import explore_spec  # noqa: PLC0415  only a run needs it

    spec = open_spec(options["spec"], load_guards(options["guards"]))
    if options["guards"] is None:
        # Those of the built-in machines ask a whole thread, which a machine alone does not have.
        spec = attrs.evolve(spec, guards={})
    found = explore_spec(
        spec,
        environment=load_function(options["environment"], "--environment"),
        invariant=load_function(options["invariant"], "--invariant"),
        limit=options["limit"],
        seconds=options["seconds"],
        watch=_watch(spec.machine),
    )
    _say(spec.machine, found)
    for state in found.unreached:
        click.echo(f"    never reached: {printable(state)}", err=True)
    for line in found.untaken:
        click.echo(f"    never taken: the row at {printable(spec.path)}:{line}", err=True)
    if options["as_json"]:
        _print_json([found])
    elif found.path:
        click.echo(found.trace(), nl=False)
    sys.exit(_EXIT[found.verdict])


def _list() -> None:
    from goalfsm.testing.explorer import BUDGETS, CONFIGURATIONS  # noqa: PLC0415  only this needs it

    for name, bounds in CONFIGURATIONS.items():
        budget = " ".join(f"{word}*{n}" if n > 1 else word for word, n in bounds.budget.items())
        echo = "" if bounds.echo else ", no echo"
        click.echo(f"{name:12} {len(bounds.rows)} messages, {bounds.turns} turns, {bounds.start}{echo}: {budget}")
    click.echo(f"\n--faults can name: {', '.join(BUDGETS)}")
