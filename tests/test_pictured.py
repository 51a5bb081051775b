"""The `[picture]` of a spec file: its mistakes are reported like any other, with code and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalfsm import diagrams
from goalfsm._check import check_spec
from goalfsm._spec import load_spec

TURNSTILE = (Path(__file__).parent.parent / "examples" / "turnstile.toml").read_text(encoding="utf-8")
LINE = TURNSTILE.count("\n") + 2


def write(tmp_path, body):
    path = tmp_path / "turnstile.toml"
    path.write_text(f"{TURNSTILE}[picture]\n{body}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('paths = ["locked"]', "GF101 picture: unknown key 'paths'; did you mean 'path'?"),
        ('path = "locked"', "GF102 picture: 'path' must be a list of strings, not a string ('locked')"),
        ('path = ["locked", "unlokced"]', "GF105 picture: unknown state 'unlokced'; did you mean 'unlocked'?"),
        ('path = ["locked", "locked"]', "GF124 picture: path: no row goes from 'locked' to 'locked'"),
        ("together = [1]", "GF102 picture: together: 'together' must be a list of strings, not a whole number (1)"),
        ('together = [["nope"]]', "GF105 picture: unknown state 'nope'"),
        ("notes = { locked = 1 }", "GF102 picture: notes: 'locked' must be a string, not a whole number (1)"),
        ("arrows = [1]", "GF102 picture: arrow 1 must be a table, not a whole number (1)"),
        ('arrows = [{ to = "locked" }]', "GF102 picture: arrow 1: it goes 'from' a list of states 'to' a state"),
        ('arrows = [{ from = ["locked"], to = "unlocked", why = "x" }]', "GF101 picture: arrow 1: unknown key 'why'"),
        (
            'arrows = [{ from = ["locked"], to = 1 }]',
            "GF102 picture: arrow 1: 'to' must be a string, not a whole number (1)",
        ),
    ],
)
def test_a_mistake_in_the_picture_is_reported_with_its_line(tmp_path, body, problem):
    path = write(tmp_path, body)
    assert [f"{found.code} {found.text}" for found in check_spec(path)] == [problem]
    assert [found.line for found in check_spec(path)] == [LINE]


def test_what_is_declared_is_drawn_and_the_rest_is_counted(tmp_path):
    spec = load_spec(write(tmp_path, 'path = ["locked", "unlocked"]\nnotes = { locked = "pay first" }'))
    text = diagrams.overview(spec)
    assert "pay first" in text
    assert text.count("==>") == 2  # into the initial state, and the one step
    assert "-->" not in text
    assert "1 rarer ways of 2" in diagrams.legend(spec)


def test_states_that_share_a_box_are_one_node(tmp_path):
    both = 'together = [["locked", "unlocked"]]\narrows = [{ from = ["locked"], to = "unlocked" }]'
    text = diagrams.overview(load_spec(write(tmp_path, both)))
    assert text.count("<b>") == 2
    assert text.count('["') + text.count('("') == 2  # the box, and the dot where it begins
