"""Stop: pause first, then interrupt, until nothing runs or the bound is reached (rules E31, E32; surface 10, 11)."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from goalfsm import events as ev
from goalfsm._core import ThreadCore
from goalfsm._errors import GoalfsmError
from goalfsm._guards import live
from goalfsm._run import Run
from goalfsm._thread import ThreadRuntime

__all__ = ["stop_run", "stop_thread"]

GRACE_SECONDS = 2.0


async def stop_run(runtime: ThreadRuntime, run: Run) -> None:
    """Stop one operation; return when it ended, or when the provider refused the interrupt (`run.stop_refusal`).

    Raises:
        GoalfsmError: it still runs after the bound; the message says what.
    """
    await _ask(runtime, only_if_op=run.op)
    await _until(runtime, lambda: bool(run.how) or run.stop_refusal is not None)


async def stop_thread(runtime: ThreadRuntime) -> None:
    """Stop whatever runs on a thread, and hold its queue; concurrent stops join.

    Raises:
        GoalfsmError: something still runs after the bound; the message says what.
    """
    await _ask(runtime, only_if_op=None)
    await _until(runtime, runtime.quiet)


async def _ask(runtime: ThreadRuntime, *, only_if_op: int | None) -> None:
    def wanted(core: ThreadCore) -> bool:
        op = core.operation
        return only_if_op is None or (op is not None and op.id == only_if_op and live(core))

    await runtime.command(ev.Stop(), only_if=wanted)
    if runtime.live():
        runtime.arm(("stop",), runtime.engine.policy.timeouts.stop, ev.Silence())


async def _until(runtime: ThreadRuntime, stopped: Callable[[], bool]) -> None:
    limit = runtime.engine.policy.timeouts.stop + GRACE_SECONDS
    with anyio.move_on_after(limit):
        while not stopped():
            await runtime.changed.wait()
        return
    core = runtime.core
    running = f"turn {core.turn.turn_id} runs" if core.turn.state == "running" else f"the turn is {core.turn.state}"
    operation = "no operation" if core.operation is None else f"the operation is {core.operation.state}"
    raise GoalfsmError(f"thread {runtime.id} did not stop within {limit:g} s: {running}, {operation}")
