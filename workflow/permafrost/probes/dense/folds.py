"""Run a probe of maps once per fold of a dataset and pool the tables, so that every image is tested."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from permafrost.core.identity import file_digest
from permafrost.core.outputs import whole_directory
from permafrost.core.rows_store import FOLDS, ROWS, write_fold
from permafrost.core.store_readers import open_store
from permafrost.core.tables import read_table, write_table
from permafrost.probes.job import ProbeJob

#: files of `probes.detection.coco_json`
_TRUTH, _DETECTIONS = "truth.json", "detections.json"


def run_on_folds(probe: Callable[[ProbeJob], None], job: ProbeJob) -> None:
    """Run `probe` on each fold, as a job of its own, and write their pooled tables; without folds, run it once.

    The same seed serves all folds. Pictures are those of the first fold.
    """
    test = open_store(job.stores["test"], expect=job.features, split="test")
    if FOLDS not in test:
        probe(job)
        return
    job.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".folds-", dir=job.output.parent) as scratch:
        jobs = list(_jobs(job, test.shape(FOLDS)[1], Path(scratch)))
        for one in jobs:
            probe(one)
        table, metadata = _pooled([read_table(one.output) for one in jobs])
        folders = [one.second_output for one in jobs if one.second_output is not None]
        if job.second_output is not None and folders:
            with whole_directory(job.second_output) as folder:
                _write_coco(folders, folder)
                files = {name: file_digest(folder / name) for name in (_TRUTH, _DETECTIONS)}
                write_table(job.output, table, {**metadata, "files": files})
            return
        write_table(job.output, table, metadata)


def _jobs(job: ProbeJob, folds: int, scratch: Path) -> Iterator[ProbeJob]:
    """The job of each fold, whose stores are made in `scratch`, beside links to those that they read."""
    features = job.stores["test"].resolve().parents[2]
    for fold in range(folds):
        own = scratch / str(fold)
        stores = {}
        for split, path in job.stores.items():
            store = open_store(path, expect=job.features, split=split)
            stores[split] = own / path.parent.parent.name / path.parent.name / path.name
            write_fold(stores[split], store, fold)
            for parent, _, _ in store.attributes[ROWS]["of"]:
                if not (own / parent).exists():
                    (own / parent).symlink_to(features / parent)
        yield replace(
            job,
            options=job.options if fold == 0 else replace(job.options, pictures=0),
            stores=stores,
            output=own / "table.parquet",
            second_output=job.second_output and own / "second",
        )


def _pooled(found: list[tuple[pa.Table, dict]]) -> tuple[pa.Table, dict]:
    """The rows of all folds, in the order of the derived store, and their metadata."""
    tables, every = zip(*found, strict=True)
    # a column may be there in some folds only, such as what test images share with train
    names = max((one.column_names for one in tables), key=len)
    fewest = min(every, key=lambda one: one["n_train"])
    settings = [_scalars(one["settings"]) for one in every]
    same = {
        key: one for key, one in settings[0].items() if all(s.get(key) == one for s in settings)
    }
    metadata = {
        **{key: one for key, one in every[0].items() if key != "versions"},
        **{key: fewest[key] for key in ("n_train", "n_val")},
        "n_test": sum(one["n_test"] for one in every),
        "settings": {**same, "folds": settings},
        "gates": sorted({gate for one in every for gate in one["gates"]}),
    }
    if "histogram" in metadata:
        counts = [one["histogram"]["counts"] for one in every]
        summed = [
            [sum(cell) for cell in zip(*rows, strict=True)] for rows in zip(*counts, strict=True)
        ]
        metadata["histogram"] = {**metadata["histogram"], "counts": summed}
    return pa.concat_tables(tables, promote_options="default").select(names), metadata


def _scalars(settings: dict) -> dict:
    """The settings without lists, such as results of every epoch."""
    return {key: one for key, one in settings.items() if not isinstance(one, list | dict)}


def _write_coco(folders: list[Path], folder: Path) -> None:
    """Truth and detections of all folds in COCO's format, with images in the order of their names."""
    truths = [json.loads((one / _TRUTH).read_text("utf-8")) for one in folders]
    detections = [json.loads((one / _DETECTIONS).read_text("utf-8")) for one in folders]
    images = [(image, fold) for fold, one in enumerate(truths) for image in one["images"]]
    images.sort(key=lambda pair: pair[0]["file_name"])
    numbers = {(fold, image["id"]): i for i, (image, fold) in enumerate(images, 1)}

    def renumbered(each: list[list[dict]]) -> list[dict]:
        rows = [
            {**row, "image_id": numbers[fold, row["image_id"]]}
            for fold, one in enumerate(each)
            for row in one
        ]
        return sorted(rows, key=lambda row: row["image_id"])

    objects = renumbered([one["annotations"] for one in truths])
    truth = {
        **truths[0],
        "images": [{**image, "id": i} for i, (image, _) in enumerate(images, 1)],
        "annotations": [{**row, "id": i} for i, row in enumerate(objects, 1)],
    }
    for name, content in ((_TRUTH, truth), (_DETECTIONS, renumbered(detections))):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
