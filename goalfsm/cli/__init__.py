"""The command line: prints and exit codes, no logic. Data goes to stdout, talk to stderr; exit 2 is a usage error.

A command's module is imported when that command is asked for, so `goalfsm --help` costs click and nothing else.
"""

from __future__ import annotations

import errno
import io
import sys
from importlib import import_module
from typing import Any

import click

from goalfsm._errors import GoalfsmError, SpecError, did_you_mean

__all__ = ["Failure", "main", "printable"]

# name: where the command is, and what the overview says of it
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("goalfsm.cli._demo:demo", "A whole goal with follow-ups, a gap, a stop and a lost answer, simulated."),
    "run": ("goalfsm.cli._run:run", "Run a real goal; type follow-ups while it runs."),
    "check": ("goalfsm.cli._specs:check", "List every static problem of a spec, with codes and lines."),
    "diagram": ("goalfsm.cli._diagram:diagram", "Draw a machine as Mermaid, DOT, SVG, PNG or Markdown tables."),
    "next": ("goalfsm.cli._specs:next_", "Show what each event would do in a state."),
    "simulate": ("goalfsm.cli._specs:simulate", "Let events happen to a machine, step by step."),
    "replay": ("goalfsm.cli._replay:replay", "Tell the fate of every message in recorded traffic."),
    "explore": ("goalfsm.cli._explore:explore", "Explore every interleaving within bounds, or your own machine."),
    "mutate": ("goalfsm.cli._mutate:mutate", "Change the built-in machines in every small way; see what notices."),
    "conform": ("goalfsm.cli._conform:conform", "Judge any server that drives codex app-server."),
    "journal": ("goalfsm.cli._journal:journal", "Show the history of every thread in a journal file."),
    "gen": ("goalfsm.cli._gen:gen", "Write the generated diagrams and tables, or verify them."),
}


def printable(text: str) -> str:
    """Give a text without control characters, so that nothing a file says can steer a terminal."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


class Failure(click.ClickException):
    """What the user is told instead of a traceback, with the exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__("\n".join(map(printable, message.splitlines())))
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise Failure(f"{cmd_name!r} needs {error.name}, which is not installed") from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a narrow encoding must not turn a text into a traceback
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except SpecError as error:
            unreadable = any(problem.code == "GF100" for problem in error.problems)
            raise Failure(str(error), 2 if unreadable else 1) from error
        except GoalfsmError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader has left; click knows how to go quietly
                raise
            raise Failure(str(error), 2) from error


def _version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  not worth its time elsewhere

    try:
        click.echo(f"goalfsm {version('goalfsm')}")
    except PackageNotFoundError:
        click.echo("goalfsm, not installed")
    ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def main() -> None:
    """Explicit state machines for goal lifecycles: follow-ups reach a coding agent at most once.

    MACHINE is a built-in machine (follow_up, goal, operation, turn) or a spec file of your own.
    """
