"""Commits per second of the journal beside raw SQLite at the same durability, in one run: quote the ratios.

raw_single: one row a transaction. raw_grouped: transactions of 64 rows. goalfsm_single: one task that appends, one
record after the other. goalfsm_grouped: 1,000 tasks that do so, each on its own thread's history. Both sides use WAL
with synchronous=FULL, the same tables and records of 300 bytes; the rounds are interleaved, the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from goalfsm._journal import open_journal
from goalfsm._sqlite_file import open_file

RECORD = b"x" * 300
SINGLE = 4_000
THREADS = 1_000
EACH = 40
GROUP = 64
INSERT = "INSERT INTO steps (thread_id, seq, epoch, record) VALUES (?, ?, 1, ?)"


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


def raw_single(path: Path) -> float:
    return raw(path, [("thread", seq, RECORD) for seq in range(1, SINGLE + 1)], 1)


def raw_grouped(path: Path, group: int = GROUP) -> float:
    rows = [(f"thread-{n:04}", seq, RECORD) for seq in range(1, EACH + 1) for n in range(THREADS)]
    return raw(path, rows, group)


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


MEASURES: dict[str, Callable[[Path], float]] = {
    "raw_single": raw_single,
    "goalfsm_single": lambda path: goalfsm(path, 1, SINGLE),
    "raw_grouped": raw_grouped,
    "goalfsm_grouped": lambda path: goalfsm(path, THREADS, EACH),
}


def measure(directory: Path, rounds: int) -> dict[str, float]:
    best = dict.fromkeys(MEASURES, 0.0)
    for turn in range(rounds):
        for name, one in MEASURES.items():
            best[name] = max(best[name], one(directory / f"{name}-{turn}.db"))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object of commits per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where to put the files; by default a temporary directory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        found = measure(Path(directory), arguments.rounds)
    order = ("raw_single", "goalfsm_single", "raw_grouped", "goalfsm_grouped")
    if arguments.json:
        print(json.dumps({name: round(found[name]) for name in order}))
        return
    for kind, budget in (("single", 0.4), ("grouped", 0.5)):
        ours, theirs = found[f"goalfsm_{kind}"], found[f"raw_{kind}"]
        print(f"{kind:8} raw {theirs:9,.0f}/s   goalfsm {ours:9,.0f}/s   ratio {ours / theirs:.2f} (budget {budget})")


if __name__ == "__main__":
    main()
