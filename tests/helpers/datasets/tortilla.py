"""Tortilla files, and samples in the layouts of the datasets of GEO-Bench V2."""

from __future__ import annotations

import io
import json
import struct
from calendar import month_name
from pathlib import Path

import numpy as np
import pytest
import yaml
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.tortilla import Extent, read_items

from helpers.datasets.images import CONFIG, geotiff, open_source

SIZE = 24
MONTHS = (*month_name[9:], *month_name[1:9])
# where the data of published files begin
_START = 200


def item(name: str, data: bytes, kind: str = "GTiff", /, **columns) -> dict:
    """A row of a footer with its bytes."""
    return {"tortilla:id": name, "tortilla:file_format": kind, "data": data, **columns}


def tortilla(items: list[dict], *, magic: bytes = b"#y", change=lambda rows: None) -> bytes:
    """A file of items; `change` edits the rows of the footer before it is written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    body, rows = io.BytesIO(), []
    for one in items:
        row = {key: value for key, value in one.items() if key != "data"}
        rows.append(
            row | {"tortilla:offset": _START + body.tell(), "tortilla:length": len(one["data"])}
        )
        body.write(one["data"])
    change(rows)
    names = list(dict.fromkeys(key for row in rows for key in row))
    footer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{n: r.get(n) for n in names} for r in rows]), footer)
    return with_footer(body.getvalue(), footer.getvalue(), magic=magic)


def with_footer(
    body: bytes, footer: bytes, *, magic: bytes = b"#y", start=None, length=None
) -> bytes:
    """A file of these bytes; `start` and `length` may say something else of the footer."""
    start = _START + len(body) if start is None else start
    length = len(footer) if length is None else length
    return struct.pack("<2sQQ", magic, start, length).ljust(_START, b"\0") + body + footer


def sample(name: str, parts: list[dict], split: str = "train", **columns) -> dict:
    return item(name, tortilla(parts), "TORTILLA", **{"tortilla:data_split": split, **columns})


def hdf5(array: np.ndarray | None = None, **attributes) -> bytes:
    import h5py

    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        if array is not None:
            file["data"] = array
        file.attrs.update(attributes)
    return stream.getvalue()


def box_table(boxes: list, labels: list) -> bytes:
    """GeoParquet as EverWatch's, but for the geometry, which nobody reads."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict(
        zip(("xmin", "ymin", "xmax", "ymax"), map(list, zip(*boxes, strict=True)), strict=True)
    )
    stream = io.BytesIO()
    pq.write_table(pa.table({**columns, "label": pa.array(labels, pa.string())}), stream)
    return stream.getvalue()


def pixels(seed: int, bands: int, dtype="uint16", high: int = 200) -> np.ndarray:
    """(bands, SIZE, SIZE) of smooth structure, different for every seed."""
    random = np.random.default_rng(seed)
    coarse = random.integers(1, high, (bands, SIZE // 4, SIZE // 4))
    return coarse.repeat(4, 1).repeat(4, 2).astype(dtype)


def mask(seed: int, values, dtype="uint8") -> np.ndarray:
    """(SIZE, SIZE) that holds each of the values."""
    flat = np.resize(np.array(values), SIZE * SIZE)
    return np.roll(flat, 7 * seed).reshape(SIZE, SIZE).astype(dtype)


def image(name: str, seed: int, bands: int, dtype="uint16", **columns) -> dict:
    return item(name, geotiff(pixels(seed, bands, dtype)), **columns)


def labels(name: str, seed: int, values, dtype="uint8", **columns) -> dict:
    return item(name, geotiff(mask(seed, values, dtype)[None]), **columns)


def layout(dataset: str, seed: int, classes: list[str]) -> tuple[list[dict], dict]:
    """The parts of a sample as the dataset's generator writes them, and its own columns."""
    place = {"lon": 10.0 + seed, "lat": 50.0}
    two = [classes[seed % len(classes)], classes[-1 - seed % len(classes)]] if classes else []
    whole = {"category_id": 1, "bbox": [2, 3, 5, 6], "bbox_mode": "xywh"}
    # as in the published files, one reaches over an edge, and one has no area in the image
    boxes = [whole, {**whole, "bbox": [-1, 3, 5, 6]}, {**whole, "bbox": [SIZE, 3, 5, 6]}]
    polygon = {"mask": [[2, 3, 7, 3, 7, 9, 2, 9]]}
    json_boxes = {
        "nzcattle": {"boxes": boxes, "image_size": [SIZE, SIZE]},
        "substation": {
            "sample_annotations": [{**one, **polygon} for one in boxes],
            "image_size": [SIZE, SIZE],
        },
    }
    if dataset == "benv2":
        parts = [image("s1", seed, 2, "float32"), image("s2", seed, 12)]
        return _below(parts, 0, 2), {"labels": two, **place}
    if dataset == "treesatai":
        parts = [
            image("aerial", seed, 4, "uint8"),
            image("s1", seed, 3, "float32"),
            image("s2", seed, 12),
        ]
        return _below(parts, 1, 3), {"species_labels": two, "dist_labels": [0.5, 0.5], **place}
    if dataset == "so2sat":
        return [
            image("s1", seed, 2, "float32"),
            _unit(image("s2", seed, 10, "float32"), seed, 10),
        ], {"labels": two[0]}
    if dataset == "forestnet":
        return [image("image", seed, 6, "uint8")], {"labels": two[0], **place}
    if dataset == "burn_scars":
        parts = [
            _unit(image("image", seed, 6, "float32"), seed, 6),
            labels("label", seed, (-1, 0, 1), "int16"),
        ]
        return parts, place
    if dataset == "caffe":
        parts = [image("img", seed, 1, "uint8"), labels("mask", seed, range(4))]
        return parts, {"glacier_name": f"G{seed}", **place}
    if dataset == "cloudsen12":
        return [image("s2l2a", seed, 14), labels("target", seed, range(4))], {
            "stac:centroid": f"POINT ({10 + seed} 50)"
        }
    if dataset == "dynamic_earthnet":
        days = [1519862400.0 + 86400 * day for day in range(4)]
        parts = [
            image(
                f"planet_{d}",
                10 * seed + d,
                4,
                "int16",
                modality="planet",
                **{"stac:time_start": day},
            )
            for d, day in enumerate(days)
        ]
        first = {"stac:time_start": days[0]}
        parts.append(image("s1", seed, 8, "float32", modality="s1", **first))
        # one month has no image of Sentinel-2
        if seed != 1:
            parts.append(image("s2", seed, 12, "int16", modality="s2", **first))
        parts.append(labels("label", seed, range(7), modality="label", **first))
        return parts, {"area_id": f"area_{seed}", **first, **place}
    if dataset == "flair2":
        parts = [image("aerial", seed, 5, "uint8"), labels("mask", seed, range(1, 20))]
        return parts, {"zone": f"Z{seed}", **place}
    if dataset == "fotw":
        parts = [image("win_a", seed, 4), image("win_b", seed + 50, 4)]
        parts += [
            labels("instance_mask", seed, range(9)),
            labels("semantic_3class_mask", seed, range(4)),
        ]
        return parts, {"aoi_id": f"a{seed}", "country": "france", **place}
    if dataset == "kuro_siwo":
        after = pixels(seed, 2, "float32") / 1000
        after[:, :2, :2] = np.nan
        parts = [
            image("pre_event_1", seed + 20, 2, "float32"),
            image("pre_event_2", seed + 30, 2, "float32"),
        ]
        parts += [item("post_event", geotiff(after)), image("dem", seed, 1, "float32")]
        parts += [labels("mask", seed, range(4)), labels("invalid_data", seed, (0, 1))]
        return parts, {"actid": seed, "stac:centroid": f"POINT ({10 + seed} 50)"}
    if dataset == "pastis":
        return _pastis(seed), {"tile": f"t{seed}", "dates": [20180917, 20181002], **place}
    if dataset == "spacenet2":
        parts = [image("ps-ms", seed, 8), image("pan", seed, 1)]
        parts += [labels("semantic_mask", seed, (0, 1)), labels("instance_mask", seed, range(5))]
        return parts, {"city": "Paris", "stac:time_start": 0, **place}
    if dataset == "spacenet7":
        parts = [image("images", seed, 4, "uint8"), labels("mask", seed, (0, 1))]
        return parts, {"aoi": f"aoi{seed}", "month": "01", "stac:time_start": 1577836800.0, **place}
    if dataset == "biomassters":
        return _biomassters(seed), {"add_test_split": False}
    if dataset == "everwatch":
        corners = [(2, 3, 7, 9), (10, 10, SIZE + 1, 18), (5, 5, 5, 9)]
        table = box_table(corners, [two[0], None, two[0]])
        parts = [image("image", seed, 3, "uint8"), item("annotations", table, "GeoParquet")]
        return parts, {"lon": None, "lat": None, "stac:centroid": "POINT (256.0 256.0)"}
    if dataset in json_boxes:
        text = json.dumps(json_boxes[dataset])
        bands, dtype = (3, "uint8") if dataset == "nzcattle" else (13, "uint16")
        parts = [
            image("image", seed, bands, dtype),
            item("annotations", hdf5(annotation=text), "HDF5"),
        ]
        return parts, {"stac:time_start": 2016.0, **place}
    if dataset == "spacenet6":
        parts = [image("ps_rgbnir", seed, 4), image("sar_intensity", seed, 4, "float32")]
        return [*parts, labels("mask", seed, (0, 1))], place
    if dataset == "spacenet8":
        parts = [image("pre_image", seed, 3, "uint8"), image("post_image", seed + 40, 3, "uint8")]
        return [*parts, labels("mask", seed, range(5))], {"region": f"r{seed}", **place}
    raise KeyError(dataset)


def write_dataset(
    folder: Path, names: list[str], dataset: str, classes: list[str], counts=(3, 2, 2)
) -> Path:
    """Samples of a dataset's layout, `counts` of train, validation and test, spread over the files `names`."""
    splits = np.repeat(["train", "validation", "test"], counts).tolist()
    samples = []
    for seed, split in enumerate(splits):
        parts, columns = layout(dataset, seed, classes)
        samples.append(sample(f"sample_{seed}", parts, split, **columns))
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        (folder / name).write_bytes(tortilla(samples[number :: len(names)]))
    return folder


def write_entries(data: Path, names: list[str]) -> dict[str, dict]:
    """Few samples of these entries of the catalogue, and copies of the entries that put up with missing classes."""
    entries = yaml.safe_load((CONFIG / "datasets" / "geobench2.yaml").read_text())
    for name in names:
        source = entries[name]["source"]
        dataset = source["path"].rpartition("/")[2]
        if not (folder := data / "geobench2" / dataset).exists():
            classes = entries[name].get("classes", [])
            write_dataset(folder, source["files"], dataset, classes, counts=(24, 8, 12))
    few = {"allow_missing_classes": True}
    return {f"few-{n}": entries[n] | (few if "classes" in entries[n] else {}) for n in names}


def _unit(part: dict, seed: int, bands: int) -> dict:
    """The part as reflectance."""
    return {**part, "data": geotiff(pixels(seed, bands, "float32") / 400)}


def _below(parts: list[dict], number: int, bands: int) -> list[dict]:
    """The parts, one of them with values that decibels can have."""
    parts[number] = {**parts[number], "data": geotiff(-pixels(number, bands, "float32", 50))}
    return parts


def _pastis(seed: int) -> list[dict]:
    dates = {"s2": [20180917, 20181002], "s1a": [20180905, 20180911, 20180917], "s1d": [20180906]}
    bands = {"s2": (10, "int16"), "s1a": (3, "float16"), "s1d": (3, "float16")}
    parts = []
    for sensor, days in dates.items():
        count, dtype = bands[sensor]
        each = [pixels(100 * seed + d, count, dtype, 90) for d in range(len(days))]
        parts.append(item(sensor, hdf5(np.stack(each)), "HDF5", dates=days))
    semantic = np.stack([mask(seed, range(20))] * 3)
    instance = np.zeros((SIZE, SIZE), np.int32)
    instance[2:9, 3:7], instance[12:20, 10:21] = 4, 7
    semantic[0, 2:9, 3:7], semantic[0, 12:20, 10:21] = 1 + seed % 18, 18
    parts.append(item("semantic", hdf5(semantic), "HDF5", dates=[]))
    parts.append(item("instance", hdf5(instance), "HDF5", dates=[]))
    return parts


def _biomassters(seed: int) -> list[dict]:
    parts = []
    for m, month in enumerate(MONTHS):
        radar = -pixels(seed + m, 4, "float32", 30)
        # one orbit was not flown; not in all images, so that its band has values
        if seed == 0:
            radar[2:] = -9999
        parts.append(item(f"c{seed}_S1_{month}", geotiff(radar), month=month, modality="S1"))
    for m, month in enumerate(MONTHS):
        # the last of train has no July
        if (seed, month) != (2, "July"):
            parts.append(image(f"c{seed}_S2_{month}", seed + m, 11, month=month, modality="S2"))
    heights = geotiff(pixels(seed, 1, "float32"))
    return [*parts, item(f"c{seed}_AGBM", heights, modality="AGBM")]


# --- files of a test, and their source

DAY = 86400.0


def written(folder: Path, data: bytes, name: str = "set.tortilla") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def items_of(folder: Path, data: bytes) -> list:
    return read_items(Extent.whole(written(folder, data)))


def entry(path: Path, task: str = "classification", source=None, **more) -> dict:
    truth = {"classification": {"label": "kind"}, "segmentation": {"mask": "mask"}}.get(task, {})
    return {
        "task": task,
        "bands": [{"name": "a"}, {"name": "b"}],
        "units": {"unit": "digital_number", "scale": 1},
        "classes": ["oak", "pine"],
        "source": {"kind": "tortilla", "path": str(path), "image": "s2", **truth, **(source or {})},
        **more,
    }


def opened(path: Path, *args, **more):
    return open_source(entry(path, *args, **more), where="dataset set")


def one(folder: Path, parts: list[dict], *args, columns=None, **more):
    """The source of a file with one sample of these parts."""
    data = tortilla([sample("s", parts, **{"kind": "oak", **(columns or {})})])
    return opened(written(folder, data), *args, **more)


def refused(folder: Path, parts: list[dict], *args, **more) -> str:
    """Why the one sample cannot be used."""
    with pytest.raises(UnreadableImage) as error:
        one(folder, parts, *args, **more).decode(0)
    return str(error.value)


def days(values, seeds=None, **columns) -> list[dict]:
    return [
        image(
            f"p{n}", seeds[n] if seeds else n, 2, modality="s2", **{"stac:time_start": v}, **columns
        )
        for n, v in enumerate(values)
    ]


def two_samples() -> list[dict]:
    return [sample(f"s{n}", [image("s2", n, 2), image("s1", n, 1)], kind="oak") for n in range(2)]
