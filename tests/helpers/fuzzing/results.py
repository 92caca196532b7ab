"""What a run wrote and a later one reads: tables, cards, stores, recorded plans; results that others published."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_metadata, read_table, write_table
from permafrost.data.store.card import read_card, write_card
from permafrost.plan.recorded import encode_plan, planned, read_plan
from permafrost.statistics.leaderboard.published import TORCHGEO_BENCH, read_published
from permafrost.statistics.predictions.reading import read_predictions

from helpers.datasets.images import write_folder
from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox, written
from helpers.predictions import masks
from helpers.stores.images import card_of, rgb_bands

_PUBLISHED = {
    "dataset": "m-eurosat", "method": "linear", "metric_name": "accuracy", "metric_value": "0.5", "seed": "0",
    "name": "net", "normalization": "zscore", "image_size": "224.0", "bands": "b02,b01", "c_range_start": "-6",
}  # fmt: skip


def _table(data: bytes) -> None:
    path = written(data, "table.parquet")
    read_metadata(path)
    read_table(path)


def _predictions(data: bytes) -> None:
    read_predictions(written(data, "predictions.parquet"), scratch=sandbox())


def _store(data: bytes) -> None:
    """A store of which one file holds any bytes."""
    folder, good = sandbox() / "store.zarr", _store_files()
    shutil.rmtree(folder, ignore_errors=True)
    name = list(good)[data[0] % len(good) if data else 0]
    write_folder(folder, good | {name: data[1:]})
    store = Store(folder)
    store.samples()
    for array in store.attributes["arrays"]:
        store.read(array)


def _stored(write) -> bytes:
    """The bytes of the file that `write` writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _store_files() -> dict[str, bytes]:
    if not _GOOD:
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top) / "store.zarr"
            with write_store(folder, fingerprint="plan") as writer:
                array = writer.array(
                    "numbers", (6, 2), np.float32, rows_per_chunk=2, rows_per_shard=4
                )
                array[:] = np.arange(12, dtype=np.float32).reshape(6, 2)
                writer.samples(pa.table({"sample_id": [f"s{i}" for i in range(6)]}))
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                _GOOD[str(path.relative_to(folder))] = path.read_bytes()
    return _GOOD


_GOOD: dict[str, bytes] = {}


def _plan(data: bytes) -> None:
    planned(read_plan(written(data, "plan.json"), Path("elsewhere")), "bootstrap")


def _plans() -> list[bytes]:
    row = {"stage": "bootstrap", "path": "results/a.parquet", "fingerprint": "b"}
    content = {"results": "results", "config": {}, "outputs": [row]}
    return [encode_plan("0" * 32, content), json.dumps(content).encode()]


def _csv() -> list[bytes]:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, TORCHGEO_BENCH, restval="")
    writer.writeheader()
    writer.writerow(_PUBLISHED)
    return [stream.getvalue().encode()]


READERS = {
    "table": Reader(
        _table,
        lambda: [
            _stored(lambda at: write_table(at, pa.table({"a": [1, 2]}), {"fingerprint": "plan"}))
        ],
        ("PAR1", "permafrost", "permafrost.sha256", "fingerprint"),
    ),
    "predictions-table": Reader(
        _predictions,
        lambda: [
            _stored(
                lambda at: masks.write_predictions(
                    at, masks.predictions({"n": 2, "size": 8}, classes=2), classes=["a", "b"]
                )
            )
        ],
    ),
    "card": Reader(
        lambda data: read_card(written(data, "card.json")),
        lambda: [_stored(lambda at: write_card(at, card_of(rgb_bands())))],
        ("sha256", "null", "NaN"),
    ),
    "store": Reader(
        _store,
        lambda: [bytes([n]) + each for n, each in enumerate(_store_files().values())],
        ("zarr_format", "codecs", "sharding_indexed", "shape", "attributes"),
    ),
    "plan": Reader(_plan, _plans, ("about", "sha256", "outputs", "results", "stage", "path")),
    "published": Reader(lambda data: read_published(written(data, "t.csv")), _csv, TORCHGEO_BENCH),
}
