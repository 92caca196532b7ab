"""A derived dataset equals the dataset that is prepared anew with its splits: labels, samples, pixels and features."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    Prepared,
    encode,
    photo,
    validated,
    write_folder,
    write_table,
)
from helpers.stages.specifications import extraction_of, specification
from permafrost.core.errors import PermafrostError
from permafrost.core.rows_store import FOLDS
from permafrost.core.store_readers import open_store
from permafrost.data.resplit.job import OfParents, ResplitSpec, resplit
from permafrost.data.store.card import read_card
from permafrost.data.store.image_store import ImageStore

SPLITS = ("train", "val", "test")
IMAGES, DERIVED = "f" * 32, "d" * 32
COUNT = 72


class Data:
    """A table of images in a folder: three classes, 18 groups around Europe, all seasons of two years.

    Image 3 is copied to other groups (4, byte by byte, and 5, in another file type).
    """

    def __init__(self, folder: Path, *, classes=("field", "lake", "town"), seed: int = 0) -> None:
        self.folder, rng = folder, np.random.default_rng(seed)
        self.rows, files = [], {}
        for i in range(COUNT):
            size = [(24, 32), (20, 28), (26, 30)][i % 3]
            kind = "tiff" if i == 5 else "png"
            files[f"{i:03d}.{kind}"] = encode(
                photo(1000 * seed + (3 if i in (4, 5) else i), size), kind
            )
            if i in (4, 5):
                files[f"{i:03d}.{kind}"] = encode(photo(1000 * seed + 3, (24, 32)), kind)
            group = i % 18
            self.rows.append(
                {
                    "file": f"{i:03d}.{kind}",
                    "class": classes[(i // 18 + i) % len(classes)],
                    "part": ["train", "train", "val", "test"][group % 4],
                    "site": f"site{group}",
                    "x": 5.0 + group + 0.01 * rng.random(),
                    "y": 40.0 + group + 0.01 * rng.random(),
                    "when": f"{2019 + i % 2}-{1 + i % 12:02d}-05",
                    "number": float(i),
                }
            )
        write_folder(folder / "files", files)

    def entry(self, rows=None, name="index", **changes) -> dict:
        path = write_table(self.folder / f"{name}.csv", self.rows if rows is None else rows)
        source = {"kind": "table", "table": str(path), "images": str(self.folder / "files")}
        source |= {"path": "file", "label": "class", "split": "part", "group": "site"}
        source |= {"lon": "x", "lat": "y", "date": "when", **changes.pop("source", {})}
        source = {key: value for key, value in source.items() if value is not None}
        return {**RGB_ENTRY, "source": source, "splits": {"method": "given"}, **changes}

    def divided(self, parts: dict[str, str], name: str) -> dict:
        """The entry of the same images with these splits by sample; all others are left out."""
        rows = [{**row, "part": parts.get(row["file"], "none")} for row in self.rows]
        left_out = {"leave_out": ["none"]} if len(parts) < COUNT else {}
        return self.entry(rows, name) | {"splits": {"method": "given", **left_out}}


def derive(results: Path, name: str, entry: dict, derived: dict, table: Path | None = None):
    """Run the job; returns its card."""
    content = {key: one for key, one in validated(entry).items() if key not in ("source", "splits")}
    origins = [derived[key] for key in ("of", "train", "test") if key in derived]
    images = dict.fromkeys(origins, IMAGES)
    spec = ResplitSpec(
        dataset=name, entry=content, derived=derived, inputs=OfParents(images=images)
    )
    folder = results / "images" / name
    return resplit(
        spec,
        cards={one: results / "images" / one / "card.json" for one in images},
        outputs={split: folder / f"{split}.zarr" for split in SPLITS},
        card_path=folder / "card.json",
        fingerprint=DERIVED,
        table=table,
    )


def stores_of(results: Path, name: str) -> dict[str, ImageStore]:
    return {split: ImageStore(results / "images" / name / f"{split}.zarr") for split in SPLITS}


def samples(results: Path, name: str, split: str) -> list[dict]:
    return ImageStore(results / "images" / name / f"{split}.zarr").samples.to_pylist()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(data, results) with the dataset ``whole``."""
    folder = tmp_path_factory.mktemp("resplit")
    data, results = Data(folder / "data"), folder / "results"
    Prepared(results / "images" / "whole").run(data.entry(), name="whole")
    return data, results


@functools.cache
def group_of(i: int) -> str:
    return f"site{i % 18}"


KEPT = ("group_id", "lon", "lat", "date", "height", "width")


def check_same(results, name, anew, *, fold: int | None = None) -> None:
    """All of a split of a derived dataset, or of one of its folds, is as prepared anew, by name of the sample."""
    for split, own in stores_of(results, name).items():
        other = stores_of(results, anew)[split]
        rows = np.arange(len(own))
        if fold is not None:
            rows = np.flatnonzero(own.store.read(FOLDS)[:, fold])
        table, expected = own.samples.to_pylist(), other.samples.to_pylist()
        places = {row["sample_id"]: place for place, row in enumerate(expected)}
        assert {table[i]["sample_id"] for i in rows} == places.keys()
        pixels, labels = own.store.read("images"), own.store.read("labels")
        again, wanted = other.store.read("images"), other.store.read("labels")
        assert labels.dtype == wanted.dtype and pixels.dtype == again.dtype
        for i in rows:
            there = places[table[i]["sample_id"]]
            assert labels[i] == wanted[there]
            assert {k: table[i][k] for k in KEPT} == {k: expected[there][k] for k in KEPT}
            height, width = table[i]["height"], table[i]["width"]
            np.testing.assert_array_equal(
                pixels[i][:, :height, :width], again[there][:, :height, :width]
            )
            assert not pixels[i][:, height:].any() and not pixels[i][:, :, width:].any()


def parts_of(results, name, fold: int | None = None) -> dict[str, str]:
    """Sample -> split of a derived dataset, or of one of its folds."""
    found = {}
    for split, store in stores_of(results, name).items():
        rows = range(len(store))
        if fold is not None:
            rows = np.flatnonzero(store.store.read(FOLDS)[:, fold])
        found |= {store.samples["sample_id"][int(i)].as_py(): split for i in rows}
    return found


@pytest.mark.parametrize("seed", [0, 7])
def test_a_share_equals_the_dataset_prepared_anew(made, tmp_path, seed):
    data, results = made
    name, anew = f"share{seed}", f"share-anew{seed}"
    card = derive(results, name, data.entry(), {"of": "whole", "share": 0.5, "seed": seed})
    parts = parts_of(results, name)
    whole = parts_of(results, "whole")
    assert parts.items() <= whole.items()
    tested = {one for one, split in whole.items() if split == "test"}
    assert {one for one, split in parts.items() if split == "test"} == tested
    counts = {split: card.splits[split]["count"] for split in SPLITS}
    assert 8 <= counts["train"] <= 27 and 3 <= counts["val"] <= 15
    # whole groups
    homes = {}
    for i, row in enumerate(data.rows):
        if row["part"] == "train":
            homes.setdefault(row["site"], set()).add(parts.get(data.rows[i]["file"]))
    assert all(len(found) == 1 for found in homes.values())
    Prepared(results / "images" / anew).run(data.divided(parts, anew), name=anew)
    check_same(results, name, anew)
    other = read_card(results / "images" / anew / "card.json")
    for key in ("classes", "dead_classes", "spatially_random", "image_size", "task", "selected"):
        assert getattr(card, key) == getattr(other, key), key
    assert card.splits == other.splits
    # with the same pixels, the audit of copies is the same
    assert card.audit == other.audit


def test_a_smaller_share_is_a_part_of_a_larger_one(made):
    data, results = made
    found = {}
    for share in (0.3, 0.6, 0.9):
        name = f"part{share}"
        derive(results, name, data.entry(), {"of": "whole", "share": share})
        found[share] = parts_of(results, name)
    assert found[0.3].items() < found[0.6].items() < found[0.9].items()


def test_a_share_of_images_without_groups_is_of_every_class(tmp_path):
    data = Data(tmp_path / "data")
    rows = [row for row in data.rows if row["file"][:3] not in ("004", "005")]
    entry = data.entry(rows, source={"group": None})
    Prepared(tmp_path / "images/whole").run(entry, name="whole")
    derive(tmp_path, "less", entry, {"of": "whole", "share": 0.4})
    for split in ("train", "val"):
        every = stores_of(tmp_path, "whole")[split].store.read("labels")
        kept = stores_of(tmp_path, "less")[split].store.read("labels")
        wanted = 0.4 * np.bincount(every, minlength=3)
        assert (np.abs(np.bincount(kept, minlength=3) - wanted) < 1).all()


@pytest.mark.parametrize(
    "folds",
    [
        {"by": "group", "k": 3},
        {"by": "image", "k": 4},
        {"by": "season", "buffer_km": 30},
        {"by": "block", "block_km": 150, "k": 3, "val": 0.3},
        {"table": "a digest", "column": "region"},
    ],
    ids=lambda folds: folds.get("by", "table"),
)
def test_each_fold_equals_the_dataset_prepared_anew(made, folds):
    data, results = made
    name, table = f"by-{folds.get('by', 'table')}", None
    if "table" in folds:
        table = regions(data)
    card = derive(results, name, data.entry(), {"of": "whole", "folds": folds}, table)
    test = stores_of(results, name)["test"]
    # each image is tested once
    assert sorted(test.samples["sample_id"].to_pylist()) == sorted(row["file"] for row in data.rows)
    names = test.samples["fold"].to_pylist()
    assert list(dict.fromkeys(names)) == card.derived["folds_tested"]
    members = test.store.read(FOLDS)
    assert [names[int(i)] for i in np.argmax(members, axis=0)] == card.derived["folds_tested"]
    assert (members.sum(axis=1) == 1).all()
    trained = []
    for fold in range(members.shape[1]):
        anew = f"{name}-{fold}"
        Prepared(results / "images" / anew).run(
            data.divided(parts_of(results, name, fold), anew), name=anew
        )
        check_same(results, name, anew, fold=fold)
        other = read_card(results / "images" / anew / "card.json")
        trained.append(other.splits)
        # an image and its copy are never trained on and tested
        assert other.audit["test_in_train"]["copy"] == other.audit["test_in_train"]["near"] == 0
        shutil.rmtree(results / "images" / anew)
    # the card tells of the fold with the fewest images to train on
    fewest = min(trained, key=lambda splits: splits["train"]["count"])
    assert {split: card.splits[split] for split in ("train", "val")} == {
        split: fewest[split] for split in ("train", "val")
    }
    assert sum(card.splits["test"]["class_counts"]) == card.splits["test"]["count"] == COUNT


def regions(data: Data, rows: slice = slice(None), key: str = "sample_id") -> Path:
    """A table with a region, of three, of each group."""
    of_key = {"sample_id": lambda row: row["file"], "group_id": lambda row: row["site"]}[key]
    found = {of_key(row): f"region {int(row['site'][4:]) % 3}" for row in data.rows}
    rows = [{key: one, "region": region} for one, region in list(found.items())[rows]]
    return write_table(data.folder / "regions.csv", rows)


@pytest.mark.parametrize("key", ["sample_id", "group_id"])
def test_each_value_of_a_table_is_a_fold_with_its_name_and_one_unit(made, key):
    data, results = made
    folds = {"of": "whole", "folds": {"table": "x", "column": "region", "only": ["region 2"]}}
    derive(results, f"of-{key}", data.entry(), folds, regions(data, key=key))
    rows = samples(results, f"of-{key}", "test")
    assert {row["sample_id"] for row in rows} == {
        row["file"] for row in data.rows if int(row["site"][4:]) % 3 == 2
    }
    assert {row["fold"] for row in rows} == {row["unit_id"] for row in rows} == {"region 2"}


def test_a_table_that_lacks_images_is_refused_with_their_number_and_one_of_them(made):
    data, results = made
    folds = {"of": "whole", "folds": {"table": "a digest", "column": "region"}}
    said = r"regions.csv: 5 of 72 images have no region, .*sample_id '\d+.png'.*Remedy: give each"
    with pytest.raises(PermafrostError, match=said):
        derive(results, "lacking", data.entry(), folds, regions(data, slice(5, None)))
    assert not (results / "images/lacking").exists()


@pytest.mark.parametrize("repeats", [1, 3])
def test_groups_and_copies_are_on_one_side_of_a_fold_and_of_validation(made, repeats):
    data, results = made
    name = f"sides{repeats}"
    derive(results, name, data.entry(), {"of": "whole", "folds": {"k": 3, "repeats": repeats}})
    for fold in range(3 * repeats):
        stores = stores_of(results, name)
        sides = {
            split: {
                store.samples["group_id"][int(i)].as_py()
                for i in np.flatnonzero(store.store.read(FOLDS)[:, fold])
            }
            for split, store in stores.items()
        }
        assert not sides["train"] & sides["val"] and not sides["train"] & sides["test"]
        assert not sides["val"] & sides["test"]
        # 3, 4 and 5 are copies, of three groups
        of_copies = {group_of(i) for i in (3, 4, 5)}
        assert sum(bool(of_copies & side) for side in sides.values()) == 1


def test_repeated_images_have_names_of_their_own_and_one_unit(made):
    data, results = made
    derive(results, "again", data.entry(), {"of": "whole", "folds": {"k": 3, "repeats": 2}})
    rows = samples(results, "again", "test")
    names = [row["sample_id"] for row in rows]
    assert len(set(names)) == len(names) == 2 * COUNT
    units: dict[str, set] = {}
    for row in rows:
        units.setdefault(row["sample_id"].removesuffix(", 2"), set()).add(row["unit_id"])
    assert len(units) == COUNT and all(len(found) == 1 for found in units.values())


def test_names_stay_apart_if_one_looks_like_a_repeated_one(tmp_path):
    data = Data(tmp_path / "data")
    for number, name in ((0, "a.png"), (1, "a.png, 2")):
        (tmp_path / "data/files" / data.rows[number]["file"]).rename(tmp_path / "data/files" / name)
        data.rows[number]["file"] = name
    entry = data.entry()
    try:
        Prepared(tmp_path / "images" / "whole").run(entry, name="whole")
    except PermafrostError:
        pytest.skip("no image can have such a name")
    derive(tmp_path, "again", entry, {"of": "whole", "folds": {"k": 3, "repeats": 2}})
    names = [row["sample_id"] for row in samples(tmp_path, "again", "test")]
    assert len(set(names)) == 2 * COUNT


def test_folds_follow_from_the_parent_and_the_seed(made):
    data, results = made
    folds = {"of": "whole", "folds": {"k": 3}}
    found = []
    for name in ("one", "one", "other"):
        shutil.rmtree(results / "images" / name, ignore_errors=True)
        derive(results, name, data.entry(), folds)
        found.append(parts_of(results, name, 0))
    # so that derived datasets of one parent can be compared
    assert found[0] == found[1] == found[2]


# --- features --------------------------------------------------------------------------------------


def extracted(results: Path, dataset: str, backbone: str, **changes) -> None:
    from permafrost.features.extract import extract
    from permafrost.features.specification import Running

    content = {"stage": "extract", "backbone": backbone, "dataset": dataset, "files": {}}
    content |= {"entry": {"kind": "imagestats", "input": {"size": 24}}}
    content |= {"extraction": extraction_of(), "inputs": {"images": IMAGES}}
    folder = results / "images" / dataset
    extract(
        specification(content),
        images={split: folder / f"{split}.zarr" for split in SPLITS},
        card=folder / "card.json",
        outputs=features_of(results, dataset, backbone),
        fingerprint=f"features-of-{dataset}",
        running=Running(device="cpu", **changes),
    )


def features_of(results: Path, dataset: str, backbone: str) -> dict[str, Path]:
    folder = results / "features" / dataset / backbone
    return {split: folder / f"{split}.zarr" for split in SPLITS}


def selected(results: Path, name: str, backbone: str, *origins: str, fitted=False) -> None:
    from permafrost.features.select import OfRows, SelectSpec, select

    features = {one: f"features-of-{one}" for one in origins}
    select(
        SelectSpec(
            dataset=name,
            backbone=backbone,
            fitted=fitted,
            inputs=OfRows(rows=DERIVED, features=features),
        ),
        features=results / "features",
        card=read_card(results / "images" / name / "card.json", expect=DERIVED),
        images=results / "images" / name,
        outputs=features_of(results, name, backbone),
        fingerprint="selected",
    )


@pytest.mark.parametrize(
    "derived", [{"share": 0.5}, {"folds": {"by": "image", "k": 3, "repeats": 2}}]
)
def test_selected_features_are_those_extracted_anew_byte_by_byte(made, derived):
    data, results = made
    name = f"features-{next(iter(derived))}"
    derive(results, name, data.entry(), {"of": "whole", **derived})
    if not features_of(results, "whole", "stats")["train"].exists():
        extracted(results, "whole", "stats")
    selected(results, name, "stats", "whole")
    folds = derived.get("folds")
    for fold in [None] if folds is None else (0, 4):
        anew = f"{name}-{fold}"
        parts = {one.removesuffix(", 2"): s for one, s in parts_of(results, name, fold).items()}
        Prepared(results / "images" / anew).run(data.divided(parts, anew), name=anew)
        extracted(results, anew, "stats", batch_size=7)
        for split in SPLITS:
            own = open_store(
                features_of(results, name, "stats")[split], expect="selected", split=split
            )
            other = open_store(features_of(results, anew, "stats")[split])
            rows = np.arange(len(own))
            if folds is not None:
                rows = np.flatnonzero(own.read(FOLDS)[:, fold])
            names = [one.removesuffix(", 2") for one in own.samples()["sample_id"].to_pylist()]
            places = {one: i for i, one in enumerate(other.samples()["sample_id"].to_pylist())}
            there = [places[names[i]] for i in rows]
            assert len(places) == len(there)
            found, expected = own.read("embeddings"), other.read("embeddings")
            assert found[rows].tobytes() == expected[there].tobytes()
            np.testing.assert_array_equal(own.read("labels")[rows], other.read("labels")[there])
            assert own.attributes["dataset"] == name and own.attributes["split"] == split
            assert own.attributes["split_method"] == "derived"
            same = ("backbone", "feature_dim", "task", "classes", "weights_sha256", "device")
            for key in same:
                assert own.attributes.get(key) == other.attributes.get(key), key


# --- pairs of datasets -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Results with the datasets ``here`` (field, lake, town) and ``there`` (lake, sea, town, wood)."""
    folder = tmp_path_factory.mktemp("pair")
    results, found = folder / "results", {}
    for number, (name, classes) in enumerate(
        {"here": ("field", "lake", "town"), "there": ("lake", "sea", "town", "wood")}.items()
    ):
        found[name] = Data(folder / name, classes=classes, seed=number + 1)
        Prepared(results / "images" / name).run(found[name].entry(), name=name)
    return found, results


def named_classes(results, name, split) -> list[tuple[str, str]]:
    """(sample, class) of a split."""
    classes = read_card(results / "images" / name / "card.json").classes
    store = stores_of(results, name)[split]
    labels = store.store.read("labels").tolist()
    return [
        (sample, classes[label])
        for sample, label in zip(store.samples["sample_id"].to_pylist(), labels, strict=True)
    ]


@pytest.mark.parametrize(
    ("classes", "meant"),
    [
        (
            None,
            {"here": {"lake": "lake", "town": "town"}, "there": {"lake": "lake", "town": "town"}},
        ),
        (
            {
                "town": "town",
                "field": ["wood"],
                "water": {"train": "lake", "test": ["lake", "sea"]},
            },
            {
                "here": {"lake": "water", "town": "town", "field": "field"},
                "there": {"lake": "water", "sea": "water", "town": "town", "wood": "field"},
            },
        ),
        (
            {"town": "lake", "lake": "town"},
            {"here": {"lake": "lake", "town": "town"}, "there": {"lake": "town", "town": "lake"}},
        ),
    ],
    ids=["by name", "by a table", "crossed"],
)
def test_images_of_two_datasets_have_the_classes_that_both_share(pair, classes, meant):
    data, results = pair
    derived = {"train": "here", "test": "there", **({"classes": classes} if classes else {})}
    name = f"pair{len(classes or ())}"
    card = derive(results, name, data["here"].entry(), derived)
    assert sorted(card.classes) == sorted(set(meant["here"].values()))
    origin = {"train": "here", "val": "here", "test": "there"}
    lost = {}
    for split, dataset in origin.items():
        before = named_classes(results, dataset, split)
        expected = [
            (f"{dataset}/{sample}", meant[dataset][old])
            for sample, old in before
            if old in meant[dataset]
        ]
        assert sorted(named_classes(results, name, split)) == sorted(expected)
        lost[dataset] = lost.get(dataset, 0) + len(before) - len(expected)
        own, other = stores_of(results, name)[split], stores_of(results, dataset)[split]
        places = {one: i for i, one in enumerate(other.samples["sample_id"].to_pylist())}
        pixels, again = own.store.read("images"), other.store.read("images")
        for i, row in enumerate(own.samples.to_pylist()):
            there = places[row["sample_id"].removeprefix(f"{dataset}/")]
            before = other.samples.slice(there, 1).to_pylist()[0]
            assert row["group_id"] == f"{dataset}/{before['group_id']}"
            assert {k: row[k] for k in KEPT[1:]} == {k: before[k] for k in KEPT[1:]}
            height, width = row["height"], row["width"]
            np.testing.assert_array_equal(
                pixels[i][:, :height, :width], again[there][:, :height, :width]
            )
    assert card.derived.get("left_out", {}) == {one: n for one, n in lost.items() if n}
    for split in SPLITS:
        labels = stores_of(results, name)[split].store.read("labels")
        assert (
            card.splits[split]["class_counts"]
            == np.bincount(labels, minlength=len(card.classes)).tolist()
        )


def test_images_of_both_datasets_are_told_apart_in_copies(pair):
    """Groups of two datasets may have one name and are never one group."""
    data, results = pair
    card = derive(results, "apart", data["here"].entry(), {"train": "here", "test": "there"})
    assert card.audit["shared_groups"] == 0 and card.audit["test_in_train"]["group"] == 0


def test_a_dataset_trained_and_tested_on_itself_is_tested_on_the_same_images_with_the_same_classes(
    pair,
):
    """As the diagonal of a matrix of transfers: rows of both tables can be paired by their names."""
    data, results = pair
    shared = {"wet": {"here": "lake", "there": ["lake", "sea"]}, "town": {"here": "town"}}
    shared["town"]["there"] = "town"
    for train in ("here", "there"):
        classes = {name: {"train": o[train], "test": o["there"]} for name, o in shared.items()}
        derived = {"train": train, "test": "there", "classes": classes}
        derive(results, f"{train}-to-there", data[train].entry(), derived)
    one, other = (
        [*zip(rows, named_classes(results, name, "test"), strict=True)]
        for name in ("here-to-there", "there-to-there")
        for rows in [samples(results, name, "test")]
    )
    assert [row["group_id"] for row, _ in one] == [row["group_id"] for row, _ in other]
    assert [label for _, label in one] == [label for _, label in other]
    assert {name.split("/")[0] for _, (name, _) in one} == {"there"}
    train = named_classes(results, "there-to-there", "train")
    lakes = [name for name, called in named_classes(results, "there", "train") if called != "wood"]
    assert [name for name, _ in train] == [f"there/{name}" for name in lakes]


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ({"town": "town", "lake": "harbour"}, "there has no class 'harbour'"),
        ({"town": "town", "sea": "sea"}, "here has no class 'sea'"),
        ({"town": "town", "lake": ["lake", "town"]}, "the class town of there is mapped twice"),
        (
            {"town": "town", "x": {"train": ["town", "lake"], "test": "sea"}},
            "the class town of here is mapped twice",
        ),
        ({"town": "town"}, "classes names 1, and two or more are needed"),
    ],
)
def test_classes_that_do_not_map_are_refused_and_nothing_is_left(pair, classes, said):
    data, results = pair
    derived = {"train": "here", "test": "there", "classes": classes}
    with pytest.raises(PermafrostError, match=said) as raised:
        derive(results, "refused", data["here"].entry(), derived)
    assert raised.value.remedy and "derived dataset refused" in str(raised.value)
    folder = results / "images" / "refused"
    assert not folder.exists() or not any(folder.iterdir())


def test_one_mapped_class_is_not_blamed_on_names(pair):
    """With `classes` given, names that both datasets have in common are not the problem."""
    data, results = pair
    derived = {"train": "here", "test": "there", "classes": {"town": "town"}}
    with pytest.raises(PermafrostError) as raised:
        derive(results, "refused", data["here"].entry(), derived)
    assert "same name" not in raised.value.problem


def test_datasets_without_a_common_class_are_refused(pair, tmp_path):
    data, results = pair
    other = Data(tmp_path / "other", classes=("ice", "rock"), seed=9)
    Prepared(results / "images" / "else").run(other.entry(), name="else")
    with pytest.raises(PermafrostError, match="here and else have no class.* with the same name"):
        derive(results, "refused", data["here"].entry(), {"train": "here", "test": "else"})


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("derived", "said"),
    [
        ({"share": 0.001}, "train is empty|no sample of"),
        ({"folds": {"k": 40}}, "40 folds need as many groups, and there are"),
        ({"folds": {"buffer_km": 20000}}, "has no image left for train"),
        ({"folds": {"by": "season", "only": ["Winter"]}}, "there is no fold 'Winter' by season"),
        ({"folds": {"by": "year", "k": 2}}, "k has no effect by year"),
    ],
)
def test_what_cannot_be_divided_is_refused_and_nothing_is_left(made, derived, said):
    data, results = made
    with pytest.raises(PermafrostError, match=said) as raised:
        derive(results, "refused", data.entry(), {"of": "whole", **derived})
    assert raised.value.remedy and "derived dataset refused" in str(raised.value)
    folder = results / "images" / "refused"
    assert not folder.exists() or not any(folder.iterdir())


def test_a_parent_of_another_plan_is_refused(made, tmp_path):
    data, results = made
    shutil.copytree(results / "images/whole", tmp_path / "images/whole")
    spec = ResplitSpec(
        dataset="made",
        entry={k: v for k, v in validated(data.entry()).items() if k not in ("source", "splits")},
        derived={"of": "whole", "share": 0.5},
        inputs=OfParents(images={"whole": "0" * 32}),
    )
    with pytest.raises(PermafrostError, match="another plan"):
        resplit(
            spec,
            cards={"whole": tmp_path / "images/whole/card.json"},
            outputs={split: tmp_path / f"images/made/{split}.zarr" for split in SPLITS},
            card_path=tmp_path / "images/made/card.json",
            fingerprint=DERIVED,
        )


def test_numbers_of_images_are_shared_out_and_transferred(tmp_path):
    """Regression: labels stay numbers, and the card describes those of the new splits."""
    for number, name in enumerate(("near", "far")):
        data = Data(tmp_path / name, seed=number + 1)
        entry = data.entry(
            task="regression", source={"label": None, "target": "number"}, target={"unit": "m"}
        )
        Prepared(tmp_path / "images" / name).run(entry, name=name)
    for name, derived in (
        ("less", {"of": "near", "share": 0.5}),
        ("cross", {"of": "near", "folds": {"k": 3}}),
        ("moved", {"train": "near", "test": "far"}),
    ):
        card = derive(tmp_path, name, entry, derived)
        for split in SPLITS:
            table = samples(tmp_path, name, split)
            numbers = stores_of(tmp_path, name)[split].store.read("labels")
            expected = [float(row["sample_id"].rpartition("/")[2][:3]) for row in table]
            assert numbers.tolist() == expected and numbers.dtype == np.float64
            if name != "cross":
                found = card.target["splits"][split]
                assert found["mean"] == pytest.approx(numbers.mean())
