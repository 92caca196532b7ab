"""Stores that read rows of others: each slice equals NumPy's selection, and nothing else is ever read."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import content_digest
from permafrost.core.rows_store import (
    FOLDS,
    PARENT,
    ROW,
    ROWS,
    Parent,
    RowsStore,
    Selection,
    write_rows,
)
from permafrost.core.store_readers import is_here, open_store
from permafrost.core.stores import DIGEST, Store, write_store

SELECTED = "fingerprint-of-selection"


def write_parent(path, arrays, *, split, rows_per_chunk=4, **attributes):
    with write_store(path, fingerprint=f"of-{path.parent.name}") as writer:
        for name, values in arrays.items():
            writer.array(name, values.shape, values.dtype, rows_per_chunk=rows_per_chunk)[:] = (
                values
            )
        count = len(next(iter(arrays.values())))
        writer.samples(pa.table({"sample_id": [f"{path.parent.name}-{i}" for i in range(count)]}))
        writer.attributes.update(split=split, **attributes)
    return Store(path)


def write_selection(path, parents, stores, parent, row, *, folds=None, labels=None, **attributes):
    selection = Selection(np.asarray(parent), np.asarray(row), folds)
    with write_store(path, fingerprint=SELECTED) as writer:
        write_rows(writer, selection, parents, stores, labels)
        writer.samples(pa.table({"sample_id": [f"s{i}" for i in range(len(selection))]}))
        writer.attributes.update(split="train", **attributes)
    return path


class World:
    """Two datasets with images of different sizes, and a store that selects rows of both."""

    def __init__(self, folder, rng, *, chunks=(4, 3), count=25, kinds=(np.uint8, np.uint8)):
        self.folder = folder
        a = {
            "images": rng.integers(1, 250, (17, 3, 6, 5)).astype(kinds[0]),
            "labels": np.arange(17),
            "only_a": np.arange(17),
        }
        b = {
            "images": rng.integers(1, 250, (11, 3, 4, 7)).astype(kinds[1]),
            "labels": np.arange(11),
        }
        self.parents = [Parent("a", "train", "of-a"), Parent("b", "test", "of-b")]
        self.stores = [
            write_parent(folder / "a/train.zarr", a, split="train", rows_per_chunk=chunks[0]),
            write_parent(folder / "b/test.zarr", b, split="test", rows_per_chunk=chunks[1]),
        ]
        self.parent = rng.integers(0, 2, count)
        self.row = np.where(
            self.parent == 0, rng.integers(0, 17, count), rng.integers(0, 11, count)
        )
        padded = np.zeros((2, 17, 3, 6, 7), np.result_type(*kinds))
        padded[0, :, :, :6, :5] = a["images"]
        padded[1, :11, :, :4, :7] = b["images"]
        self.expected = padded[self.parent, self.row]
        self.path = folder / "made/train.zarr"

    def write(self, **more):
        write_selection(self.path, self.parents, self.stores, self.parent, self.row, **more)
        return open_store(self.path, expect=SELECTED, split="train")


@pytest.mark.parametrize("trial", range(6))
def test_every_slice_is_that_of_numpy(tmp_path, trial):
    rng = np.random.default_rng(trial)
    chunks = rng.integers(1, 6, 2).tolist()
    world = World(tmp_path, rng, chunks=chunks, count=int(rng.integers(1, 20)))
    store, count = world.write(), len(world.row)
    assert isinstance(store, RowsStore) and len(store) == count
    assert store.shape("images") == world.expected.shape and store.itemsize("images") == 1
    whole = store.read("images")
    np.testing.assert_array_equal(whole, world.expected)
    assert whole.dtype == world.expected.dtype
    for start in range(count):
        for stop in (*range(start, count + 1, 5), count, count + 5):
            np.testing.assert_array_equal(
                store.read("images", start, stop), world.expected[start:stop]
            )
    assert "images" in store and "only_a" not in store


def test_padding_is_zero_and_types_hold_the_numbers_of_both(tmp_path):
    world = World(tmp_path, np.random.default_rng(1), kinds=(np.uint8, np.int16))
    world.parent[:2], world.row[:2] = [0, 1], [3, 3]
    store = world.write()
    assert store.shape("images") == (25, 3, 6, 7) and store.itemsize("images") == 2
    first, second = store.read("images", 0, 2)
    assert not first[:, :, 5:].any() and not second[:, 4:].any()
    assert first[:, :6, :5].all() and second[:, :4].all() and first.dtype == np.int16


def test_a_store_without_samples_of_a_parent_never_opens_it(tmp_path):
    world = World(tmp_path, np.random.default_rng(2))
    world.parent[:] = 0
    world.row[:] = np.arange(25) % 17
    store = world.write()
    shutil.rmtree(tmp_path / "b")
    assert store.read("images").shape == (25, 3, 6, 7) and store.chunk_rows("images") == 4


def test_rows_in_any_order_and_repeated_are_read_across_chunk_boundaries(tmp_path):
    rng = np.random.default_rng(3)
    values = {"embeddings": rng.standard_normal((1000, 3)).astype(np.float32)}
    parents = [Parent("a", "train", "of-a")]
    store = write_parent(tmp_path / "a/train.zarr", values, split="train", rows_per_chunk=7)
    edges = np.array([*range(6, 1000, 7), *range(7, 1000, 7), 999, 0, 0, 999])
    for number, rows in enumerate(
        [
            *(edges, rng.permutation(1000), rng.integers(0, 1000, 2500), np.full(40, 500)),
            *(np.arange(1000)[::-1], np.array([999])),
        ]
    ):
        path = tmp_path / f"made{number}/train.zarr"
        write_selection(path, parents, [store], np.zeros(len(rows), int), rows)
        read = open_store(path)
        np.testing.assert_array_equal(read.read("embeddings"), values["embeddings"][rows])
        half = len(rows) // 2
        np.testing.assert_array_equal(
            read.read("embeddings", half), values["embeddings"][rows[half:]]
        )
        assert read.chunk_rows("embeddings") == 7


def test_few_rows_far_apart_do_not_read_what_lies_between(tmp_path, monkeypatch):
    values = {"embeddings": np.arange(4000.0).reshape(4000, 1)}
    store = write_parent(tmp_path / "a/train.zarr", values, split="train", rows_per_chunk=10)
    rows = np.array([3995, 0, 5, 2000, 12, 3, 55])
    path = write_selection(
        tmp_path / "made/train.zarr",
        [Parent("a", "train", "of-a")],
        [store],
        np.zeros(7, int),
        rows,
    )
    asked, read = [], Store.read

    def counted(self, name, start=0, stop=None):
        if name == "embeddings" and type(self) is Store:
            asked.append((start, stop))
        return read(self, name, start, stop)

    opened = open_store(path)
    monkeypatch.setattr(Store, "read", counted)
    np.testing.assert_array_equal(opened.read("embeddings")[:, 0], rows)
    assert sorted(asked) == [(0, 13), (55, 56), (2000, 2001), (3995, 3996)]


def test_a_large_selection_is_read_in_parts_of_a_few_chunks(tmp_path, monkeypatch):
    values = {"embeddings": np.arange(400.0).reshape(400, 1)}
    store = write_parent(tmp_path / "a/train.zarr", values, split="train", rows_per_chunk=2)
    path = tmp_path / "made/train.zarr"
    rows = np.arange(400)[::-1]
    write_selection(path, [Parent("a", "train", "of-a")], [store], np.zeros(400, int), rows)
    most, read = [], Store.read

    def counted(self, name, start=0, stop=None):
        if name == "embeddings" and type(self) is Store:
            most.append(stop - start)
        return read(self, name, start, stop)

    opened = open_store(path)
    monkeypatch.setattr(Store, "read", counted)
    np.testing.assert_array_equal(opened.read("embeddings")[:, 0], rows)
    assert sum(most) == 400 and max(most) <= 16 * 2


def test_an_empty_slice_has_the_shape_of_its_rows(tmp_path):
    store = World(tmp_path, np.random.default_rng(4)).write()
    for start, stop in ((5, 5), (25, None), (7, 3), (40, 50)):
        assert store.read("images", start, stop).shape == (0, 3, 6, 7)


def test_labels_and_folds_are_its_own(tmp_path):
    rng = np.random.default_rng(5)
    world = World(tmp_path, rng)
    folds, labels = rng.random((25, 4)) < 0.5, rng.integers(0, 9, 25)
    store = world.write(folds=folds, labels=labels)
    np.testing.assert_array_equal(store.read("labels"), labels)
    np.testing.assert_array_equal(store.read("labels", 3, 8), labels[3:8])
    np.testing.assert_array_equal(store.read(FOLDS).astype(bool), folds)
    again = Selection.of(store)
    np.testing.assert_array_equal(again.folds, folds)
    np.testing.assert_array_equal(again.parent, world.parent)
    np.testing.assert_array_equal(again.row, world.row)
    # nothing of the parents was copied
    assert not (world.path / "images").exists()
    # and without labels of its own it does not give those of others
    shutil.rmtree(world.path)
    bare = world.write()
    assert "labels" not in bare and FOLDS not in bare and Selection.of(bare).folds is None
    with pytest.raises(PermafrostError, match="the store has no array 'labels'"):
        bare.read("labels")


def test_arrays_with_other_numbers_of_axes_are_not_read_through(tmp_path):
    stores = [
        write_parent(
            tmp_path / f"{name}/train.zarr",
            {"images": np.ones(shape, np.uint8), "masks": np.ones((4, 2, 2), np.uint8)},
            split="train",
        )
        for name, shape in (("a", (4, 3, 2, 2)), ("b", (4, 5, 3, 2, 2)))
    ]
    parents = [Parent("a", "train", "of-a"), Parent("b", "train", "of-b")]
    path = write_selection(tmp_path / "made/train.zarr", parents, stores, [0, 1], [0, 1])
    assert list(open_store(path).attributes[ROWS]["arrays"]) == ["masks"]


def test_feature_stores_are_those_of_the_same_backbone(tmp_path):
    for dataset, value in (("a", 1.0), ("b", 2.0)):
        for backbone in ("net", "other"):
            folder = tmp_path / dataset / backbone / "train.zarr"
            with write_store(folder, fingerprint=f"{dataset}/{backbone}") as writer:
                rows = np.full((3, 2), value * (1 if backbone == "net" else 10))
                writer.array("embeddings", rows.shape, rows.dtype, rows_per_chunk=2)[:] = rows
                writer.samples(pa.table({"sample_id": ["x", "y", "z"]}))
                writer.attributes.update(split="train", backbone=backbone)
    parents = [Parent(name, "train", f"{name}/net") for name in ("a", "b")]
    stores = [Store(tmp_path / name / "net/train.zarr") for name in ("a", "b")]
    path = write_selection(
        tmp_path / "made/net/train.zarr", parents, stores, [1, 0], [0, 2], backbone="net"
    )
    np.testing.assert_array_equal(open_store(path).read("embeddings"), [[2, 2], [1, 1]])


# --- what is refused -------------------------------------------------------------------------------


def edited(path, change) -> None:
    """Change the attributes of a store, and their digest, as an attacker could."""
    content = json.loads((path / "zarr.json").read_bytes())
    change(content["attributes"])
    del content["attributes"][DIGEST]
    content["attributes"][DIGEST] = content_digest(content["attributes"], DIGEST)
    (path / "zarr.json").write_text(json.dumps(content))


def test_a_parent_of_another_plan_is_refused_when_it_is_read(tmp_path):
    world = World(tmp_path, np.random.default_rng(6))
    store = world.write(labels=world.row)
    edited(tmp_path / "b/test.zarr", lambda about: about.update(fingerprint="another"))
    with pytest.raises(PermafrostError, match=r"b/test.zarr.*another plan"):
        store.read("images")
    # what is its own can be read
    np.testing.assert_array_equal(open_store(world.path).read("labels"), world.row)


def test_a_parent_that_holds_another_split_is_refused(tmp_path):
    world = World(tmp_path, np.random.default_rng(7))
    store = world.write()
    edited(tmp_path / "b/test.zarr", lambda about: about.update(split="train"))
    with pytest.raises(PermafrostError, match="holds the split 'train', where 'test' is expected"):
        store.read("images")


def test_a_parent_that_is_gone_is_refused(tmp_path):
    store = World(tmp_path, np.random.default_rng(8)).write()
    shutil.rmtree(tmp_path / "a/train.zarr")
    with pytest.raises(PermafrostError, match=r"a/train.zarr: the store does not exist"):
        store.read("images")


@pytest.mark.parametrize("place", [0, 1], ids=["dataset", "split"])
@pytest.mark.parametrize("name", ["../a", "..", ".", "", "/etc", "a/b", "../../a/train"])
def test_names_that_leave_the_folder_are_refused_on_opening(tmp_path, name, place):
    world = World(tmp_path, np.random.default_rng(9))
    world.write()

    def change(about):
        about[ROWS]["of"][1][place] = name

    edited(world.path, change)
    with pytest.raises(PermafrostError, match="not the name of a dataset or split"):
        open_store(world.path)


@pytest.mark.parametrize("array", [PARENT, ROW, FOLDS, "labels"])
def test_damaged_numbers_of_rows_are_refused(tmp_path, array):
    world = World(tmp_path, np.random.default_rng(10))
    world.write(labels=world.row, folds=np.ones((25, 2), bool))
    (chunk,) = [path for path in (world.path / array / "c").rglob("*") if path.is_file()]
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(PermafrostError, match="damaged"):
        open_store(world.path).read(array)
    chunk.unlink()
    with pytest.raises(PermafrostError, match="not what was written"):
        open_store(world.path)


def test_damaged_pixels_of_a_parent_are_refused(tmp_path):
    world = World(tmp_path, np.random.default_rng(11))
    store = world.write()
    chunk = next(p for p in (tmp_path / "a/train.zarr/images/c").rglob("*") if p.is_file())
    chunk.write_bytes(b"x" + chunk.read_bytes()[1:])
    with pytest.raises(PermafrostError, match="a/train.zarr"):
        store.read("images")


@pytest.mark.parametrize(("parent", "row"), [(0, 17), (1, 11), (0, -1), (2, 0), (-1, 0)], ids=str)
def test_numbers_of_rows_that_are_not_there_are_refused(tmp_path, parent, row):
    """As in a store that was made by hand: never rows of somewhere else."""
    world = World(tmp_path, np.random.default_rng(12), count=3)
    world.parent[1], world.row[1] = parent, row
    with pytest.raises(PermafrostError, match="it reads"):
        world.write().read("images")


def test_another_plan_or_split_of_the_store_itself_is_refused(tmp_path):
    world = World(tmp_path, np.random.default_rng(13))
    world.write()
    with pytest.raises(PermafrostError, match="another plan"):
        open_store(world.path, expect="0" * 32)
    with pytest.raises(PermafrostError, match="where 'test' is expected"):
        open_store(world.path, split="test")


def test_a_store_is_here_if_all_that_it_reads_is(tmp_path):
    world = World(tmp_path, np.random.default_rng(14))
    assert not is_here(world.path)
    world.write()
    assert is_here(world.path) and is_here(str(world.path)) and is_here(tmp_path / "a/train.zarr")
    assert [path.relative_to(tmp_path).as_posix() for path in open_store(world.path).parents] == [
        "a/train.zarr",
        "b/test.zarr",
    ]
    shutil.rmtree(tmp_path / "b/test.zarr")
    assert not is_here(world.path) and not is_here(tmp_path / "b/test.zarr")


def test_a_plain_store_is_opened_as_before(tmp_path):
    World(tmp_path, np.random.default_rng(15))
    assert type(open_store(tmp_path / "a/train.zarr", expect="of-a", split="train")) is Store
