"""Recovery of very many journaled threads: time and memory of `engine.recover()` in a fresh process.

    python -m benchmarks.recovery [--threads N] [--messages M] [--snapshots] [--json]

The journal is written first (untimed) by a real engine's records for one thread, copied to N threads; then a fresh
process opens it and replays everything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import goalfsm
from goalfsm._journal import Journal, MemoryJournal, open_journal
from goalfsm.adapters.simulated import Script, Simulated, gate, turn


async def _one_thread(messages: int) -> tuple[list[bytes], bytes | None]:
    """Give the records of one thread with a running goal and `messages` follow-ups waiting behind it."""
    journal = MemoryJournal()
    simulated = Simulated(Script(turns=(turn(gate("never")),)))
    async with goalfsm.open(simulated, journal=journal) as engine:
        thread = await engine.start_thread()
        await thread.start_goal("a goal that still runs when the process dies")
        for number in range(messages):
            await thread.submit(f"follow-up number {number} of this thread", id=f"message-{number}", when="queue")
        records = [stored.record for stored in await journal.read(thread.id)]
    return records, None


async def _fill(journal: Journal, threads: int, records: list[bytes]) -> None:
    async def one(number: int) -> None:
        thread_id = f"thread-{number:07d}"
        await journal.claim(thread_id, "gone", expected=0)
        for seq, record in enumerate(records, 1):
            await journal.append(thread_id, 1, seq, record)

    for start in range(0, threads, 1000):
        await asyncio.gather(*(one(number) for number in range(start, min(start + 1000, threads))))
        print(f"\rwriting {start + 1000:,} of {threads:,} threads", end="", file=sys.stderr)
    print(file=sys.stderr)


async def _write(path: Path, threads: int, messages: int) -> int:
    records, _ = await _one_thread(messages)
    journal = open_journal(path)
    await journal.start()
    await _fill(journal, threads, records)
    await journal.aclose()
    return len(records)


async def _recover(path: Path) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with goalfsm.open(Simulated(), journal=path, policy=goalfsm.Policy(on_exit="leave")) as engine:
        began = time.perf_counter()
        found = await engine.recover()
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threads = len(engine.threads())
    return {
        "threads": threads,
        "messages": len(found),
        "seconds": round(seconds, 2),
        "peak_mib": round(peak / 1024),
        "grown_mib": round((peak - before) / 1024),
    }


def measure(threads: int, messages: int) -> dict[str, float]:
    """Write a journal, then recover it in a fresh process; gives its figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "goals.db"
        records = asyncio.run(_write(path, threads, messages))
        command = [sys.executable, "-m", "benchmarks.recovery", "--recover", str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures | {"records_a_thread": records, "file_mib": round(path.stat().st_size / 2**20)}


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--recover", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.recover is not None:
        print(json.dumps(asyncio.run(_recover(options.recover))))
        return
    figures = measure(options.threads, options.messages)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:18} {value:>12,}")


if __name__ == "__main__":
    main()
