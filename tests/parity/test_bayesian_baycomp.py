"""The Bayesian signed-rank test as baycomp has it; skipped where it is not installed (`pip install baycomp`)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("baycomp")

from permafrost.statistics.across_datasets.tested import signed_rank


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("rope", [0, 0.01, 0.03])
def test_probabilities(count, rope):
    gaps = np.round(np.random.default_rng(count).normal(0.01, 0.03, count), 3)
    found = signed_rank(gaps, rope=rope, seed=0, draws=50_000)
    # ours has the second less the first as baycomp
    import baycomp

    theirs = baycomp.SignedRankTest.probs(np.zeros(count), gaps, rope, nsamples=20_000)
    ours = [found.lower, found.higher] if rope == 0 else [found.lower, found.within, found.higher]
    np.testing.assert_allclose(ours, theirs, atol=0.015)
