"""What must be the same in all submissions of a suite: of each dataset test items, labels, split and bands."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from permafrost.core.tables import read_table
from permafrost.data.store.card import Card
from permafrost.operate.commons.submission import OfDataset
from permafrost.plan.validation import problems
from permafrost.statistics.predictions.reading import Predictions

_OF_BANDS = ("modality", "sensor", "name", "unit", "scale", "offset")
# statistics of decoded pixels differ this much between decoders, as a share of their spread
_TOLERANCE = 0.02


def suite_config(suite: dict) -> dict:
    """A suite's configuration, completed with defaults."""
    config = {**copy.deepcopy(suite), "backbones": ["-"]}
    problems(config, "config")
    return config


def digest_of_names(*lists: Iterable) -> str:
    """SHA-256 of lists of texts."""
    listed = [["" if name is None else str(name) for name in names] for names in lists]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def test_set_of(predictions: Predictions) -> str:
    """SHA-256 of the names and groups of the test items."""
    groups = predictions.groups
    return digest_of_names(predictions.sample_ids, [] if groups is None else groups)


def labels_of(predictions: Predictions) -> str:
    """SHA-256 of the true labels of all test items, of the classes and of the rules of scoring."""
    keys = np.ascontiguousarray(predictions.truth_keys)
    # text as UTF-8: its width in an array depends on the longest
    content = json.dumps(keys.tolist()).encode() if keys.dtype.kind in "UO" else keys.tobytes()
    rules = [
        list(map(str, predictions.classes)),
        [int(one) for one in predictions.dead_classes],
        [*predictions.rules, predictions.boundary, str(keys.dtype.kind), list(keys.shape)],
    ]
    return hashlib.sha256(content + json.dumps(rules, default=str).encode()).hexdigest()


def card_facts(card: Card, stated: OfDataset) -> dict:
    """Facts of a dataset from its card, and from what a submission states of it."""
    return {
        "title": stated.title,
        "licence": stated.licence,
        "citation": stated.citation,
        "images_of": sorted(stated.images_of),
        "task": card.task,
        "classes": list(card.classes),
        "split": {
            "digest": stated.split,
            "method": card.split_method,
            "counts": {name: one["count"] for name, one in card.splits.items()},
            "class_counts": {name: one.get("class_counts") for name, one in card.splits.items()},
        },
        "bands": [
            {key: band.get(key) for key in (*_OF_BANDS, "mean", "std")} for band in card.bands
        ],
        "selected": list(card.selected),
        "test_set": None,
        "labels": {},
        "retired": None,
    }


def bands_differ(known: dict, found: dict) -> str | None:
    """How the bands of two facts differ, in words; None if they do not."""
    one, other = (
        [[band[key] for key in _OF_BANDS] for band in each["bands"]] for each in (known, found)
    )
    if one != other or known["selected"] != found["selected"]:
        names = [
            "-".join(map(str, (band["name"] for band in each["bands"]))) for each in (found, known)
        ]
        if names[0] != names[1]:
            return f"{names[0]} instead of {names[1]}"
        return "sensor, unit or selection of a band differs"
    for a, b in zip(known["bands"], found["bands"], strict=True):
        spread = max(a["std"] or 0.0, 1e-12)
        if any(
            (a[key] is None) != (b[key] is None)
            or (
                a[key] is not None
                and not math.isclose(a[key], b[key], abs_tol=_TOLERANCE * spread, rel_tol=0)
            )
            for key in ("mean", "std")
        ):
            return (
                f"the pixels of {a['name']} have mean {b['mean']:.4g} and standard deviation {b['std']:.4g}"
                f" instead of {a['mean']:.4g} and {a['std']:.4g}"
            )
    return None


def split_differs(known: dict, found: dict) -> str | None:
    """How the splits of two facts differ, in words; None if they do not."""
    one, other = known["split"], found["split"]
    if one["counts"] != other["counts"]:
        words = [
            ", ".join(f"{name} {n}" for name, n in each["counts"].items()) for each in (other, one)
        ]
        return f"{words[0]} images instead of {words[1]}"
    if one != other:
        return "the same numbers of images, but other images or classes in training and validation"
    return None


def sample_names(store: Path) -> list[str]:
    """The names of the images in an image store."""
    from permafrost.core.store_readers import open_store

    return open_store(store).samples()["sample_id"].to_pylist()


def same_predictions(one: Path, other: Path) -> bool:
    """Whether two tables of predictions hold the same rows."""
    tables = [read_table(path)[0].replace_schema_metadata(None) for path in (one, other)]
    return tables[0].equals(tables[1])
