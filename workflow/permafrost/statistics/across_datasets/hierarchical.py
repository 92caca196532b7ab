"""Quality of backbones on one kind of datasets: posterior of a hierarchical model of scores.

    score[d, k] = level[d] + scale[d] (effect[k] + kind[group[d], k] + rest[d, k]) + error[d, k]

`level` and `scale` belong to the dataset, `effect` to the backbone, `kind` to the backbone on a
group of similar datasets, and `rest` to the backbone on this dataset alone. `error` is normal with
the variance from test items and seeds.

- Effects are normal with a common standard deviation s, in units of a typical spread. It shrinks
  them, and may be close to 0: then all backbones are equally likely to be best. Its prior makes
  s^2 / (s^2 + 1) uniform.
- The rest is Student's t. Its scale has a half-Cauchy prior, is estimated from all backbones
  together and sampled; its degrees of freedom are one of `_TAILS`; each dataset multiplies it by a
  factor.
- The groups are unknown and follow a Chinese restaurant process with the concentration `_NEW`. Kind
  effects are normal with one standard deviation that has a half-Cauchy prior. Groups exist for
  three or more datasets.
- The logarithms of both factors of a dataset are normal with half-Cauchy standard deviations.
  Datasets that look similar therefore get similar weights.
- Error variances are estimates. Each dataset multiplies them by a lognormal factor.

A Gibbs sampler runs many chains at once. Levels and effects are sampled together, and the standard
deviation of the effects with the effects integrated out. Factors move by Metropolis steps. The
weights that turn normal numbers into Student's t are sampled given the rest.
Source: Gelman and others, Bayesian Data Analysis (2013), chapters 5, 11, 12 and 15; Gelman, Prior
Distributions for Variance Parameters in Hierarchical Models (2006); uniform shrinkage prior:
Daniels, A Prior for the Variance in Hierarchical Models (1999); groups: Neal, Markov Chain Sampling
Methods for Dirichlet Process Mixture Models (2000), algorithm 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CHAINS, _BURN, _THIN, _SETS = 16, 150, 2, 4
# degrees of freedom of the rest
_TAILS = np.array([2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 60.0])
_LOG_GAMMA = np.array([math.lgamma(tail / 2) for tail in _TAILS])
# grid of the log standard deviations of effects and of factors, on which their density is evaluated
_GRID = np.linspace(math.log(0.01), math.log(30), 48)
_BOUNDS = math.log(0.01), math.log(30)
# prior medians of standard deviations: of the rest and of groups in units of a typical spread, and
# of log factors
_UNIT, _KINDS, _FACTORS, _ERRORS = 1.0, 0.15, 0.3, 0.4
# smallest error in units of a spread; precision of the common part of levels and effects, set by
# the prior alone
_ROUNDING, _SHARED = 1e-3, 1e-10
# concentration of new groups, and number of datasets that may change group in a step
_NEW, _CHANGED = 6.0, 5


@dataclass(frozen=True)
class Posterior:
    """Posterior draws for one table or for T tables.

    Attributes
    ----------
    effects : (…, N, K) in score units on the average dataset; only their differences are
        identified.
    values : (…, N, D, K) scores with infinite test items and seeds on these datasets, or None.
    """

    effects: np.ndarray
    values: np.ndarray | None


def posterior(
    values, variances, *, draws: int, seed: int | Sequence[int], with_values: bool = False
) -> Posterior:
    """Sample the posterior; the same arguments give the same draws.

    Parameters
    ----------
    values : (…, D, K) scores, higher is better, NaN if missing. Leading axes are independent
        tables.
    variances : error variances in the shape of `values`, without the part that all backbones of a
        dataset share, because a common error belongs to the level.
    draws : minimum number of draws.
    seed : of the random numbers for all tables; or one seed per table, which gives each table the draws
        that it has alone, and takes less time than one call per table.
    with_values : whether to sample the scores on these datasets too.
    """
    values = np.asarray(values, np.float64)
    ahead, shape = values.shape[:-2], values.shape[-2:]
    values = values.reshape(-1, *shape)
    known = ~np.isnan(values)
    count = known.sum(axis=-1, keepdims=True)
    means = np.sum(values, axis=-1, keepdims=True, where=known) / np.maximum(count, 1)
    centred = np.where(known, values - means, 0.0)
    spread = np.sum(centred**2, axis=-1) / np.maximum(count[..., 0] - 1, 1)
    unit = _typical(spread)
    variances = np.where(known, np.reshape(variances, values.shape), 1.0) / unit**2
    variances += _ROUNDING**2 * np.maximum(spread[..., None] / unit**2, 0.01)
    # mypy takes a generator for any number of arguments
    chains = _Chains(  # type: ignore[call-arg]
        *(np.repeat(one, CHAINS, axis=0) for one in (centred / unit, variances, known)),
        np.repeat(_scales(spread / unit[..., 0] ** 2, count[..., 0]), CHAINS, axis=0),
        _Streams([seed] if isinstance(seed, int) else seed),
    )
    for _ in range(_BURN):
        chains.step()
    effects: list[np.ndarray]
    cells: list[np.ndarray]
    effects, cells = [], []
    while len(effects) * CHAINS < draws:
        for _ in range(_THIN):
            chains.step()
        effects += chains.effects(_SETS)
        if with_values:
            cells.append(chains.values())
    drawn = np.stack(effects, axis=1).reshape(*ahead, -1, shape[1]) * unit.reshape(*ahead, 1, 1)
    if not with_values:
        return Posterior(drawn, None)
    cells = np.stack(cells, axis=1).reshape(len(values), -1, *shape) * unit[..., None]
    return Posterior(drawn, (cells + means[:, None]).reshape(*ahead, -1, *shape))


def _typical(variances) -> np.ndarray:
    """(T, 1, 1) standard deviation of the backbones on the median dataset; 1 if all are equal."""
    found = np.median(variances, axis=-1)
    found = np.where(found > 0, found, np.mean(variances, axis=-1))
    return np.sqrt(np.where(found > 0, found, 1.0))[:, None, None]


def _scales(variances, count) -> np.ndarray:
    """(T, D) initial log scales: the datasets' spreads, shrunk to allow for few backbones."""
    logs = np.log(np.clip(variances, 1e-8, 1e8)) / 2
    return np.clip(count - 2, 0, None) / np.maximum(count - 1, 1) * logs


class _Streams:
    """Random numbers of B chains; each of G generators serves B / G of them in turn."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]

    def _shares(self, out: np.ndarray):
        shares = out.reshape(len(self._generators), -1, *out.shape[1:])
        return zip(self._generators, shares, strict=True)

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        out = np.empty(shape)
        for generator, share in self._shares(out):
            generator.standard_normal(out=share)
        return out

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        out = np.empty(shape)
        for generator, share in self._shares(out):
            generator.random(out=share)
        return out

    def standard_gamma(self, parameters: np.ndarray) -> np.ndarray:
        out = parameters.copy()
        for generator, share in self._shares(out):
            share[:] = generator.standard_gamma(share)
        return out

    def permutations(self, count: int, chains: int) -> np.ndarray:
        """(B, count) an order of the numbers below `count`, common to the chains of a generator."""
        orders = [generator.permutation(count) for generator in self._generators]
        return np.repeat(orders, chains // len(orders), axis=0)


class _Chains:
    """B chains for D datasets and K backbones, centred per dataset, in typical spreads."""

    def __init__(self, values, variances, known, scales, rng: _Streams) -> None:
        self.y, self.errors, self.known, self.rng = values, variances, known, rng
        self.there = known.astype(np.float64)
        chains, datasets, backbones = values.shape
        # step size on the log scale, chosen for an acceptance rate of about one half
        self.reach = 2 / math.sqrt(backbones)
        self.level = np.zeros((chains, datasets))
        self.scale: np.ndarray
        self.own: np.ndarray
        self.error: np.ndarray
        # mypy refuses to unpack an array, whose type it does not know
        self.scale, self.own, self.error = scales, *np.zeros((2, chains, datasets))  # type: ignore[misc]
        self.scales = 0.1 + np.std(scales, axis=1, keepdims=True)
        self.owns = np.full((chains, 1), 0.1)
        self.rest = np.log(0.3 + rng.random((chains, 1)))
        self.group = np.tile(np.arange(datasets), (chains, 1))
        self.groups = np.zeros((chains, datasets, backbones))
        self.kind, self.kinds = np.zeros(values.shape), np.full((chains, 1), 0.1)
        self.weight, self.tail = np.ones(values.shape), np.full(chains, 6.0)

    def step(self) -> None:
        self._levels_and_effects()
        if self.level.shape[1] > 2:
            self._groups()
        self.fit = self._likelihood()
        self._deviation_of_rest()
        self._factors()
        self._spread_of_factors()
        self._tails()

    def effects(self, sets: int) -> list[np.ndarray]:
        """`sets` draws (B, K) given all other parameters, from the last conditional
        distribution."""
        return [
            self._average
            * (self._mean + self.rng.standard_normal(self._mean.shape) * self._deviation)
            for _ in range(sets)
        ]

    def values(self) -> np.ndarray:
        return self.y - self._residuals(self.scale) + self._rest

    def _variances(self, **changed) -> np.ndarray:
        """(B, D, K) variance of a score around its expectation, with some factors replaced."""
        state = {**vars(self), **changed}
        logs = 2 * (state["rest"] + state["own"] + state["scale"])
        return (
            np.exp(logs)[..., None] / self.weight + np.exp(state["error"])[..., None] * self.errors
        )

    def _residuals(self, scale) -> np.ndarray:
        expected = np.exp(scale)[..., None] * (self.effect[:, None, :] + self.kind)
        return self.y - self.level[..., None] - expected

    def _likelihood(self, **changed) -> np.ndarray:
        """(B, D) log likelihood of each dataset."""
        variances = self._variances(**changed)
        residuals = self._residuals(changed.get("scale", self.scale))
        return np.sum(np.log(variances) + residuals**2 / variances, axis=2, where=self.known) / -2

    def _levels_and_effects(self) -> None:
        scale = np.exp(self.scale)
        precision, y = self.there / self._variances(), self.y - scale[..., None] * self.kind
        known = np.einsum("bd,bdk->bk", scale**2, precision)
        pull = np.einsum("bd,bdk->bk", scale, precision * (y - self.level[..., None]))
        squares = np.exp(2 * _GRID)
        shrunk = 1 + known[..., None] * squares
        density = np.sum(pull[..., None] ** 2 * squares / shrunk - np.log(shrunk), axis=1) / 2
        self.spread = np.exp(_GRID[self._pick(density + _uniform_share(_GRID))])[:, None]
        # levels, with effects integrated out
        total = self.spread**-2 + known
        tied = scale[..., None] * precision
        matrix = -np.matmul(tied / total[:, None, :], tied.transpose(0, 2, 1))
        places = np.arange(self.level.shape[1])
        matrix[:, places, places] += precision.sum(axis=2) * (1 + _SHARED)
        own = np.einsum("bdk,bdk->bk", tied, y) / total
        right = np.sum(precision * y, axis=2) - np.einsum("bdk,bk->bd", tied, own)
        root = np.linalg.cholesky(matrix)
        half = np.linalg.solve(root, right[..., None])
        half += self.rng.standard_normal(half.shape)
        self.level = np.linalg.solve(root.transpose(0, 2, 1), half)[..., 0]
        self._mean = np.einsum("bdk,bdk->bk", tied, y - self.level[..., None]) / total
        self._deviation, self._average = 1 / np.sqrt(total), scale.mean(axis=1, keepdims=True)
        self.effect = self._mean + self.rng.standard_normal(self._mean.shape) * self._deviation

    def _groups(self) -> None:
        """Sample the groups of datasets, their kind effects (B, D, K), and their deviation."""
        scale, variances = np.exp(self.scale)[..., None], self._variances()
        left = self.y - self.level[..., None] - scale * self.effect[:, None, :]
        places = np.arange(self.level.shape[1])
        chains = np.arange(len(left))
        for changed in self.rng.permutations(len(places), len(left))[:, :_CHANGED].T:
            of = (chains, changed)  # a dataset of each chain
            current = self.group[of][:, None] == places
            count = np.sum(self.group[..., None] == places, axis=1) - current
            # groups without other datasets get new effects, except the dataset's current group
            new = (count == 0) & ~current
            drawn = self.kinds[..., None] * self.rng.standard_normal(self.groups.shape)
            self.groups = np.where(new[..., None], drawn, self.groups)
            gaps = left[of][:, None] - scale[of][:, None] * self.groups
            known = self.known[of][:, None]
            fit = np.sum(gaps**2 / variances[of][:, None], axis=2, where=known) / -2
            share = _NEW / np.sum(count == 0, axis=1, keepdims=True)
            self.group[of] = self._pick(fit + np.log(np.where(count > 0, count, share)))
        one = (self.group[:, None, :] == places[:, None]).astype(np.float64)
        precision = self.there / variances
        total = np.matmul(one, precision * scale**2) + self.kinds[..., None] ** -2
        self.groups = np.matmul(one, precision * scale * left) / total
        self.groups += self.rng.standard_normal(total.shape) / np.sqrt(total)
        # effects and kinds can trade a component that all groups share
        used = one.any(axis=2)
        sums = np.sum(self.groups, axis=1, where=used[..., None])
        total = self.spread**-2 + used.sum(axis=1, keepdims=True) * self.kinds**-2
        shift = (sums * self.kinds**-2 - self.effect * self.spread**-2) / total
        shift += self.rng.standard_normal(shift.shape) / np.sqrt(total)
        self.effect = self.effect + shift
        self.groups -= shift[:, None, :]
        self.kind = np.take_along_axis(self.groups, self.group[..., None], axis=1)
        squares = np.sum(self.groups**2, axis=(1, 2), where=used[..., None])[:, None]
        number = used.sum(axis=1, keepdims=True) * shift.shape[1]
        density = -number * _GRID - squares * np.exp(-2 * _GRID) / 2
        self.kinds = np.exp(_GRID[self._pick(density + _half_cauchy(_GRID, _KINDS))])[:, None]

    def _deviation_of_rest(self) -> None:
        for reach in (1.7 / math.sqrt(self.y[0].size), 1.0):
            new = self.rest + reach * self.rng.standard_normal(self.rest.shape)
            prior = _half_cauchy(new, _UNIT) - _half_cauchy(self.rest, _UNIT)
            self._move(np.where(_within(new), prior, -np.inf), rest=new)

    def _factors(self) -> None:
        for name, spread in (("scale", self.scales), ("own", self.owns), ("error", _ERRORS)):
            old = getattr(self, name)
            reach = 1.5 * np.minimum(spread, self.reach)
            new = old + reach * self.rng.standard_normal(old.shape)
            self._move((old**2 - new**2) / (2 * np.square(spread)), **{name: new})

    def _spread_of_factors(self) -> None:
        """Rescale all factors together, then sample their standard deviation."""
        for name, names in (("scale", "scales"), ("own", "owns")):
            old, spread = getattr(self, name), getattr(self, names)
            stretch = np.exp(0.7 * self.rng.standard_normal(spread.shape))
            log, new = np.log(spread * stretch), old * stretch
            fits = _within(log) & (np.abs(new).max(axis=1, keepdims=True) < 20)
            prior = _half_cauchy(log, _FACTORS) - _half_cauchy(np.log(spread), _FACTORS)
            new = {name: np.where(fits, new, old), names: spread * stretch}
            self._move(np.where(fits, prior, -np.inf), **new)
            squares = np.sum(getattr(self, name) ** 2, axis=1, keepdims=True)
            density = -old.shape[1] * _GRID - squares * np.exp(-2 * _GRID) / 2
            place = self._pick(density + _half_cauchy(_GRID, _FACTORS))
            setattr(self, names, np.exp(_GRID[place])[:, None])

    def _tails(self) -> None:
        square = np.exp(2 * (self.rest + self.own + self.scale))[..., None]
        wide = square / self.weight
        error = np.exp(self.error)[..., None] * self.errors
        share = np.where(self.known, wide / (wide + error), 0.0)
        noise = self.rng.standard_normal(wide.shape) * np.sqrt(wide * (1 - share))
        self._rest = share * self._residuals(self.scale) + noise
        tail = self.tail[:, None, None]
        gamma = self.rng.standard_gamma(np.broadcast_to((tail + 1) / 2, wide.shape))
        self.weight = np.maximum(2 * gamma / (tail + self._rest**2 / square), 1e-8)
        sums = self.weight.sum(axis=(1, 2)), np.log(self.weight).sum(axis=(1, 2))
        half = _TAILS / 2
        density = self.weight[0].size * (half * np.log(half) - _LOG_GAMMA)
        density = density + sums[1][:, None] * (half - 1) - sums[0][:, None] * half
        self.tail = _TAILS[self._pick(density)]

    def _move(self, prior, **new) -> None:
        """A Metropolis step per chain or dataset; `prior` is the gain in log prior density, (B, 1)
        or (B, D)."""
        fit = self._likelihood(**new)
        gain = fit - self.fit
        gain = prior + (gain.sum(axis=1, keepdims=True) if prior.shape[1] == 1 else gain)
        moves = np.log(self.rng.random(gain.shape)) < gain
        self.fit = np.where(moves, fit, self.fit)
        for name, value in new.items():
            setattr(self, name, np.where(moves, value, getattr(self, name)))

    def _pick(self, density) -> np.ndarray:
        """(B,) an index sampled from each row of log probabilities (B, G)."""
        sums = np.cumsum(np.exp(density - density.max(axis=1, keepdims=True)), axis=1)
        drawn = self.rng.random((len(sums), 1)) * sums[:, -1:]
        return np.minimum(np.sum(sums < drawn, axis=1), sums.shape[1] - 1)


def _half_cauchy(logs, median: float) -> np.ndarray:
    """Log density, up to a constant, of the logarithm of a half-Cauchy variable."""
    return logs - np.log1p(np.exp(2 * (logs - math.log(median))))


def _uniform_share(logs) -> np.ndarray:
    """Log density of log s if s^2 / (s^2 + 1) is uniform."""
    return 2 * (logs - np.log1p(np.exp(2 * logs)))


def _within(logs) -> np.ndarray:
    return (logs > _BOUNDS[0]) & (logs < _BOUNDS[1])
