"""What evaluma 0.3 says of a table over datasets; skipped where it is not installed (`pip install evaluma==0.3`).

Where definitions differ: its Elo is penalised and stops early, its Wilcoxon tests with ties are of other sums.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("evaluma")

from permafrost.statistics.across_datasets import significance, standings
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.tested import signed_rank

# columns of a published table that make a configuration of a model
CONFIGURATION = ["name", "normalization", "bands", "image_size", "interpolation", "partition"]


@pytest.fixture(params=["random", "published"])
def table(request):
    """Models x datasets: random, or torchgeo-bench's published accuracies of linear probes where all have one."""
    pandas = pytest.importorskip("pandas")
    if request.param == "random":
        rng = np.random.default_rng(0)
        values = np.clip(rng.normal(0.6, 0.1, (8, 1)) + rng.normal(0, 0.1, (8, 12)), 0, 0.99)
        return pandas.DataFrame(values, [f"m{k}" for k in range(8)], [f"d{k}" for k in range(12)])
    file = request.getfixturevalue("shared_data") / "published" / "torchgeo-bench_results.csv"
    rows = pandas.read_csv(file).query("method == 'linear' and metric_name == 'accuracy'")
    rows = rows.drop_duplicates([*CONFIGURATION, "dataset"])
    wide = rows.pivot(index=CONFIGURATION, columns="dataset", values="metric_value").dropna()
    assert wide.shape[0] > 10 and wide.shape[1] >= 5
    wide.index = ["/".join(map(str, key)) for key in wide.index]
    return wide


@pytest.fixture
def values(table):
    return table.to_numpy().T


def by_model(found, column: str, table):
    return found.set_index("model")[column][table.index].to_numpy()


def test_improvability(table, values):
    from evaluma.methods.improvability import compute_improvability

    directions, best = dict.fromkeys(table.columns, "max"), dict.fromkeys(table.columns, 1.0)
    theirs = compute_improvability(table, directions, best).table
    ours = standings.improvability(values, np.ones(len(values)))
    np.testing.assert_allclose(100 * ours, by_model(theirs, "improvability", table), atol=1e-10)


def test_elo(table, values):
    from evaluma.methods.elo import _fit_elo, compute_battles

    theirs = _fit_elo(compute_battles(table), list(table.index)).to_numpy()
    ours, endless = elo(standings.pairwise_wins(values))
    # theirs is penalised and stops early, by up to a point or two
    assert not endless
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=2)


@pytest.mark.parametrize("how", ["mean", "trimmed_mean"])
def test_normalised_means(table, values, how):
    from evaluma.methods.aggregate import compute_aggregate
    from evaluma.normalize import normalize

    low, high = 0.1, np.linspace(1, 1.2, len(values))
    bounds = dict(zip(table.columns, high, strict=True))
    scaled = normalize(table, norm_ref_low=low, norm_ref_high=bounds)
    theirs = by_model(compute_aggregate(scaled, how).table, "score", table)
    compute = standings.normalised_mean if how == "mean" else standings.normalised_iqm
    np.testing.assert_allclose(compute(values, np.full(len(values), low), high), theirs)


def test_mean_ranks_friedman_nemenyi_and_the_critical_difference(table, values):
    from evaluma.methods.frequentist import compute_frequentist

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = compute_frequentist(table)
    np.testing.assert_allclose(standings.mean_rank(values), theirs.avg_ranks[table.index])
    ours = significance.friedman(values)
    assert ours.chi_square == pytest.approx(theirs.friedman_statistic)
    assert ours.p_chi_square == pytest.approx(theirs.friedman_p_value, rel=1e-6)
    difference = significance.nemenyi_difference(len(table), len(values))
    assert difference == pytest.approx(theirs.cd, rel=1e-6)
    p_values, place = significance.nemenyi(values), {name: k for k, name in enumerate(table.index)}
    pairs = theirs.table
    ours = [p_values[place[a], place[b]] for a, b in zip(pairs.model_a, pairs.model_b, strict=True)]
    np.testing.assert_allclose(ours, pairs.p_value, atol=1e-6)


def test_wilcoxon_and_holm_without_ties(table, values):
    from evaluma.methods.frequentist import compute_frequentist

    # a published accuracy has three digits, and so ties
    rng = np.random.default_rng(1)
    table = table + rng.uniform(0, 1e-6, table.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = compute_frequentist(table, reference=table.index[0]).table
    p, adjusted = significance.wilcoxon_against(table.to_numpy().T, 0)
    np.testing.assert_allclose(p[1:], theirs.p_value)
    np.testing.assert_allclose(adjusted[1:], theirs.p_value_corrected)


def test_bayesian_signed_rank(table, values):
    from evaluma.methods.bayesian import compute_bayesian

    first, second = table.index[:2]
    theirs = compute_bayesian(table, rope=0.02, pairs=[(first, second)], random_state=0).table
    ours = signed_rank(values[:, 0] - values[:, 1], rope=0.02, seed=0)
    # baycomp's first answer is of the first model
    said = theirs[["p_a_better", "p_equiv", "p_b_better"]].to_numpy()[0]
    np.testing.assert_allclose([ours.higher, ours.within, ours.lower], said, atol=0.02)
