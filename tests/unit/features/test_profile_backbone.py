"""The profile of whole backbones: what it counts, what it feeds, and the table that it leaves."""

from __future__ import annotations

import json
import math

import pytest
import torch
from helpers.schemas import check
from helpers.stages.profiling import MADE, SIDE, card_in, plan_of_bands, profile, profile_rows, toy
from helpers.stores.images import Dataset, card_of, rgb_bands
from permafrost.core.tables import read_metadata
from permafrost.features.profiling.feeding import several_sizes, stored_images

MEASURED = {"throughput", "cpu_time_ms", "prepare_ms", "latency_ms", "latency_p95_ms"}


def test_counts_of_a_toy_are_its_closed_form(tmp_path):
    found = profile(tmp_path, toy(tmp_path))
    values = {name: one.value for name, one in found.quantities.items()}
    assert values["flops"] == 2 * (4 * (SIDE - 2) ** 2 * 3 * 9 + 4 * 5)
    assert values["parameters"] == 4 * 3 * 9 + 4 * 5 + 5 and values["buffers"] == 0
    assert values["weights_mb"] == pytest.approx(4 * values["parameters"] / 1e6)
    assert found.feature_dim == 5 and found.about["input"] == [3, SIDE, SIDE]
    assert all(values[name] > 0 for name in MEASURED)


def test_flops_grow_with_the_size_that_is_fed_and_not_with_the_batch(tmp_path):
    entry = toy(tmp_path)
    flops = [
        profile(tmp_path, entry, extraction={"size": size}, batch_size=batch)
        .quantities["flops"]
        .value
        for size, batch in ((10, 1), (10, 7), (18, 1))
    ]
    assert flops[0] == flops[1] == 2 * (4 * 8**2 * 27 + 20)
    assert flops[2] == 2 * (4 * 16**2 * 27 + 20)


def test_random_filters_are_counted_as_buffers_and_statistics_as_nothing(tmp_path):
    rcf = profile(tmp_path, {"kind": "rcf", "features": 16, "kernel_size": 3}).quantities
    assert rcf["parameters"].value == 0 and rcf["buffers"].value == 8 * 27 + 8
    # the filters at every place, and once for the mean patch
    assert rcf["flops"].value == 2 * 8 * 27 * ((SIDE - 2) ** 2 + 1)
    statistics = profile(tmp_path, {"kind": "imagestats"}).quantities
    assert math.isnan(statistics["flops"].value)
    assert "none of its operators is counted" in statistics["flops"].notes["undefined"]
    assert statistics["weights_mb"].value == 0


def test_dense_tasks_are_profiled_with_their_maps(tmp_path):
    entry = toy(tmp_path)
    plain = profile(tmp_path, entry)
    card = card_in(tmp_path, task="segmentation", ignore_index=255)
    dense = profile(tmp_path, entry, card=card, extraction={"maps": True})
    assert plain.about["maps"] == [] and dense.about["maps"] == ["convolution"]
    assert dense.quantities["flops"].value == plain.quantities["flops"].value
    cropped = {**entry, "input": {"size": 16, "crop": 12}}
    whole = profile(tmp_path, cropped, card=card, extraction={"maps": True})
    assert whole.about["input"] == [3, 12, 12]


def test_images_are_opened_only_for_backbones_that_are_made_of_them(tmp_path):
    data = Dataset(tmp_path, counts=(6, 2, 2))
    card = card_in(tmp_path, size=(32, 32))
    asked = []

    def images():
        asked.append(None)
        return {"train": data.folder / "train.zarr"}

    profile(tmp_path, {"kind": "rcf", "features": 8}, card=card, images=images)
    assert not asked
    made = {"kind": "rcf", "features": 8, "mode": "empirical"}
    found = profile(tmp_path, made, card=card, images=images)
    assert asked and found.feature_dim == 8


def test_what_is_fed_has_the_bands_and_the_range_of_the_dataset(tmp_path):
    bands = [{**band, "min": 10.0 * i, "max": 10.0 * i + 5} for i, band in enumerate(rgb_bands())]
    card = card_of(bands, image_size={"min": [4, 5], "max": [60, 50]})
    plan = plan_of_bands([2, 0])
    (pixels,) = stored_images(plan, card, 3)
    assert pixels.shape == (3, 2, 60, 50) and several_sizes(card)
    for channel, low in zip(pixels.unbind(1), (20, 0), strict=True):
        assert low <= channel.min() < low + 0.1 and low + 4.9 < channel.max() <= low + 5
    assert torch.equal(pixels, *stored_images(plan, card, 3))


def test_the_table_has_a_row_for_each_quantity_in_the_columns_of_a_score(tmp_path):
    import pyarrow.parquet as pq

    found = profile(tmp_path, toy(tmp_path), card=card_in(tmp_path, smallest=(9, 9)), repeats=5)
    rows = {row["metric"]: row for row in profile_rows(tmp_path, found)}
    check("profiles", pq.read_table(tmp_path / "profile.parquet").replace_schema_metadata(None))
    assert read_metadata(tmp_path / "profile.parquet", expect=MADE)["stage"] == "profile"
    for name, repeats in (("throughput", 5), ("latency_ms", 4)):
        row = rows[name]
        assert row["lower"] <= row["value"] <= row["upper"] and row["method"] == "quartiles"
        assert (row["unit"], row["n_units"]) == ("repeat", repeats)
    assert rows["flops"]["n_units"] is None and math.isnan(rows["flops"]["lower"])
    notes = {name: json.loads(row["settings"]) for name, row in rows.items()}
    for one in notes.values():
        assert one["hardware"]["threads"] == 1 and one["hardware"]["processor"]
        assert one["hardware"]["torch"] == torch.__version__
        assert one["batch_size"] == 4 and one["several_sizes"] is True
    assert notes["latency_ms"]["unit"] == "ms" and "relu" in notes["flops"]["uncounted"]
    assert "undefined" in notes["energy_j"] or rows["energy_j"]["value"] > 0


def test_threads_and_numerics_are_put_back(tmp_path):
    threads, precision = torch.get_num_threads(), torch.backends.cuda.matmul.fp32_precision
    profile(tmp_path, toy(tmp_path), threads=threads + 1)
    assert torch.get_num_threads() == threads
    assert torch.backends.cuda.matmul.fp32_precision == precision
