"""Intervals of figures that few units carry, and what the commands say of them."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import COMMANDS, run
from helpers.predictions.detections import coco_case
from permafrost.core import progress
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.intervals.detection import (
    DetectionScores,
    comparison_rows,
    detection_rows,
    image_units,
)
from permafrost.evaluators.intervals.standalone import carriers_of, score_rows
from permafrost.evaluators.output.score_text import gate_remarks, interval_method_words, row_lines
from permafrost.evaluators.panoptic.entries import Categories
from permafrost.evaluators.panoptic.result import PanopticEvaluation
from permafrost.stages import evaluate_panoptic
from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.intervals import percentile_interval
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units

ALL = ["detections", "boxes", "rasters", "panoptic"]


@pytest.fixture
def panoptic(files):
    names = ("truth", "truth-masks", "predictions", "prediction-masks")
    paths = [path for pair in files for path in pair]
    return [part for name, path in zip(names, paths, strict=True) for part in (f"--{name}", path)]


class Shares:
    """Ratios of two sums over units: the share of right answers, and that of a class."""

    def __init__(self, right, all_of, of_class=None) -> None:
        self.sums = {("share", None): (np.asarray(right), np.asarray(all_of))}
        if of_class is not None:
            self.sums["share", "rare"] = tuple(map(np.asarray, of_class))

    def replicates(self, counts):
        with np.errstate(invalid="ignore"):
            return {
                name: (above @ counts.astype(float)) / (below @ counts.astype(float))
                for name, (above, below) in self.sums.items()
            }

    @property
    def values(self):
        ones = np.ones((len(self.sums["share", None][0]), 1))
        return {name: float(each[0]) for name, each in self.replicates(ones).items()}


# --- how many units carry a figure ----------------------------------------------------------------


def test_degrees_of_freedom_are_those_of_the_units_that_hold_the_class():
    units = find_units(50)
    assert Carriers.of(["a"], [12], units).df == 11
    # classes that are alike know their variance together
    assert Carriers.of(["a", "b"], [12, 12], units).df == pytest.approx(22)
    # next to a class of two images, others hardly count
    assert 1 < Carriers.of(["a", "bus"], [40, 2], units).df < 1.3
    assert Carriers.of(["a", "gone"], [12, 0], units).df == 11
    assert Carriers.of(["a", "b"], [50, 50], units).df == 49


@pytest.mark.parametrize(
    ("labels", "counts", "gate"),
    [
        (["bus"], [3], 'few_units: class "bus" has truth in 3 images'),
        (["bus"], [1], 'one_unit: class "bus" has truth in 1 image'),
        (["bus"], [6], ""),
        (["bus"], [0], ""),
        (["car", "bus"], [40, 2], 'few_units: class "bus" has truth in 2 images'),
        (["car", "bus", "van"], [9, 2, 2],
         'few_units: class "bus" has truth in 2 images, 1 more in fewer than 6'),
        # one rare class among many does not decide
        ([str(k) for k in range(40)], [30] * 39 + [2], ""),
    ],
)  # fmt: skip
def test_a_figure_of_too_few_units_is_gated_with_the_reason(labels, counts, gate):
    assert Carriers.of(labels, counts, find_units(50), has="has truth").gate == gate


def test_few_units_in_all_are_the_reason():
    assert Carriers.of([None], [4], find_units(4), kind="block").gate == "few_units: 4 blocks"
    assert Carriers.of([None], [1], find_units(1), kind="block").gate == "one_unit: 1 block"


def test_units_that_alone_have_a_value_carry_it():
    evaluation = Shares([1, 2, 3, 4], [5, 5, 5, 5], ([1, 0, 0, 1], [2, 0, 0, 1]))
    carriers = carriers_of(evaluation, find_units(4))
    assert carriers["share", None].counts.tolist() == [4]
    assert carriers["share", "rare"].counts.tolist() == [2]
    units = find_units(4, sample_ids="abcd", groups=["x", "x", "x", "x"])
    assert carriers_of(evaluation, units)["share", "rare"].gate == "one_unit: 1 group"


# --- rows -----------------------------------------------------------------------------------------


def test_intervals_of_few_units_cover_where_percentiles_do_not():
    rng, held, before = np.random.default_rng(0), 0, 0
    for number in range(200):
        sizes = rng.integers(5, 40, 6)
        evaluation = Shares(rng.binomial(sizes, rng.beta(6, 2, 6)), sizes)
        (row,) = score_rows(evaluation, find_units(6), resamples=100, seed=number)
        held += row["lower"] <= 0.75 <= row["upper"]
        drawn = evaluation.replicates(draw_resamples(6, 100, number).counts)["share", None]
        lower, upper = percentile_interval(drawn, 0.95)
        before += lower <= 0.75 <= upper
    assert before < 180 and 186 <= held <= 198


def test_a_figure_of_one_unit_has_no_bounds_and_the_reason():
    evaluation = Shares([4] * 8, [5] * 8, ([1, *[0] * 7], [2, *[0] * 7]))
    share, rare = score_rows(evaluation, find_units(8), resamples=20)
    assert share["gates"] == "" and share["lower"] < 0.8 < share["upper"]
    assert rare["lower"] is None and rare["upper"] is None
    assert rare["gates"] == 'one_unit: class "rare" has truth in 1 image'
    assert row_lines([rare], digits=2) == ["  share  rare  0.50  *"]
    for row in score_rows(Shares([4], [5]), find_units(1), resamples=20, kind="block"):
        assert row["lower"] is None and row["gates"] == "one_unit: 1 block"


def test_a_share_of_one_in_all_units_has_a_width():
    (row,) = score_rows(Shares([5] * 8, [5] * 8), find_units(8), resamples=20)
    assert row["upper"] == 1 and 0.4 < row["lower"] < 0.8


def test_means_over_classes_rest_on_their_rarest_class():
    tp = np.zeros((20, 2), np.int64)
    tp[:, 0], tp[:2, 1] = np.arange(20) % 3, (1, 2)
    evaluation = PanopticEvaluation(
        tuple(range(20)),
        Categories((1, 2), ("road", "bus"), np.array([False, True])),
        tp,
        tp * 0 + 1,
        tp // 2,
        tp * 0.8,
        "corrected",
        None,
        ("", ""),
    )
    # false alarms in all images tell nothing of the objects in two
    gates = {
        (row["metric"], row["class"]): row["gates"]
        for row in score_rows(evaluation, find_units(20), resamples=20)
    }
    assert gates["pq", "bus"] == gates["pq", None] == 'few_units: class "bus" has truth in 2 images'
    fp = tp.copy()
    fp[:, 1] = tp[:, 0]
    nothing = tp * [1, 0]
    evaluation = replace(evaluation, tp=nothing, fp=fp, fn=nothing, iou=nothing * 0.8)
    rows = score_rows(evaluation, find_units(20), resamples=20)
    (pq,) = [row for row in rows if (row["metric"], row["class"]) == ("pq", None)]
    assert pq["gates"] == 'few_units: class "bus" has truth in no image'
    assert gates["pq_things", None] == gates["pq", "bus"] and gates["pq_stuff", None] == ""


def with_a_rare_class(images: int, held: int):
    """Detections on images of which the first `held` hold the second of two classes."""
    truth, results = coco_case(8, images=images, categories=2, detections=8, ties=False)
    ids = sorted(image["id"] for image in truth["images"])
    rare = max(one["id"] for one in truth["categories"])
    kept = set(ids[:held])
    truth["annotations"] = [
        one for one in truth["annotations"] if one["category_id"] != rare or one["image_id"] in kept
    ]
    return evaluate(truth, results, iou_type="bbox")


def test_rare_classes_widen_the_intervals_of_all_figures_that_hold_them():
    evaluation = with_a_rare_class(40, 5)
    scores, units = DetectionScores(evaluation), image_units(evaluation)
    drawn = {"resamples": 100, "confidence": 0.95, "seed": 1}
    rows = {(row["metric"], row["class"]): row for row in detection_rows(scores, units, **drawn)}
    names = [name for _, name in rows if name is not None]
    common, rare = rows["AP", names[0]], rows["AP", names[1]]
    assert common["gates"] == "" and rare["gates"].startswith(
        f'few_units: class "{names[1]}" has truth in '
    )
    before = {
        (row["metric"], row["class"]): row
        for row in detection_rows(scores, units, **drawn, method="basic")
    }
    width = {
        kind: {
            name: row["upper"] - row["lower"]
            for name, row in each.items()
            if row["lower"] is not None
        }
        for kind, each in (("now", rows), ("before", before))
    }
    assert width["now"]["AP", names[1]] > 1.3 * width["before"]["AP", names[1]]
    assert width["now"]["AP", names[0]] == pytest.approx(width["before"]["AP", names[0]], rel=0.3)
    assert width["now"]["AP", None] > 1.2 * width["before"]["AP", None]
    assert {row["gates"] for row in before.values()} == {row["gates"] for row in rows.values()}


def test_equal_figures_have_no_difference_to_test():
    evaluation = with_a_rare_class(40, 1)
    scores, units = DetectionScores(evaluation), image_units(evaluation)
    rows = comparison_rows(scores, scores, units, resamples=50, confidence=0.95, seed=1)
    overall = [row for row in rows if row["class"] is None and row["value"] is not None]
    assert all(row["p_value"] == 1 and row["resamples"] is None for row in overall)
    alone = [row for row in rows if row["gates"].startswith("one_unit")]
    assert alone and all(row["p_value"] is None and row["lower"] is None for row in alone)


# --- commands -------------------------------------------------------------------------------------


def options_of(kind, request):
    return request.getfixturevalue(kind)


def command(kind, *options) -> None:
    run({**COMMANDS, "panoptic": evaluate_panoptic}[kind], *options)


@pytest.mark.parametrize("kind", ALL)
def test_without_resamples_there_are_figures_and_no_intervals(kind, request, tmp_path, capsys):
    written = tmp_path / "out" / "s.json"
    command(kind, *options_of(kind, request), "--resamples", 0, "--output", written)
    printed = capsys.readouterr().out
    assert "% intervals: none asked for (--resamples 0)" in printed
    rows = json.loads(written.read_text())["scores"]
    drawn = [row for row in rows if not row["metric"].startswith(("weighted_", "area_share"))]
    assert all(row["lower"] is None and row["gates"] == "" for row in drawn)
    assert any(row["value"] is not None for row in drawn)


def test_without_resamples_slices_and_comparisons_have_no_bounds(detections, tmp_path, capsys):
    truth = json.loads(detections[1].read_text())
    table = tmp_path / "sky.csv"
    lines = [f"{one['id']},{('clear', 'fog')[n % 2]}" for n, one in enumerate(truth["images"])]
    table.write_text("\n".join(["image_id,sky", *lines]))
    written = tmp_path / "s.json"
    command(
        "detections",
        *detections,
        "--resamples",
        0,
        "--against",
        detections[3],
        "--slices",
        table,
        "--baseline",
        "clear",
        "--output",
        written,
    )
    content = json.loads(written.read_text())
    for name in ("slices", "robustness", "comparison"):
        assert content[name] and all(row["lower"] is None for row in content[name])
    assert "p =" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resamples", -5], "--resamples -5 is negative"),
        (["--confidence", 1.5], "--confidence 1.5 is not between 0 and 1"),
        (["--confidence", 0], "--confidence 0.0 is not between 0 and 1"),
        (["--confidence", "nan"], "--confidence nan is not between 0 and 1"),
    ],
)
def test_impossible_intervals_are_refused_by_name(kind, options, words, request):
    with pytest.raises(PermafrostError, match=words):
        command(kind, *options_of(kind, request), *options)


@pytest.mark.parametrize("kind", ALL)
def test_gates_are_in_every_file_and_printed_once(kind, request, tmp_path, capsys):
    command(kind, *options_of(kind, request), "--output", tmp_path / "s.json", "--tables", tmp_path)
    rows = json.loads((tmp_path / "s.json").read_text())["scores"]
    table, _ = read_table(tmp_path / "scores.parquet")
    assert table.column("gates").to_pylist() == [row.get("gates", "") for row in rows]
    gated = any(row.get("gates") for row in rows)
    assert capsys.readouterr().out.count("not to be trusted") == int(gated)


def test_remarks_name_the_figures_and_reasons():
    def row(metric, label, gates):
        return {"metric": metric, "class": label, "gates": gates}

    reason = 'few_units: class "bus" has truth in 3 images'
    rows = [
        row("AP", None, reason),
        row("AR", None, reason),
        row("AP", "car", ""),
        row("AP", "bus", reason),
    ]
    (said,) = gate_remarks(rows)
    assert f"AP, AR ({reason}); 1 of classes." in said
    (said,) = gate_remarks(rows[2:], "slices")
    assert f"1 of slices such as AP of bus ({reason})" in said
    assert gate_remarks(rows[2:3]) == []


def test_words_say_where_intervals_come_from():
    words = interval_method_words(12, "image", 50)
    assert words == "Student's t, leaving out each of 12 images; bias from 50 resamples"
    assert "each of 200 parts of 5000 images" in interval_method_words(5000, "image", 50)
    assert (
        interval_method_words(12, "image", 50, method="basic")
        == "bootstrap of 12 images, 50 resamples, basic"
    )


# --- progress -------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_long_intervals_show_progress_on_a_terminal_only(stream, monkeypatch):
    evaluation = evaluate(*coco_case(1), iou_type="bbox")
    scores, units = DetectionScores(evaluation), image_units(evaluation)
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    drawn = {"resamples": 300, "confidence": 0.95, "seed": 1}
    detection_rows(scores, units, **drawn)
    # done at once: nothing to see on a terminal either
    assert shown.getvalue() == ""
    monkeypatch.setattr(progress, "DELAY_S", 0)
    detection_rows(DetectionScores(evaluation), units, **drawn)
    assert ("intervals" in shown.getvalue()) == (stream is Terminal)
