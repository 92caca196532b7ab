"""What bencheval, TabArena's evaluator, says of a table over datasets; skipped where it is not installed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("bencheval")

from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.elo import elo


@pytest.fixture(params=["endless digits", "ties"])
def errors(request):
    """(D, K)."""
    rng = np.random.default_rng(0)
    drawn = np.clip(rng.normal(0.4, 0.1, 9) + rng.normal(0, 0.1, (14, 9)), 0.01, 1)
    return drawn if request.param == "endless digits" else np.round(drawn, 1) + 0.1


@pytest.fixture
def theirs(errors):
    pandas = pytest.importorskip("pandas")
    from bencheval.evaluator import BenchmarkEvaluator

    rows = [
        {"method": f"m{k}", "task": f"d{d}", "metric_error": error}
        for d, of_dataset in enumerate(errors)
        for k, error in enumerate(of_dataset)
    ]
    evaluator = BenchmarkEvaluator(columns_to_agg_extra=None)
    return evaluator, evaluator.compute_results_per_task(pandas.DataFrame(rows))


def of_methods(found) -> np.ndarray:
    return found.sort_index().to_numpy()


def test_mean_rank_and_improvability(errors, theirs):
    evaluator, rows = theirs
    found = evaluator.aggregate(rows)
    np.testing.assert_allclose(standings.mean_rank(-errors), of_methods(found["rank"]))
    ours = standings.improvability(-errors, np.zeros(len(errors)))
    np.testing.assert_allclose(ours, of_methods(found["improvability"]), atol=1e-12)


def test_win_rate(errors, theirs):
    evaluator, rows = theirs
    np.testing.assert_allclose(
        standings.win_rate(-errors), of_methods(evaluator.compute_winrate(rows))
    )


def test_elo(errors, theirs):
    evaluator, rows = theirs
    found = evaluator.compute_elo(rows, include_quantiles=False, round_decimals=None)["elo"]
    ours, endless = elo(standings.pairwise_wins(-errors))
    assert not endless
    said = of_methods(found)
    # theirs has a mean of its own
    np.testing.assert_allclose(ours - ours.mean(), said - said.mean(), atol=0.01)
