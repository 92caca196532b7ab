"""Derived datasets with harder images: what their stores give, and features that equal those of images on disk."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers.backbones import validated as backbone
from helpers.datasets.images import Prepared, encode, folder_entry, photo, validated, write_folder
from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import IMAGES as SERIES
from helpers.stores.images import SeveralDataset, band, card_of, rgb_bands
from permafrost.core.errors import PermafrostError
from permafrost.core.option_models import read
from permafrost.core.rows_store import Parent
from permafrost.data.derived import UNCHANGED
from permafrost.data.resplit.harder import changed_bands, write_harder
from permafrost.data.resplit.job import OfParents, ResplitSpec, resplit
from permafrost.data.store.card import read_card
from permafrost.data.store.image_store import ImageStore
from permafrost.features.extract import extract
from permafrost.features.harder import HarderSpec, extract_harder
from permafrost.features.specification import Running
from PIL import Image

SPLITS = ("train", "val", "test")
IMAGES, ROWS = "f" * 32, "d" * 32
ENTRY = {"kind": "imagestats", "input": {"size": 24}}


def paths(folder: Path) -> dict[str, Path]:
    return {split: folder / f"{split}.zarr" for split in SPLITS}


def prepared(results: Path, name: str, files: dict[str, bytes]) -> None:
    folder = write_folder(results.parent / f"{name}-files", files)
    source = {"kind": "folder", "path": str(folder), "split_folders": True}
    entry = folder_entry(folder, source=source, splits={"method": "given"})
    Prepared(results / "images" / name).run(entry, name=name)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Results with the dataset ``whole``: images of three sizes, and its features."""
    results = tmp_path_factory.mktemp("harder") / "results"
    sizes = [(24, 32), (20, 28), (26, 30)]
    files = {
        f"{split}/{'ab'[i % 2]}/{i}.png": encode(photo(100 * number + i, sizes[i % 3]))
        for number, split in enumerate(SPLITS)
        for i in range(10)
    }
    prepared(results, "whole", files)
    extracted(results, "whole")
    return results


def extracted(results: Path, name: str) -> None:
    content = {
        "stage": "extract",
        "backbone": "stats",
        "dataset": name,
        "files": {},
        "entry": ENTRY,
    }
    content |= {"extraction": extraction_of(), "inputs": {"images": IMAGES}}
    extract(
        specification(content),
        images=paths(results / "images" / name),
        card=results / "images" / name / "card.json",
        outputs=paths(results / "features" / name / "stats"),
        fingerprint=f"features-of-{name}",
        running=Running(device="cpu"),
    )


def harder(results: Path, kind: str, severity: int, seed: int = 0) -> ImageStore:
    """The test images of the derived dataset, which is made if it is not there."""
    name = f"{kind}-{severity}-{seed}"
    folder = results / "images" / name
    if not folder.exists():
        whole = validated(folder_entry(""))
        spec = ResplitSpec(
            dataset=name,
            entry={key: one for key, one in whole.items() if key not in ("source", "splits")},
            derived={"of": "whole", "seed": seed},
            harder={kind: severity},
            inputs=OfParents(images={"whole": IMAGES}),
        )
        cards = {"whole": results / "images/whole/card.json"}
        resplit(
            spec,
            cards=cards,
            outputs=paths(folder),
            card_path=folder / "card.json",
            fingerprint=ROWS,
        )
    return ImageStore(folder / "test.zarr", expect=ROWS, split="test")


def features(
    results: Path, name: str, severity: int, batch_size: int, bands: list[str] | None = None
) -> dict[str, ImageStore]:
    """Feature stores of the derived dataset by split, computed in batches of this size from these bands."""
    whole, outputs = results / "images/whole", paths(results / f"features/{name}/stats")
    entry = ENTRY if bands is None else {**ENTRY, "input": {**ENTRY["input"], "bands": bands}}
    content = {"stage": "extract_harder", "backbone": "stats", "dataset": name, "files": {}}
    content |= {"entry": backbone(entry), "extraction": extraction_of(), "rows": ["whole"]}
    content |= {"harder": {"noise": severity}}
    known = {"images": IMAGES, "rows": ROWS, "features": {"whole": "features-of-whole"}}
    extract_harder(
        read(HarderSpec, {**content, "inputs": known}, where="here"),
        images=paths(whole),
        card=whole / "card.json",
        rows=results / "images" / name,
        features=results / "features",
        outputs=outputs,
        fingerprint="f" * 32,
        running=Running(device="cpu", batch_size=batch_size, workers=2),
    )
    return {split: ImageStore(path).store for split, path in outputs.items()}


def images_of(store: ImageStore) -> list[np.ndarray]:
    """Without padding, read one by one from the last to the first."""
    found = []
    for row in reversed(range(len(store))):
        image = store.store.read("images", row, row + 1)[0]
        assert (
            not image[:, store.heights[row] :].any() and not image[:, :, store.widths[row] :].any()
        )
        found.append(image[:, : store.heights[row], : store.widths[row]])
    return found[::-1]


def hazy(pixels: np.ndarray) -> np.ndarray:
    return np.rint(pixels.astype(np.float32) * np.float32(0.6) + np.float32(0.4 * 255)).astype(
        "uint8"
    )


def compressed(pixels: np.ndarray) -> np.ndarray:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="JPEG", quality=20)
    return np.asarray(Image.open(stream))


@pytest.mark.parametrize(("kind", "by_hand"), [("haze", hazy), ("jpeg", compressed)])
def test_features_are_those_of_images_that_are_degraded_on_disk(made, kind, by_hand):
    harder(made, kind, 3)
    found = features(made, f"{kind}-3-0", 3, batch_size=3)
    source, name = made.parent / "whole-files", f"{kind}-by-hand"
    files = {
        str(path.relative_to(source)): encode(by_hand(np.asarray(Image.open(path))))
        if path.is_relative_to(source / "test")
        else path.read_bytes()
        for path in source.rglob("*.png")
    }
    prepared(made, name, files)
    extracted(made, name)
    for split in SPLITS:
        expected = ImageStore(made / f"features/{name}/stats/{split}.zarr")
        assert found[split].read("embeddings").tobytes() == (
            expected.store.read("embeddings").tobytes()
        )
        assert found[split].samples().equals(expected.samples)
        assert found[split].attributes["split_method"] == "given"


def test_severity_0_gives_the_features_of_the_parent(made):
    harder(made, "noise", 0)
    found = features(made, "noise-0-0", 0, batch_size=64)
    for split in SPLITS:
        clean = ImageStore(made / f"features/whole/stats/{split}.zarr").store
        assert found[split].read("embeddings").tobytes() == clean.read("embeddings").tobytes()


def test_noise_depends_on_sample_and_seed_and_not_on_how_images_are_read(made):
    store, clean = harder(made, "noise", 5), ImageStore(made / "images/whole/test.zarr")
    one_by_one = images_of(store)
    together = store.store.read("images")
    for image, row, height, width in zip(
        one_by_one, together, store.heights, store.widths, strict=True
    ):
        np.testing.assert_array_equal(row[:, :height, :width], image)
    added = [a.astype(int) - b for a, b in zip(one_by_one, images_of(clean), strict=True)]
    spread = [one[abs(one) < 40].std() for one in added]
    assert min(spread) > 14 and max(spread) < 22  # 8 % of 255, some of it cut off
    crops = [one[:, :20, :28].tobytes() for one in added]
    assert len(set(crops)) == len(crops)
    other = images_of(harder(made, "noise", 5, seed=1))
    assert not any(np.array_equal(a, b) for a, b in zip(one_by_one, other, strict=True))
    # all but the test images are those of the parent
    for split in ("train", "val"):
        own, whole = (
            ImageStore(made / f"images/{name}/{split}.zarr").store.read("images")
            for name in ("noise-5-0", "whole")
        )
        np.testing.assert_array_equal(own, whole)
    card = read_card(made / "images/noise-5-0/card.json", expect=ROWS)
    assert card.dataset == "noise-5-0" and card.derived["harder"] == {"noise": 5}


def test_bands_left_out_hold_their_mean_of_train_and_are_nested(made):
    card = read_card(made / "images/whole/card.json")
    means = [round(one["mean"]) for one in card.bands]
    left_out = []
    for severity, count in ((1, 1), (4, 2), (5, 2)):
        constant = {
            tuple(place for place, pixels in enumerate(image) if (pixels == means[place]).all())
            for image in images_of(harder(made, "bands_left_out", severity))
        }
        assert len(constant) == 1
        left_out.append(set(constant.pop()))
        assert len(left_out[-1]) == count
    assert left_out[0] < left_out[1] == left_out[2]


def test_a_backbone_that_reads_none_of_the_changed_bands_is_marked(made):
    about = harder(made, "bands_left_out", 1).store.attributes["harder"]
    changed = [one is not None for one in about["bands"]]
    names = [one["name"] for one in read_card(made / "images/whole/card.json").bands]
    for place, name in enumerate(names):
        found = features(made, "bands_left_out-1-0", 1, 64, bands=[name])
        marked = [UNCHANGED in store.attributes["gates"] for store in found.values()]
        assert marked == [False, False, not changed[place]]
    assert sum(changed) == 1
    found = features(made, "bands_left_out-1-0", 1, 64)
    assert UNCHANGED not in found["test"].attributes["gates"]


RADAR = [band(name, unit="db") for name in ("VV", "VH")]
NIR = band("B08", unit="digital_number", p2=200.0, p98=4000.0)


@pytest.mark.parametrize(
    ("bands", "kind", "changed"),
    [
        ([*rgb_bands(), NIR], "noise", [(0.0, 255.0)] * 3 + [(200.0, 4000.0)]),
        ([NIR, *RADAR], "haze", [(200.0, 4000.0), None, None]),
        ([NIR, *RADAR], "noise", [(200.0, 4000.0), (5.0, 250.0), (5.0, 250.0)]),
        ([NIR, *rgb_bands()], "only_rgb", [(200.0, 4000.0), None, None, None]),
    ],
)
def test_strengths_are_relative_to_the_range_of_a_band(bands, kind, changed):
    found = changed_bands(card_of(bands), kind, 1, 0)
    assert [one and (one["low"], one["high"]) for one in found] == changed


def test_a_card_without_optical_bands_has_no_clouds():
    with pytest.raises(PermafrostError, match="tiny: clouds changes no band of the dataset.*leave"):
        changed_bands(card_of(RADAR), "clouds", 2, 0)


@pytest.fixture
def series(tmp_path) -> SeveralDataset:
    return SeveralDataset(tmp_path / "images/several", samples=(4, 3, 8), dates=6)


def of_series(series: SeveralDataset, kind: str, severity: int) -> ImageStore:
    folder = series.folder.with_name(f"{kind}-{severity}")
    write_harder(
        (kind, severity),
        0,
        stores=[
            (Parent("several", split, SERIES), ImageStore(series.folder / f"{split}.zarr"))
            for split in SPLITS
        ],
        card=read_card(series.folder / "card.json"),
        outputs=paths(folder),
        card_path=folder / "card.json",
        fingerprint=ROWS,
    )
    return ImageStore(folder / "test.zarr")


def test_dropped_dates_are_gone_and_stay_dropped(series):
    before = [list(range(count)) for count in series.counts["test"]]
    for severity, share in ((1, 0.1), (3, 0.5), (5, 0.9)):
        store = of_series(series, "dates_dropped", severity)
        counts, stored = store.date_counts(store.modalities[0]), store.store.read("images", 2, 8)
        for row, count in enumerate(series.counts["test"]):
            assert counts[row] == max(count - int(np.ceil(share * count)), 1)
            kept = [int(date[5:7]) - 1 for date in store.samples["dates"].to_pylist()[row]]
            assert set(kept) <= set(before[row]) and kept == sorted(kept)
            before[row] = kept
            if row >= 2:
                expected = series.pixels["test"][row, kept]
                np.testing.assert_array_equal(stored[row - 2, : len(kept)], expected)
                assert not stored[row - 2, len(kept) :].any()
        np.testing.assert_array_equal(store.store.read("images_radar"), series.radar["test"])


def test_each_date_has_noise_of_its_own_and_a_place_moves_as_a_whole(series):
    noisy = of_series(series, "noise", 5).store.read("images").astype(int)
    added = noisy - series.pixels["test"]
    assert not np.array_equal(added[0, 0], added[0, 1])
    # the haze of radar is none
    hazy = of_series(series, "haze", 5).store
    np.testing.assert_array_equal(hazy.read("images_radar"), series.radar["test"])
    moved = of_series(series, "shift", 1).store.read("images")
    for row in range(8):
        ways = {
            (down, right)
            for down in (-1, 1)
            for right in (-1, 1)
            for date in range(series.counts["test"][row])
            if np.array_equal(
                np.roll(series.pixels["test"][row, date], (down, right), (1, 2))[:, 1:-1, 1:-1],
                moved[row, date][:, 1:-1, 1:-1],
            )
        }
        assert len(ways) == 1
