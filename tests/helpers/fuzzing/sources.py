"""Whole datasets of which one file holds any bytes: listed, checked and decoded as `prepare` does."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from permafrost.data.records import check_records
from permafrost.data.sources import open_source, read_entry

from helpers.datasets.geobench import write_partition, write_sample
from helpers.datasets.grids import grid_entry, write_pair
from helpers.datasets.images import (
    MASK_ENTRY,
    RANDOM,
    RGB_ENTRY,
    encode,
    mask,
    photo,
    write_folder,
)
from helpers.datasets.objects import coco, image_files
from helpers.datasets.tortilla import box_table, hdf5, image, labels, pixels, sample, tortilla
from helpers.datasets.tortilla import entry as tortilla_entry
from helpers.datasets.tortilla import item as part
from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox

_SIZE = (16, 16)
_HUB = {"image": {"_type": "Image"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}


class Dataset:
    """Good files, of which an input replaces one: its first byte says which, the others are the content.

    Parameters
    ----------
    make : writes the files into a folder.
    entry_of : the entry for that folder.
    """

    def __init__(self, make: Callable[[Path], object], entry_of: Callable[[Path], dict]) -> None:
        self._make, self._entry_of = make, entry_of
        self._good: dict[str, bytes] = {}

    def files(self) -> dict[str, bytes]:
        if not self._good:
            with tempfile.TemporaryDirectory() as folder:
                self._make(Path(folder))
                found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
                self._good = {str(p.relative_to(folder)): p.read_bytes() for p in found}
        return self._good

    def seeds(self) -> list[bytes]:
        return [bytes([n]) + content for n, content in enumerate(self.files().values())]

    def read(self, data: bytes) -> None:
        folder, good = sandbox() / f"dataset-{id(self)}", self.files()
        if not folder.exists():
            write_folder(folder, good)
        place = data[0] % len(good) if data else 0
        replaced = folder / list(good)[place]
        replaced.write_bytes(data[1:])
        try:
            read_all(self._entry_of(folder))
        finally:
            replaced.write_bytes(good[str(replaced.relative_to(folder))])

    def reader(self, *words: str) -> Reader:
        return Reader(self.read, self.seeds, words)


def read_all(content: dict) -> None:
    """List and check the records of an entry, and decode the first of them."""
    source = open_source(read_entry(content, where="dataset set"), where="dataset set")
    records = source.records()
    check_records(records, "dataset set")
    for index in range(min(len(records), 3)):
        source.locate(index)
        source.decode(index)


def _entry(source: dict, task: str = "detection", **more) -> dict:
    return {**RGB_ENTRY, "task": task, "source": source, "splits": RANDOM, **more}


def _pictures(*names: str) -> dict[str, bytes]:
    return {name: encode(photo(number, _SIZE)) for number, name in enumerate(names)}


def _folder(at: Path) -> dict:
    return {
        "kind": "folder",
        "path": str(at),
        "images": "images/<stem>.png",
        "masks": "masks/<stem>.png",
    }


def _files(files: dict[str, bytes]) -> Callable[[Path], object]:
    return lambda folder: write_folder(folder, files)


def _coco() -> Dataset:
    content = coco(2, size=_SIZE, name="{}.png")
    files = {"objects.json": json.dumps(content).encode(), **image_files(content, "images/")}
    return Dataset(
        _files(files),
        lambda at: _entry(
            {
                "kind": "coco",
                "path": f"{at}/images",
                "annotations": f"{at}/objects.json",
                "clip_boxes": True,
            }
        ),
    )


_XML = (
    b"<?xml version='1.0'?><annotation><size><width>16</width><height>16</height></size><object><name>tree</name>"
    b"<difficult>0</difficult><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>10</xmax><ymax>12</ymax></bndbox></object>"
    b"</annotation>"
)
_CROWNS = b'image_path,label,geometry\na.png,Tree,"POLYGON ((2 3, 12 3, 12 13, 2 3))"\nb.png,,POLYGON EMPTY\n'


def _hub(folder: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = [{"bytes": encode(photo(n, _SIZE)), "path": f"{n}.png"} for n in range(3)]
    table = pa.table({"image": pa.array(images, kind), "label": pa.array([0, 1, 0])})
    about = json.dumps({"info": {"features": _HUB}})
    pq.write_table(table.replace_schema_metadata({"huggingface": about}), folder / "a.parquet")


def _tar(folder: Path) -> None:
    with tarfile.open(folder / "a.tar", "w") as archive:
        for n in range(2):
            members = {"png": encode(photo(n, _SIZE)), "cls": b"1", "json": b'{"id": {"a": 3}}'}
            for ending, data in members.items():
                info = tarfile.TarInfo(f"{n}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def _zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _pictures("a/0.png", "b/1.png").items():
            archive.writestr(name, data)


def _stac(folder: Path) -> None:
    files = _pictures("0.png", "1.png")
    for n in range(2):
        own = {
            "type": "Feature",
            "id": f"i{n}",
            "properties": {"kind": "ab"[n]},
            "stac_version": "1.1.0",
        }
        assets = {"image": {"href": f"./{n}.png"}}
        files[f"{n}.json"] = json.dumps({**own, "bbox": [9, 49, 10, 50], "assets": assets}).encode()
    write_folder(folder, files)


def _zarr(folder: Path, version: int = 3) -> None:
    import zarr

    root = zarr.open_group(folder / "set.zarr", mode="w", zarr_format=version)
    images = np.stack([photo(n, _SIZE).transpose(2, 0, 1) for n in range(3)])
    root.create_array("images", data=images, chunks=(2, 3, 16, 16))
    root.create_array("label", data=np.array([0, 1, 0]), chunks=(3,))


def _tortilla(folder: Path) -> None:
    boxes = part("boxes", box_table([[1, 1, 5, 5]], ["oak"]), "GEOPARQUET")
    parts = [image("s2", 0, 2), labels("mask", 0, [0, 1]), part("h", hdf5(pixels(0, 2)), "HDF5")]
    data = tortilla([sample("s", parts, kind="oak"), sample("t", [*parts, boxes], kind="pine")])
    write_folder(folder, {"set.tortilla": data})


def _geobench(folder: Path) -> None:
    for n in range(2):
        arrays = {"02 - Blue": np.arange(256, dtype=np.int16).reshape(16, 16) + n}
        write_sample(folder, f"id_{n}", arrays, n)
    write_partition(folder, {"train": ["id_0"], "test": ["id_1"]})


def _geobench_entry(folder: Path) -> dict:
    return {
        "task": "classification",
        "classes": ["field", "town"],
        "sensor": "sentinel2",
        "bands": ["B02"],
        "units": {"unit": "digital_number", "scale": 1e-4},
        "splits": {"map": {"train": ["train"], "val": ["valid"], "test": ["test"]}},
        "source": {"kind": "geobench", "path": str(folder), "arrays": ["02 - Blue"], "size": 16},
    }


def _shapes(folder: Path) -> None:
    """Polygons in GeoJSON and in a shapefile."""
    import pyogrio
    import shapely
    from rasterio import open as opened

    write_pair(folder, 16, 16)
    (folder / "mask.tif").unlink()
    with opened(folder / "image.tif") as raster:
        box, crs = shapely.box(*raster.bounds), raster.crs.to_string()
    for name in ("shapes.geojson", "shapes.shp"):
        pyogrio.raw.write(
            folder / name,
            geometry=shapely.to_wkb(np.array([shapely.buffer(box, -5)])),
            field_data=[np.array(["sea"], object)],
            fields=["kind"],
            geometry_type="Polygon",
            crs=crs,
        )


def _shapes_of(name: str) -> Callable[[Path], dict]:
    return lambda at: grid_entry(at, {"masks": name, "attribute": "kind", "background": "land"})


_PAIRS = {"images/0.png": encode(photo(0, _SIZE)), "masks/0.png": encode(mask(0, _SIZE))}
_TABLE = {"table.csv": b"file,label,lon,lat\n0.png,a,10,50\n1.png,b,11,51\n"}


def _table_entry(name: str, label: str = "label", **source) -> Callable[[Path], dict]:
    def entry(at: Path) -> dict:
        own = {key: str(value).replace("AT", str(at)) for key, value in source.items()}
        kept = {"kind": "table", "table": f"{at}{name}", "path": "image", "label": label, **own}
        return _entry(kept, "classification")

    return entry


def _yolo() -> dict[str, bytes]:
    return {
        "data.yaml": b"path: .\ntrain: images/train\nnc: 2\nnames:\n  0: tree\n  1: car\n",
        "labels/train/a.txt": b"0 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.3 0.1 0.3 0.4\n",
        **_pictures("images/train/a.png"),
    }


_TURNED = (
    b"<annotation><objects><object><possibleresult><name>ship</name></possibleresult><points><point>2,3</point>"
    b"<point>9,3</point><point>9,8</point></points></object></objects><object><name>car</name><robndbox><cx>8</cx>"
    b"<cy>8</cy><w>6</w><h>3</h><angle>0.4</angle></robndbox></object><object><name>car</name><polygon><x1>2</x1>"
    b"<y1>3</y1><x2>9</x2><y2>3</y2><x3>9</x3><y3>8</y3></polygon></object></annotation>"
)
_HRSC = (
    b"<HRSC_Image><Img_SizeWidth>16</Img_SizeWidth><Img_SizeHeight>16</Img_SizeHeight><HRSC_Objects><HRSC_Object>"
    b"<Class_ID>100000001</Class_ID><difficult>0</difficult><mbox_cx>8</mbox_cx><mbox_cy>8</mbox_cy><mbox_w>6</mbox_w>"
    b"<mbox_h>3</mbox_h><mbox_ang>-0.4</mbox_ang></HRSC_Object></HRSC_Objects></HRSC_Image>"
)
_DOTA = b"imagesource:GoogleEarth\ngsd:0.15\n2 3 9 3 9 8 2 8 ship 0\n3 4 12 5 11 10 2 9 small-vehicle 1\n"
_CVAT = (
    b"<annotations><meta><task><labels><label><name>ship</name></label></labels></task></meta><image id='0'"
    b" name='a.png' subset='train' width='16' height='16'>"
    b"<box label='ship' xtl='2' ytl='3' xbr='9' ybr='8' rotation='20.5'/>"
    b"<polygon label='ship' points='2,3;9,3;9.5,8'/>"
    b"<mask label='ship' rle='1,2,1' left='3' top='4' width='2' height='2'/>"
    b"<tag label='ship'/></image></annotations>"
)


def _voc_of(data: bytes) -> Dataset:
    files = {"Annotations/a.xml": data, **_pictures("JPEGImages/a.png")}
    return Dataset(_files(files), lambda at: _entry({"kind": "voc", "path": str(at)}))


def _vectors(folder: Path) -> None:
    _shapes(folder)
    (folder / "images").mkdir()
    (folder / "image.tif").rename(folder / "images/a.tif")


DATASETS = {
    "oriented-voc": _voc_of(_TURNED),
    "hrsc": _voc_of(_HRSC),
    "dota": Dataset(
        _files({"train/labelTxt/a.txt": _DOTA, **_pictures("train/images/a.png")}),
        lambda at: _entry({"kind": "dota", "path": str(at)}, "oriented_detection"),
    ),
    "cvat": Dataset(
        _files({"annotations.xml": _CVAT, **_pictures("a.png")}),
        lambda at: _entry(
            {"kind": "cvat", "path": str(at), "annotations": "<path>/annotations.xml"}
        ),
    ),
    "vectors": Dataset(
        _vectors,
        lambda at: _entry(
            {"kind": "vectors", "path": str(at), "shapes": "shapes.geojson", "attribute": "kind"}
            | {"other_files": "ignore"}
        ),
    ),
    "folder": Dataset(
        _files(_PAIRS),
        lambda at: {**MASK_ENTRY, "source": _folder(at), "splits": RANDOM},
    ),
    "coco": _coco(),
    "voc": Dataset(
        _files({"Annotations/a.xml": _XML, **_pictures("JPEGImages/a.png")}),
        lambda at: _entry({"kind": "voc", "path": str(at)}),
    ),
    "yolo": Dataset(_files(_yolo()), lambda at: _entry({"kind": "yolo", "path": str(at)})),
    "points": Dataset(
        _files({"points/a.csv": b"x,y\n1,2\n3.5,4\n", **_pictures("images/a.png")}),
        lambda at: _entry(
            {"kind": "points", "path": str(at), "coordinates": "zero_based"},
            "point_detection",
            classes=["tree"],
        ),
    ),
    "deepforest": Dataset(
        _files({"annotations.csv": _CROWNS, **_pictures("images/a.png", "images/b.png")}),
        lambda at: _entry(
            {"kind": "deepforest", "path": f"{at}/images", "table": f"{at}/annotations.csv"}
        ),
    ),
    "csv": Dataset(
        _files({**_TABLE, **_pictures("0.png", "1.png")}),
        _table_entry("/table.csv", images="AT", path="file", lon="lon", lat="lat"),
    ),
    "parquet": Dataset(_hub, _table_entry("/a.parquet")),
    "tar": Dataset(_tar, _table_entry("/a.tar", "cls", path="png")),
    "stac": Dataset(_stac, _table_entry("", "properties.kind", path="assets.image")),
    "zarr": Dataset(_zarr, _table_entry("/set.zarr", path="images")),
    "tortilla": Dataset(_tortilla, lambda at: tortilla_entry(at / "set.tortilla")),
    "geobench": Dataset(_geobench, _geobench_entry),
    "shapes": Dataset(_shapes, _shapes_of("shapes.geojson")),
    "shapefile": Dataset(_shapes, _shapes_of("shapes.shp")),
    "scene": Dataset(lambda at: write_pair(at, 32, 32), grid_entry),
    "zip": Dataset(
        _zip, lambda at: _entry({"kind": "folder", "path": f"{at}/a.zip"}, "classification")
    ),
}
READERS = {
    name: dataset.reader("id", "image_id", "bbox", "NaN", "1e999", "null", "../x", "/etc/passwd")
    for name, dataset in DATASETS.items()
}
