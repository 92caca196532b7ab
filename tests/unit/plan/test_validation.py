from __future__ import annotations

import copy

import pytest
import yaml
from permafrost.core import schema_checks
from permafrost.core.errors import PermafrostError
from permafrost.plan import validation
from permafrost.plan.validation import load_schema, validate


def configuration(**changes) -> dict:
    smallest = {"backbones": ["rcf"], "datasets": ["demo"], "probes": {"knn": {"kind": "knn"}}}
    return {**smallest, **changes}


def problem(instance, schema: str = "config") -> str:
    with pytest.raises(PermafrostError) as caught:
        validate(instance, schema, where="file.yaml: entry")
    assert caught.value.where == "file.yaml: entry"
    assert f"{schema}.schema.yaml" in caught.value.remedy
    return caught.value.problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probez": {}}, "probez: unknown key, did you mean 'probes'?"),
        ({"extraction": {"sise": 224}}, "extraction.sise: unknown key, did you mean 'size'?"),
        ({"extraction": {"size": 0}}, "extraction.size: must be at least 1, not 0"),
        (
            {"extraction": {"size": "big"}},
            "extraction.size: must be a whole number or null, not the text 'big'",
        ),
        ({"extraction": None}, "extraction: must be a mapping (key: value), not null"),
        (
            {"extraction": {"dtype": "float"}},
            "extraction.dtype: 'float' is not one of 'float32', 'float16', did you mean 'float32' or 'float16'?",
        ),
        (
            {"seeds": [0, "1"]},
            "seeds.1: must be a whole number, not the text '1' (write 1 without quotes)",
        ),
        ({"seeds": "many"}, "seeds: must be a list in [ ], not the text 'many' (write [many])"),
        ({"seeds": 3}, "seeds: must be a list in [ ], not the number 3 (write [3])"),
        ({"seeds": []}, "seeds: the list is empty"),
        ({"seeds": [1, 1]}, "seeds: 1 is in the list twice"),
        ({"seeds": [-1]}, "seeds.0: must be at least 0, not -1"),
        (
            {"backbones": "a, b"},
            "backbones: must be a list in [ ], not the text 'a, b' (write [a, b])",
        ),
        (
            {"datasets": [2020]},
            "datasets.0: must be a text, not the number 2020 (put it in quotes: ",
        ),
        (
            {"extra_backbones": ["a"]},
            "extra_backbones: must be a mapping (key: value), not the list ['a'] (w",
        ),
        ({"runtime": {"device": "gpu"}}, "runtime.device: 'gpu' must be auto, cpu, cuda or cuda:0"),
    ],
)
def test_a_wrong_key_is_told_with_its_path(changes, message):
    assert problem(configuration(**changes)).startswith(message)


def test_missing_keys_are_told():
    assert problem({"task": "classification"}, "dataset").endswith("missing key 'source'")
    assert problem({}, "dataset").endswith("missing keys 'task', 'source'")


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"kind": "knn", "kk": 3}, "probes.p.kk: unknown key, did you mean 'k'?"),
        ({"kind": "knn", "k": 0}, "probes.p.k: must be at least 1, not 0"),
        ({"kind": "linear", "c_cont": 3}, "probes.p.c_cont: unknown key, did you mean 'c_count'?"),
        ({"kind": "linear", "k": 3}, "probes.p.k: unknown key, known: c_count, c_max, "),
        ({"kind": "knnn"}, "probes.p.kind: unknown kind 'knnn', did you mean 'knn'?"),
        ({"kind": "dense_knn", "boundary": 1}, "probes.p.boundary: must be less than 1, not 1"),
        ({"k": 5}, "probes.p: missing key 'kind' (one of 'knn', "),
        (5, "probes.p: must be a mapping (key: value) or null, not the number 5"),
        (
            "knn",
            "probes.p: must be a mapping (key: value) or null, not the text 'knn' (write {kind: knn})",
        ),
        (
            {"kind": "linear", "c_max": "1e4"},
            "probes.p.c_max: must be a number, not the text '1e4' (write 10000.0 without quotes, since",
        ),
    ],
)
def test_a_wrong_probe_is_explained_by_the_kind_it_names(probe, message):
    assert problem(configuration(probes={"p": probe})).startswith(message)


SOURCE = {"source": {"kind": "folder", "path": "scenes"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "clasification"}, "instance_segmentation', did you mean 'classification'?"),
        ({"splits": {"fractions": [0.8, 0.2]}}, "must be 3 numbers, not 2: [0.8, 0.2] (shares: train, validation, "),
        ({"splits": {"fractions": [60, 0.2, 0.2]}}, "must be less than 1, not 60 (a share: write 0.6, not 60)"),
        ({"splits": {"fractions": 0.6}}, "a list in [ ], not the number 0.6 (3 items: shares: train, "),
        ({"splits": "random"}, "not the text 'random' (write {method: random})"),
        ({"source": "folder"}, "source: must be a mapping (key: value), not the text 'folder' (write {kind: folder})"),
        ({"classes": {"a": 1}}, "classes: must be a list in [ ], not the mapping {a: 1}"),
        ({"gsd_m": True}, "gsd_m: must be a number, not true"),
        ({"images_of": ["ImageNet"]}, "'ImageNet' must be lower-case letters, digits, - and single _ inside"),
    ],
)  # fmt: skip
def test_a_wrong_entry_of_a_dataset_is_told_in_words_of_people(changes, message):
    text = problem({"task": "classification", **SOURCE, **changes}, "dataset")
    assert message in text
    assert not any(word in text for word in ("of type", "array", "object", "too short", "^["))


def test_what_needs_a_neighbour_and_lists_written_as_text_are_told():
    entry = {"kind": "timm", "model": "resnet18", "input": {"bands": "B02,B03", "mean": 0.5}}
    text = problem({**entry, "weights": {"source": "random", "drop": ["a"]}}, "backbone")
    assert "weights: drop needs path too" in text and "input: mean needs std too" in text
    assert (
        "input.bands: 'B02,B03' is not one of 'all', 'rgb' (or a list in [ ]: write [B02,B03])"
        in text
    )


def test_every_problem_is_told_at_once():
    text = problem(configuration(extraction={"sise": 1, "dtype": 3}, seeds=[]))
    assert "sise" in text and "dtype" in text and "seeds" in text


def test_the_schema_is_not_printed():
    assert len(problem(configuration(probes={"p": {"kind": "knn", "kk": 3}}))) < 60


@pytest.mark.parametrize("name", ["KNN", "k__nn", "knn_", "-knn", "a/b", ""])
def test_a_probes_name_must_be_fit_for_a_file_name(name):
    assert name in problem(configuration(probes={name: {"kind": "knn"}}))


# --- defaults ---------------------------------------------------------------------------------


def test_defaults_are_filled_in_at_every_level():
    config = configuration()
    validate(config, "config", where="x")
    assert config["results"] == "results"
    assert config["extraction"]["size"] == 224
    assert config["bootstrap"]["resamples"] == 200
    assert config["seeds"] == [0]


def test_a_probe_gets_the_defaults_of_its_own_kind_only():
    config = configuration(probes={"k": {"kind": "knn"}, "l": {"kind": "linear"}, "off": None})
    validate(config, "config", where="x")
    definitions = load_schema("config")["$defs"]
    for name, kind in (("k", "knn"), ("l", "linear")):
        properties = definitions[kind]["properties"]
        defaults = {key: sub["default"] for key, sub in properties.items() if "default" in sub}
        assert config["probes"][name] == {"kind": kind, **defaults}
        assert defaults, "the test needs a kind with defaults"
    assert config["probes"]["off"] is None


def test_what_is_given_is_kept():
    config = configuration(probes={"k": {"kind": "knn", "k": 7}}, extraction={"size": None})
    validate(config, "config", where="x")
    assert config["probes"]["k"]["k"] == 7
    assert config["extraction"]["size"] is None


def test_a_second_validation_changes_nothing():
    config = configuration()
    validate(config, "config", where="x")
    before = copy.deepcopy(config)
    validate(config, "config", where="x")
    assert config == before


def test_defaults_are_not_shared_between_configurations():
    one, other = configuration(), configuration()
    validate(one, "config", where="x")
    one["extraction"]["size"] = 64
    one["seeds"].append(1)
    validate(other, "config", where="x")
    assert (other["extraction"]["size"], other["seeds"]) == (224, [0])


@pytest.fixture
def schema(tmp_path, monkeypatch):
    """A function that makes a schema known under the name ``own``."""

    def define(text: str) -> None:
        (tmp_path / "own.schema.yaml").write_text(text)
        monkeypatch.setattr(validation, "SCHEMAS", tmp_path)

    load_schema.cache_clear()
    validation._validator.cache_clear()
    yield define
    load_schema.cache_clear()
    validation._validator.cache_clear()


UNNAMED = """
{alternatives}:
  - {{required: [a], properties: {{a: {{type: integer}}, x: {{default: 1}}}}, additionalProperties: false}}
  - {{required: [b], properties: {{b: {{type: integer}}, y: {{default: 2}}}}, additionalProperties: false}}
"""


@pytest.mark.parametrize("alternatives", ["anyOf", "oneOf"])
def test_an_alternative_that_was_only_tried_leaves_no_defaults(schema, alternatives):
    schema(UNNAMED.format(alternatives=alternatives))
    entry = {"b": 3}
    validate(entry, "own", where="x")
    assert entry == {"b": 3, "y": 2}


@pytest.mark.parametrize("alternatives", ["anyOf", "oneOf"])
def test_when_no_alternative_fits_the_entry_is_left_as_it_was(schema, alternatives):
    schema(UNNAMED.format(alternatives=alternatives))
    entry = {"c": 3}
    assert " or " in problem(entry, "own")
    assert entry == {"c": 3}


def test_an_entry_may_fit_one_alternative_only_where_the_schema_says_so(schema):
    schema("oneOf: [{type: integer}, {type: number}]")
    assert "more than one" in problem(3, "own")
    validate(3.5, "own", where="x")


def test_only_the_conditions_that_may_hold_are_looked_at(monkeypatch):
    """Schemas have a condition per kind, each with a schema of its own."""
    from jsonschema import Draft202012Validator

    seen, usual = [], Draft202012Validator.VALIDATORS["if"]

    def counted(validator, condition, instance, schema):
        seen.append(condition["properties"])
        return usual(validator, condition, instance, schema)

    monkeypatch.setitem(Draft202012Validator.VALIDATORS, "if", counted)
    cases = [
        {"if": {"required": ["kind"], "properties": {"kind": test}}, "then": {"required": [need]}}
        for test, need in (
            ({"const": "a"}, "of_a"),
            ({"const": "b"}, "of_b"),
            ({"enum": ["a", "c"]}, "of_both"),
            ({"type": "string"}, "of_text"),
        )
    ]
    validator = schema_checks.validator_of({"allOf": cases})
    assert set(schema_checks.problems({"kind": "a"}, validator)) == {
        "(top level): missing key 'of_a'",
        "(top level): missing key 'of_both'",
        "(top level): missing key 'of_text'",
    }
    assert {"kind": {"const": "b"}} not in seen and len(seen) == 3
    # what is missing or no mapping is left to the condition itself, and so is one with an alternative
    for instance in ({}, [], {"kind": ["a"]}):
        assert schema_checks.problems(instance, validator) == {}
    other = {"if": {"properties": {"kind": {"const": "a"}}}, "else": {"required": ["of_rest"]}}
    found = schema_checks.problems({"kind": "b"}, schema_checks.validator_of(other))
    assert set(found) == {"(top level): missing key 'of_rest'"}


def test_the_schemas_are_themselves_valid():
    for path in validation.SCHEMAS.glob("*.schema.yaml"):
        validation._validator(path.name.removesuffix(".schema.yaml"))
        assert yaml.safe_load(path.read_text())["$schema"].endswith("2020-12/schema"), path.name


def test_defaults_behind_a_reference_are_filled_in():
    config = configuration(probes={"p": {"kind": "dense_knn"}})
    validate(config, "config", where="file.yaml: entry")
    assert (
        config["probes"]["p"] | {"pictures": 4, "masks": "none", "boundary": None}
        == config["probes"]["p"]
    )
    assert config["probes"]["p"]["resolution"] == "native"


@pytest.mark.parametrize(
    ("schema_name", "instance"),
    [
        ("config", configuration(probes={"a\n": {"kind": "knn"}})),
        ("config", configuration(runtime={"device": "cpu\n"})),
        ("backbone", {"kind": "entrypoint", "entrypoint": "own.py:build\n"}),
    ],
)
def test_a_line_break_at_the_end_of_a_name_is_refused(schema_name, instance):
    assert "\\n' must be " in problem(instance, schema_name)


@pytest.mark.parametrize("name", ["config", "backbone", "dataset"])
def test_schemas_are_schemas(name):
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(load_schema(name))
