"""Samples of several dates and sensors, from a source to the image store and its card."""

import numpy as np
import pytest
from helpers.datasets.images import Prepared, folder_entry, geotiff
from helpers.datasets.tortilla import SIZE, hdf5, item, sample, tortilla, written
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore

SPLITS = ["train", "train", "train", "validation", "test"]
DAYS = [20200105, 20200301, 20200617, 20200811]
TWO = ["a", "b"]


def series(name: str, values: np.ndarray, days=None) -> dict:
    days = DAYS[: len(values)] if days is None else days
    return item(name, hdf5(values), "HDF5", dates=days)


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 900, shape).astype(np.int16)


def file_of(folder, parts_of) -> str:
    """A file of five samples; `parts_of` gives the parts of each by its number."""
    samples = [
        sample(f"s{number}", parts_of(number), split, kind=("oak", "pine")[number % 2])
        for number, split in enumerate(SPLITS)
    ]
    return str(written(folder, tortilla(samples)))


def entry_of(path: str, source=None, **more) -> dict:
    place = {"kind": "tortilla", "path": path, "image": "s2", "label": "kind", **(source or {})}
    bands = {} if "modalities" in more else {"bands": [{"name": name} for name in TWO]}
    return {
        "task": "classification",
        "units": {"unit": "digital_number", "scale": 1},
        "classes": ["oak", "pine"],
        "source": place,
        "allow_missing_classes": True,
        **bands,
        **more,
    }


def dates(number: int) -> int:
    return (2, 4, 1, 3, 2)[number]


def of_dates(number: int) -> list[dict]:
    return [series("s2", values(number, dates(number), 2, SIZE, SIZE))]


def read(out: Prepared, split: str) -> tuple[ImageStore, np.ndarray]:
    store = ImageStore(out.outputs[split])
    return store, store.read().images


def test_a_series_keeps_the_dates_that_there_are(tmp_path):
    path = file_of(tmp_path / "data", of_dates)
    card = (out := Prepared(tmp_path / "out")).run(entry_of(path, dates="series"))
    store, images = read(out, "train")
    assert images.shape == (3, 4, 2, SIZE, SIZE)
    for row in range(3):
        assert np.array_equal(images[row, : dates(row)], values(row, dates(row), 2, SIZE, SIZE))
        assert not images[row, dates(row) :].any()
    assert store.samples["dates"].to_pylist()[0] == ["2020-01-05", "2020-03-01"]
    assert store.date_counts(store.modalities[0]).tolist() == [2, 4, 1]
    assert card["dates"] == "series"
    (about,) = card["modalities"]
    assert about["dates"] == {"fewest": 1, "most": 4, "first": "2020-01-05", "last": "2020-08-11"}
    # statistics are of the dates that there are, and of no zeros that fill up
    pixels = np.concatenate([values(n, dates(n), 2, SIZE, SIZE) for n in range(3)]).astype(float)
    for number, band in enumerate(card["bands"]):
        assert band["mean"] == pytest.approx(pixels[:, number].mean())
        assert band["std"] == pytest.approx(pixels[:, number].std())
        assert band["min"] == pixels[:, number].min() > 0


def test_the_first_sample_need_not_have_the_most_dates(tmp_path):
    """The layout is known only once all samples have been read."""
    path = file_of(tmp_path / "data", of_dates)
    Prepared(tmp_path / "out").run(entry_of(path, dates="series"))
    assert dates(0) < dates(1)
    assert read(Prepared(tmp_path / "out"), "test")[1].shape[1] == 4


def test_of_long_series_dates_are_kept_evenly(tmp_path):
    path = file_of(tmp_path / "data", of_dates)
    out = Prepared(tmp_path / "out")
    out.run(entry_of(path, dates="series", most_dates=2))
    store, images = read(out, "train")
    assert images.shape[1] == 2
    assert store.samples["dates"].to_pylist()[1] == ["2020-01-05", "2020-08-11"]
    assert np.array_equal(images[1], values(1, 4, 2, SIZE, SIZE)[[0, 3]])


def test_a_pair_has_two_dates(tmp_path):
    def parts(number):
        two = values(number, 2, 2, SIZE, SIZE)
        return [item("before", geotiff(two[0])), item("after", geotiff(two[1]))]

    path = file_of(tmp_path / "data", parts)
    out = Prepared(tmp_path / "out")
    out.run(entry_of(path, {"image": ["before", "after"]}, dates="pair"))
    store, images = read(out, "train")
    assert np.array_equal(images, np.stack([values(n, 2, 2, SIZE, SIZE) for n in range(3)]))
    assert store.samples["dates"].to_pylist() == [[None, None]] * 3


def decibels(number: int) -> np.ndarray:
    return -values(number + 9, dates(number), 2, 8, 12).astype(np.float32) / 40


MODALITIES = {
    "s2": {"bands": [{"name": name} for name in TWO]},
    "s1": {"bands": [{"name": "VV"}, {"name": "b"}], "units": {"unit": "db"}},
}
BOTH = {"image": {"s2": "s2", "s1": "s1"}}


def test_modalities_lie_in_arrays_of_their_own_size_and_dates(tmp_path):
    def parts(number):
        return [series("s2", values(number, 1, 2, SIZE, SIZE)), series("s1", decibels(number))]

    path = file_of(tmp_path / "data", parts)
    out = Prepared(tmp_path / "out")
    card = out.run(entry_of(path, BOTH, dates="series", modalities=MODALITIES))
    store, images = read(out, "val")
    assert images.shape == (1, 1, 2, SIZE, SIZE)
    radar = store.store.read("images_s1")
    assert radar.shape == (1, 4, 2, 8, 12) and radar.dtype == np.float32
    assert np.array_equal(radar[0, :3], decibels(3))
    # a name that two modalities have is told apart
    assert [band["name"] for band in card["bands"]] == ["a", "s2:b", "VV", "s1:b"]
    assert [band["modality"] for band in card["bands"]] == ["s2", "s2", "s1", "s1"]
    assert [one["largest_size"] for one in card["modalities"]] == [[SIZE, SIZE], [8, 12]]
    assert card["bands"][2]["unit"] == "db" and card["bands"][0]["unit"] == "digital_number"
    first = np.concatenate([decibels(n)[:, 0].ravel() for n in range(3)])
    assert card["bands"][2]["mean"] == pytest.approx(first.astype(float).mean())


def test_the_name_of_a_modality_selects_its_bands(tmp_path):
    def parts(number):
        return [item(name, geotiff(values(number, 2, 8, 8))) for name in ("s2", "s1")]

    path = file_of(tmp_path / "data", parts)
    one_unit = {name: {"bands": one["bands"]} for name, one in MODALITIES.items()}
    entry = entry_of(path, BOTH, modalities=one_unit, select=["s1", "a"])
    assert Prepared(tmp_path / "out").run(entry)["selected"] == ["VV", "s1:b", "a"]


def wrong_parts(change):
    """The parts of samples, of the second of which `change` makes something else."""
    return lambda number: change(of_dates(number)) if number == 1 else of_dates(number)


@pytest.mark.parametrize(
    ("parts", "more", "why"),
    [
        (of_dates, {"dates": "pair"}, "has 4 dates, and a pair has two"),
        (
            lambda number: [item("s2", geotiff(values(number, 2, SIZE, SIZE)))],
            {"dates": "pair"},
            "has 1 dates, and a pair has two",
        ),
        (
            lambda n: [series("s2", values(n, 2, 2, 8, 8), [20200301, 20200105])],
            {"dates": "series"},
            "out of order",
        ),
        (
            wrong_parts(lambda _: [series("s2", values(1, 2, 3, SIZE, SIZE))]),
            {"dates": "series"},
            "s1: has 3 bands, the entry declares 2",
        ),
        (
            lambda n: [
                series("s2", values(n, 1, 2, 8, 8)),
                series("s1", values(n, 1, 2, 8 + n, 8)),
            ],
            {"dates": "series", "modalities": MODALITIES, "source": BOTH},
            "its image s1 is 9 x 8 pixels, that of the first image 8 x 8",
        ),
    ],
)
def test_a_sample_that_is_not_as_the_entry_says_is_named(tmp_path, parts, more, why):
    path = file_of(tmp_path / "data", parts)
    source = more.pop("source", None) if "source" in more else None
    out = Prepared(tmp_path / "out")
    with pytest.raises(PermafrostError, match=why):
        out.run(entry_of(path, source, **more))
    assert not out.card_path.exists()
    assert not any(place.exists() for place in out.outputs.values())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"modalities": MODALITIES}, "bands and modalities exclude each other"),
        ({"source": {"image": {"s2": "s2", "s1": "s1"}}}, "image in source names s2, s1"),
    ],
)
def test_what_an_entry_cannot_ask_for_is_said_before_data_are_read(tmp_path, change, why):
    path = file_of(tmp_path / "data", of_dates)
    source = change.get("source")
    more = {key: value for key, value in change.items() if key != "source"}
    entry = entry_of(path, source, **more)
    if "modalities" in change:
        entry["bands"] = [{"name": name} for name in TWO]
        entry["source"]["image"] = {"s2": "s2", "s1": "s1"}
    with pytest.raises(PermafrostError, match=why):
        Prepared(tmp_path / "out").run(entry)


def test_sources_of_single_images_refuse_series(tmp_path):
    with pytest.raises(
        PermafrostError, match="provides one image of one sensor, not dates: series"
    ):
        Prepared(tmp_path / "out").run(
            {
                **folder_entry(tmp_path, dates="series", task="detection"),
                "source": {"kind": "voc", "path": str(tmp_path)},
            }
        )
