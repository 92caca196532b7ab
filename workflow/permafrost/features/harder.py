"""Feature stores of a dataset with harder images: train and val are those of its parent, test is run anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from permafrost.core.rows_store import HARDER
from permafrost.data.derived import DATES_DROPPED, UNCHANGED
from permafrost.data.store.card import read_card
from permafrost.data.store.image_store import ImageStore
from permafrost.features.attributes import of_dataset
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import extract_split, open_backbone
from permafrost.features.select import OfRows, SelectSpec, select
from permafrost.features.specification import BackboneSpec, OfImages, Running
from permafrost.features.split import Shapes


@dataclass(frozen=True, kw_only=True)
class OfHarder(OfImages, OfRows):
    """Fingerprints of the parent's image stores, of those of the derived dataset, and of the parent's features."""


@dataclass(frozen=True, kw_only=True)
class HarderSpec(BackboneSpec):
    """The job of `extract_harder`.

    Attributes
    ----------
    rows : the parent.
    harder : the degradation and its severity.
    """

    stage: str = "extract_harder"
    rows: list[str]
    harder: dict[str, int]
    inputs: OfHarder


def extract_harder(
    spec: HarderSpec,
    *,
    images: dict[str, Path],
    card: Path,
    rows: Path,
    features: Path,
    outputs: dict[str, Path],
    fingerprint: str,
    running: Running,
) -> None:
    """Run the backbone of `spec`, built as for the parent, over degraded test images, and write its feature stores.

    Parameters
    ----------
    images, card : of the parent. rows : folder of the derived dataset's image stores and card.
    features : folder of all features, ``features/{dataset}/{backbone}``.
    outputs, fingerprint : as for `extract`.

    Raises
    ------
    PermafrostError : anything that the user can correct; no partial store is left.
    """
    own = read_card(rows / "card.json", expect=spec.inputs.rows)
    with exact_numerics(running.threads):
        opened = open_backbone(
            spec, images=images, card=card, device=running.device, batch_size=running.batch_size
        )
        test = ImageStore(rows / "test.zarr", expect=spec.inputs.rows, split="test")
        opened = replace(
            opened,
            stores={**opened.stores, "test": test},
            attributes={
                **opened.attributes,
                **of_dataset(spec, own),
                "gates": [*opened.attributes["gates"], *_gates(test, opened.run.prepare.stored)],
            },
        )
        extract_split(opened, "test", outputs["test"], fingerprint, running, Shapes())
    select(
        SelectSpec(
            dataset=spec.dataset,
            backbone=spec.backbone,
            inputs=OfRows(rows=spec.inputs.rows, features=spec.inputs.features),
        ),
        features=features,
        card=own,
        images=rows,
        outputs={split: path for split, path in outputs.items() if split != "test"},
        fingerprint=fingerprint,
    )


def _gates(test: ImageStore, read: list[int]) -> list[str]:
    """A warning if none of the bands that are read, by position in the card, is degraded."""
    about = test.store.attributes.get(HARDER)
    if about is None:
        return []
    places = {
        place
        for one in test.modalities
        for place in one.bands
        if about["kind"] != DATES_DROPPED or one.dates is not None
    }
    return [] if any(about["bands"][place] for place in places.intersection(read)) else [UNCHANGED]
