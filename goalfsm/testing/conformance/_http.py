"""HTTP with a server on loopback: one request per command, as its description says."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from goalfsm.testing.conformance._describe import Call, Description
from goalfsm.testing.conformance._door import CannotJudge, Died

__all__ = ["HttpTalk"]

_OK = range(200, 300)
_REFUSED = range(400, 500)
_SHOWN = 200


class HttpTalk:
    """Speaks HTTP to 127.0.0.1, and to nothing else."""

    def __init__(self, description: Description, port: int, ended: Callable[[], str]) -> None:
        self._description = description
        self._port = port
        self._ended = ended

    async def ready(self) -> Sequence[str]:
        """Ask until it answers."""
        while True:
            if why := self._ended():
                raise CannotJudge(why)
            try:
                status, _ = await self._send(Call(self._description.ready, "GET"), {})
            except OSError:
                status = 0
            if status in _OK:
                return ()
            await anyio.sleep(0.05)

    async def ask(self, word: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a command's request; a status of 4xx is a refusal."""
        call = self._description.commands.get(word)
        if call is None:
            raise CannotJudge(f"the description has no [commands.{word}]")
        try:
            status, body = await self._send(call, params)
        except (OSError, http.client.HTTPException) as problem:
            raise Died(self._ended() or f"{word}: {problem or type(problem).__name__}") from problem
        if status in _REFUSED:
            return {"ok": False, "error": f"HTTP {status}: {body[:_SHOWN].decode(errors='replace')}"}
        if status not in _OK:
            raise Died(f"{word} was answered with HTTP {status}: {body[:_SHOWN].decode(errors='replace')}")
        return {"ok": True, **self._read(word, call, body)}

    async def _send(self, call: Call, params: Mapping[str, Any]) -> tuple[int, bytes]:
        def send() -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._description.command_seconds)
            try:
                body = None if call.body is None else msgspec.json.encode(_filled(call.body, params))
                headers = {} if body is None else {"Content-Type": "application/json"}
                connection.request(call.method, _filled(call.path, params), body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

        return await anyio.to_thread.run_sync(send, abandon_on_cancel=True)

    def _read(self, word: str, call: Call, body: bytes) -> Mapping[str, Any]:
        if word not in ("fates", "lifecycle"):
            return {}
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError as problem:
            raise Died(f"{word} was answered with no JSON: {body[:_SHOWN].decode(errors='replace')!r}") from problem
        found = _at(value, call.messages)
        if word == "lifecycle":
            return {"lifecycle": found}
        return {"fates": _fates(found, call)}

    def close(self) -> None:
        """Nothing to let go of."""


def _fates(found: Any, call: Call) -> dict[str, Any]:
    if isinstance(found, list):
        return {str(_at(one, call.id)): _at(one, call.state) for one in found}
    if isinstance(found, dict):
        return {str(k): _at(v, call.state) if isinstance(v, dict) else v for k, v in found.items()}
    raise Died(f"fates: there are no messages at {call.messages or 'the top'!r} of the answer")


def _at(value: Any, path: str) -> Any:
    for key in path.split(".") if path else ():
        if not isinstance(value, dict) or key not in value:
            raise Died(f"the answer has no {path!r}: {msgspec.json.encode(value)[:_SHOWN].decode(errors='replace')}")
        value = value[key]
    return value


def _filled(value: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        for name, text in params.items():
            value = value.replace("{" + name + "}", str(text))
        return value
    if isinstance(value, dict):
        return {key: _filled(part, params) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, params) for part in value]
    return value
