"""Write a profile as a table: rows in the columns of a score, without probe and rank."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.specification import SPLITS
from permafrost.core.tables import write_table
from permafrost.core.tasks import TASKS
from permafrost.statistics.tables import ScoreColumns

if TYPE_CHECKING:
    from permafrost.features.profiling.profile import Profile
    from permafrost.features.profiling.quantity import Quantity
    from permafrost.features.specification import ProfileSpec

# used in the columns for the probe and its kind
KIND = "profile"
# spread of the repeats, which is not a confidence interval
QUARTILES = "quartiles"


class Profiles(ScoreColumns):
    """One row of results/profiles/{dataset}/{backbone}.parquet: one cost of a backbone on images of a dataset, in
    the columns of a score. The costs are those of the machine in settings; another run gives other numbers.

    Columns
    -------
    dataset : … It determines the bands and the size of images.
    seed : Always 0: nothing is random.
    task : … For segmentation and detection, the maps of the backbone's layers are made too.
    metric : What was measured: parameters (their number); buffers (other numbers held); weights_mb (parameters
        and buffers, 10^6 bytes); flops (of one image, a multiply-add counts as two; matrix products, convolutions
        and attention only); throughput (images/s in batches, forward pass only); cpu_time_ms (of all threads, per
        image in batches); prepare_ms (moving float32 images to the device, normalising and resizing, per image in
        batches); latency_ms (a single image, forward pass only); latency_p95_ms (95th percentile of latency_ms);
        peak_memory_mb (weights, and the peak that preparing and running a batch adds, 10^6 bytes; memory
        allocated by torch on a GPU, resident memory of the process on a CPU); energy_j (joules per image in
        batches, by the counter of the device, which includes idling and other programs).
    value : The count, or the median of the repeats (for latency_p95_ms, their 95th percentile). NaN if it is
        unknown; settings says why.
    method : quartiles if lower and upper are quartiles, else null.
    unit : What was done several times: repeat; null for what is counted or measured once.
    n_units : Number of repeats.
    feature_dim : Number of features of the backbone.
    primary : Always false.
    gates : Always empty.
    settings : As a JSON object: unit of the value; undefined (why there is none) or flag (why it is doubtful);
        uncounted (operators that flops leaves out); method (of memory), meter and passes (of energy); input
        (channels, height and width), native (height and width before resizing), several_sizes (images differ; the
        largest was taken), maps (layers), batch_size, precision, compile, load (of the machine before), and
        hardware (device, processor, cores, cores_usable, threads, gpu, gpu_memory_gib, cuda, cudnn, system,
        python, torch).
    fingerprint : Fingerprint of this table.
    backbone_fingerprint : Fingerprint of the backbone's entry, its files and the options of extraction.
    probe, kind : Always profile.
    lower, upper : Quartiles of the repeats, NaN if there are none. They show how quiet the machine was, and are
        not a confidence interval.
    class, setting, confidence, resamples, n_undefined, n_draws, draw_std, n_rows : Always null: a cost has none.
    n_carriers, largest_share, n_test, n_train, n_val, higher_is_better, bootstrap_seed : Always null.
    """

    columns = ScoreColumns.changed(
        *ScoreColumns.but("probe", "kind", values=(KIND,)),
        *ScoreColumns.but("seed", values=(0,)),
        *ScoreColumns.but(
            "task", values=tuple(name for name, task in TASKS.items() if task.of_datasets)
        ),
        *ScoreColumns.but(
            *("class", "setting", "confidence", "resamples", "n_undefined", "n_draws", "draw_std"),
            *("n_rows", "n_carriers", "largest_share", "n_test", "n_train", "n_val"),
            *("higher_is_better", "bootstrap_seed"),
            nullable=True,
            values=(None,),
        ),
        *ScoreColumns.but("method", nullable=True, values=(QUARTILES,)),
        *ScoreColumns.but("unit", nullable=True, values=("repeat",)),
        *ScoreColumns.but("n_units", nullable=True, least=3),
        *ScoreColumns.but("primary", values=(False,)),
        *ScoreColumns.but("gates", values=("",)),
    )


def write_profile(profile: Profile, output: Path, *, spec: ProfileSpec, made: str) -> str:
    """Write the rows of `profile`; `made` is the fingerprint of the profiling job; returns a line
    for the log.

    ``lower`` and ``upper`` are quartiles of ``n_units`` repeats; ``settings`` has the unit, the
    machine, the input, and the reason for a missing value. ``higher_is_better`` is null, so that
    costs rank nothing.
    """
    rows = [
        {**_common(profile, spec, made), **_row(name, one, profile.about)}
        for name, one in profile.quantities.items()
    ]
    write_table(output, Profiles.from_rows(rows), {"fingerprint": made, "stage": spec.stage})
    return _summary(profile, spec)


def _common(profile: Profile, spec: ProfileSpec, made: str) -> dict:
    card = profile.card
    # stored features of blocks change no cost
    extraction = {key: one for key, one in asdict(spec.extraction).items() if key != "depths"}
    identity = [spec.entry, extraction, spec.files]
    return {
        **dict.fromkeys(Profiles.names()),
        "dataset": spec.dataset,
        "backbone": spec.backbone,
        "probe": KIND,
        "kind": KIND,
        "seed": 0,
        "task": card.task,
        **{f"n_{name}": None for name in SPLITS},
        "feature_dim": profile.feature_dim,
        "primary": False,
        "split_method": card.split_method,
        "spatially_random": card.spatially_random,
        "gates": "",
        "fingerprint": made,
        "backbone_fingerprint": fingerprint(*identity),
    }


def _row(name: str, one: Quantity, about: dict) -> dict:
    repeated = one.repeats is not None
    return {
        "metric": name,
        "value": one.value,
        "lower": one.lower,
        "upper": one.upper,
        "method": QUARTILES if one.lower == one.lower else None,
        "unit": "repeat" if repeated else None,
        "n_units": one.repeats,
        "settings": canonical_json({**about, "unit": one.unit, **one.notes}),
    }


def _summary(profile: Profile, spec: ProfileSpec) -> str:
    shown = [
        f"{name} {one.value:.4g} {one.unit}".strip()
        for name, one in profile.quantities.items()
        if one.value == one.value
    ]
    return f"{spec.dataset} | {spec.backbone}: {', '.join(shown)}"
