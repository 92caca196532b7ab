"""From a feature store to a table of measures: rows of scores, without a probe and without a rank."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from permafrost.core.identity import canonical_json
from permafrost.core.splits import SPLITS
from permafrost.core.tables import write_table
from permafrost.metrics.representation import LABELLED, MEASURES, Measure, measures

from .feature_rows import FeatureRows, read_rows
from .measured import measured
from .score_columns import score_table_of

# stands where a score has its probe
KIND = "measures"


def measure_features(store: Path, output: Path, *, spec: dict, fingerprint: str) -> str:
    """Measure the features of `store` as `spec` says and write `output`; returns a line for the log.

    The table has the columns of a table of scores. ``higher_is_better`` is null, so that nothing is
    ranked by a measure, and ``settings`` says which rows were measured and what limits each value.
    """
    dataset, options = spec["dataset"], spec["options"]
    rows = read_rows(store, options, dataset=dataset, expect=spec["inputs"]["features"])
    found = measured(measure_rows(rows, options["names"]), rows.units, options["bootstrap"],
                     dataset=dataset)  # fmt: skip
    table = _table(found, rows, spec, fingerprint)
    write_table(output, table, {"fingerprint": fingerprint, "stage": spec["stage"]})
    return _summary(found, spec, len(rows))


def measure_rows(rows: FeatureRows, names: list[str] | None) -> dict[str, Measure]:
    """The measures of these names, or all of them, in the order of `MEASURES`.

    Measures of classes are undefined, with the reason, where samples have no class.
    """
    wanted = [name for name in MEASURES if names is None or name in names]
    able = [name for name in wanted if rows.labels is not None or name not in LABELLED]
    # the rows are drawn already, and a seed is of no use to measures of all of them
    found = measures(
        rows.features,
        rows.labels,
        seed=0,
        max_rows=len(rows),
        units=rows.units.index,
        names=able,
    )
    reason = f"samples of the task {rows.attributes['task']!r} have no class"
    without = Measure(float("nan"), {"rows": len(rows), "undefined": reason})
    found = {name: found.get(name, without) for name in wanted}
    return {
        name: Measure(one.value, {**one.notes, **rows.notes()}, one.terms, one.scale, one.margins)
        for name, one in found.items()
    }


def _table(found: dict[str, dict], rows: FeatureRows, spec: dict, fingerprint: str) -> pa.Table:
    attributes, split = rows.attributes, spec["options"]["split"]
    common = {
        "dataset": spec["dataset"],
        "backbone": spec["backbone"],
        "probe": KIND,
        "kind": KIND,
        "seed": 0,
        "task": attributes["task"],
        **dict.fromkeys(("class", "setting", "n_draws", "draw_std")),
        **{f"n_{name}": rows.total if name == split else None for name in SPLITS},
        "feature_dim": rows.features.shape[1],
        "primary": False,
        "higher_is_better": None,
        "split_method": attributes["split_method"],
        "spatially_random": attributes["spatially_random"],
        "gates": ";".join(sorted(attributes.get("gates", []))),
        "fingerprint": fingerprint,
        "backbone_fingerprint": spec["inputs"]["features"],
    }
    lines = [
        {
            **common,
            **values,
            "metric": name,
            "settings": canonical_json({"split": split, **values["notes"]}),
        }
        for name, values in found.items()
    ]
    return score_table_of(lines)


def _summary(found: dict[str, dict], spec: dict, count: int) -> str:
    undefined = [name for name, values in found.items() if "undefined" in values["notes"]]
    words = f", undefined: {', '.join(undefined)}" if undefined else ""
    return (
        f"{spec['dataset']} | {spec['backbone']}: {len(found) - len(undefined)} measures of "
        f"{count} samples of {spec['options']['split']}{words}"
    )
