"""Commits per second of the journal beside raw SQLite at the same durability.

raw_single: one row a transaction. raw_grouped: transactions of 64 rows. goalfsm_single: one task that appends, one
record after the other. goalfsm_grouped: 1,000 tasks that do so, each on its own thread's history. Both sides use WAL
with synchronous=FULL, the same tables and records of 300 bytes. Wall time: waiting for the disk is what this is about.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import attrs

from benchmarks.measure import Budget
from goalfsm._journal import open_journal
from goalfsm._sqlite_file import open_file

RECORD = b"x" * 300
SINGLE = 2_000
THREADS = 1_000
EACH = 40
GROUP = 64
INSERT = "INSERT INTO steps (thread_id, seq, epoch, record) VALUES (?, ?, 1, ?)"


@attrs.frozen
class Journaled:
    """Commits per second by name, and goalfsm against raw SQLite of the same round."""

    per_second: dict[str, float]
    single: float
    grouped: float

    def budgets(self) -> list[Budget]:
        return [
            Budget("journal, one writer (x raw SQLite)", self.single, 0.4, least=True),
            Budget("journal, grouped (x raw SQLite)", self.grouped, 0.5, least=True),
        ]


def raw(path: Path, rows: list[tuple[str, int, bytes]], group: int) -> float:
    db: sqlite3.Connection = open_file(str(path), 5.0)
    try:
        began = perf_counter()
        for at in range(0, len(rows), group):
            db.execute("BEGIN IMMEDIATE")
            db.executemany(INSERT, rows[at : at + group])
            db.execute("COMMIT")
        return len(rows) / (perf_counter() - began)
    finally:
        db.close()


def raw_single(path: Path, single: int) -> float:
    return raw(path, [("thread", seq, RECORD) for seq in range(1, single + 1)], 1)


def raw_grouped(path: Path, threads: int) -> float:
    rows = [(f"thread-{n:04}", seq, RECORD) for seq in range(1, EACH + 1) for n in range(threads)]
    return raw(path, rows, GROUP)


def goalfsm(path: Path, threads: int, each: int) -> float:
    async def main() -> float:
        journal = open_journal(path)
        await journal.start()
        names = [f"thread-{n:04}" for n in range(threads)]
        for name in names:
            await journal.claim(name, "benchmark", expected=0)

        async def one(name: str) -> None:
            for seq in range(1, each + 1):
                await journal.append(name, 1, seq, RECORD)

        began = perf_counter()
        await asyncio.gather(*map(one, names))
        took = perf_counter() - began
        await journal.aclose()
        return threads * each / took

    return asyncio.run(main())


def measure(rounds: int, tell: Callable[[str], None], *, quick: bool = False) -> Journaled:
    single, threads = (SINGLE // 10, THREADS // 10) if quick else (SINGLE, THREADS)
    measures: dict[str, Callable[[Path], float]] = {
        "raw_single": lambda path: raw_single(path, single),
        "goalfsm_single": lambda path: goalfsm(path, 1, single),
        "raw_grouped": lambda path: raw_grouped(path, threads),
        "goalfsm_grouped": lambda path: goalfsm(path, threads, EACH),
    }
    found: dict[str, list[float]] = {name: [] for name in measures}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for name, one in measures.items():
                found[name].append(one(Path(folder, f"{name}-{turn}.db")))
                tell(name)

    def against(kind: str) -> float:
        pairs = zip(found[f"goalfsm_{kind}"], found[f"raw_{kind}"], strict=True)
        return median(ours / theirs for ours, theirs in pairs)

    return Journaled({name: median(values) for name, values in found.items()}, against("single"), against("grouped"))


def steps(rounds: int) -> int:
    return rounds * 4
