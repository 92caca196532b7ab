"""Images that stand in the cells of parquet files and in WebDataset's tars, and arrays of NumPy as images."""

import json
import pickle
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.datasets.images import (
    MASK_ENTRY,
    RANDOM,
    RGB_ENTRY,
    Prepared,
    chw,
    dataset_entry,
    encode,
    mask,
    open_source,
    photo,
    validated,
    write_folder,
    write_tar,
)
from helpers.datasets.rasters import npy
from permafrost.core.errors import PermafrostError
from permafrost.data.class_files import check_files
from permafrost.data.digest import source_digest
from permafrost.data.files.decode import Decoding, UnreadableImage, decode_image
from permafrost.data.sources.table_columns import Table
from permafrost.data.store.image_store import ImageStore

CLASSES = ["water", "forest", "town"]
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def hub_file(path, numbers, *, names=CLASSES, paths=True, **more):
    """A parquet file as Hugging Face's `datasets` writes it: {bytes, path}, and features in the schema's metadata."""
    columns = {
        "image": pa.array(
            [{"bytes": encode(photo(n)), "path": f"{n}.png" if paths else None} for n in numbers],
            IMAGE,
        ),
        "label": pa.array([n % 3 for n in numbers], pa.int64()),
        **more,
    }
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table(columns).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=4)
    return path


def table_entry(place, /, **source) -> dict:
    given = {"path": "image", "label": "label", **source}
    return {
        **RGB_ENTRY,
        "source": {"kind": "table", "table": str(place), **given},
        "splits": RANDOM,
    }


def test_images_of_a_hub_dataset_with_its_names_of_classes_in_their_order(tmp_path):
    source = open_source(table_entry(hub_file(tmp_path / "a.parquet", range(10))))
    assert source.classes == CLASSES
    assert [(r.sample_id, r.label) for r in source.records()][:2] == [
        ("image/0.png", 0),
        ("image/1.png", 1),
    ]
    for index in (9, 0, 5):
        np.testing.assert_array_equal(source.decode(index).image, chw(index))


def test_shards_of_splits(tmp_path):
    for number, (split, shard) in enumerate(
        [("train", 0), ("train", 1), ("validation", 0), ("test", 0)]
    ):
        numbers = range(6 * number, 6 * number + 6)
        hub_file(tmp_path / f"data/{split}-{shard:05d}-of-00002.parquet", numbers, paths=False)
    (tmp_path / "README.md").write_text("a card")
    entry = table_entry(tmp_path, files="data/<split>-<shard>.parquet", split="split")
    entry["splits"] = {
        "method": "given",
        "map": {"train": ["train"], "val": ["validation"], "test": ["test"]},
    }
    check_files(dataset_entry(entry), where="set")
    out = Prepared(tmp_path / "out")
    card = out.run(entry)
    assert [card["splits"][s]["count"] for s in ("train", "val", "test")] == [12, 6, 6]
    assert card["classes"] == CLASSES
    stored = ImageStore(out.outputs["val"]).read().images
    np.testing.assert_array_equal(
        sorted(stored.tolist()), sorted(chw(n).tolist() for n in range(12, 18))
    )
    before = source_digest(validated(entry))
    hub_file(tmp_path / "data/test-00000-of-00002.parquet", range(30, 36))
    assert source_digest(validated(entry)) != before


def test_a_row_is_named_by_its_file_and_its_number_there(tmp_path):
    for name, kinds in (("a", "xxx"), ("b", ["x", "", "y"])):
        rows = "".join(f"{name}{n}.png,{kind}\n" for n, kind in enumerate(kinds))
        (tmp_path / f"{name}.csv").write_text(f"file,kind\n{rows}")
    write_folder(tmp_path / "i", {f"{n}{i}.png": encode(photo(i)) for n in "ab" for i in range(3)})
    entry = table_entry(tmp_path, path="file", label="kind", images=str(tmp_path / "i"))
    with pytest.raises(PermafrostError, match="row 3 of b.csv has an empty cell in kind"):
        open_source(entry)
    entry["source"]["table"] = str(tmp_path / "b.csv")
    with pytest.raises(PermafrostError, match="row 3 has an empty cell in kind"):
        open_source(entry)


def test_more_tars_than_files_that_may_be_open(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    (folder := tmp_path / "set").mkdir()
    for number in range(80):
        write_tar(
            folder / f"{number:03d}.tar",
            {f"{number}.png": encode(photo(number)), f"{number}.cls": str(number % 2).encode()},
        )
    entry = table_entry(folder, path="png", label="cls") | {"classes": ["a", "b"]}
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 40, hard)
    )
    try:
        source = open_source(entry)
        np.testing.assert_array_equal(source.decode(79).image, chw(79))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_masks_in_cells(tmp_path):
    masks = pa.array([{"bytes": encode(mask(n)), "path": None} for n in range(8)], IMAGE)
    entry = {
        **MASK_ENTRY,
        "splits": RANDOM,
        "source": {
            "kind": "table",
            "table": str(hub_file(tmp_path / "a.parquet", range(8), annotation=masks)),
            "path": "image",
            "masks": "annotation",
        },
    }
    np.testing.assert_array_equal(open_source(entry).decode(5).mask, mask(5))
    Prepared(tmp_path / "out").run(entry)


def test_plain_bytes_and_lists_of_classes(tmp_path):
    table = pa.table(
        {
            "png": [encode(photo(n)) for n in range(4)],
            "tags": [["a", "b"], [], ["b"], ["c"]],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    entry = table_entry(tmp_path / "a.parquet", path="png", labels={"column": "tags"})
    entry |= {"task": "multilabel"}
    del entry["source"]["label"]
    source = open_source(entry)
    assert [r.label for r in source.records()] == [(1, 1, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1)]
    np.testing.assert_array_equal(source.decode(3).image, chw(3))


def test_arrays_of_numbers_in_cells_are_images(tmp_path):
    cubes = [chw(number).astype(np.uint16) * 100 for number in range(8)]
    kind = pa.list_(pa.list_(pa.list_(pa.uint16())))
    columns = {
        "cube": pa.array([cube.tolist() for cube in cubes], kind),
        "plane": pa.array([mask(n).tolist() for n in range(8)], pa.list_(pa.list_(pa.uint8(), 32))),
        "label": ["a", "b"] * 4,
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    decoded = open_source(table_entry(tmp_path / "a.parquet", path="cube")).decode(5).image
    np.testing.assert_array_equal(decoded, cubes[5])
    assert decoded.dtype == np.uint16
    entry = {**MASK_ENTRY, "splits": RANDOM}
    entry["source"] = {"kind": "table", "table": str(tmp_path / "a.parquet"), "path": "cube"}
    entry["source"]["masks"] = "plane"
    np.testing.assert_array_equal(open_source(entry).decode(5).mask, mask(5))
    columns["cube"] = pa.array([*([cube.tolist() for cube in cubes[:7]]), [[[1], [1, 2]]]], kind)
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    with pytest.raises(UnreadableImage, match="the cell holds no array"):
        open_source(table_entry(tmp_path / "b.parquet", path="cube")).decode(7)


def test_cells_without_an_image_or_a_class_are_named(tmp_path):
    table = pa.table(
        {
            "image": pa.array(
                [{"bytes": None, "path": "a.png"}, {"bytes": b"no", "path": "b.png"}], IMAGE
            ),
            "label": ["x", "y"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_source(table_entry(tmp_path / "a.parquet"))
    with pytest.raises(UnreadableImage, match="the cell is empty"):
        source.decode(0)
    with pytest.raises(UnreadableImage, match="neither JPEG, PNG, BMP nor TIFF"):
        source.decode(1)
    path = hub_file(tmp_path / "b.parquet", range(4), names=["water", "forest"])
    with pytest.raises(PermafrostError, match="row 3 has an empty cell in label"):
        open_source(table_entry(path))


def tar_files(numbers, image="png") -> dict[str, bytes]:
    files = {}
    for n in numbers:
        files[f"s{n:03d}.{image}"] = encode(photo(n)) if image == "png" else npy(photo(n))
        files[f"s{n:03d}.cls"] = str(n % 3).encode()
        files[f"s{n:03d}.json"] = json.dumps(
            {"lon": 10 + n, "lat": 50, "meta": {"place": f"p{n // 2}", "tags": ["a", "b"]}}
        ).encode()
    return files


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_samples_of_a_webdataset(tmp_path, mode):
    path = tmp_path / ("a.tar" if mode == "w" else "a.tar.gz")
    write_tar(path, tar_files(range(9)), mode)
    entry = table_entry(
        path, path="png", label="cls", lon="json.lon", lat="json.lat", group="json.meta.place"
    )
    source = open_source({**entry, "classes": CLASSES})
    record = source.records()[4]
    assert (record.label, record.lon, record.group_id) == (1, 14, "p2")
    assert source.classes == CLASSES and record.sample_id == "png/s004.png"
    np.testing.assert_array_equal(source.decode(4).image, chw(4))


def test_shards_of_a_webdataset(tmp_path):
    for shard in range(2):
        write_tar(
            tmp_path / f"set-{shard:06d}.tar", tar_files(range(10 * shard, 10 * shard + 10), "npy")
        )
    entry = table_entry(tmp_path, path="npy", label="cls", group="json.meta.place")
    source = open_source(entry)
    assert len(source.records()) == 20
    np.testing.assert_array_equal(source.decode(13).image, chw(13))
    Prepared(tmp_path / "out").run({**entry, "splits": {"method": "group"}})


def test_a_sample_of_a_tar_without_its_image(tmp_path):
    files = tar_files(range(4))
    del files["s002.png"]
    source = open_source(table_entry(write_tar(tmp_path / "a.tar", files), path="png", label="cls"))
    with pytest.raises(UnreadableImage, match="the sample has no such file"):
        source.decode(2)


def test_a_table_without_images_and_a_folder_without_tables(tmp_path):
    (tmp_path / "a.csv").write_text("image,label\nx.png,a\ny.png,b\n")
    with pytest.raises(PermafrostError, match="holds no images.*name the folder or archive"):
        open_source(table_entry(tmp_path / "a.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(PermafrostError, match="holds no CSV, parquet, tar, zarr or JSON"):
        open_source(table_entry(tmp_path / "empty"))


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_no_pickle_is_ever_loaded(tmp_path):
    trap = tmp_path / "trap"
    hostile = npy(np.array([Trap(trap)], dtype=object))
    files = tar_files(range(3)) | {"s000.png": hostile, "s001.pyd": pickle.dumps(Trap(trap))}
    source = open_source(table_entry(write_tar(tmp_path / "a.tar", files), path="png", label="cls"))
    with pytest.raises(UnreadableImage, match="not a readable npy"):
        source.decode(0)
    assert not trap.exists()


@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_folders_of_npy_with_bands_first_or_last(tmp_path, layout):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 9999, (5, 24, 32)).astype(np.uint16) for _ in range(8)]
    files = {
        f"{('a', 'b')[n % 2]}/{n}.npy": npy(one if layout == "chw" else one.transpose(1, 2, 0))
        for n, one in enumerate(images)
    }
    entry = {
        **RGB_ENTRY,
        "sensor": None,
        "bands": [{"name": f"b{n}"} for n in range(5)],
        "units": {"unit": "digital_number", "scale": 1e-4},
        "splits": RANDOM,
        "source": {
            "kind": "folder",
            "path": str(write_folder(tmp_path / "set", files)),
            "extensions": ["npy"],
        },
    }
    source = open_source(entry)
    assert [r.sample_id for r in source.records()][:2] == ["a/0.npy", "a/2.npy"]
    np.testing.assert_array_equal(source.decode(1).image, images[2])


def test_a_series_and_its_mask_in_npy(tmp_path):
    files = {}
    for n in range(4):
        files[f"x/{n}.npy"] = npy(np.stack([chw(n), chw(10 + n), chw(20 + n)]))
        files[f"y/{n}.npy"] = npy(mask(n).astype(np.int64))
    entry = {
        **MASK_ENTRY,
        "dates": "series",
        "splits": RANDOM,
        "source": {
            "kind": "folder",
            "path": str(write_folder(tmp_path / "set", files)),
            "images": "x",
            "masks": "y",
            "extensions": ["npy"],
        },
    }
    decoded = open_source(entry).decode(2)
    assert decoded.image.shape == (3, 3, 24, 32)
    np.testing.assert_array_equal(decoded.image[1], chw(12))
    np.testing.assert_array_equal(decoded.mask, mask(2))
    Prepared(tmp_path / "out").run(entry)


def test_arrays_that_are_no_image(tmp_path):
    for array, message in (
        (np.zeros((3, 8, 3), np.uint8), "could be its first or its last axis"),
        (np.zeros((4, 8, 8), np.uint8), "the entry declares 3 bands"),
        (np.zeros((3, 8, 8), complex), "not pixels"),
    ):
        with pytest.raises(UnreadableImage, match=message):
            decode_image(npy(array), Decoding(3))


def test_two_files_of_a_sample_that_are_one_column_are_refused(tmp_path):
    files = tar_files(range(3)) | {"s000.PNG": encode(photo(9))}
    with pytest.raises(
        PermafrostError, match=r"s000\.(PNG|png) and s000\.(PNG|png) are two files of one column"
    ):
        open_source(table_entry(write_tar(tmp_path / "a.tar", files), path="png", label="cls"))


def test_few_row_groups_of_many_shards_are_kept(tmp_path):
    for shard in range(12):
        hub_file(tmp_path / f"set/{shard:02d}.parquet", range(5 * shard, 5 * shard + 5))
    table = Table(str(tmp_path / "set"), where="set")
    before = pa.total_allocated_bytes()
    for number, name in enumerate(table.columns["image"]):
        np.testing.assert_array_equal(
            decode_image(table.images.read(name), Decoding(3)).image, chw(number)
        )
    one = sum(len(table.images.read(f"image/{n}.png")) for n in range(4))
    assert pa.total_allocated_bytes() - before < 10 * one


def test_an_array_in_another_order_of_bytes_is_the_same_image():
    image = chw(3).astype(">u2")
    decoded = decode_image(npy(image), Decoding(3)).image
    assert decoded.dtype == np.uint16 and decoded.dtype.isnative
    np.testing.assert_array_equal(decoded, image)


@pytest.mark.parametrize(
    "header",
    [
        "(" * 100,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 10000000000000), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999999999,), }",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 4), }",
        "{'descr': 'O', 'fortran_order': False, 'shape': (1,), }",
        "\0",
    ],
)
def test_damaged_headers_of_npy(header):
    data = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header.ljust(117).encode() + b"\n"
    with pytest.raises(UnreadableImage, match="not a readable npy"):
        decode_image(data, Decoding(3))


def test_a_tar_that_is_cut_off_anywhere_is_refused(tmp_path):
    path = write_tar(tmp_path / "a.tar", tar_files(range(4)))
    whole = path.read_bytes()
    end = len(whole.rstrip(b"\0"))
    for size in (*range(1024, end, 128), end - end % -512):
        path.write_bytes(whole[:size])
        with pytest.raises(PermafrostError, match="damaged archive"):
            open_source(table_entry(path, path="png", label="cls"))


def test_a_tar_with_a_damaged_header_is_refused(tmp_path):
    path = write_tar(tmp_path / "a.tar", tar_files(range(4)))
    whole = path.read_bytes()
    start = whole.index(b"s002.png")
    path.write_bytes(whole[:start] + b"\x01" * 512 + whole[start + 512 :])
    with pytest.raises(PermafrostError, match="truncated or damaged"):
        open_source(table_entry(path, path="png", label="cls"))


def test_long_json_of_a_sample_counts(tmp_path):
    files = tar_files(range(3))
    files["s001.json"] = json.dumps({"pad": "x" * 100_000, "tags": ["a", "b"]}).encode()
    table = Table(str(write_tar(tmp_path / "a.tar", files)), where="set")
    assert table.columns["json.tags"] == [None, "a;b", None]
