"""Every probe of embeddings, on classes, labels and numbers: from generated chips to leaderboard and report."""

from __future__ import annotations

import pytest
from helpers.project import SCENES, Project
from permafrost.statistics.leaderboard.rows import finite

DATASETS = {
    task: {
        "task": task,
        "source": {
            "kind": "demo",
            "chips": {"train": 60, "val": 24, "test": 36},
            "chip_size": 32,
            **SCENES,
        },
    }
    for task in ("classification", "multilabel", "regression")
}
DESCENT = {
    "sgd": {"kind": "sgd_linear", "learning_rate": [0.001, 0.1], "epochs": 5},
    "mlp": {"kind": "mlp", "hidden": 16, "epochs": 20},
}
LEARNERS = {
    "svm": {"kind": "svm"},
    "forest": {"kind": "random_forest", "trees": 10},
    "boosting": {"kind": "gradient_boosting", "rounds": 5, "leaves": 4},
}
CONFIG = {
    # loads no library of models; one, as other runs compare backbones
    "backbones": ["imagestats"],
    "datasets": [f"tiny-{task}" for task in DATASETS],
    "extra_datasets": {f"tiny-{task}": entry for task, entry in DATASETS.items()},
    "probes": {
        "knn": {"kind": "knn"},
        "linear": {"kind": "linear", "c_count": 2},
        "knn-sweep": {"kind": "knn_sweep"},
        "few-shot": {
            "kind": "few_shot",
            "shares": [0.1, 1.0],
            "per_class": [1, 5],
            "draws": 2,
            "c_count": 2,
        },
        "retrieval": {"kind": "retrieval"},
        "ridge": {"kind": "ridge"},
        "ridge-loo": {"kind": "ridge", "choose": "leave_one_out"},
        "centroid": {"kind": "nearest_centroid"},
        **DESCENT,
        **LEARNERS,
    },
    "bootstrap": {"resamples": 50},
}
LABELLED = ["tiny-classification", "tiny-multilabel"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Project.finished(tmp_path_factory.mktemp("settings") / "project", CONFIG)


@pytest.fixture
def rows(finished):
    return finished.leaderboard()


def test_every_setting_of_every_evaluation_has_its_interval(rows):
    own = [row for row in rows if row["kind"] == "knn_sweep" and row["setting"] is not None]
    metrics = {"tiny-classification": "accuracy", "tiny-multilabel": "micro_ap"}
    for dataset, metric in metrics.items():
        found = [row for row in own if (row["dataset"], row["metric"]) == (dataset, metric)]
        # 100 and 200 neighbours are more than train has
        assert len(found) == 5 * 2 * 2
        assert all(row["lower"] <= row["upper"] and finite(row["rank"]) for row in found)
        assert "k_above_train:200" in found[0]["gates"]


def test_the_setting_of_the_knn_probe_has_its_score(rows):
    same_scores(rows, "knn", "k=5, l2")


def test_the_whole_training_set_has_the_score_of_the_linear_probe(rows):
    same_scores(rows, "linear", "linear, 100 %")


def same_scores(rows, probe, setting):
    """The rows of a probe and those of a setting that must be the same have the same numbers."""
    same = ("dataset", "backbone", "metric")
    ours = {
        tuple(row[name] for name in same): row
        for row in rows
        if row["probe"] == probe and row["class"] is None
    }
    others = [row for row in rows if row["setting"] == setting]
    assert others
    for row in others:
        other = ours[tuple(row[name] for name in same)]
        assert [row[key] for key in ("value", "lower", "upper")] == pytest.approx(
            [other[key] for key in ("value", "lower", "upper")], abs=1e-12
        )


def test_curves_over_draws_say_how_far_the_draws_lie_apart(rows):
    own = [row for row in rows if row["kind"] == "few_shot"]
    for dataset in LABELLED:
        found = {
            row["setting"]: row
            for row in own
            if row["metric"] in ("accuracy", "micro_ap") and row["dataset"] == dataset
        }
        assert len(found) == 1 + 2 * 4
        assert found[None]["value"] == found["linear, 10 %"]["value"]
        assert found["knn, 10 %"]["n_draws"] == 2 and found["knn, 10 %"]["draw_std"] is not None
        assert found["linear, 10 %"]["n_train"] == 6 and found["linear, 100 %"]["n_train"] == 60


def test_retrieval_is_ranked_by_mean_average_precision(rows):
    own = [row for row in rows if row["kind"] == "retrieval"]
    assert {row["metric"] for row in own if row["primary"]} == {"mean_ap"}
    assert {row["metric"] for row in own} == {
        "mean_ap",
        *(f"{name}_at_{k}" for name in ("recall", "hit") for k in (1, 5, 10)),
    }
    # train has fewer than 100 images
    assert all("k_above_gallery:100" in row["gates"] for row in own)


def test_one_row_of_an_evaluation_is_ranked(rows):
    primary = [row for row in rows if row["primary"]]
    assert {row["setting"] for row in primary} == {None}
    ranked = {(row["dataset"], row["backbone"], row["probe"], row["seed"]) for row in primary}
    assert len(primary) == len(ranked)
    found = {(dataset, probe) for dataset, _, probe, _ in ranked}
    labelled = CONFIG["probes"].keys() - {"ridge", "ridge-loo"}
    expected = {(dataset, probe) for dataset in LABELLED for probe in labelled}
    assert found >= expected - {("tiny-multilabel", "centroid")}
    assert {row["metric"] for row in primary if row["dataset"] == "tiny-regression"} == {"r2"}


def test_the_report_shows_every_setting(finished):
    names = {path.name for path in finished.path("results/report/figures").glob("settings__*.svg")}
    for dataset in LABELLED:
        assert names >= {
            f"settings__{dataset}__knn-sweep__k.svg",
            f"settings__{dataset}__few-shot__share.svg",
            f"settings__{dataset}__few-shot__per_class.svg",
        }
        figures = finished.path("results/report/figures")
        assert (figures / f"dotplot__{dataset}__retrieval.svg").exists()


def test_trained_probes_are_scored(rows):
    chosen = [
        r for r in rows if r["primary"] and r["probe"] in DESCENT and r["dataset"] in LABELLED
    ]
    assert {(row["probe"], row["kind"]) for row in chosen} == {
        (name, options["kind"]) for name, options in DESCENT.items()
    }
    assert all(0 < row["lower"] <= row["value"] <= row["upper"] <= 1 for row in chosen)


def test_learners_are_scored_on_classes_labels_and_numbers(rows):
    for name, options in LEARNERS.items():
        own = [row for row in rows if row["primary"] and row["probe"] == name]
        assert {row["dataset"] for row in own} == set(CONFIG["datasets"])
        assert {row["kind"] for row in own} == {options["kind"]}
        assert all(row["lower"] <= row["value"] <= row["upper"] for row in own)
    # probabilities only of trees
    judged = {row["probe"] for row in rows if row["metric"] == "brier_score"}
    assert {"forest", "boosting"} <= judged and not {"svm", "centroid"} & judged


def test_errors_have_intervals(rows):
    (row,) = [r for r in rows if (r["metric"], r["probe"]) == ("rmse", "ridge")]
    assert row["rank"] == 1 and not row["higher_is_better"]
    assert row["lower"] <= row["value"] <= row["upper"]


def test_the_report_shows_numbers_and_how_options_were_chosen(finished):
    names = {path.name for path in finished.path("results/report/figures").iterdir()}
    assert names >= {
        "learning_rates__tiny-classification__sgd.svg",
        "numbers__tiny-regression.svg",
        "targets__tiny-regression.svg",
        "alpha__tiny-regression__ridge.svg",
    }
    page = finished.report_text()
    assert "smallest target" in page and "R²" in page


def test_a_second_run_does_nothing(finished):
    assert finished.pending() == {}


def test_another_list_reruns_the_probe_and_what_follows(finished, tmp_path):
    project = finished.copied(tmp_path / "project")
    project.config["probes"]["knn-sweep"]["k"] = [1, 3]
    project.configure()
    assert project.pending() == {
        "probe_embeddings": 2,
        "bootstrap": 2,
        "aggregate": 1,
        "report": 1,
    }
