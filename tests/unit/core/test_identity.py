from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, derive_seed, file_digest, fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{a: 1, b: {c: 2, d: 3}}", "{b: {d: 3, c: 2}, a: 1}"),
        ("{a: 1}", "# a comment\na: 1.0"),
        ("{a: 1.0e+4}", "{a: 10000}"),
        ("{a: 1.0e+20}", "{a: 100000000000000000000}"),
        ("{a: 0.950}", "{a: 9.5e-1}"),
        ("{a: -0.0}", "{a: 0}"),
    ],
    ids=["key order", "comment and 1.0", "exponent", "large", "trailing zero", "negative zero"],
)
def test_entries_of_one_meaning_have_one_canonical_form(one, other):
    assert canonical_json(yaml.safe_load(one)) == canonical_json(yaml.safe_load(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.5}),
        ({"a": 1}, {"a": "1"}),
        ({"a": True}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": {"b": 1}}, {"a": 1, "b": 1}),
    ],
)
def test_entries_of_different_meaning_have_different_canonical_forms(one, other):
    assert canonical_json(one) != canonical_json(other)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_identify_nothing(number):
    with pytest.raises(PermafrostError, match="cannot identify a result"):
        canonical_json({"a": [number]})


def test_keys_that_would_become_one_are_refused():
    with pytest.raises(PermafrostError, match="have the same text"):
        canonical_json({1: "a", "1": "b"})


@pytest.mark.parametrize("value", [{1, 2}, b"x", datetime.date(2020, 1, 31), object()])
def test_values_without_a_canonical_form_are_refused(value):
    with pytest.raises(TypeError, match=type(value).__name__):
        canonical_json({"a": value})


def test_paths_and_tuples_count_as_text_and_lists():
    assert canonical_json({"a": (Path("x/y"), 1)}) == '{"a":["x/y",1]}'


def test_the_fingerprint_is_the_start_of_the_sha256_of_the_canonical_json():
    assert fingerprint("a", {"b": 1.0}) == hashlib.sha256(b'["a",{"b":1}]').hexdigest()[:32]


def test_parts_of_a_fingerprint_do_not_run_into_each_other():
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


def test_seeds_differ_between_runs_and_lie_in_range():
    seeds = {derive_seed("dataset", "backbone", "probe", seed) for seed in range(200)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**61


def test_seeds_and_fingerprints_do_not_depend_on_the_process():
    program = (
        "from permafrost.core.identity import derive_seed, fingerprint;"
        "print(derive_seed('a', 1), fingerprint({'b': 2, 'a': 1}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.stdout.decode().split() == [
        str(derive_seed("a", 1)),
        fingerprint({"b": 2, "a": 1}),
    ]


def test_a_files_digest_is_the_sha256_of_its_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content" * 100_000)
    assert file_digest(path) == hashlib.sha256(b"content" * 100_000).hexdigest()
