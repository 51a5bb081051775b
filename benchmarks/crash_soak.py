"""`python -m benchmarks.crash_soak`: kill hosts and the real app-server, then ask what was lost.

Every child process runs goals with follow-ups on the real app-server, against a mock model in this process, until it is
killed: at a named crash point, or at any moment; the child, its app-server, or both. What is stated of each message
after reopening is compared with what the model was shown. stdout is data, stderr is talk.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.crash_fates import Fate, Kill, Round
from benchmarks.crash_round import Rounds
from goalfsm.testing.crash import POINTS, Strike

COUNTS = ("messages", "lost", "doubled", "uncertain", "resolved", "wrong_verdicts")
_STRIKES: tuple[Strike, ...] = ("process", "server", "both")
_RANDOM_SHARE = 4
_HOME_ROUNDS = 25
_MISSES = 4
_WIDTH = 100
_EVERY = 25
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def schedule(kills: int, rng: random.Random) -> deque[Kill]:
    """Every point once, in any order, then every point with every strike among kills at any moment, again and again."""
    plan = [Kill(point, _STRIKES[index % 3]) for index, point in enumerate(_shuffled(POINTS, rng))]
    while len(plan) < kills:
        every = [Kill(point, strike) for point in POINTS for strike in _STRIKES]
        plan += _shuffled([*every, *(Kill("", strike) for strike in _STRIKES for _ in range(_RANDOM_SHARE))], rng)
    return deque(plan[:kills])


def _shuffled(things: Iterable[Any], rng: random.Random) -> list[Any]:
    mixed = list(things)
    rng.shuffle(mixed)
    return mixed


class Soak:
    """Works off a schedule of kills in some rounds at a time."""

    def __init__(self, kills: int, seed: int, folder: Path, keep: Path | None) -> None:
        self._rng = random.Random(seed)
        self._plan = schedule(kills, self._rng)
        self._folder = folder
        self._keep = keep
        self._number = 0
        self._misses = kills * _MISSES
        self.rounds: list[Round] = []

    async def run(self, jobs: int, progress: Progress) -> None:
        task = progress.add_task("kills", total=len(self._plan))

        def tell(_kill: Kill) -> None:
            progress.update(task, advance=1)
            made = int(progress.tasks[task].completed)
            if not progress.console.is_terminal and made % _EVERY == 0:
                progress.console.print(f"{made} kills", highlight=False)

        work = Rounds(tell)
        async with anyio.create_task_group() as tasks:
            for slot in range(jobs):
                tasks.start_soon(self._slot, slot, work, progress)

    async def _slot(self, slot: int, work: Rounds, progress: Progress) -> None:
        done = 0
        while self._plan:
            number, self._number = self._number, self._number + 1
            count = self._rng.choices((1, 2, 3), (6, 3, 1))[0]
            kills = [self._plan.popleft() for _ in range(min(count, len(self._plan)))]
            # A home is used for many rounds, as a person's is; every round has a thread and a journal of its own.
            home = self._folder / f"home-{slot}-{done // _HOME_ROUNDS}"
            folder = self._folder / f"round-{number}"
            folder.mkdir()
            done += 1
            found = await work.run(number, self._rng.randrange(2**32), kills, home, folder)
            self.rounds.append(found)
            if self._misses > 0:
                self._misses -= len(found.missed)
                self._plan.extend(found.missed)
            if found.bad:
                self._show(found, progress.console)
            if found.bad or found.doubtful:
                self._save(found, folder, home)
            shutil.rmtree(folder, ignore_errors=True)

    def _show(self, found: Round, console: Console) -> None:
        console.print(f"round {found.number}: {found.failure or 'see its messages'}", highlight=False)
        for fate in found.fates.values():
            console.print(f"  {'BAD ' if fate.bad else ''}{fate}", highlight=False)

    def _save(self, found: Round, folder: Path, home: Path) -> None:
        if self._keep is not None:
            shutil.copytree(folder, self._keep / folder.name, dirs_exist_ok=True)
            for record in home.rglob("sessions/**/*.jsonl"):
                if any(thread in record.name for thread in found.threads):
                    shutil.copy(record, self._keep / folder.name)
            (self._keep / folder.name / "fates.txt").write_text("\n".join(map(str, found.fates.values())))


def counted(fates: Iterable[Fate]) -> dict[str, int]:
    """The figures that a table shows of some messages."""
    fates = list(fates)
    known = [fate for fate in fates if fate.acknowledged or fate.state]
    return dict(
        zip(
            COUNTS,
            (
                len(known),
                sum(fate.lost for fate in fates),
                sum(fate.doubled for fate in fates),
                sum(fate.uncertain for fate in fates),
                sum(fate.resolved for fate in fates),
                sum(fate.wrong for fate in fates),
            ),
            strict=True,
        )
    )


def told(rounds: list[Round], seed: int) -> dict[str, Any]:
    """Everything as one object."""
    fates = [fate for each in rounds for fate in each.fates.values()]
    made = [kill for each in rounds for kill in each.made]
    names = ["any moment", *POINTS]
    reasons: dict[str, int] = {}
    for fate in fates:
        if fate.uncertain:
            reason = _ID.sub("ID", fate.reason)
            reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "kills": len(made),
        **counted(fates),
        "seed": seed,
        "failures": [f"round {each.number}: {each.failure}" for each in rounds if each.failure],
        "why_uncertain": reasons,
        "by_strike": {strike: sum(kill.strike == strike for kill in made) for strike in _STRIKES},
        "by_point": {
            name: {
                "kills": sum(kill.name == name for kill in made),
                **counted(fate for fate in fates if fate.kill.name == name),
            }
            for name in names
        },
    }


def _table(data: dict[str, Any]) -> Table:
    table = Table(title=f"{data['kills']} kills, seed {data['seed']}", title_justify="left")
    table.add_column("killed at", no_wrap=True)
    for column in ("kills", *COUNTS):
        table.add_column(column.replace("_", " "), justify="right")
    for name, row in data["by_point"].items():
        table.add_row(name.replace("_", " "), *(str(row[column]) for column in ("kills", *COUNTS)))
    table.add_section()
    table.add_row("all", *(str(data[column]) for column in ("kills", *COUNTS)))
    return table


@click.command()
@click.option("--kills", type=click.IntRange(1), default=500, show_default=True, help="How many kills to make.")
@click.option("--seed", type=int, default=None, help="Choose the same kills again; timing is the machine's.")
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object.")
@click.option("--jobs", type=click.IntRange(1), default=3, show_default=True, help="Rounds at a time.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the files of failed and doubtful rounds here.")
def main(*, kills: int, seed: int | None, as_data: bool, jobs: int, keep: Path | None) -> None:
    """Kill hosts and servers at crash points and at any moment, and compare what is stated with what the model saw."""
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    console = Console(stderr=True)
    console.print(f"seed {seed}", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        soak = Soak(kills, seed, Path(folder), keep)
        with Progress(*columns, console=console) as progress:
            anyio.run(soak.run, jobs, progress)
    data = told(soak.rounds, seed)
    if as_data:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        Console(file=sys.stdout, width=_WIDTH).print(_table(data))
        for reason, count in data["why_uncertain"].items():
            click.echo(f"uncertain {count}: {reason}")
        for failure in data["failures"]:
            click.echo(failure)
    sys.exit(bool(data["lost"] or data["doubled"] or data["wrong_verdicts"] or data["failures"]))


if __name__ == "__main__":
    main()
