"""What a hostile caller once broke: wrong words, odd orders of calls, engines used twice or after their end."""

from __future__ import annotations

import math

import anyio
import pytest

import goalfsm
from goalfsm import GoalfsmError, JournalError, Policy, ProviderRefused, StaleOwner, TransportClosed, Unjournalable
from goalfsm._values import Timeouts
from goalfsm.adapters.simulated import Script, Simulated, gate, say, turn

pytestmark = pytest.mark.anyio
LIMIT = 10.0


async def waiting_message(engine):
    """A message that rests behind a turn which does not end."""
    thread = await engine.start_thread()
    await thread.submit("first", when="queue")
    return thread, await thread.submit("second", when="queue")


def busy():
    return Simulated(Script(turns=[turn(gate("never"), say("x"))]))


@pytest.mark.parametrize(
    ("method", "argument", "words"),
    [
        ("move", "1", "^position must be an integer, not str$"),
        ("move", None, "^position must be an integer, not NoneType$"),
        ("move", math.nan, "^position must be an integer, not float$"),
        ("move", True, "^position must be an integer, not bool$"),
        ("hold", object(), "^reason must be a string, not object$"),
        ("hold", None, "^reason must be a string, not NoneType$"),
        ("hold", "\ud800", "^reason: str cannot be journaled: it holds a lone surrogate$"),
    ],
)
async def test_a_wrong_argument_of_a_queue_command_is_named_and_the_thread_goes_on(method, argument, words):
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(busy()) as engine:
            thread, message = await waiting_message(engine)
            with pytest.raises(TypeError, match=words):
                await getattr(message, method)(argument)
            assert message.state == "queued"
            assert (await thread.status()).anomalies == ""
            await message.move(0)
            await message.hold("later")
            assert message.state == "held"


async def test_resolving_with_no_word_at_all_is_refused_as_any_other_word():
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(busy()) as engine:
            _, message = await waiting_message(engine)
            with pytest.raises(ValueError, match=r"resolve takes one of .*, not \[\]"):
                await message.resolve([])


async def test_a_command_that_breaks_its_thread_tells_the_true_reason(monkeypatch):
    def bug(*_):
        raise RuntimeError("a bug")

    with anyio.fail_after(LIMIT):
        async with goalfsm.open(Simulated()) as engine:
            thread = await engine.start_thread()
            monkeypatch.setattr(thread._runtime, "_record", bug)
            with pytest.raises(GoalfsmError, match="stopped after an internal error: RuntimeError"):
                await thread.submit("hello")


@pytest.mark.parametrize(
    ("part", "kind", "words"),
    [
        ({"attachments": None}, TypeError, "attachments must be a list of provider input items, not NoneType"),
        ({"attachments": {"type": "image"}}, TypeError, "attachments must be a list of provider input items, not dict"),
        ({"attachments": "image"}, TypeError, "attachments must be a list of provider input items, not str"),
        ({"expires_in": "soon"}, TypeError, "expires_in must be a number of seconds, not str"),
        ({"expires_in": True}, TypeError, "expires_in must be a number of seconds, not bool"),
        ({"expires_in": math.inf}, ValueError, "expires_in must be a positive number of seconds, not inf"),
    ],
)
async def test_a_wrong_argument_of_a_message_is_named(part, kind, words):
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(Simulated()) as engine:
            thread = await engine.start_thread()
            with pytest.raises(kind, match=f"^{words}$") as refused:
                await thread.submit("hello", **part)
            assert not isinstance(refused.value, Unjournalable)
            assert thread.follow_ups(all=True) == []


@pytest.mark.parametrize("name", [field.name for field in Timeouts.__attrs_attrs__])
def test_a_limit_of_time_is_a_positive_number(name):
    for wrong in ("3", None, True):
        with pytest.raises(TypeError, match=rf"^timeouts\.{name} must be a number of seconds, not "):
            Timeouts(**{name: wrong})
    for wrong in (0, -1, math.nan):
        with pytest.raises(ValueError, match=rf"^timeouts\.{name} must be a positive number of seconds, not "):
            Timeouts(**{name: wrong})
    assert getattr(Timeouts(**{name: math.inf}), name) == math.inf


async def test_open_names_an_argument_of_another_type_before_anything_starts():
    with pytest.raises(TypeError, match=r"^adapter must be a provider .*, not str$"):
        goalfsm.open("codex")
    with pytest.raises(TypeError, match=r"^policy must be a Policy, not Timeouts$"):
        goalfsm.open(Simulated(), policy=Timeouts())
    with pytest.raises(JournalError, match="names no file"):
        goalfsm.open(Simulated(), journal="a\0b")


async def test_an_engine_is_entered_once_and_left_any_number_of_times():
    with anyio.fail_after(LIMIT):
        engine = goalfsm.open(Simulated())
        await engine.__aexit__(None, None, None)
        async with engine:
            with pytest.raises(GoalfsmError, match="entered once"):
                await engine.__aenter__()
            assert (await (await engine.start_thread()).run("hi")).status == "completed"
        await engine.__aexit__(None, None, None)
        with pytest.raises(GoalfsmError, match="entered once"):
            await engine.__aenter__()


async def test_an_engine_that_could_not_be_entered_may_be_tried_again(tmp_path):
    with anyio.fail_after(LIMIT):
        engine = goalfsm.open(Simulated(), journal=tmp_path / "later" / "journal")
        with pytest.raises(JournalError, match="no directory"):
            await engine.__aenter__()
        (tmp_path / "later").mkdir()
        async with engine:
            await engine.start_thread()


@pytest.mark.parametrize("method", ["resume_thread", "take_over"])
async def test_no_provider_is_started_by_an_engine_that_is_not_open(method):
    with anyio.fail_after(LIMIT):
        provider = Simulated()
        engine = goalfsm.open(provider)
        with pytest.raises(TransportClosed, match="not open yet"):
            await getattr(engine, method)("x")
        async with engine:
            thread = await engine.start_thread()
        with pytest.raises(TransportClosed, match="the engine is closed"):
            await getattr(engine, method)(thread.id)
        assert provider.server.exited is not None


async def test_a_take_over_that_failed_is_no_leave_for_a_later_resume():
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(Simulated(), policy=Policy()) as engine:
            with pytest.raises(ProviderRefused):
                await engine.take_over("no-such-thread")
            assert engine._taking_over == set()


async def test_notices_of_a_closed_engine_end_at_once():
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(Simulated()) as engine:
            thread = await engine.start_thread()
        assert [notice async for notice in thread.notices()] == []


async def test_a_goal_whose_thread_was_taken_over_in_the_same_engine_tells_its_followers_so():
    with anyio.fail_after(LIMIT):
        async with goalfsm.open(Simulated(Script(turns=[turn(gate("never"), say("x"), kind="goal")]))) as engine:
            thread = await engine.start_thread()
            goal = await thread.start_goal("x")
            await engine.take_over(thread.id)
            for ask in (goal.result, goal.interrupt):
                with pytest.raises(StaleOwner):
                    await ask()


def test_a_journal_that_was_deleted_while_open_takes_nothing_more(tmp_path):
    async def main():
        path = tmp_path / "goals.db"
        async with goalfsm.open(Simulated(), journal=path) as engine:
            thread = await engine.start_thread()
            path.unlink()
            with pytest.raises(goalfsm.JournalError, match="was deleted or replaced while it was open"):
                await thread.submit("would be lost", id="m")
            assert thread.follow_ups(all=True) == []

    anyio.run(main)


def test_a_spec_with_an_endless_line_is_refused_at_once(tmp_path):
    path = tmp_path / "bomb.toml"
    path.write_text("a." * 50_000 + "a = 1\n")
    (problem,) = goalfsm.check_spec(path)
    assert problem.code == "GF100"
    assert "a line of 100,005 characters" in problem.text
