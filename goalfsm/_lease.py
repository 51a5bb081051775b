"""Who may take a thread that somebody else held (decisions 6): leases by heartbeats, on the observer's own clock.

An owner that lives shows it by a number that grows. One that retired, or whose process is provably gone from this very
machine, need not be waited for.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from goalfsm._adapter import Clock
from goalfsm._errors import StaleOwner
from goalfsm._journal import Holder, Journal

__all__ = ["await_lease", "new_owner", "process_is_gone"]

LOOKS = 6


def new_owner() -> str:
    """Name this engine as an owner: machine boot, process, when that process started, and a part of its own."""
    return f"{_boot()}/{os.getpid()}/{_started(os.getpid()) or 0}/{uuid.uuid4().hex[:8]}"


def process_is_gone(owner: str) -> bool:
    """Whether an owner's process is provably gone: same boot of the same machine, and no such process any more.

    A process id that was given out again belongs to a process that started at another time.
    """
    boot, _, rest = owner.partition("/")
    pid, _, rest = rest.partition("/")
    started = rest.partition("/")[0]
    if not boot or boot != _boot() or not pid.isdigit() or started in ("", "0"):
        return False
    return _started(int(pid)) != started


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:13]
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    try:
        # Field 22, counted after the command in brackets, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


async def await_lease(journal: Journal, clock: Clock, thread_id: str, owner: str, lease: float) -> None:
    """Return once a thread is free to take.

    Args:
        journal: where owners show that they live.
        clock: the observer's own.
        thread_id: the thread.
        owner: who wants it.
        lease: seconds without a heartbeat after which its holder counts as gone.

    Raises:
        StaleOwner: its holder lives; `take_over` takes it all the same.
    """
    seen = await journal.holder(thread_id)
    if seen.beat and process_is_gone(seen.owner):
        # Nobody else has to look for it again, whichever of its threads they want.
        await journal.retire(seen.owner)
        return
    if _is_free(seen, owner):
        return
    until = clock.monotonic() + lease
    while clock.monotonic() < until:
        await clock.sleep(lease / LOOKS)
        now = await journal.holder(thread_id)
        if _is_free(now, owner):
            return
        if now != seen:
            raise StaleOwner(thread_id, seen.epoch, now.epoch)


def _is_free(holder: Holder, owner: str) -> bool:
    return holder.owner in ("", owner) or holder.beat == 0
