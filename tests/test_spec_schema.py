"""The JSON Schema that editors use agrees with what goalfsm itself reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from goalfsm import _read
from goalfsm._builtin import builtin_names, spec_path

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "specs" / "spec.schema.json").read_text(encoding="utf-8"))
GOOD = [*(spec_path(name) for name in builtin_names()), ROOT / "examples" / "turnstile.toml"]
# What a schema can see: unknown keys, wrong shapes, words outside a closed set, a missing reason, names that are none.
SEEN_BY_SCHEMA = {"GF101", "GF102", "GF103", "GF121", "GF123"}


def complaints(path):
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(values)]


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_every_machine_that_is_right_is_right_by_the_schema(path):
    assert complaints(path) == []


@pytest.mark.parametrize("code", sorted(path.stem for path in (ROOT / "tests" / "specs_bad").glob("*.toml")))
def test_the_schema_complains_exactly_where_the_shape_is_wrong(code):
    path = ROOT / "tests" / "specs_bad" / f"{code}.toml"
    if code == "GF100":
        return  # no TOML at all
    assert bool(complaints(path)) == (code in SEEN_BY_SCHEMA)


def test_the_schema_knows_every_key_that_the_reader_knows():
    assert set(SCHEMA["properties"]) == set(_read._TOP)
    rows = SCHEMA["properties"]["transitions"]["properties"]
    assert set(rows["rows"]["items"]["properties"]) == set(_read._ROW)
    assert set(rows["ignore"]["items"]["properties"]) == set(_read._IGNORE)
    assert set(SCHEMA["$defs"]["origin"]["enum"]) == set(_read.ORIGINS)
