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
_ENDED = ("Z", "X")


def new_owner() -> str:
    """Name this engine as an owner: machine boot, process, when that process started, and a part of its own."""
    return f"{_boot()}/{os.getpid()}/{_started(os.getpid()) or 0}/{uuid.uuid4().hex[:8]}"


def process_is_gone(owner: str) -> bool:
    """Whether an owner's process is provably gone: same boot of the same machine, and no such process any more.

    A process id that was given out again belongs to a process that started at another time. What is not certain, such
    as a process that may not be looked at, is no proof.
    """
    boot, pid, started, *_ = (*owner.split("/"), "", "", "")
    if not boot or boot != _boot() or not (pid.isascii() and pid.isdecimal()) or started in ("", "0"):
        return False
    now = _started(int(pid))
    return _has_ended(int(pid)) if now is None else now != started


def _boot() -> str:
    """Name this boot of this machine, and which of its process ids are ours: containers count their own."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text()[:13]}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    try:
        # Fields 3 and 22, counted after the command in brackets, which may hold anything.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # One that was killed, and whose parent did not look yet, does nothing any more.
        return "ended" if state in _ENDED else fields[18]
    except (OSError, IndexError, ValueError):
        return None


def _has_ended(pid: int) -> bool:
    # /proc may hide the processes of others.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


async def await_lease(journal: Journal, clock: Clock, thread_id: str, owner: str, lease: float) -> int:
    """Wait until a thread is free to take; give the epoch under which it is.

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
        return seen.epoch
    if _is_free(seen, owner):
        return seen.epoch
    until = clock.monotonic() + lease
    while clock.monotonic() < until:
        await clock.sleep(lease / LOOKS)
        now = await journal.holder(thread_id)
        if _is_free(now, owner):
            return now.epoch
        if now != seen:
            raise StaleOwner(thread_id, seen.epoch, now.epoch)
    return seen.epoch


def _is_free(holder: Holder, owner: str) -> bool:
    return holder.owner in ("", owner) or holder.beat == 0
