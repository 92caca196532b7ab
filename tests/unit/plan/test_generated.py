"""The schemas of option classes, and reading options by them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import permafrost
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.option_models import read, schema_of
from permafrost.core.options import (
    NO_DEFAULT,
    Different,
    LeftOut,
    Matches,
    Options,
    Positive,
    Text,
)
from permafrost.plan import generated
from permafrost.plan.validation import SCHEMAS


@dataclass(frozen=True, kw_only=True)
class Weights(Options):
    path: Text = "a.pt"


@dataclass(frozen=True, kw_only=True)
class Common(Options):
    title: LeftOut[str] = None
    """Name in
    tables."""


@dataclass(frozen=True, kw_only=True)
class Method(Common):
    """A method.

    More of it.
    """

    RULES = {"dependentRequired": {"title": ["k"]}}

    metric: Literal["l1", "l2"]
    k: Positive | None = 5
    """Neighbours."""
    rate: float = 1
    names: Different[Annotated[str, Matches("letters", "^[a-z]+$")]] = field(
        default_factory=lambda: ["a"]
    )
    size: Annotated[int | None, NO_DEFAULT] = None
    weights: Weights = field(default_factory=lambda: Weights(path="b.pt"))


def test_the_schema_of_a_class_has_its_types_defaults_bounds_and_words():
    made = schema_of(Method)
    assert made["$defs"]["Weights"] == {
        "type": "object",
        "properties": {"path": {"type": "string", "minLength": 1, "default": "a.pt"}},
        "additionalProperties": False,
    }
    del made["$defs"]
    whole = {"type": "integer", "minimum": 1}
    word = {"type": "string", "words": "letters", "pattern": "^[a-z]+$"}
    assert made == {
        "description": "A method.",
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Name in tables."},
            "metric": {"enum": ["l1", "l2"]},
            "k": {"anyOf": [whole, {"type": "null"}], "default": 5, "description": "Neighbours."},
            "rate": {"type": "number", "default": 1},
            "names": {
                "type": "array",
                "items": word,
                "minItems": 1,
                "uniqueItems": True,
                "default": ["a"],
            },
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "weights": {"$ref": "#/$defs/Weights", "default": {"path": "b.pt"}},
        },
        "required": ["metric"],
        "additionalProperties": False,
        "dependentRequired": {"title": ["k"]},
    }


def test_options_are_read_with_their_defaults():
    made = read(Method, {"metric": "l2", "rate": 2, "weights": {}}, where="x")
    assert made == Method(metric="l2", rate=2.0, weights=Weights())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": "5"}, "k: must be a whole number or null, not the text '5'"),
        ({"metric": "l3"}, "metric: 'l3' is not one of 'l1', 'l2'"),
        ({"kk": 3}, "kk: unknown key, did you mean 'k'?"),
        ({"rate": True}, "rate: must be a number, not true"),
        ({"names": ["a", "a"]}, "names: 'a' is in the list twice"),
        ({"names": ["A"]}, "names.0: 'A' must be letters"),
        ({"weights": {"path": ""}}, "weights.path: the text is empty"),
        ({"k": 0, "rate": None}, "k: must be at least 1, not 0; rate: must be a number, not null"),
    ],
)
def test_what_is_wrong_with_options_is_said_as_of_an_entry(changes, message):
    with pytest.raises(PermafrostError) as caught:
        read(Method, {"metric": "l1", **changes}, where="job")
    assert message in caught.value.problem and caught.value.where == "job"


def test_a_missing_option_is_named():
    with pytest.raises(PermafrostError, match="missing key 'metric'"):
        read(Method, {}, where="job")


@pytest.mark.parametrize("name", generated.GENERATED)
def test_the_schemas_are_those_of_the_classes(name):
    assert (SCHEMAS / f"{name}.schema.yaml").read_text() == generated.text_of(name)


def test_the_same_choices_have_one_order_everywhere():
    """Python makes one object of unions of equal choices, with the order of whichever came first."""
    orders: dict[frozenset, set] = {}
    for path in Path(permafrost.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
                values = ast.unparse(node.slice).strip("()").split(", ")
                orders.setdefault(frozenset(values), set()).add(tuple(values))
    assert len(orders) > 30
    assert [found for found in orders.values() if len(found) > 1] == []
