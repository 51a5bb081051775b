"""What a server must keep, judged by what the provider saw and what the server said of it.

Each law names the rules it rests on (rules.md E, the properties P) and the evidence it looks at. It gives `Broken` for
each way in which it was broken, or says why it could not be judged.
"""

from __future__ import annotations

from typing import Final

from goalfsm.testing.conformance import _law, _life_laws, _message_laws
from goalfsm.testing.conformance._law import Broken, Law, NotJudged

__all__ = ["LAWS", "Broken", "Law", "NotJudged"]

assert _life_laws and _message_laws  # noqa: S101, PT018  imported for the laws that they register

LAWS: Final[dict[str, Law]] = dict(sorted(_law.LAWS.items(), key=lambda item: int(item[0].removeprefix("L"))))
"""Every law by its id, in order."""
