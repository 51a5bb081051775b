"""Spec errors are part of the interface: every code has a bad file, and its exact text is pinned here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goalfsm import _check, _draft, _pictured, _read
from goalfsm._builtin import builtin_names, spec_path
from goalfsm._check import check_spec, check_specs
from goalfsm._errors import SpecError
from goalfsm._guards import GUARDS
from goalfsm._spec import load_spec

BAD = Path(__file__).parent / "specs_bad"
NEEDS_GUARDS = {"GF109", "GF119"}


def is_strong(_snapshot, _event, _context):
    return True


EXPECTED = """\
GF100 GF100.toml:2: is not TOML: Invalid value
GF101 GF101.toml:18: row 1: unknown key 'sav'; did you mean 'save'?
GF101 GF101.toml:20: row 3: unknown key 'unless'
GF102 GF102.toml:4: spec: 'unlisted' must be a table, not a string ('reject')
GF102 GF102.toml:8: state 'ajar' must be a table, not a string ('half')
GF102 GF102.toml:19: row 1: 'save' must be a list of strings, not a list with a whole number (1)
GF102 GF102.toml:20: row 2: 'event' must be a list of strings, not a string ('slam')
GF103 GF103.toml:4: unlisted: the origin must be one of command, provider, host, clock, internal, not 'comand'; did you mean 'command'?
GF103 GF103.toml:4: unlisted: host must be one of reject, anomaly, ignore, not 'shrug'
GF103 GF103.toml:6: state 'shut': kind must be one of wait, call, final, not 'waits'; did you mean 'wait'?
GF103 GF103.toml:10: event 'push': type of field 'force' must be one of str, int, bool, not 'float'
GF103 GF103.toml:11: event 'slam': origin must be one of command, provider, host, clock, internal, not 'hosts'; did you mean 'host'?
GF104 GF104.toml:3: unknown initial state 'shutt'; did you mean 'shut'?
GF105 GF105.toml:18: row 1: unknown state 'opne'; did you mean 'open'?
GF105 GF105.toml:19: row 2: unknown state 'opened'; did you mean 'open'?
GF106 GF106.toml:18: row 1: unknown event 'pusch'; did you mean 'push'?
GF107 GF107.toml:8: state 'locked' is unreachable
GF108 GF108.toml:18: row 1: unknown effect 'rign'; did you mean 'ring'?
GF109 GF109.toml:18: row 1: guard 'is_strog' is not bound; did you mean 'is_strong'?
GF119 GF109.toml:1: guard 'is_strong' is given, but no row uses it
GF110 GF110.toml:18: row 1: event 'push' has no field 'bye' to save; did you mean 'by'?
GF111 GF111.toml:18: row 1: field 'by' is both saved and set
GF111 GF111.toml:19: row 2: field 'by' is cleared, but written by the same row
GF112 GF112.toml:19: row 2: field 'by' is str elsewhere, but int as a literal
GF113 GF113.toml:21: row 4 repeats row 3 (line 20) for open push
GF114 GF114.toml:20: row 3 is dead behind the unguarded row 2 (line 19) for open slam
GF114 GF114.toml:24: ignore 2 is dead behind the unguarded row 1 (line 18) for shut push
GF115 GF115.toml:19: row 2: leaves the final state 'open' for 'shut'
GF116 GF116.toml:9: state 'jammed' reaches no final state
GF117 GF117.toml:15: effect 'buzz' is used by no row
GF118 GF118.toml:12: event 'knock' is answered by no row
GF119 GF119.toml:1: guard 'is_strong' is given, but no row uses it
GF120 GF120.toml:8: call state 'asking' has no way out on a host or clock event: a lost answer would strand it
GF121 GF121.toml:19: row 2: no 'why': say the reason
GF121 GF121.toml:22: ignore 1: no 'why': say the reason
GF122 GF122.toml:6: state 'shut': clears 'byy', which no row writes; did you mean 'by'?
GF122 GF122.toml:19: row 2: clears 'force', which no row writes
GF123 GF123.toml:10: event 'push': field 'state' has a reserved name
GF123 GF123.toml:11: event 'slam it' is not a plain name (letters, digits, underscores)
GF123 GF123.toml:19: row 2: guard 'a > 1' is not a plain name (letters, digits, underscores)
GF124 GF124.toml:26: picture: path: no row goes from 'open' to 'open'
GF105 GF124.toml:27: picture: unknown state 'opne'; did you mean 'open'?
GF124 GF124.toml:29: picture: arrow 2: no row goes from 'shut' to 'shut'
""".splitlines()


def problems(code: str) -> list[str]:
    guards = {"is_strong": is_strong} if code in NEEDS_GUARDS else None
    return [str(problem).replace(f"{BAD}/", "") for problem in check_spec(BAD / f"{code}.toml", guards)]


@pytest.mark.parametrize("code", sorted(path.stem for path in BAD.glob("*.toml")))
def test_a_bad_spec_is_reported_with_code_file_line_and_names(code):
    found = problems(code)
    assert found == [line for line in EXPECTED if f" {code}.toml:" in line]
    assert any(line.startswith(code) for line in found)


def test_every_code_that_the_checks_can_give_has_a_bad_file():
    sources = "".join(
        Path(module.__file__).read_text(encoding="utf-8") for module in (_check, _draft, _pictured, _read)
    )
    assert set(re.findall(r"GF1\d\d", sources)) == {path.stem for path in BAD.glob("*.toml")}


@pytest.mark.parametrize("name", builtin_names())
def test_the_built_in_specs_have_no_problem(name):
    assert check_spec(spec_path(name)) == []


def test_the_built_in_specs_together_use_every_guard_and_no_other():
    assert check_specs([spec_path(name) for name in builtin_names()], GUARDS) == []


def test_loading_raises_with_all_problems_in_file_order():
    with pytest.raises(SpecError) as caught:
        load_spec(BAD / "GF103.toml")
    assert [problem.line for problem in caught.value.problems] == [4, 4, 6, 10, 11]
    assert str(caught.value).count("\n") == 4


def test_one_slip_is_reported_once_and_not_as_what_follows_from_it(tmp_path):
    text = spec_path("follow_up").read_text(encoding="utf-8").replace('to = "accepted"', 'to = "acepted"')
    path = tmp_path / "follow_up.toml"
    path.write_text(text, encoding="utf-8")
    found = check_spec(path)
    assert len(found) == text.count('"acepted"')
    assert all("unknown state 'acepted'; did you mean 'accepted'?" in problem.text for problem in found)


def test_a_guard_that_is_not_given_is_named_with_its_line():
    guards = {name: guard for name, guard in GUARDS.items() if name != "may_admit"}
    with pytest.raises(SpecError, match=r"GF109 .*follow_up.toml:\d+: row 1: guard 'may_admit' is not bound"):
        load_spec(spec_path("follow_up"), guards)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "GF100 {path}:1: cannot be read: No such file or directory"),
        (b"\xff\xfe", "GF100 {path}:1: is not UTF-8 text: invalid start byte at byte 0"),
        (b"a = [", "GF100 {path}:1: is not TOML: Invalid value"),
        (b"a = 1\na = 2\n", "GF100 {path}:2: is not TOML: Cannot overwrite a value"),
        (b"a = " + b"[" * 9_000, "GF100 {path}:1: is not TOML: nested too deeply"),
    ],
    ids=["missing", "not-utf-8", "cut-off", "duplicate-key", "deep"],
)
def test_a_file_that_cannot_be_read_is_a_problem_not_a_crash(tmp_path, content, text):
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    assert [str(problem) for problem in check_spec(path)] == [text.format(path=path)]


def test_a_folder_instead_of_a_file_is_a_problem(tmp_path):
    assert [problem.code for problem in check_spec(tmp_path)] == ["GF100"]


def test_an_empty_file_says_what_is_missing(tmp_path):
    path = tmp_path / "empty.toml"
    path.touch()
    assert [(problem.code, problem.text) for problem in check_spec(path)] == [
        ("GF102", "spec: key 'machine' is missing: the machine's name"),
        ("GF102", "spec: table 'states' is missing"),
        ("GF102", "spec: table 'events' is missing"),
        ("GF102", "spec: table 'transitions' is missing"),
        ("GF104", "no 'initial' state is named"),
    ]


ROWS_AS_TABLES = '''
machine = "lamp"   # [states] in a comment is no table
initial = "off"

[states.off]
doc = """
[transitions]
rows = [ # not a row
"""

[states."on"]
kind = 'wait'

[events]
press = { origin = "command", doc = 'a # in a string, and a ]' }

[transitions]

[[transitions.rows]]
from = ["off"]
event = [
  "press",
  "pres",  # line 23
]
to = "on"
why = "lit"

[[transitions.rows]]
from = ["on"]
event = ["press"]
to = "of"
why = "dark"
'''


def test_lines_are_right_for_rows_written_as_tables_and_for_strings_that_look_like_toml(tmp_path):
    path = tmp_path / "lamp.toml"
    path.write_text(ROWS_AS_TABLES, encoding="utf-8")
    assert [(problem.code, problem.line) for problem in check_spec(path)] == [
        ("GF106", 23), ("GF105", 31),
    ]  # fmt: skip
