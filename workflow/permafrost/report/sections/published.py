"""Published scores on the overview page: separate, marked rows and columns without a rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from permafrost.report.tables.beside import beside
from permafrost.statistics.leaderboard.published import Reference, is_error
from permafrost.statistics.leaderboard.rows import distinct, metric_name

_PROTOCOL = (
    ("bands", "bands"), ("normalisation", "normalisation"), ("image size", "image_size"), ("C", "grid"),
    ("settings", "settings"), ("training images", "n_train"), ("test images", "n_test"), ("seed", "seed"),
)  # fmt: skip


def add_published(data: dict, rows: list[dict], own: list[dict], plan: Mapping) -> None:
    """Add published scores to the data of the overview page, after the run's own scores.

    A published score shares the column of one of our datasets only if the configured names map
    dataset and method to it and the metric is the same. Different protocols of a backbone are
    separate rows.

    Parameters
    ----------
    data : from `explorer`, changed in place.
    rows : of the table of published results; own : primary rows of the leaderboard.
    """
    kinds = ("backbones", "datasets")
    places = {kind: {one["name"]: at for at, one in enumerate(data[kind])} for kind in kinds}
    places["probes"] = {name: at for at, name in enumerate(data["probes"])}
    metrics = {(row["dataset"], row["probe"]): row["metric"] for row in own}
    differ = _differences(rows, own, plan)
    columns = data["cells"]
    for name in ("published", "differs"):
        columns[name] = [None] * len(columns["value"])
    data["protocols"] = []
    protocols: dict[str, int] = {}
    for (backbone, dataset, probe), same in _cells(rows, metrics).items():
        first = same[0]
        key = f"{dataset}|{probe}"
        _place(data["probes"], places["probes"], probe, probe)
        _place(data["datasets"], places["datasets"], dataset, _dataset(dataset, first))
        data["metrics"].setdefault(
            key, [metric_name(first["metric"]), not is_error(first["metric"]), None, ""]
        )
        _place(data["backbones"], places["backbones"], backbone, _backbone(backbone, first))
        said = protocols.setdefault(_protocol(same), len(protocols))
        alone = same[0] if len(same) == 1 else {}
        cell = {
            "dataset": places["datasets"][dataset],
            "backbone": places["backbones"][backbone],
            "probe": places["probes"][probe],
            "value": float(np.mean([row["value"] for row in same])),
            "lower": alone.get("lower"),
            "upper": alone.get("upper"),
            "gates": [],
            "published": said,
            "differs": differ.get((first["source"], first["file"], first["row"])),
        }
        for name, column in columns.items():
            column.append(cell.get(name))
    data["protocols"] = list(protocols)


def _place(listed: list, places: dict, name: str, item) -> None:
    if name not in places:
        places[name] = len(listed)
        listed.append(item)


def _backbone(name: str, row: dict) -> dict:
    about = [row["source"], row["date"], row["url"]]
    said = dict.fromkeys(
        ("parameters", "year", "trained_on", "licence", "throughput", "extraction_ms", "href")
    )
    title = f"published: {', '.join(text for text in about if text)}"
    return {"name": name, "title": title, "published": True, "same": row["backbone_here"], **said}


def _dataset(name: str, row: dict) -> dict:
    said = {"title": f"{row['dataset']}, published by {row['source']}", "task": "", "gsd": None}
    return {
        "name": name,
        **said,
        "published": True,
        "of_places": False,
        "sensors": [],
        "href": None,
    }


def _cells(rows: list[dict], metrics: Mapping) -> dict[tuple[str, str, str], list[dict]]:
    """Page names of backbone, dataset and probe to the published rows of all seeds and settings."""
    grouped: dict[tuple[str, str, str], list[dict]] = {}
    scored: dict[tuple, set[str]] = {}
    for row in rows:
        scored.setdefault(_scored(row), set()).add(row["metric"])
    telling = _telling(rows)
    for row in rows:
        here = row["dataset_here"], row["probe_here"]
        probe = row["probe_here"] or f"{row['method']} · {row['source']}"
        known = None not in here and metrics.get(here) == row["metric"]
        dataset = row["dataset_here"] if known else f"{row['dataset']} · {row['source']}"
        # a dataset may be scored by two metrics
        if not known and len(scored[_scored(row)]) > 1:
            dataset = f"{dataset} · {row['metric']}"
        said = (words(row) for words in telling[row["source"], row["backbone"]])
        name = " · ".join(part for part in (row["backbone"], row["source"], *said) if part)
        grouped.setdefault((name, dataset, probe), []).append(row)
    return grouped


def _scored(row: dict) -> tuple[str, str, str]:
    return row["source"], row["dataset"], row["method"]


def _few_bands(row: dict) -> str:
    return "rgb" if row["bands"] == "rgb" else "all bands" if row["bands"] else ""


def _bands(row: dict) -> str:
    count = len(row["bands"].split(","))
    return f"{count} bands" if count > 1 else row["bands"]


_OTHERS = (
    lambda row: row["normalisation"],
    lambda row: row["image_size"] and str(row["image_size"]),
    lambda row: row["grid"] and f"C {row['grid']}",
)


def _telling(rows: list[dict]) -> dict[tuple[str, str], list]:
    """(source, backbone) to the protocol properties for its name: those that differ on one dataset
    with one method.

    A backbone with one protocol per dataset has one row; its cells show the details. "All bands"
    may mean different numbers on different datasets, so numbers of bands count only if they differ
    on one dataset.
    """
    scored: dict[tuple, list[dict]] = {}
    for row in rows:
        key = (row["source"], row["backbone"], row["dataset"], row["method"], row["metric"])
        scored.setdefault(key, []).append(row)
    of_backbone: dict[tuple[str, str], list[list[dict]]] = {}
    for (source, backbone, *_), same in scored.items():
        of_backbone.setdefault((source, backbone), []).append(same)
    found = {}
    for names, groups in of_backbone.items():
        counted = any(len(_said(same, _bands)) > len(_said(same, _few_bands)) for same in groups)
        told = (_bands if counted else _few_bands, *_OTHERS)
        found[names] = [of for of in told if any(len(_said(same, of)) > 1 for same in groups)]
    return found


def _said(rows: list[dict], words) -> set:
    return {words(row) for row in rows}


def _protocol(rows: list[dict]) -> str:
    """The protocol of these rows in words, each value once."""
    mean = f"mean of {len(rows)} published rows; " if len(rows) > 1 else ""
    said = []
    for what, name in _PROTOCOL:
        values = [str(row[name]) for row in rows if row[name] not in (None, "")]
        # searched settings differ between seeds
        values = list(dict.fromkeys(values))[:3]
        said += [f"{what} {' or '.join(values)}"] if values else []
    return mean + ("; ".join(said) or "nothing said of the protocol")


def _differences(rows: list[dict], own: list[dict], plan: Mapping) -> dict[tuple, str]:
    """Source, file and row of a published score to its differences from ours."""
    fields = Reference.__dataclass_fields__
    found = {}
    for source in distinct(rows, "source"):
        of_source = [row for row in rows if row["source"] == source]
        names = [
            {row[theirs]: row[ours] for row in of_source if row[ours]}
            for theirs, ours in (
                ("backbone", "backbone_here"), ("dataset", "dataset_here"), ("method", "probe_here"),
            )
        ]  # fmt: skip
        references = [Reference(**{name: row[name] for name in fields}) for row in of_source]
        pairs = beside(
            references, own, plan, backbones=names[0], datasets=names[1], probes=names[2]
        )
        for pair in pairs:
            text = pair["differences"] or "the same, as far as it is said"
            found[source, pair["file"], pair["row"]] = text
    return found
