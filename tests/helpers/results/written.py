"""The outputs of a recorded plan, written as its jobs would, with contents that mean nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from permafrost.core.identity import file_digest
from permafrost.core.inventory import INVENTORY, write_inventory
from permafrost.core.stamps import write_stamp
from permafrost.core.stores import INVENTORY_DIGEST, write_store
from permafrost.core.tables import write_table
from permafrost.data.store.card import write_card
from permafrost.plan.recorded import read_plan, stamped

from helpers.stores.images import card_of, rgb_bands

IDS = pa.table({"sample_id": ["a", "b"]})
PAGES = ("report/index.html", "report/figures/a.png", "report/datasets/world.html")
TABLES = ("leaderboard.csv", "standings.parquet", "standings.csv")


def write(path: Path, fingerprint: str, split: str | None = None) -> None:
    """Write a table, a store or a card."""
    if path.suffix == ".parquet":
        write_table(path, IDS, {"fingerprint": fingerprint})
    elif path.suffix == ".zarr":
        with write_store(path, fingerprint=fingerprint) as writer:
            # two chunks of the same size with other bytes
            array = writer.array("images", (2, 3), "uint8", rows_per_chunk=1, compress=False)
            array[:] = [[1, 2, 3], [4, 5, 6]]
            writer.samples(IDS)
            if split is not None:
                writer.attributes["split"] = split
    else:
        write_card(path, card_of(rgb_bands(), fingerprint=fingerprint))


def write_masks(path: Path, form: str, fingerprint: str) -> None:
    """Write a folder of predicted masks: a store, or GeoTIFFs."""
    if form == "zarr":
        write(path.with_suffix(".zarr"), fingerprint)
        path.with_suffix(".zarr").rename(path)
        return
    path.mkdir(parents=True)
    for name in ("a", "b"):
        (path / f"{name}.tif").write_bytes(name.encode())
    write_inventory(path, {}, without="samples.parquet")
    sealed = {INVENTORY_DIGEST: file_digest(path / INVENTORY)}
    write_table(path / "samples.parquet", IDS, {"fingerprint": fingerprint, **sealed})


def write_detections(path: Path, fingerprint: str) -> None:
    """Write a folder of detections, and the table with its digests."""
    path.mkdir(parents=True)
    (path / "truth.json").write_text(json.dumps({"info": {"fingerprint": fingerprint}}))
    (path / "detections.json").write_text("[]")
    digests = {file.name: file_digest(file) for file in path.iterdir()}
    table = path.parents[4] / "predictions" / Path(*path.parts[-4:]).with_suffix(".parquet")
    write_table(table, IDS, {"fingerprint": fingerprint, "files": digests})


def write_outputs(plan: Path, results: Path) -> None:
    """Write every output of a recorded plan, with leaderboard, report and stamps."""
    recorded = read_plan(plan, results)
    for row in recorded["outputs"]:
        path = Path(row["path"])
        if row["stage"] == "masks":
            form = recorded["probes"][row["probe"]]["masks"]
            write_masks(path, form, row["fingerprint"])
        elif row["stage"] == "detections":
            write_detections(path, row["fingerprint"])
        elif not path.exists():
            write(path, row["fingerprint"], row.get("split"))
    for name in (*TABLES, *PAGES):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(name)
    gathered, reported = stamped(recorded)
    tables = [results / name for name in ("leaderboard.parquet", *TABLES)]
    write_stamp(results / f"plans/{gathered}.done", gathered, tables)
    write_stamp(results / f"plans/{reported}.done", reported, [results / name for name in PAGES])
