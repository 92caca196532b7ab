"""Feature stores of a derived dataset: rows of the stores of other datasets, of the same backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together
from permafrost.core.rows_store import FOLDS, ROWS, Parent, Selection, write_rows
from permafrost.core.specification import Specification
from permafrost.core.store_readers import open_store
from permafrost.core.stores import DIGEST, INVENTORY_DIGEST, Store, write_store
from permafrost.data.store.card import Card
from permafrost.features.attributes import of_dataset

#: words -> attribute, or key of the attribute ``input``, that features of two datasets must share
_ALIKE = {
    "weights": "weights_sha256",
    "numbers of features": "feature_dim",
    "normalisations": "normalization",
}
#: normalisations by numbers of the train split, see `backbones.input.scaling`
_BY_TRAIN = ("dataset", "minmax", "percentile")
#: warnings beside scores
FITTED, OWN_STATISTICS = "fitted_on_parent_train", "normalised_by_own_statistics"
_SEALED = (
    "arrays",
    "count",
    "samples_sha256",
    "complete",
    "fingerprint",
    INVENTORY_DIGEST,
    DIGEST,
)


@dataclass(frozen=True, kw_only=True)
class OfRows:
    """Fingerprints of the derived dataset's image stores, and of feature stores by dataset."""

    rows: str
    features: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class SelectSpec(Specification):
    """The job of `select`.

    Attributes
    ----------
    fitted : whether the backbone itself is fitted to images of train, apart from their normalisation.
    """

    stage: str = "select"
    dataset: str
    backbone: str
    fitted: bool = False
    inputs: OfRows


def select(
    spec: SelectSpec, *, features: Path, card: Card, images: Path, outputs: dict, fingerprint: str
) -> None:
    """Write stores that read the features of the selected images from those of other datasets.

    Parameters
    ----------
    features : folder of all features, ``features/{dataset}/{backbone}``.
    card : of the derived dataset; images : folder of its image stores.
    outputs : split to the store to write.

    Raises
    ------
    PermafrostError : features of two datasets were made differently, so that they cannot be compared.
    """
    where = f"backbone {spec.backbone} on {spec.dataset}"
    with together() as group:
        for split, path in outputs.items():
            rows = open_store(images / f"{split}.zarr", expect=spec.inputs.rows, split=split)
            selection = Selection.of(rows)
            of = [Parent(*one) for one in rows.attributes[ROWS]["of"]]
            parents = [
                Parent(one.dataset, one.split, spec.inputs.features[one.dataset]) for one in of
            ]
            stores = [
                Store(
                    features / one.dataset / spec.backbone / f"{one.split}.zarr",
                    expect=one.fingerprint,
                    split=one.split,
                )
                for one in parents
            ]
            _check_alike(dict(zip([one.dataset for one in parents], stores, strict=True)), where)
            with write_store(path, fingerprint=fingerprint, group=group) as writer:
                labels = rows.read("labels") if "labels" in rows else None
                write_rows(writer, selection, parents, stores, labels)
                writer.samples(rows.samples())
                writer.attributes.update(_attributes(spec, stores, card, split, FOLDS in rows))


def _attributes(spec: SelectSpec, stores: list[Store], card: Card, split: str, folds: bool) -> dict:
    """Those of the first parent, with what is another dataset's."""
    own = {key: one for key, one in stores[0].attributes.items() if key not in _SEALED}
    gates = {gate for one in stores for gate in one.attributes.get("gates", ())}
    of_pixels = {}
    if "target_centre" in own:
        assert card.target is not None
        edges, test = card.target["edges"], card.target["splits"]["test"]
        of_pixels = {"target_centre": test["mean"], "target_range": [edges[0], edges[-1]]}
    return {
        **own,
        **of_dataset(spec, card),
        **of_pixels,
        "split": split,
        "gates": sorted({*gates, *_gates(spec, stores[0], card, folds)}),
    }


def _gates(spec: SelectSpec, store: Store, card: Card, folds: bool) -> list[str]:
    """Warnings about features that depend on the images of the parent's train split."""
    by_train = store.attributes.get("input", {}).get("normalization") in _BY_TRAIN
    if not (by_train or spec.fitted):
        return []
    if folds:
        # images of train are tested, too
        return [FITTED]
    assert card.derived is not None
    return [OWN_STATISTICS] if card.derived.get("test") != card.derived.get("train") else []


def _check_alike(stores: Mapping[str, Store], where: str) -> None:
    (one, first), *others = stores.items()
    for other, store in others:
        for what, key in _ALIKE.items():
            if _value(first, key) != _value(store, key):
                raise PermafrostError(
                    f"features of {one} and {other} have different {what}:"
                    f" {_value(first, key)} and {_value(store, key)}",
                    where=where,
                    remedy="leave this pair out, or give both datasets the same bands",
                )


def _value(store: Store, key: str):
    return store.attributes.get(key, store.attributes.get("input", {}).get(key))
