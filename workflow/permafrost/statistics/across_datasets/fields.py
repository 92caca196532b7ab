"""Scores of all backbones on each dataset, read from their tables into arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.tables import metadata_of

_READ = ["dataset", "backbone", "probe", "seed", "metric", "higher_is_better", "value"]


@dataclass
class Field:
    """The scores of all backbones on one dataset under one probe."""

    metric: str
    higher: bool
    test_set: str | None
    values: dict[str, dict[int, float]]  # backbone to seed to value
    strays: dict[str, list]  # backbone to the centred contributions for each seed


def read_fields(tables: Iterable[pa.Table]) -> dict[str, dict[str, Field]]:
    """Probe to dataset to its scores.

    Raises
    ------
    PermafrostError : two backbones were evaluated on different test samples of a dataset.
    """
    fields: dict[str, dict[str, Field]] = {}
    for table in tables:
        primary = table.select(_READ).filter(table.column("primary")).to_pylist()
        about = metadata_of(table)
        for row in primary:
            of_probe = fields.setdefault(row["probe"], {})
            test_set = about.get("test_set")
            field = of_probe.setdefault(
                row["dataset"],
                Field(row["metric"], row["higher_is_better"], test_set, {}, {}),
            )
            if field.test_set != test_set:
                raise PermafrostError(
                    f"the backbones {next(iter(field.values))!r} and {row['backbone']!r} were evaluated on"
                    f" different test samples of {row['dataset']!r}",
                    remedy="delete the predictions of both and run snakemake again",
                )
            if row["value"] is not None and not np.isnan(row["value"]):
                field.values.setdefault(row["backbone"], {})[row["seed"]] = row["value"]
                field.strays.setdefault(row["backbone"], []).append(about.get("strays"))
    return fields


def scores_of(fields: list[Field], backbones: list[str]) -> tuple:
    """(D, K, S) values, NaN if missing, (D,) directions, and items if known."""
    seeds = sorted({seed for field in fields for one in field.values.values() for seed in one})
    values = [
        [[field.values.get(name, {}).get(seed, np.nan) for seed in seeds] for name in backbones]
        for field in fields
    ]
    items = [_items(field, backbones) for field in fields]
    higher = np.array([field.higher for field in fields])
    return np.array(values), higher, None if any(one is None for one in items) else items


def _items(field: Field, backbones: list[str]) -> np.ndarray | None:
    """(K, J) mean contributions of the blocks over seeds; NaN without a score; None if unknown."""
    known = {name: seeds for name, seeds in field.strays.items()}
    if any(one is None for seeds in known.values() for one in seeds) or not known:
        return None
    means = {name: np.mean(seeds, axis=0) for name, seeds in known.items()}
    nothing = np.full_like(next(iter(means.values())), np.nan)
    return np.array([means.get(name, nothing) for name in backbones])
