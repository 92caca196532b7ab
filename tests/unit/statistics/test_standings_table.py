"""Standings of made score tables, against brute force over the same scores."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.tables import KEY
from permafrost.statistics.across_datasets import hierarchical
from permafrost.statistics.across_datasets.cells import Cells
from permafrost.statistics.across_datasets.ranking import STATISTICS, Ranking
from permafrost.statistics.across_datasets.significance import friedman, wilcoxon_against
from permafrost.statistics.across_datasets.standings_table import build_standings

from tests.helpers import schemas

ITEMS = 40


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Chains that hardly begin: what they find is tested in test_hierarchical.py."""
    monkeypatch.setattr(hierarchical, "_BURN", 5)


def score(dataset, backbone, value, *, seed=0, strays=None, metric="accuracy", **more) -> pa.Table:
    """A score table with its primary row and what is known of the test items."""
    higher = metric not in ("rmse",)
    row = {"dataset": dataset, "backbone": backbone, "probe": "knn", "seed": seed, "metric": metric}
    row |= {"value": value, "higher_is_better": higher, "primary": True}
    other = {**row, "metric": "macro_f1", "primary": False}
    about = {"strays": strays, "test_set": dataset, **more}
    return pa.Table.from_pylist([row, other]).replace_schema_metadata({KEY: canonical_json(about)})


def made(datasets=4, backbones=("a", "b", "c", "imagestats"), seeds=1, seed=0, metric="accuracy"):
    """Values (D, K, S) and their tables; backbones are the worse the later they come."""
    rng = np.random.default_rng(seed)
    values = (
        0.8
        - 0.1 * np.arange(len(backbones))[:, None]
        + rng.normal(0, 0.05, (datasets, len(backbones), seeds))
    )
    tables = []
    for (d, k, s), value in np.ndenumerate(values):
        strays = rng.normal(0, 0.01, ITEMS)
        tables.append(
            score(
                f"d{d}",
                backbones[k],
                float(value),
                seed=s,
                strays=(strays - strays.mean()).tolist(),
                metric=metric,
            )
        )
    return values, tables


def found(table: pa.Table, statistic: str, column: str = "value", **where) -> list:
    """A column of one statistic, in the order of the backbones."""
    where = {"group": "all", "probe": "knn", "statistic": statistic, **where}
    rows = [row for row in table.to_pylist() if all(row[key] == one for key, one in where.items())]
    return [row[column] for row in sorted(rows, key=lambda row: row["backbone"])]


def ranking(datasets=4, **options) -> Ranking:
    names = [f"d{number}" for number in range(datasets)]
    return Ranking(groups={"all": names}, draws=200, **{"baseline": "imagestats", **options})


def test_values_equal_brute_force():
    values, tables = made(seeds=3)
    table = build_standings(tables, ranking())
    schemas.check("standings", table)
    means = values.mean(axis=-1)
    ranks = np.array([[1 + sum(other > one for other in row) for one in row] for row in means])
    expected = {
        "mean_rank": ranks.mean(axis=0),
        "win_rate": np.mean(
            [
                [np.mean([one > o for o in np.delete(row, k)]) for k, one in enumerate(row)]
                for row in means
            ],
            0,
        ),
        "mean": means.mean(axis=0),
        "iqm": np.sort(means, axis=0)[1:3].mean(axis=0),
        "gain": (means - means[:, [3]]).mean(axis=0),
        "improvability": np.mean(
            [[(row.max() - one) / (1 - one) for one in row] for row in means], 0
        ),
        "improvement_over_rest": [
            np.mean(
                [
                    np.mean([x > y for x, y in itertools.product(values[d, k], values[d, other])])
                    for other in range(4)
                    if other != k
                    for d in range(4)
                ]
            )
            for k in range(4)
        ],
    }
    for statistic, numbers in expected.items():
        np.testing.assert_allclose(found(table, statistic), numbers, atol=1e-12, err_msg=statistic)
        for value, low, high in zip(
            *(found(table, statistic, c) for c in ("value", "lower", "upper")), strict=True
        ):
            assert low <= value <= high, statistic
    assert set(table["statistic"].to_pylist()) == set(STATISTICS) - {
        "exact_mean_rank",
        "normalised_mean",
        "normalised_iqm",
    }
    assert set(table["uncertainty"].to_pylist()) == {"both"}
    assert found(table, "gain", "lower")[3] == found(table, "gain", "upper")[3] == 0
    best = found(table, "probability_best")
    assert sum(best) == pytest.approx(1)
    assert sum(found(table, "probability_top3")) == pytest.approx(3)


def test_errors_are_ranked_the_other_way():
    values, tables = made(metric="rmse")
    table = build_standings(tables, ranking())
    means = values.mean(axis=-1)
    np.testing.assert_allclose(found(table, "mean"), means.mean(axis=0))
    assert found(table, "mean", "higher_is_better") == [False] * 4
    np.testing.assert_allclose(found(table, "gain"), (means[:, [3]] - means).mean(axis=0))
    assert found(table, "mean_rank")[3] < found(table, "mean_rank")[0]
    assert found(table, "mean", "rank") == [4, 3, 2, 1]


def test_metrics_that_share_no_scale_have_no_mean():
    _, tables = made(2)
    tables += [
        score("d2", name, 3.0 - k, metric="rmse", strays=[0.1, -0.1])
        for k, name in enumerate(("a", "b", "c", "imagestats"))
    ]
    table = build_standings(tables, ranking(3))
    statistics = set(table["statistic"].to_pylist())
    assert not statistics & {"mean", "iqm", "gain"}
    assert {"mean_rank", "win_rate", "elo", "improvability"} <= statistics
    tables = [
        *made(2)[1],
        *(
            score("d2", name, 0.5, metric="mean_iou", strays=[0.1, -0.1])
            for name in ("a", "b", "c", "imagestats")
        ),
    ]
    notes = found(build_standings(tables, ranking(3)), "mean", "note")
    assert notes == ["averages accuracy, mean_iou"] * 4


def test_a_missing_score_leaves_its_dataset_out_and_says_so():
    values, tables = made()
    lacking = [
        one
        for one in tables
        if one.to_pylist()[0]["dataset"] != "d1" or one.to_pylist()[0]["backbone"] != "b"
    ]
    for incomplete in (
        lacking,
        [*lacking, score("d1", "b", None)],
        [*lacking, score("d1", "b", float("nan"))],
    ):
        table = build_standings(incomplete, ranking())
        assert set(table["left_out"].to_pylist()) == {"d1"}
        assert set(table["datasets"].to_pylist()) == {"d0;d2;d3"}
        np.testing.assert_allclose(found(table, "mean"), values[[0, 2, 3], :, 0].mean(axis=0))
    nothing = [score("d0", "a", 0.5), score("d1", "b", 0.5)]
    table = build_standings(nothing, ranking(2))
    assert table["note"].to_pylist() == ["no dataset has scores of all backbones"] * 2
    assert table["value"].to_pylist() == [None, None]
    schemas.check("standings", table)


def test_what_cannot_be_drawn_is_not():
    _, tables = made(1)
    table = build_standings(tables, ranking(1))
    assert set(table["uncertainty"].to_pylist()) == {"items"}
    assert "one dataset says nothing of others" in found(table, "mean", "note")[0]
    unknown = [score(f"d{d}", name, 0.5 + 0.1 * k) for d in range(2) for k, name in enumerate("ab")]
    table = build_standings(unknown, ranking(2))
    assert set(table["uncertainty"].to_pylist()) == {"datasets"}
    table = build_standings(unknown[:2], ranking(1))
    assert set(table["uncertainty"].to_pylist()) == {"none"}
    assert found(table, "mean", "lower") == [None, None] == found(table, "mean", "letters")
    schemas.check("standings", table)
    for asked in ("items", "datasets"):
        table = build_standings(made()[1], ranking(uncertainty=asked))
        assert set(table["uncertainty"].to_pylist()) == {asked}


def test_normalised_means():
    values, tables = made()
    means = values[..., 0]
    bounds = {f"d{d}": (0.1 * d, 0.9) for d in range(4)}
    table = build_standings(tables, ranking(bounds=bounds))
    low = 0.1 * np.arange(4)[:, None]
    np.testing.assert_allclose(
        found(table, "normalised_mean"), ((means - low) / (0.9 - low)).mean(axis=0)
    )
    # a scale common to all datasets changes the draws by that scale alone
    table = build_standings(tables, ranking(bounds=dict.fromkeys(bounds, (0.5, 0.75))))
    for column in ("lower", "upper"):
        np.testing.assert_allclose(
            found(table, "normalised_mean", column),
            (np.array(found(table, "mean", column)) - 0.5) / 0.25,
        )
    table = build_standings(tables, ranking(reference=("imagestats", "a")))
    assert found(table, "normalised_mean")[0] == pytest.approx(1)
    assert found(table, "normalised_mean")[3] == pytest.approx(0)
    table = build_standings(tables, ranking(reference=("a", "imagestats")))
    assert found(table, "normalised_mean") == [None] * 4
    assert "is not better than" in found(table, "normalised_mean", "note")[0]
    # bounds that lack a dataset make nothing
    table = build_standings(tables, ranking(bounds={"d0": (0, 1)}))
    assert not found(table, "normalised_mean")
    # an error of 1 becomes 0, one of 0 becomes 1
    values, tables = made(metric="rmse")
    table = build_standings(tables, ranking(bounds={f"d{d}": (0.0, 1.0) for d in range(4)}))
    np.testing.assert_allclose(found(table, "normalised_mean"), 1 - values[..., 0].mean(axis=0))


def test_groups_that_are_the_same_are_shown_once():
    _, tables = made()
    groups = {
        "all": ["d0", "d1", "d2", "d3"],
        "mine": ["d0", "elsewhere"],
        "task:x": ["d0", "d1", "d2", "d3"],
        "ground:y": ["d1", "d2"],
        "sensor:z": ["d3"],
    }
    table = build_standings(tables, Ranking(groups=groups, draws=100))
    assert list(dict.fromkeys(table["group"].to_pylist())) == ["all", "mine", "ground:y"]
    left_out = {row["group"]: row["left_out"] for row in table.to_pylist()}
    assert left_out == {"all": "", "mine": "elsewhere", "ground:y": ""}


def test_a_leader_everywhere_is_told_apart_by_many_datasets_only():
    values = np.linspace(0.5, 0.9, 3)
    for datasets, sets in ((3, [(1, 3)] * 3), (12, [(3, 3), (2, 2), (1, 1)])):
        tables = [
            score(f"d{d}", name, float(values[k]), strays=[0.0] * ITEMS)
            for d in range(datasets)
            for k, name in enumerate("abc")
        ]
        table = build_standings(tables, ranking(datasets))
        low, high = found(table, "mean_rank", "rank_low"), found(table, "mean_rank", "rank_high")
        assert list(zip(low, high, strict=True)) == sets
    # of 12 datasets, another one in 26 may well be different
    share = 1 - 0.025 ** (1 / 12)
    assert found(table, "mean_rank", "upper")[2] == pytest.approx(1 + 2 * share)
    assert found(table, "elo", "lower") == [None] * 3


def test_other_test_samples_are_refused():
    _, tables = made(1)
    with pytest.raises(
        PermafrostError, match=r"'a' and 'z' were evaluated on different test samples of 'd0'"
    ):
        build_standings([*tables, score("d0", "z", 0.5, test_set="others")], ranking(1))


def test_the_same_seed_gives_the_same_table():
    _, tables = made()
    first, again = (build_standings(tables, ranking()) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(build_standings(tables, ranking(seed=1)))


def test_missing_scores_are_filled_by_the_rule_that_is_asked_for():
    values, tables = made()
    lacking = [
        one
        for one in tables
        if one.to_pylist()[0]["dataset"] != "d1" or one.to_pylist()[0]["backbone"] != "b"
    ]
    filled = values[..., 0].copy()
    for rule, source in (("worst", filled[1, [0, 2, 3]].min()), ("baseline", filled[1, 3])):
        filled[1, 1] = source
        table = build_standings(lacking, ranking(missing=rule))
        np.testing.assert_allclose(found(table, "mean"), filled.mean(axis=0))
        assert found(table, "mean", "imputed") == ["", "d1", "", ""]
        assert set(table["left_out"].to_pylist()) == {""}
        assert None not in found(table, "mean_rank", "lower")
        schemas.check("standings", table)
    table = build_standings(lacking, ranking(missing="baseline", baseline="nobody"))
    assert set(table["value"].to_pylist()) == {None}
    assert "'nobody' has none" in table["note"].to_pylist()[0]


def test_tests_of_each_group_and_probe_are_given_beside():
    values, tables = made(6)
    tests: list[dict] = []
    build_standings(tables, ranking(6), tests)
    (one,) = tests
    assert (one["group"], one["probe"]) == ("all", "knn")
    oriented = values[..., 0]
    assert one["friedman_p"] == pytest.approx(friedman(oriented).p_f)
    assert one["wilcoxon"].keys() == {"a", "b", "c"}
    assert one["wilcoxon"]["a"] == pytest.approx(wilcoxon_against(oriented, 3)[1][0])
    assert (one["first"], one["second"]) == ("a", "b") and sum(one["practical"]) == pytest.approx(1)
    assert {name for group in one["cliques"] for name in group} <= {"a", "b", "c", "imagestats"}
    build_standings(made(1)[1], ranking(1), tests)
    assert tests[1]["practical"] is None and tests[1]["friedman_p"] is None
    # errors and shares cannot be averaged, so nothing is said of how large differences are
    mixed = [
        *made(2)[1],
        *(score(f"e{d}", k, 1.0 + d, metric="rmse") for d in (0, 1) for k in "abc"),
    ]
    mixed = [table for table in mixed if table["backbone"][0].as_py() != "imagestats"]
    tests.clear()
    build_standings(mixed, Ranking(groups={"all": ["d0", "d1", "e0", "e1"]}, draws=100), tests)
    assert "first" not in tests[0] and "wilcoxon" not in tests[0]


def cells_of(datasets, fits, same=()):
    """Cells of d0, d1 …: backbone to its kinds of fit, one for each dataset; those of `same` are fed the same."""
    return Cells.of(
        {
            "dataset": f"d{d}",
            "backbone": name,
            "fit": kinds[d],
            "input_id": "one" if name in same else name,
        }
        for name, kinds in fits.items()
        for d in range(datasets)
    )


def test_one_measurement_under_two_names_is_counted_once():
    values, tables = made(backbones=("a", "b", "c"))
    again = [score(f"d{d}", "z", float(values[d, 0, 0])) for d in range(4)]
    exact = dict.fromkeys("abcz", ["exact"] * 4)
    options = {"baseline": None, "uncertainty": "datasets"}
    alone = build_standings(tables, ranking(**options))
    both = build_standings([*tables, *again], ranking(**options), None, cells_of(4, exact, "az"))
    schemas.check("standings", both)
    for statistic in ("mean_rank", "win_rate", "elo", "probability_best", "expected_rank"):
        wanted = found(alone, statistic)
        # z has the numbers of a, and moves nobody's
        assert found(both, statistic) == [*wanted, wanted[0]]
    assert set(both["same_as"].to_pylist()) == {"z=a"}
    # a named backbone is never called the copy of another one
    named = build_standings(
        [*tables, *again], ranking(**options | {"baseline": "z"}), None, cells_of(4, exact, "az")
    )
    assert set(named["same_as"].to_pylist()) == {"a=z"}
    untold = build_standings([*tables, *again], ranking(**options))
    assert found(untold, "mean_rank") != found(both, "mean_rank")


def test_what_is_the_same_on_some_datasets_alone_is_a_tie_there():
    _, tables = made(backbones=("a", "b", "c"))
    facts = dict(cells_of(4, dict.fromkeys("abc", ["exact"] * 4)).facts)
    for name in "ab":
        facts["d0", name] = {**facts["d0", name], "input_id": "one"}
    table = build_standings(tables, ranking(baseline=None), None, Cells(facts))
    assert set(table["same_as"].to_pylist()) == {""}


def test_two_names_of_one_measurement_alone_are_a_tie():
    tables = [score(f"d{d}", name, 0.5) for d in range(4) for name in "ab"]
    same = cells_of(4, dict.fromkeys("ab", ["exact"] * 4), "ab")
    table = build_standings(tables, ranking(baseline=None), None, same)
    assert found(table, "mean_rank") == [1.5, 1.5]


def test_the_ranking_is_made_again_of_exact_cells():
    values = {"a": [0.9, 0.9, 0.4, 0.9], "b": [0.5, 0.5, 0.5, 0.5], "c": [0.1, 0.1, 0.1, 0.1]}
    tables = [score(f"d{d}", name, one) for name, of in values.items() for d, one in enumerate(of)]
    fits = {"a": ["copied", "neutral", "exact", "picture"], "b": ["exact"] * 4}
    fits["c"] = ["converted", "exact", "exact", "exact"]
    table = build_standings(tables, ranking(baseline=None), None, cells_of(4, fits))
    schemas.check("standings", table)
    assert found(table, "mean_rank") == [1.25, 1.75, 3.0]
    assert found(table, "exact_mean_rank") == [2.0, 1.0, 3.0]
    assert set(found(table, "exact_mean_rank", "datasets")) == {"d2"}
    # c has no exact cell, and the others are ranked without it
    fits["c"] = ["subset"] * 4
    table = build_standings(tables, ranking(baseline=None), None, cells_of(4, fits))
    assert found(table, "exact_mean_rank") == [2.0, 1.0]
    fits["a"] = ["exact"] * 2 + ["copied"] * 2
    fits["b"] = ["copied"] * 2 + ["exact"] * 2
    table = build_standings(tables, ranking(baseline=None), None, cells_of(4, fits))
    assert found(table, "exact_mean_rank") == [None] * 3
    assert "no dataset" in found(table, "exact_mean_rank", "note")[0]
    every = dict.fromkeys(values, ["exact"] * 4)
    table = build_standings(tables, ranking(baseline=None), None, cells_of(4, every))
    assert found(table, "exact_mean_rank") == []
