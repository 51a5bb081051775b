"""goalfsm's own engine as a black box for the conformance kit: a process, a journal in a file, a real pipe.

goalfsm conform -- python examples/conform_goalfsm_driver.py
"""

from __future__ import annotations

import os
from pathlib import Path

from goalfsm import Policy, Timeouts
from goalfsm.adapters.codex import Codex
from goalfsm.testing.conformance.goalfsm_server import GoalfsmServer
from goalfsm.testing.conformance.serve import serve

if __name__ == "__main__":
    serve(
        GoalfsmServer(
            adapter=lambda provider: Codex(binary=provider.binary),
            policy=Policy(on_exit="leave", timeouts=Timeouts(answer=2.0)),
            journal=Path(os.environ["GOALFSM_HOME"]) / "journal.db",
        )
    )
