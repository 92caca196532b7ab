"""Stored features as files for NeuCo-Bench: one CSV per backbone, with ``id`` and the columns 0, 1, ….

Format: docs/embedding_generation.md of github.com/embed2scale/NeuCo-Bench.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.specification import SPLITS
from permafrost.data.embeddings.tables import stem
from permafrost.features.dates import Dates, over_dates, reduction_of
from permafrost.features.stored import open_features
from permafrost.probes.embeddings.features import StoredRows
from permafrost.report.material.dataset import slug

# numbers that are written together
_TOGETHER = 1 << 20
# option of a job on features of several dates
_OPTION = {"series": "temporal", "pair": "pair"}


@dataclass(frozen=True)
class Written:
    """A file: its backbone, how many samples it has, and how many numbers each of them."""

    backbone: str
    samples: int
    width: int


def write_embeddings(
    rows: list[dict],
    folder: Path,
    *,
    dataset: str | None = None,
    backbones: Sequence[str] | None = None,
    stems: bool = False,
) -> list[Written]:
    """Write ``BACKBONE.csv`` for each backbone, with the samples of all splits.

    Features of several dates are reduced as probes do by default. Numbers have as many digits as single precision
    needs. Blocks of rows are written one after the other.

    Parameters
    ----------
    rows : the feature stores of a recorded plan. folder : an existing folder.
    dataset : optional if there is only one. backbones : by default all with features on it.
    stems : name samples without folder and ending.

    Raises
    ------
    PermafrostError : an unknown name, several datasets, one with folds, a store that is missing, damaged or without
        embeddings, NaN or infinity, two samples of one name.
    """
    known = sorted({row["dataset"] for row in rows})
    if dataset is None and len(known) != 1:
        raise PermafrostError(
            f"a file has the samples of one dataset, and the results have {', '.join(known) or 'none'}",
            remedy="name one with --dataset",
        )
    dataset = look_up(known, dataset or known[0], "these results have no dataset")
    stores: dict[str, dict[str, dict]] = {}
    for row in rows:
        if row["dataset"] == dataset:
            stores.setdefault(row["backbone"], {})[row["split"]] = row
    asked = sorted(stores) if backbones is None else list(dict.fromkeys(backbones))
    for name in asked:
        look_up(stores, name, f"{dataset} has no features of a backbone")
    return [_write(name, stores[name], folder / f"{slug(name)}.csv", stems) for name in asked]


def _write(backbone: str, stores: dict[str, dict], path: Path, stems: bool) -> Written:
    seen: dict[str, str] = {}
    width = 0
    with open(path, "w", encoding="utf-8", newline="") as stream:
        for split in SPLITS:
            store = open_features(
                Path(stores[split]["path"]), expect=stores[split]["fingerprint"], split=split
            )
            if "folds" in store:
                origin = store.attributes["rows"]["of"][0][0]
                raise PermafrostError(
                    f"the images of {stores[split]['dataset']} are in several folds, and a file has each once",
                    where=store.path,
                    remedy=f"export the dataset that it is derived from: --dataset {origin}",
                )
            if "embeddings" not in store:
                raise PermafrostError(
                    f"{backbone} has maps and no embeddings of whole samples",
                    where=store.path,
                    remedy="use a dataset whose task has a label per sample",
                )
            samples, about = store.samples(), store.attributes
            kind = about["dates"]["kind"] if "dates" in about else None
            over = kind and over_dates({_OPTION[kind]: getattr(Dates(), _OPTION[kind])})
            rows = StoredRows(store, samples, reduction_of(over, about, where=store.path))
            names = _names(samples["sample_id"].to_pylist(), seen, stems, where=store.path)
            if not width:
                width = rows.width
                stream.write(",".join(["id", *map(str, range(width))]) + "\n")
            for block in rows.blocks():
                values = rows.read(block.start, block.stop)
                for name, numbers in zip(names[block], _texts(values), strict=True):
                    stream.write(f"{name},{numbers}\n")
    return Written(backbone, len(seen), width)


def _names(ids: list[str], seen: dict[str, str], stems: bool, *, where: Path) -> list[str]:
    """Cells with the names of samples, each added to `seen`; two of one name are refused."""
    cells = []
    for one in ids:
        name = stem(one) if stems else one
        if name in seen:
            raise PermafrostError(
                f"the samples {seen[name]!r} and {one!r} are both called {name!r}",
                where=where,
                remedy="write whole names: --ids name",
            )
        seen[name] = one
        cell = io.StringIO()
        csv.writer(cell, lineterminator="").writerow([name])
        cells.append(cell.getvalue())
    return cells


def _texts(values: np.ndarray) -> Iterator[str]:
    """The numbers of each row of (n, K) float32, separated by commas."""
    step = max(1, _TOGETHER // values.shape[1])
    for start in range(0, len(values), step):
        part = values[start : start + step]
        # the shortest decimals that give the same number
        numbers = pa.array(part.ravel()).cast(pa.string())
        ends = pa.array(np.arange(len(part) + 1) * part.shape[1], pa.int32())
        yield from pc.binary_join(pa.ListArray.from_arrays(ends, numbers), ",").to_pylist()
