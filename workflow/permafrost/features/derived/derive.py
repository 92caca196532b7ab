"""Make the stores of a derived backbone: labels, samples, and what its steps learned from train."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.backbones.derived import Step, at_depth, parents_of
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.option_models import read
from permafrost.core.specification import Specification
from permafrost.core.store_readers import open_store
from permafrost.core.stores import Store
from permafrost.core.versions import imported_versions
from permafrost.data.derived import UNCHANGED
from permafrost.features.derived.steps import Learned, Train, apply, learn
from permafrost.features.derived.view import (
    DERIVED,
    LEARNED,
    TOGETHER,
    Parents,
    read_array,
    write_learned,
)
from permafrost.features.health import CollapseGate, check_finite
from permafrost.features.writing import feature_store, write_labels

#: attributes that are those of the first parent
_COPIED = (
    "dataset",
    "task",
    "classes",
    "target",
    "split",
    "split_method",
    "spatially_random",
    "dates",
)


@dataclass(frozen=True, kw_only=True)
class OfStores:
    """Fingerprints of the parents' stores, by backbone."""

    features: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class DeriveSpec(Specification):
    """The job of `derive`.

    Attributes
    ----------
    entry : of the derived backbone, without keys that only describe it.
    rows : the datasets that the dataset is derived from; None: it is not derived.
    """

    stage: str = "derive"
    dataset: str
    backbone: str
    entry: dict
    inputs: OfStores
    rows: list[str] | None = None


def derive(spec: DeriveSpec, *, features: Path, outputs: dict[str, Path], fingerprint: str) -> None:
    """Learn the steps from train, check that features of all splits are finite, and write the stores.

    Parameters
    ----------
    features : the folder ``features/{dataset}``, which holds the parents' stores.
    outputs : split to the store to write.

    Raises
    ------
    PermafrostError : the parents do not hold the same samples, or a step does not fit their features.
    """
    where = f"backbone {spec.backbone} on {spec.dataset}"
    names = parents_of(spec.entry)
    depth, after = at_depth(spec.entry["steps"], where)
    steps = [read(Step, one, where=f"{where}: steps") for one in after]
    joined = len(names) > 1 and spec.entry["scale"] is not None
    scale = [Step(scale=spec.entry["scale"])] if joined else []
    opened = {
        split: [
            open_store(features / name / path.name, expect=spec.inputs.features[name], split=split)
            for name in names
        ]
        for split, path in outputs.items()
    }
    for stores in opened.values():
        _check_alike(names, stores, where)
    train = opened["train"]
    scales = [_learn_scale(scale, store, depth, where) for store in train] if scale else []
    rows = Parents(train, scale, scales, depth)
    learned, width, bits = learn(
        steps,
        _train(rows, len(train[0])),
        sum(rows.widths()),
        f"{where}: steps",
        # scaled numbers are no longer those that are stored
        bits=None if scale else 8 * sum(map(_bytes_of_row, train, rows.arrays)),
    )
    about = {
        "of": dict(spec.inputs.features),
        "bytes_of": {
            name: _bytes_of_row(store) * (rows.dates or 1)
            for name, store in zip(names, train, strict=True)
        },
        "scale": [_given(one) for one in scale],
        "steps": spec.entry["steps"],
        **({} if depth is None else {"depth": _read_blocks(names, train, depth)}),
        "bytes_per_sample": -(-bits // 8) * (rows.dates or 1),
    }
    for split, path in outputs.items():
        own = Parents(opened[split], scale, scales, depth)
        gates = _check(own, opened[split][0], steps, learned, where)
        with feature_store(path, fingerprint=fingerprint) as writer:
            parent = opened[split][0]
            write_labels(writer, parent.read("labels") if "labels" in parent else None)
            writer.samples(parent.samples())
            write_learned(writer.folder / LEARNED, scales, learned)
            digest = file_digest(writer.folder / LEARNED)
            writer.attributes.update(
                {
                    **_attributes(spec, opened[split], gates),
                    "feature_dim": width,
                    DERIVED: {**about, "learned_sha256": digest},
                }
            )


def _bytes_of_row(store: Store, array: str = "embeddings") -> int:
    """Bytes of the stored features of a sample; of series, of a date."""
    return store.shape(array)[-1] * store.itemsize(array)


def _read_blocks(names: list[str], stores: list[Store], depth: float) -> dict[str, dict]:
    """Parent -> ``name``, number (``block``) and count (``of``) of the block that is read."""
    found = zip(names, (read_array(store, depth) for store in stores), strict=True)
    return {name: {key: one[key] for key in ("name", "block", "of")} for name, one in found}


def _given(step: Step) -> dict:
    name, value = step.chosen
    return {name: value}


def _attributes(spec: DeriveSpec, parents: list[Store], gates: list[str]) -> dict:
    """The attributes that the stores of other backbones have, too."""
    first = parents[0].attributes
    of_parents = [{*one.attributes.get("gates", ())} for one in parents]
    # of several parents, one that reads changed bands is enough
    some = {UNCHANGED} - set.intersection(*of_parents)
    gates = sorted({*gates, *set.union(*of_parents)} - some)
    metadata = [one.attributes["metadata"] for one in parents if "metadata" in one.attributes]
    return {
        **{key: first[key] for key in _COPIED if key in first},
        "backbone": spec.backbone,
        "weights_sha256": first.get("weights_sha256") if len(parents) == 1 else None,
        "parameters": sum(one.attributes.get("parameters") or 0 for one in parents),
        "pooling": first.get("pooling"),
        "device": first.get("device"),
        "notes": {},
        "input": {
            "kind": "derived",
            "of": list(spec.inputs.features),
            "steps": spec.entry["steps"],
        },
        "gates": gates,
        "versions": {**(first.get("versions") or {}), **imported_versions()},
        **({"metadata": metadata[0]} if metadata else {}),
    }


def _check_alike(names: list[str], stores: list[Store], where: str) -> None:
    first = stores[0]
    for name, store in zip(names, stores, strict=True):
        if "embeddings" not in store:
            raise PermafrostError(
                f"the store of {name} has maps and no embeddings",
                where=where,
                remedy="leave it out",
            )
        same = store.samples(["sample_id"]).equals(first.samples(["sample_id"]))
        if not same or store.shape("embeddings")[:-1] != first.shape("embeddings")[:-1]:
            raise PermafrostError(
                f"{names[0]} and {name} have features of other samples, or of other numbers of dates",
                where=where,
                remedy="join backbones that get the same dates of the same images",
            )


def _train(rows: Parents, count: int) -> Train:
    ranges = [(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]

    def blocks() -> Iterator[np.ndarray]:
        return (rows.read(*one)[rows.there(*one)] for one in ranges)

    return Train(blocks, sum(int(rows.there(*one).sum()) for one in ranges))


def _learn_scale(each: list[Step], store: Store, depth: float | None, where: str) -> Learned:
    alone = Parents([store], [], [], depth)
    found, _, _ = learn(each, _train(alone, len(store)), alone.widths()[0], where)
    return found[0]


def _check(
    rows: Parents, store: Store, steps: list[Step], learned: list[Learned], where: str
) -> list[str]:
    """Refuse features that are not finite after the steps; warnings if all are alike."""
    gate, names = CollapseGate(), store.samples(["sample_id"])["sample_id"]
    for start in range(0, len(store), TOGETHER):
        stop = min(start + TOGETHER, len(store))
        found = apply(steps, rows.read(start, stop), learned).astype(np.float32)
        found[~rows.there(start, stop)] = 0
        check_finite(
            found.reshape(stop - start, -1),
            start,
            names,
            where=where,
            remedy="choose a form that holds such large numbers, or scale before",
        )
        gate.update(found[rows.there(start, stop)])
    return gate.gates()
