"""NeuCo-Bench's Q statistic and weighted ranks, against their definition in plain Python."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pandas as pd
import permafrost as pf
import pytest
from permafrost.statistics.across_datasets.neuco_bench import q_statistic, weighted_ranks


def q_by_definition(folds) -> float:
    """As in the paper: twice the mean over 0.02 plus the deviation of the population."""
    known = [float(one) for one in folds if not math.isnan(one)]
    if not known:
        return math.nan
    return 2 * statistics.fmean(known) / (0.02 + statistics.pstdev(known))


def board_by_definition(q: dict[str, list[float]]) -> dict[str, tuple[float, int]]:
    """Score and rank of each complete backbone, by counting; weights from the deviation of a sample."""
    known = {name: row for name, row in q.items() if not any(map(math.isnan, row))}
    columns = list(zip(*known.values(), strict=True))
    spread = [statistics.stdev(one) if len(one) > 1 else 1.0 for one in columns]
    if not sum(spread):
        spread = [1.0] * len(spread)
    scores = {}
    for name, row in known.items():
        ranks = [
            1 + sum(other > value for other in one) for value, one in zip(row, columns, strict=True)
        ]
        scores[name] = sum(r * s for r, s in zip(ranks, spread, strict=True)) / sum(spread)
    return {
        name: (value, 1 + sum(other < value - 1e-12 for other in scores.values()))
        for name, value in scores.items()
    }


def table(values: np.ndarray) -> pd.DataFrame:
    """The rows of (B, T, F) values, shuffled."""
    rows = [
        (f"b{one}", f"t{task}", values[one, task, fold])
        for one, task, fold in np.ndindex(values.shape)
    ]
    frame = pd.DataFrame(rows, columns=["backbone", "dataset", "value"])
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "shape", [(1, 1, 2), (1, 4, 40), (2, 1, 5), (5, 9, 40), (30, 3, 4), (4, 11, 40)]
)
@pytest.mark.parametrize("kind", ["random", "ties", "holes", "negative"])
def test_scores_are_those_of_the_definition(shape, seed, kind):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0, 1, shape)
    if kind == "ties":
        values[rng.random(shape[0]) < 0.5] = values[0]
        values[::2, 0] = values[0, 0]
    elif kind == "holes":
        values[rng.random(shape) < 0.3] = np.nan
        values[rng.random(shape[:2]) < 0.1] = np.nan
    elif kind == "negative":
        values = rng.normal(-0.2, 1, shape)
    expected_q = np.array([[q_by_definition(folds) for folds in one] for one in values])
    np.testing.assert_allclose(q_statistic(values), expected_q, rtol=1e-12)
    rows = {f"b{one}": row.tolist() for one, row in enumerate(expected_q)}
    expected = board_by_definition(rows)
    found = pf.neuco_bench(table(values)).set_index("backbone")
    assert len(found) == shape[0]
    for name, row in rows.items():
        assert found.loc[name, [f"q:t{task}" for task in range(shape[1])]].tolist() == (
            pytest.approx(row, rel=1e-12, nan_ok=True)
        )
        if name in expected:
            score, rank = expected[name]
            assert found.loc[name, "weighted_score"] == pytest.approx(score, rel=1e-12)
            assert found.loc[name, "rank"] == rank
            assert found.loc[name, "mean_q"] == pytest.approx(statistics.fmean(row), rel=1e-9)
        else:
            assert math.isnan(found.loc[name, "rank"]) and math.isnan(
                found.loc[name, "weighted_score"]
            )
    weights = found.attrs["weights"]
    assert sum(weights.values()) == pytest.approx(1) and len(weights) == shape[1]


def test_equal_folds_and_an_example_by_hand():
    assert q_statistic(np.full(40, 0.8)) == pytest.approx(80)  # 2 · 0.8 / 0.02
    assert q_statistic(np.array([0.5, 0.7])) == pytest.approx(10)  # 2 · 0.6 / (0.02 + 0.1)
    assert np.isnan(q_statistic(np.full(3, np.nan)))
    assert q_statistic(np.array([np.nan, 0.5, 0.7])) == pytest.approx(10)
    # deviations over backbones: 10 and 30, so weights 1/4 and 3/4
    found = weighted_ranks(np.array([[50.0, 10.0], [40.0, 40.0], [60.0, -20.0]]))
    assert found.weights.tolist() == pytest.approx([0.25, 0.75])
    assert found.score.tolist() == pytest.approx(
        [2 * 0.25 + 2 * 0.75, 3 * 0.25 + 0.75, 0.25 + 2.25]
    )
    assert found.rank.tolist() == [2, 1, 3]


def test_ties_share_the_smallest_rank_and_equal_backbones_have_equal_weights():
    found = weighted_ranks(np.array([[3.0, 1.0], [3.0, 1.0], [2.0, 0.0]]))
    assert found.score.tolist() == [1, 1, 3] and found.rank.tolist() == [1, 1, 3]
    found = weighted_ranks(np.ones((3, 2)))
    assert found.weights.tolist() == [0.5, 0.5] and found.rank.tolist() == [1, 1, 1]


def test_a_backbone_without_a_dataset_is_last_and_has_no_influence():
    values = np.random.default_rng(0).uniform(0, 1, (4, 3, 5))
    whole = pf.neuco_bench(table(values[:3]))
    rows = table(values)
    found = pf.neuco_bench(rows[(rows["backbone"] != "b3") | (rows["dataset"] != "t1")])
    pd.testing.assert_frame_equal(found.iloc[:3], whole)
    assert found.attrs["weights"] == pytest.approx(whole.attrs["weights"])
    last = found.iloc[3]
    assert last["backbone"] == "b3" and math.isnan(last["rank"]) and math.isnan(last["mean_value"])
    assert not math.isnan(last["q:t0"])


def test_wrong_tables_are_refused():
    rows = table(np.random.default_rng(0).uniform(0, 1, (2, 2, 3)))
    for wrong, problem in (
        (rows.drop(columns="value"), "no column 'value'"),
        ([1, 2], "no column 'backbone'"),
        (rows.iloc[:0], "no rows"),
        (rows.assign(dataset=None), "without backbone or dataset"),
        (rows.assign(value=np.inf), "not finite numbers"),
        (rows.assign(value="high"), "not finite numbers"),
        (rows.iloc[1:], "have 2, 3 folds"),
        (rows.drop_duplicates(["backbone", "dataset"]), "have 1 folds"),
    ):
        with pytest.raises(ValueError, match=problem):
            pf.neuco_bench(wrong)
    texts = pf.neuco_bench(rows.assign(value=rows["value"].map(repr)))
    pd.testing.assert_frame_equal(texts, pf.neuco_bench(rows))
