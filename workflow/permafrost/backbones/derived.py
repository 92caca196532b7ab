"""Derived backbones: the stored features of others, joined and made smaller by steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from permafrost.backbones.entry import Described
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Different, LeftOut, Name, Options, Positive, ShareOrAll

#: joins the name of a backbone and of one of `derive`; no name of an entry holds it
BY = "@"
#: how a number is stored: bits, and how its levels are chosen, see `Step.quantise`
Form = Literal[
    "float32",
    "float16",
    "int8",
    "int4",
    "int2",
    "int8-quantiles",
    "int4-quantiles",
    "int2-quantiles",
    "int1-quantiles",
    "int8-power",
    "sign",
]
Scale = Literal["standardise", "unit"]


@dataclass(frozen=True, kw_only=True)
class Product(Options):
    """Product quantisation: features in equal parts, each replaced by the nearest of its codewords."""

    parts: Positive
    """Number of parts; divides the number of features."""
    bits: Literal[4, 6, 8] = 8
    """Bits of a part: 2^bits codewords, found by k-means on train."""


@dataclass(frozen=True, kw_only=True)
class Step(Options):
    """One change of the features. What it learns, it learns from the train split, without labels."""

    RULES = {"minProperties": 1, "maxProperties": 1}

    depth: LeftOut[ShareOrAll] = None
    """Only as the first step: read the features of the block nearest to this share of the parent's depth, in place of
    its output. `extraction.depths` keeps them."""
    first: LeftOut[Positive] = None
    """Keep the first features, at most this many."""
    project: LeftOut[Positive] = None
    """Random Gaussian projection to this many features, the same for all features of one length."""
    pca: LeftOut[Positive] = None
    """The first principal components of train, at most this many."""
    whiten: LeftOut[Positive] = None
    """The first principal components of train, at most this many, each divided by its standard deviation."""
    scale: LeftOut[Scale] = None
    """Each feature to mean 0 and standard deviation 1 of train (standardise), or each sample to length 1 (unit)."""
    quantise: LeftOut[Form] = None
    """Store numbers in fewer bits, and read them back. Linear levels between the smallest and the largest value of
    the feature in train (int8, int4, int2); as many levels at quantiles of train, each read as the mean of its values
    (…-quantiles); the signed square root, as AlphaEarth's embeddings are stored (int8-power); 1 and -1 (sign)."""
    product: LeftOut[Product] = None
    """Product quantisation: features in equal parts, each replaced by the nearest of its codewords."""

    @property
    def chosen(self) -> tuple[str, Any]:
        """Name and value of the key that is given."""
        return next((key, one) for key, one in vars(self).items() if one is not None)


@dataclass(frozen=True, kw_only=True)
class DerivedOptions(Described):
    """A backbone whose features are those of other backbones of the configuration, read through steps. Its probes
    need no further forward pass."""

    of: Name | Different[Name]
    """The backbone that it is derived from; or several, whose features are concatenated."""
    scale: Scale | None = "standardise"
    """How features of several backbones are scaled before they are concatenated: each feature to mean 0 and
    standard deviation 1 of train, and those of a backbone by one over the square root of their number
    (standardise); each sample of a backbone to length 1 (unit); or not (null). No effect on a single backbone."""
    steps: list[Step] = field(default_factory=list)
    """Changes of the features, in this order."""


def at_depth(steps: Sequence[dict], where: str) -> tuple[float | None, list[dict]]:
    """The depth whose features are read (None: the parent's output), and the steps that follow.

    Raises
    ------
    PermafrostError : `depth` is not the first step.
    """
    if any("depth" in step for step in steps[1:]):
        raise PermafrostError(
            "the step depth is not the first",
            where=f"{where}: steps",
            remedy="put it first: it says which of the parent's features are read",
        )
    if steps and "depth" in steps[0]:
        return steps[0]["depth"], list(steps[1:])
    return None, list(steps)


def narrowed(name: str, value: object, width: int) -> int:
    """The number of features after a step, of `width` before it; after `depth` it is not known."""
    if name == "depth":
        return width
    if isinstance(value, int):
        return value if name == "project" else min(value, width)
    return width


def parents_of(entry: dict) -> list[str]:
    """The backbones that an entry is derived from; empty for all other kinds."""
    if entry.get("kind") != "derived":
        return []
    return [entry["of"]] if isinstance(entry["of"], str) else entry["of"]
