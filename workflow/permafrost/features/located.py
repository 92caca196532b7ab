"""Extract features of backbones without pixel input, from the locations of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.located import Located
from permafrost.backbones.registry import locate, read_entry
from permafrost.core.errors import PermafrostError
from permafrost.core.progress import progress
from permafrost.core.versions import recorded_versions
from permafrost.data.embeddings.places import Place, places_of
from permafrost.data.store.card import Card, read_card
from permafrost.data.store.image_store import ImageStore
from permafrost.features.attributes import of_dataset
from permafrost.features.maps import MapWriter, dense_attributes
from permafrost.features.promised import PromisedBackbone
from permafrost.features.running import Outputs
from permafrost.features.specification import ExtractSpec
from permafrost.features.writing import FeatureWriter, feature_store, write_labels

#: images whose features are requested at once, and samples that are written together
ASKED, TOGETHER = 1024, 16


@dataclass(frozen=True)
class _Split:
    """The images of one split, one per date, and their features once computed.

    ``places`` has a location for every image, ``dates`` (N,) the number of images of each sample
    (None: single images), ``features`` (images, K).
    """

    store: ImageStore
    places: list[Place]
    dates: np.ndarray | None
    features: np.ndarray | None = None


def extract_located(
    spec: ExtractSpec,
    *,
    images: dict[str, Path],
    card: Path,
    outputs: dict[str, Path],
    fingerprint: str,
    digest_of: Callable,
) -> None:
    """Write the feature stores of a backbone that maps locations to features.

    Parameters
    ----------
    images, card, outputs, fingerprint : as for `permafrost.features.extract.extract`.
    digest_of : computes the digest of a file or folder.

    Raises
    ------
    PermafrostError : anything that the user can correct, such as images without a location or
        without an embedding; then nothing is written.
    """
    where = f"backbone {spec.backbone}"
    expect, entry = spec.inputs.images, read_entry(spec.entry, where=where)
    about = read_card(card, expect=expect)
    stores = {split: ImageStore(path, expect=expect, split=split) for split, path in images.items()}
    promised = PromisedBackbone(spec, where, digest_of)
    promised.check()
    located = locate(entry, where)
    promised.check(located)
    splits = {split: _Split(store, *places_of(store)) for split, store in stores.items()}
    where = f"{where} on {spec.dataset}"
    _check_places(located, splits, maps=spec.extraction.maps, where=where)
    splits = _with_features(located, splits, where)
    attributes = {
        **of_dataset(spec, about),
        "weights_sha256": located.weights_sha256,
        "parameters": located.parameters,
        "pooling": located.pooling,
        "notes": {},
        "input": {"kind": entry.kind, **located.describe()},
        "device": "cpu",
        "versions": recorded_versions(located.packages),
    }
    if spec.extraction.maps:
        plan = InputPlan((), entry.input.get("size"), None, "nearest", False, "none")
        attributes |= dense_attributes(plan, stores, about, where=where)
    shapes: tuple = ()
    for split, path in outputs.items():
        with feature_store(path, fingerprint=fingerprint) as writer:
            shapes, found = _write(
                spec, located, splits[split], writer, attributes, shapes, about, where
            )
            writer.attributes.update({**attributes, "split": split, **found})
            promised.check()


def _check_places(located: Located, splits: dict[str, _Split], *, maps: bool, where: str) -> None:
    """Raise `PermafrostError` if the backbone needs locations that the dataset lacks."""
    places = [place for one in splits.values() for place in one.places]
    if located.needs_place and (lacking := {p.sample_id for p in places if not p.known}):
        raise PermafrostError(
            f"{len(lacking)} of {sum(len(one.store) for one in splits.values())} samples have no longitude"
            f" and latitude, first {min(lacking)!r}",
            where=where,
            remedy="use images with a georeference or give columns lon and lat; or leave this backbone out",
        )
    if not maps:
        return
    if located.layer is None:
        raise PermafrostError(
            "the task needs maps, and a table has one embedding for an image",
            where=where,
            remedy="use rasters of embeddings",
        )
    if lacking := {place.sample_id for place in places if not place.footprint}:
        raise PermafrostError(
            f"maps need the location of every pixel, and {len(lacking)} samples have no georeference, first"
            f" {min(lacking)!r}",
            where=where,
            remedy="use images with a georeference, or leave this backbone out",
        )


def _with_features(located: Located, splits: dict[str, _Split], where: str) -> dict[str, _Split]:
    """Compute the features of all images; raises one `PermafrostError` for all images without any."""
    found, lacking = {}, []
    for split, one in splits.items():
        parts = []
        with progress(total=len(one.places), label=f"{where}/{split}", unit="image") as bar:
            for start in range(0, max(1, len(one.places)), ASKED):
                places = one.places[start : start + ASKED]
                features, reasons = located.features(places)
                lacking += [(places[number].sample_id, why) for number, why in reasons.items()]
                parts.append(features)
                bar.update(len(places))
        if not lacking:
            found[split] = _Split(one.store, one.places, one.dates, np.concatenate(parts))
    if lacking:
        shown = "; ".join(f"{sample}: {why}" for sample, why in lacking[:10])
        more = f"; and {len(lacking) - 10} more" if len(lacking) > 10 else ""
        total = sum(len(one.places) for one in splits.values())
        raise PermafrostError(
            f"{len(lacking)} of {total} images have no embedding: {shown}{more}",
            where=where,
            remedy="get the files that cover them; or set `unmatched: drop` in the entry, which removes these images"
            " from the dataset for all backbones",
        )
    return found


def _write(
    spec: ExtractSpec,
    located: Located,
    split: _Split,
    writer,
    attributes: dict,
    shapes: tuple,
    card: Card,
    where: str,
) -> tuple[tuple, dict]:
    """Write the arrays of one split; returns the shapes of its maps and the split's own attributes."""
    store, options, names = split.store, spec.extraction, split.store.samples["sample_id"]
    series = next((one for one in store.modalities if one.dates is not None), None)
    most = None if series is None else store.store.shape(series.array)[1]
    maps = None
    if options.maps:
        maps = MapWriter(
            writer, (located.layer,), shapes, np.dtype(options.maps_dtype), names, where
        )
    sink = FeatureWriter(
        writer,
        names,
        options.dtype,
        where,
        maps,
        dimension=split.features.shape[1],
        dates=most,
    )
    empty = _Empty()
    try:
        for rows, dates in _blocks(split, TOGETHER):
            made: tuple[np.ndarray, ...] = ()
            if maps is not None:
                grid = attributes["working_size"]
                filled = [_filled(located, place, grid, empty) for place in split.places[rows]]
                made = (np.stack(filled).astype(options.maps_dtype, order="C"),)
            finite = [bool(np.isfinite(one).all()) for one in made]
            outputs = Outputs(split.features[rows], made, finite, dates)
            sink.put(lambda outputs=outputs: outputs)
        gates = sink.finish()
    finally:
        sink.close()
    write_labels(writer, store.labels())
    writer.samples(store.samples)
    found = {"feature_dim": sink.dimension, "gates": gates}
    if series is not None:
        found["dates"] = {"kind": card.dates, "column": series.dates}
    if maps is not None:
        maps.copy_native(store)
        found |= {"layers": maps.described(), "cells_without_data": empty.cells}
    return (maps.shapes if maps is not None else ()), found


@dataclass
class _Empty:
    """Counter of map cells without data."""

    cells: int = 0


def _filled(located: Located, place: Place, grid: Sequence[int], empty: _Empty) -> np.ndarray:
    """The map (C, H, W) of an image, with zeros in cells without data."""
    values = located.maps(place, *grid)
    gone = ~np.isfinite(values).all(axis=0)
    empty.cells += int(gone.sum())
    values[:, gone] = 0
    return values


def _blocks(split: _Split, together: int) -> Iterator[tuple[slice, np.ndarray | None]]:
    """Slices of the images of `together` samples, with the number of dates of each sample."""
    counts = np.ones(len(split.store), int) if split.dates is None else split.dates
    ends = np.concatenate([[0], np.cumsum(counts)])
    for first in range(0, len(counts), together):
        last = min(first + together, len(counts))
        rows = slice(int(ends[first]), int(ends[last]))
        yield rows, None if split.dates is None else counts[first:last]
