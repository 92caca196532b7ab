"""Improvability and Elo as evaluma 0.3 has them; skipped where it is not installed (`pip install evaluma==0.3`)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("evaluma")

from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.elo import elo


@pytest.fixture
def table():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(0.6, 0.1, (8, 1)) + rng.normal(0, 0.1, (8, 12)), 0, 0.99)
    return pandas.DataFrame(values, [f"m{k}" for k in range(8)], [f"d{k}" for k in range(12)])


def test_improvability(table):
    from evaluma.methods.improvability import compute_improvability

    directions, best = dict.fromkeys(table.columns, "max"), dict.fromkeys(table.columns, 1.0)
    theirs = compute_improvability(table, directions, best).table.set_index("model")
    ours = standings.improvability(table.to_numpy().T, np.ones(12))
    np.testing.assert_allclose(100 * ours, theirs.improvability[table.index], atol=1e-10)


def test_elo(table):
    from evaluma.methods.elo import _fit_elo, compute_battles

    theirs = _fit_elo(compute_battles(table), list(table.index)).to_numpy()
    ours, endless = elo(standings.pairwise_wins(table.to_numpy().T))
    # theirs is penalised and stops early, by up to a point or two
    assert not endless
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=2)
