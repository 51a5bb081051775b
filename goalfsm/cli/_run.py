"""`run`: a real goal in the terminal; follow-ups are typed while it works."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING, Any

import click

from goalfsm._handles import check_objective
from goalfsm.cli import Failure

if TYPE_CHECKING:
    from goalfsm._adapter import Adapter

__all__ = ["run"]

_EPILOG = """\b
Examples:
  goalfsm run "make the tests green" --journal goals.db
  printf 'also the docs\\n' | goalfsm run "rename the module"
  goalfsm run "tidy up" --config model=gpt-5 --config sandbox_mode=workspace-write
  goalfsm run "count to three" --provider simulated
  goalfsm run "fix the build" --json | jq -c 'select(.event | startswith("follow_up/"))'

\b
While it works, type:
  TEXT           a follow-up: into the running turn, or the next one
  /queue TEXT    a turn of its own, later
  /steer TEXT    only into the running turn, or back to you
  /list          the open messages
  /withdraw ID   take a message back, if it is not out yet
  /release ID    let a held or returned message go
  /stop          the same as Ctrl-C"""


def _settings(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{word!r} should be key=value")
        settings[key.strip()] = _toml(value)
    return settings


def _toml(value: str) -> Any:
    """Read a value as the provider's own -c does: TOML if it is TOML, else text."""
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    return found if isinstance(found, str | int | float | bool | list | dict) else value


def _objective(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    try:
        return check_objective(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(epilog=_EPILOG)
@click.argument("objective", callback=_objective)
@click.option(
    "--provider", type=click.Choice(["codex", "simulated"]), default="codex", show_default=True, help="Who does it."
)
@click.option("--journal", metavar="FILE", default="", help="SQLite file that keeps the history; made if missing.")
@click.option(
    "--codex-home",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The codex server's home; default: its own.",
)
@click.option("--binary", metavar="PATH", help="The codex program; default: the installed one.")
@click.option("--cwd", metavar="DIR", type=click.Path(exists=True, file_okay=False), help="Directory it works in.")
@click.option(
    "--config", metavar="KEY=VALUE", multiple=True, callback=_settings, help="A codex setting; may be repeated."
)
@click.option("--token-budget", metavar="N", type=click.IntRange(min=1), help="Tokens that the goal may use.")
@click.option(
    "--approvals",
    type=click.Choice(["decline", "approve"]),
    default="decline",
    show_default=True,
    help="The answer to every request of the provider.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event; the last one is the result.")
def run(
    *,
    objective: str,
    provider: str,
    journal: str,
    token_budget: int | None,
    approvals: Any,
    as_json: bool,
    **codex: Any,
) -> None:
    """Run OBJECTIVE as a goal; every line typed meanwhile is a follow-up, and its fate is told with evidence.

    Ctrl-C stops: the goal is paused, then its turn interrupted. A second Ctrl-C leaves without waiting.
    What happens is told on stderr; the result and the table of fates are printed on stdout.

    Exits 0 if the goal completed and the fate of every message is proven, 1 if not, 130 after Ctrl-C, 2 on wrong usage.
    """
    import anyio  # noqa: PLC0415  nothing below is needed for --help

    from goalfsm._values import Policy  # noqa: PLC0415  as above
    from goalfsm.cli._render import is_terminal  # noqa: PLC0415  as above
    from goalfsm.cli._screen import Screen  # noqa: PLC0415  as above
    from goalfsm.cli._session import Session  # noqa: PLC0415  as above
    from goalfsm.cli._tell import JsonTeller, Teller  # noqa: PLC0415  as above
    from goalfsm.cli._typed import Typed, stdin_fd  # noqa: PLC0415  as above

    adapter = _adapter(provider, codex)
    live = is_terminal(sys.stderr) and not as_json
    screen = Screen(live=live, quiet=as_json)
    typed = Typed(stdin_fd(), edited=live and is_terminal(sys.stdin), changed=screen.refresh)
    session = Session(adapter, Policy(approvals=approvals), journal, (JsonTeller if as_json else Teller)(screen), typed)
    screen.below = session.below
    with typed, screen:
        code = anyio.run(session.run, objective, token_budget)
    if code:
        raise click.exceptions.Exit(code)


def _adapter(provider: str, codex: dict[str, Any]) -> Adapter:
    given = {name: value for name, value in codex.items() if value}
    if provider == "simulated":
        if given:
            raise click.UsageError(f"--{next(iter(given)).replace('_', '-')} is for --provider codex")
        from goalfsm.cli._scripts import small_goal  # noqa: PLC0415  only for this provider

        return small_goal()
    from goalfsm._errors import TransportClosed  # noqa: PLC0415  not needed for --help
    from goalfsm.adapters.codex import Codex, find_binary  # noqa: PLC0415  as above

    try:
        # Asked before anything is made: a wrong path leaves no journal behind.
        find_binary(codex["binary"])
    except TransportClosed as error:
        raise Failure(str(error)) from error
    return Codex(**given)
