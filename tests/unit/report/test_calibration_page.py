"""Calibration through the tables: scores, comparisons, leaderboard, page, and what none of it may change."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.charts import rows_of, texts_of, views_of
from helpers.results.pages import build_report
from helpers.results.tables import (
    format_leaderboard,
    make_card,
    make_plan,
    make_predictions,
    report_text,
    write_card,
)
from helpers.stages.specifications import specification
from permafrost.core.tables import read_table, write_table
from permafrost.metrics.calibration import reliability
from permafrost.metrics.tasks import CALIBRATION, TEMPERATURE, place_of
from permafrost.report.figures.reliability import draw_reliability
from permafrost.report.figures.selective import draw_risk_coverage
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions

BACKBONES = ("rcf", "resnet")
SCORING = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
JUDGED = {"calibration": {"bins": 10, "folds": 3, "floor": None}}


def write_predictions(path, card, backbone, probe, *, skill):
    """A table of predictions as a probe leaves it, of one truth for all backbones; returns its metadata."""
    metadata = make_predictions(path, card, backbone=backbone, probe=probe)
    table = read_table(path)[0]
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(len(table), len(card["classes"])))
    noise = rng.normal(size=hidden.shape) if probe == "knn" else 0.0
    logits = skill * hidden + noise
    if card["task"] == "multilabel":
        target, scores = (hidden > 0.3).astype(np.uint8), 1 / (1 + np.exp(-logits))
        answer = lists((scores > 0.5).astype(np.uint8))
        target = lists(target)
    else:
        scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        target, answer = (pa.array(one.argmax(axis=1), pa.int32()) for one in (hidden, logits))
    for name, column in (
        ("target", target),
        ("prediction", answer),
        ("scores", lists(scores.astype(np.float32))),
    ):
        table = table.set_column(table.column_names.index(name), name, column)
    del metadata["path"]
    write_table(path, table, metadata)
    return metadata


def lists(values):
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def run(folder, card, *, judged, probes=("knn", "linear"), **more):
    """Predictions, scores, comparisons and leaderboard of a dataset, as the stages make them."""
    options = {**SCORING, **(JUDGED if judged else {})}
    if more:
        options["calibration"] = {**JUDGED["calibration"], **more}
    predictions, comparisons, tables = {}, {}, []
    for probe in probes:
        made = {}
        for number, backbone in enumerate(BACKBONES):
            path = folder / card["dataset"] / backbone / "seed0" / f"{probe}.parquet"
            metadata = write_predictions(path, card, backbone, probe, skill=1.0 + 2.0 * number)
            made[f"{backbone}/seed0"] = metadata["fingerprint"]
            predictions[card["dataset"], backbone, 0, probe] = path
            spec = {
                "stage": "bootstrap",
                "dataset": card["dataset"],
                "options": options,
                "inputs": {"predictions": metadata["fingerprint"]},
            }
            scores = folder / f"{backbone}-{probe}.parquet"
            score_predictions(path, scores, spec=specification(spec), fingerprint="s")
            tables.append(read_table(scores)[0])
        only = {"calibration": {"bins": 10}} if judged else {}
        spec = {
            "stage": "compare",
            "dataset": card["dataset"],
            "probe": probe,
            "options": {**SCORING, **only},
            "inputs": {"predictions": made},
        }
        path = comparisons[card["dataset"], probe] = folder / f"compared-{probe}.parquet"
        compare_predictions(folder, path, spec=specification(spec), fingerprint="c")
    leaderboard = write_leaderboard(
        tables, folder / "l.parquet", folder / "l.csv", {"fingerprint": "l"}
    )
    return predictions, comparisons, leaderboard


def small(task):
    return make_card(
        "labels" if task == "multilabel" else "eurosat",
        task=task,
        classes=4,
        bands=3,
        counts=(60, 20, 60),
    )


@pytest.fixture(scope="module", params=["classification", "multilabel"])
def made(request, tmp_path_factory):
    folder, card = tmp_path_factory.mktemp("judged"), small(request.param)
    predictions, comparisons, leaderboard = run(folder, card, judged=True)
    plan = make_plan([card["dataset"]], list(BACKBONES))
    plan["config"]["calibration"] = JUDGED["calibration"]
    build_report(
        plan=plan,
        leaderboard=folder / "l.parquet",
        predictions=predictions,
        images={},
        cards={card["dataset"]: write_card(folder / "card.json", card)},
        comparisons=comparisons,
        output_dir=folder / "report",
    )
    return {
        "folder": folder,
        "card": card,
        "leaderboard": leaderboard,
        "comparisons": comparisons,
        "page": report_text(folder / "report"),
    }


def test_every_evaluation_has_rows_of_calibration(made):
    rows = made["leaderboard"].to_pylist()
    for backbone in BACKBONES:
        for probe in ("knn", "linear"):
            own = [row for row in rows if (row["backbone"], row["probe"]) == (backbone, probe)]
            assert [row["metric"] for row in own if row["metric"] in CALIBRATION] == sorted(
                CALIBRATION, key=place_of
            )
            assert sum(row["primary"] for row in own) == 1
    assert {row["rank"] for row in rows if row["metric"] == TEMPERATURE} == {None}
    assert {row["rank"] for row in rows if row["metric"] == "brier_score"} == {1, 2}
    best = {row["backbone"] for row in rows if row["metric"] == "brier_score" and row["rank"] == 1}
    assert best == {"resnet"}


def test_the_terminal_shows_what_it_showed_before(made, tmp_path):
    _, comparisons, without = run(tmp_path, made["card"], judged=False)
    assert format_leaderboard(made["leaderboard"]) == format_leaderboard(without)
    kept = [row for row in made["leaderboard"].to_pylist() if row["metric"] not in CALIBRATION]
    assert repr(kept) == repr(without.to_pylist())
    for key, path in comparisons.items():
        rows = read_table(made["comparisons"][key])[0].to_pylist()
        assert [row for row in rows if row["metric"] not in CALIBRATION] == read_table(path)[
            0
        ].to_pylist()
        assert {row["metric"] for row in rows} >= {"brier_score", "expected_calibration_error"}


def test_the_page_shows_errors_temperatures_and_diagrams(made):
    page, name = made["page"], made["card"]["dataset"]
    assert (made["folder"] / f"report/figures/reliability__{name}.svg").stat().st_size > 5000
    assert "Reliability diagrams of the best evaluation of every backbone" in page
    table = page[page.index("<h2>Probabilities</h2>") :]
    table = table[table.index("<tbody>") : table.index("</tbody>")]
    assert table.count("<tr>") == 4
    rows = made["leaderboard"].to_pylist()
    for row in rows:
        if row["metric"] in ("expected_calibration_error", "brier_score_scaled", TEMPERATURE):
            assert f"{row['value']:.3f}" in table
            assert f"[{row['lower']:.3f}, {row['upper']:.3f}]" in table
    assert "Paired comparisons of calibration" in page
    part = page[page.index("Paired comparisons of calibration") :]
    assert part.count('<td class="text">Brier score</td>') == 2
    main = page[page.index("<h2>Paired comparisons</h2>") :].split("</table>")[0]
    assert main.count("<tr>") - 1 == 2, "only the primary metric is compared there"


def test_the_page_shows_risk_against_coverage(made):
    page, name = made["page"], made["card"]["dataset"]
    assert (made["folder"] / f"report/figures/risk_coverage__{name}.svg").stat().st_size > 5000
    assert "Risk against coverage of the best evaluation of every backbone" in page
    for row in made["leaderboard"].to_pylist():
        if row["metric"] in ("aurc", "excess_aurc"):
            assert f"{row['value']:.3f}" in page
    assert "Prediction sets" not in page
    part = page[page.index("Paired comparisons of calibration") :]
    assert part.count('<td class="text">AURC</td>') == 2


def test_the_page_has_a_table_of_prediction_sets(tmp_path):
    card, sets = small("classification"), {"alpha": 0.25, "score": "aps", "repeats": 2}
    predictions, comparisons, leaderboard = run(
        tmp_path, card, judged=True, probes=("linear",), sets=sets
    )
    plan = make_plan([card["dataset"]], list(BACKBONES))
    plan["config"]["calibration"] = {**JUDGED["calibration"], "sets": sets}
    build_report(
        plan=plan,
        leaderboard=tmp_path / "l.parquet",
        predictions=predictions,
        images={},
        comparisons=comparisons,
        output_dir=tmp_path / "report",
        cards={card["dataset"]: write_card(tmp_path / "card.json", card)},
    )
    page = report_text(tmp_path / "report")
    part = page[page.index("<h3>Prediction sets</h3>") :]
    assert "at most 0.25 (APS scores)" in part
    table = part[part.index("<tbody>") : part.index("</tbody>")]
    rows = [row for row in leaderboard.to_pylist() if "set_" in row["metric"]]
    ways = len({row["metric"] for row in rows if "set_size" in row["metric"]})
    assert table.count("<tr>") == len(BACKBONES) * ways and ways in (2, 3)
    for row in rows:
        if row["class"] is None:
            assert f"{row['value']:.3f}" in table
    assert table.index("one</td>") < table.index("per class</td>")
    flagged = any("few_to_calibrate" in row["gates"] for row in rows)
    assert ("thresholds of prediction sets had too few images" in part) == flagged


def test_curves_of_risk_against_coverage():
    curve = {"coverage": np.array([0.5, 1.0]), "risk": np.array([0.0, 0.25])}
    curves = {f"net {number}": (curve, f", linear {number}") for number in range(3)}
    figure = draw_risk_coverage(curves, title="t", counted="images")
    assert [(row["x"], row["y"]) for row in rows_of(figure)[:2]] == [(0.5, 0), (1, 0.25)]
    assert len(rows_of(figure)) == 6
    assert "share of errors" in str(figure) and "net 2, linear 2" in str(figure)
    with pytest.raises(ValueError, match="no curves"):
        draw_risk_coverage({}, title="t", counted="images")


def test_without_calibration_the_page_says_nothing_of_it(tmp_path):
    card = small("classification")
    predictions, comparisons, _ = run(tmp_path, card, judged=False, probes=("linear",))
    build_report(
        plan=make_plan([card["dataset"]], list(BACKBONES)),
        leaderboard=tmp_path / "l.parquet",
        predictions=predictions,
        images={},
        comparisons=comparisons,
        output_dir=tmp_path / "report",
        cards={card["dataset"]: write_card(tmp_path / "card.json", card)},
    )
    page = report_text(tmp_path / "report")
    assert not re.search("Brier|calibration error|Probabilities", page)
    assert not list((tmp_path / "report/figures").glob("reliability*"))


def test_a_diagram_shows_every_bin_that_holds_something():
    scores = np.array([[0.9, 0.1], [0.55, 0.45], [0.5, 0.5], [1.0, 0.0]], np.float32)
    found = reliability([0, 1, 0, 0], scores, task="classification", n_bins=10, like="torchmetrics")
    words = {"said": "a", "right": "b", "counted": "images"}
    for count in (1, 2, 5):
        diagrams = {f"net {number} $": {**found, "words": "linear"} for number in range(count)}
        figure = draw_reliability(diagrams, title="t", **words)
        assert len(views_of(figure)) == 2 * count
        np.testing.assert_allclose(
            [row["x"] for row in rows_of(figure)], [0.525, 0.9, 1.0], atol=1e-6
        )
        np.testing.assert_allclose([row["y"] for row in rows_of(figure)], [0.5, 1, 1])
        assert sum(row["y"] for row in rows_of(figure, 1)) == 4
        texts = texts_of(figure)
        assert {"b", "images", "linear", "net 0 $"} <= set(texts) and texts.count("linear") == count
    with pytest.raises(ValueError, match="no diagrams"):
        draw_reliability({}, title="t", **words)
