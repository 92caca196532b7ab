"""Read a folder of results as data frames and arrays."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from permafrost.core.errors import PermafrostError, look_up, near_names
from permafrost.core.tables import read_table
from permafrost.features.stored import open_features
from permafrost.interface.frames import Figures
from permafrost.interface.plots import Plot
from permafrost.plan.recorded import current_plan, planned, read_plan, results_in
from permafrost.report.sections.explorer import explorer
from permafrost.report.sections.overview import figures_of
from permafrost.report.tables.agreeing import COLUMNS as AGREEMENT
from permafrost.report.tables.agreeing import AgreementResults
from permafrost.report.tables.copied import COLUMNS, SUSPECT_COLUMNS, CopyResults
from permafrost.report.tables.ensembles import WAYS, EnsembleResults, ensemble_rows
from permafrost.report.tables.portfolio import each_portfolio, portfolio_rows
from permafrost.report.tables.several import SeveralResults, area_rows, each_area, each_loss
from permafrost.report.tables.sliced import SlicedResults, slice_rows
from permafrost.report.tables.suspected import LabelResults
from permafrost.statistics.leaderboard.derived import DerivedLine, set_apart
from permafrost.statistics.leaderboard.harder import Loss, losses_of
from permafrost.statistics.leaderboard.rows import overall
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS
from permafrost.statistics.slices.labels import slicing

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class Results:
    """The results of a run.

    Parameters
    ----------
    folder : the folder of results, a file in it, or a project's folder; it may have been moved.

    Raises
    ------
    PermafrostError : the folder has no recorded run.

    Examples
    --------
    .. code-block:: python

        results = pf.Results("results")
        results.leaderboard                              # one row per dataset, probe and backbone
        results.standings.query("statistic == 'mean_rank'")
        train = results.features("eurosat", "resnet50", "train")
    """

    def __init__(self, folder="results") -> None:
        self.folder = results_in(folder)
        self.plan = read_plan(current_plan(self.folder))

    @property
    def backbones(self) -> list[str]:
        """Names of the backbones, sorted."""
        return sorted(self.plan["backbones"])

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, sorted."""
        return sorted(self.plan["datasets"])

    @property
    def left_out(self) -> list[dict]:
        """Pairs that do not fit: ``dataset``, ``backbone``, ``probe`` (None: all) and ``reason``."""
        return self.plan.get("left_out", [])

    @property
    def probes(self) -> list[str]:
        """Names of the probes, sorted."""
        return sorted(self.plan["probes"])

    @cached_property
    def scores(self) -> pd.DataFrame:
        """All rows of the leaderboard: metrics, classes, settings, feature metrics and costs."""
        return self._fixed("leaderboard.parquet").to_pandas()

    @property
    def leaderboard(self) -> pd.DataFrame:
        """The primary metric, best first: one row per dataset, probe, backbone and seed."""
        rows = self.scores
        rows = rows[rows["primary"] & rows["class"].isna() & rows["setting"].isna()]
        columns = ["dataset", "probe", "rank", "backbone", "seed", "metric", "value", "lower", "upper",
                   "confidence", "n_units", "unit", "gates"]  # fmt: skip
        ordered = rows.sort_values(["dataset", "probe", "rank", "backbone", "seed"])
        return Figures(ordered[columns].reset_index(drop=True))

    @property
    def standings(self) -> pd.DataFrame:
        """Overall rankings over groups of datasets; docs/ranking.md describes the statistics."""
        return self._fixed("standings.parquet").to_pandas()

    @property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences between all pairs of backbones, for each dataset and probe."""
        # tables of failed jobs are missing
        made = [row for row in self._planned("compare") if self._path(row).exists()]
        tables = [self._table(row).to_pandas() for row in made]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    @property
    def derived(self) -> pd.DataFrame:
        """Derived backbones compared with those that they are derived from: a row per dataset, probe and pair.

        Columns: ``dataset, probe, backbone, parent, value, parent_value, difference`` (value less the parent's),
        ``lower, upper, p_adjusted, verdict`` (better, worse, alike, untested), ``bytes`` and ``parent_bytes`` of a
        sample, ``depth`` and ``block`` (its name) of what is read in place of the parent's output. Empty if there are
        none.
        """
        return pd.DataFrame(
            [
                {
                    **{key: one.row[key] for key in ("dataset", "probe", "backbone")},
                    "parent": one.parent,
                    "value": one.row["value"],
                    "parent_value": one.full,
                    **{
                        key: getattr(one, key)
                        for key in (
                            "difference",
                            "lower",
                            "upper",
                            "p_adjusted",
                            "verdict",
                            "bytes",
                        )
                    },
                    "parent_bytes": one.bytes_of_parent,
                    "depth": one.depth,
                    "block": one.block and one.block["name"],
                }
                for one in self._set_apart[2]
            ]
        )

    @property
    def harder(self) -> pd.DataFrame:
        """What is lost on harder images: a row per dataset, degradation, severity, probe and backbone.

        Columns: ``of`` (the dataset whose test images are degraded), ``dataset`` (that of the harder images),
        ``degradation, severity, probe, backbone, metric, clean`` and ``value`` (the scores on clean and on harder
        images), ``loss`` (the share of the score that is lost) with its paired interval ``lower, upper``, and
        ``unchanged``: the backbone reads none of the changed bands, and has no loss. Empty if there are none.
        """
        found = losses_of(read_table(self.folder / "leaderboard.parquet")[0].to_pylist())
        return pd.DataFrame(
            [asdict(one) for one in found], columns=[one.name for one in fields(Loss)]
        )

    @property
    def areas(self) -> pd.DataFrame:
        """Areas under curves of label shares: a row per derived dataset with several shares, probe and backbone.

        Columns: ``curve`` (its name), ``of`` (the dataset), ``probe, backbone, metric, area`` (the mean score over the
        logarithm of the share) with its interval ``lower, upper, confidence``, ``scores`` (share -> score) and
        ``letters``: two backbones share one if their areas do not differ significantly. Empty if there are none.
        """
        found = each_area(self.plan, self._several.runs)
        return pd.DataFrame([row for one in found for row in area_rows(*one)])

    @property
    def transfers(self) -> pd.DataFrame:
        """Scores of transfers: a row per transfer, probe, backbone, and pair of datasets, each with itself among them.

        Columns: ``matrix`` (its name), ``probe, backbone, train, test, metric, value``; ``own``, the score of training
        on the dataset that is tested; ``loss``, own less value, with its paired interval ``lower, upper``. Empty if
        there are none.
        """
        found = each_loss(self.plan, self._several.runs)
        return pd.DataFrame([asdict(one) for _, rows in found for one in rows])

    @property
    def portfolios(self) -> pd.DataFrame:
        """Small sets of backbones that contain, for every dataset, one nearly as good as the best of all.

        A row per probe and size of the set, from one to five. Columns: ``probe, size, backbones`` (joined by
        semicolons, in the order of selection), ``loss`` (the mean over datasets of the best score of all minus the best
        of the set, each dataset judged with the set that is chosen on the others) with its interval over
        datasets ``lower, upper, confidence``; ``worst``, the dataset with the largest loss, and ``worst_loss``.
        Probes with fewer than three datasets have none. Derived backbones and datasets do not count.
        """
        lines = merge_seeds(overall(self._set_apart[0]))
        derived = [name for name, one in self.plan["datasets"].items() if one.get("derived")]
        found = each_portfolio(lines, derived)
        return pd.DataFrame([row for one in found for row in portfolio_rows(*one)])

    @property
    def _several(self) -> SeveralResults:
        return SeveralResults(self.plan, self._path)

    @cached_property
    def _set_apart(
        self,
    ) -> tuple[list[dict], dict[tuple[str, str], list[dict]], list[DerivedLine]]:
        """As `permafrost.statistics.leaderboard.derived.set_apart`, of this folder."""
        table, about = read_table(self.folder / "leaderboard.parquet")
        compared = {
            (row["dataset"], row["probe"]): self._table(row).to_pylist()
            for row in self._planned("compare")
            if self._path(row).exists()
        }
        return set_apart(table.to_pylist(), compared, about)

    def predictions(
        self, dataset: str, backbone: str, probe: str, seed: int | None = None
    ) -> pd.DataFrame:
        """One row per test sample: id, group, target, prediction and, for classes, scores.

        Parameters
        ----------
        seed : required if the probe ran with several seeds.

        Raises
        ------
        PermafrostError : a name or the seed is unknown, or the table is missing or altered.
        """
        names = {"dataset": dataset, "backbone": backbone, "probe": probe}
        rows = self._planned("probe", **names)
        seeds = {row["seed"]: row for row in rows}
        if seed is None and len(seeds) == 1:
            (seed,) = seeds
        if seed not in seeds:
            raise PermafrostError(
                f"{probe} ran on {dataset} with the seeds {', '.join(map(str, sorted(seeds)))}",
                where=self.folder,
                remedy="name one of them: seed=…",
            )
        return self._table(seeds[seed]).to_pandas()

    def slices(
        self,
        by: str,
        dataset: str,
        *,
        probe: str | None = None,
        backbone: str | None = None,
        seed: int | None = None,
        metric: str | None = None,
        least: int = ENOUGH_UNITS,
    ) -> pd.DataFrame:
        """Scores on slices of a test set: where a backbone fails. One row per probe and slice.

        Parameters
        ----------
        by : ``group``, ``latitude`` (``latitude:30``: bands of 30 degrees), ``cell`` (``cell:5``, ``cell:500km``),
            ``season``, ``month``, ``year``, ``fold``, ``distance`` to the nearest train image, or ``FILE:COLUMN`` of a
            CSV or parquet file with ``sample_id`` or ``group_id``.
        probe, backbone, seed : by default each probe, its best backbone, and its lowest seed.
        metric : with one number per test set; by default the primary one.
        least : slices with fewer independent units are not judged.

        Returns
        -------
        Columns ``dataset, probe, backbone, seed, by, slice, metric, value, lower, upper, confidence``; ``n_test,
        n_units, unit``; ``rest``, the score on all other samples; ``judged``; ``p_adjusted`` of "worse than the
        rest", adjusted for all judged slices; ``gates``. The same in all rows of a probe: ``worst``, the judged slice
        with the worst value, and bounds ``worst_lower, worst_upper`` that allow for its selection; ``spread``, the
        standard deviation of the true scores of the slices; ``gap`` of the best and the worst, and ``gap_by_chance``;
        ``n_unknown``, samples without a slice.
        docs/which-evaluation-when.md says what follows from them.

        Raises
        ------
        PermafrostError : an unknown name; no place or date of the samples is known, or their stores were deleted; all
            samples are of one slice.
        """
        sliced = SlicedResults(self.plan, self._path, self._set_apart[0])
        way, rows = slicing(by), []
        for row in sliced.evaluations(dataset=dataset, probe=probe, backbone=backbone, seed=seed):
            rows += slice_rows(sliced.scores(row, way, metric=metric, least=least))
        return Figures(rows)

    def ensembles(
        self, dataset: str, probe: str, way: str = "pair", *, metric: str | None = None
    ) -> pd.DataFrame:
        """Averages of the probabilities (numbers) that a probe predicts with several backbones: one row per ensemble.

        Parameters
        ----------
        way : ``pair``, all pairs, the best first; or ``greedy``, ensembles of two to five backbones, each with the one
            more that makes the average best.
        metric : by default the primary one.

        Returns
        -------
        Columns ``dataset, probe, way, backbones`` (joined by semicolons), ``size, metric, value``; ``single``, of a
        pair its better half, else the best backbone, and ``single_value``; ``difference``, value less single_value,
        with its paired interval ``lower, upper``; ``p_value, p_adjusted, confidence, better, gates``. A pair is better
        if it is significantly better than each of its halves. The value of a greedy ensemble is that of answers to
        each fifth of the units by backbones chosen on the others. Derived backbones are left out.

        Raises
        ------
        PermafrostError : an unknown name; the probe has no probabilities; fewer than two backbones.
        """
        look_up(WAYS, way, "there are no ensembles by", remedy=f"name one of {', '.join(WAYS)}")
        known = EnsembleResults(self.plan, self._path, self._set_apart[0])
        (row,) = known.evaluations(dataset=dataset, probe=probe)
        return Figures(ensemble_rows(row, way, known.ensembles(row, way, metric)))

    def labels(
        self,
        dataset: str,
        *,
        probe: str | None = None,
        seed: int | None = None,
        backbones: Iterable[str] | None = None,
    ) -> JudgedLabels:
        """Suspected wrong labels of a dataset, scores without them, and the difficulty of its images.

        Parameters
        ----------
        probe : by default ``linear`` if it was run, else the first. seed : by default the lowest.
        backbones : those that judge; by default all that read images.

        Raises
        ------
        PermafrostError : an unknown name; a dataset whose images have no classes; no predictions, or no probabilities.
        """
        judges = None if backbones is None else list(backbones)
        source = LabelResults(self.plan, self._path)
        found = source.judged(dataset, probe=probe, seed=seed, backbones=judges)
        return JudgedLabels(
            pd.DataFrame(found.images()), pd.DataFrame(found.backbones()), found.summary()
        )

    def copies(self, dataset: str | None = None, *, features: str | None = None) -> pd.DataFrame:
        """Test images that are images of another dataset of the run: equal pixels, or similar ones.

        Columns: ``dataset, sample_id, other_dataset, other_split, other_sample_id, kind`` (exact or near); one row per
        test image and split of another dataset. It reads all image stores.

        Parameters
        ----------
        dataset : only pairs of this one.
        features : a backbone, whose features are compared in place of pixels. Rows are possible copies that were cut,
            mirrored or changed, with ``ratio`` of the distances to the nearest and the second nearest image, and
            ``by_chance``, the number of rows of the pair of datasets that is expected without any copy.

        Raises
        ------
        PermafrostError : an unknown name, fewer than two datasets, or a deleted store.
        """
        images = CopyResults(self.plan, self._path)
        if features is not None:
            return pd.DataFrame(images.suspected(features, dataset), columns=SUSPECT_COLUMNS)
        return pd.DataFrame(images.copied(dataset).rows, columns=COLUMNS)

    def agreement(
        self,
        dataset: str,
        other: str,
        *,
        backbones: tuple[str, str] | None = None,
        split: str = "test",
        centred: bool = True,
    ) -> pd.DataFrame:
        """Whether features of the same places by two sensors resemble each other: one row per measure.

        Columns: ``dataset, other_dataset, backbone, other_backbone, measure`` (recall@1, 5, 10 of the same place by
        cosine, or cka: debiased linear CKA), ``direction`` (``a to b``: places of `dataset` are sought in `other`),
        ``value, lower, upper``, ``by_chance`` (of CKA, the mean of 20 random pairings), ``places, unit, n_units``.

        Parameters
        ----------
        backbones : one on `dataset` and one on `other`; by default each backbone with itself.
        split : train, val, test or all. centred : subtract the mean of each sensor first.

        Raises
        ------
        PermafrostError : an unknown name, deleted features, or no samples with the same names.
        """
        pairs = [] if backbones is None else [backbones]
        rows = AgreementResults(self.plan, self._path).agreeing(
            dataset, other, pairs, split=split, centred=centred
        )
        return pd.DataFrame(rows, columns=AGREEMENT)

    def features(self, dataset: str, backbone: str, split: str = "test") -> FeatureSplit:
        """The features of one split of a dataset.

        Raises
        ------
        PermafrostError : a name is unknown, the store was deleted, or it has only maps.
        """
        rows = self._planned("extract", dataset=dataset, backbone=backbone, split=split)
        store = open_features(self._path(rows[0]), expect=rows[0]["fingerprint"], split=split)
        if "embeddings" not in store:
            raise PermafrostError(
                f"the store of {backbone} on {dataset} holds maps and no embeddings",
                where=store.path,
            )
        samples = store.samples().to_pandas()
        labels = store.read("labels") if "labels" in store else None
        return FeatureSplit(store.read("embeddings"), labels, samples, dict(store.attributes))

    def plot_ranked(self, probe: str | None = None, group: str = "all") -> Plot:
        """Backbones by mean rank over a group (of one dataset: by score), with significance groups.

        Parameters
        ----------
        probe : by default ``linear`` if it was run, else the first.
        group : group of datasets, as in the standings.

        Raises
        ------
        PermafrostError : the run has no such ranking, or no data for this figure.
        """
        return self._plot("ranked", probe, group)

    def plot_cost(
        self, probe: str | None = None, group: str = "all", *, cost: str = "parameters"
    ) -> Plot:
        """Score against cost, with the Pareto front; arguments and errors as in `plot_ranked`.

        Parameters
        ----------
        cost : ``parameters``, or ``ms`` (milliseconds per image).
        """
        return self._plot(f"cost_{cost}", probe, group)

    def plot_critical(self, probe: str | None = None, group: str = "all") -> Plot:
        """Critical-difference diagram (Nemenyi test) over several datasets; as `plot_ranked`."""
        return self._plot("critical", probe, group)

    def plot_probes(self, probe: str | None = None, group: str = "all") -> Plot:
        """Ranks by one probe against those by the others, with Kendall's tau; as `plot_ranked`."""
        return self._plot("probes", probe, group)

    def _plot(self, name: str, probe: str | None, group: str) -> Plot:
        data, tests = self._explored
        groups = data["standings"]
        look_up(groups, group, "the run has no ranking over", where=self.folder)
        if probe is None:
            probe = "linear" if "linear" in groups[group] else next(iter(groups[group]))
        problem = f"the run has no ranking over {group!r} with"
        look_up(groups[group], probe, problem, where=self.folder)
        found = figures_of(data, tests, group, probe)
        if name not in found:
            raise PermafrostError(
                f"the run has no data for the figure {name!r} of {probe} over {group}",
                where=self.folder,
                remedy=f"it has {', '.join(found)}",
            )
        return Plot(found[name])

    @cached_property
    def _explored(self) -> tuple[dict, list[dict]]:
        """The data of the report's first page, and the tests of the standings."""
        table, about = read_table(self.folder / "standings.parquet")
        rows, compared, _ = self._set_apart
        tests = about.get("tests", [])
        return explorer(self.plan, rows, compared, standings=table.to_pylist(), tests=tests), tests

    def _repr_html_(self) -> str:
        try:
            board = self.leaderboard.drop(columns=["confidence", "unit", "n_units", "gates"])
        except PermafrostError as error:
            return f"<p>{html.escape(str(error))}</p>"
        return board.to_html(index=False, float_format=lambda value: f"{value:.3f}")

    def __repr__(self) -> str:
        counts = [
            f"{len(each)} {name}"
            for name, each in (
                ("backbones", self.backbones),
                ("datasets", self.datasets),
                ("probes", self.probes),
            )
        ]
        return f"Results({str(self.folder)!r}: {', '.join(counts)})"

    def _planned(self, stage: str, **names) -> list[dict]:
        """Rows of a stage's outputs with these labels; an unknown name is refused."""
        rows = planned(self.plan, stage)
        for key, value in names.items():
            known = {row[key] for row in rows}
            look_up(known, value, f"the run has no {key}", where=self.folder)
            rows = [row for row in rows if row[key] == value]
        return rows

    def _path(self, row: dict) -> Path:
        return self.folder / row["path"].removeprefix(f"{self.plan['results']}/")

    def _table(self, row: dict) -> pa.Table:
        return read_table(self._path(row), expect=row["fingerprint"])[0]

    def _fixed(self, name: str) -> pa.Table:
        return read_table(self.folder / name)[0]


@dataclass(frozen=True)
class JudgedLabels:
    """The labels of a dataset, judged by several backbones; docs/wrong-labels.md says what follows.

    Attributes
    ----------
    images : one row per image, suspects first: ``sample_id``, ``label`` (of images with several labels there is a row
        for each, which is absent or present; else None), ``suspect``, ``given`` and ``proposed`` class, ``votes`` of
        ``backbones``; mean ``given_probability`` and ``margin`` to the best other class; number of backbones
        ``wrong``, ``difficulty`` (logits), ``discrimination``, and ``decides_for``, the one of the first two backbones
        that is right alone.
    backbones : one row each, best first: ``accuracy`` and ``rank`` on all images and without suspects (``_without``),
        ``ability`` (logits), and the number of labels that it ``contradicted``.
    summary : numbers of images, labels and suspects; ``found_if_wrong``, the share of random wrong labels that would be
        suspects; shares of images on which all are wrong (``all_wrong``), and in the same way (``same_wrong``).
    """

    images: pd.DataFrame
    backbones: pd.DataFrame
    summary: dict


class FeatureSplit:
    """Features of one split, in the order of its samples.

    Attributes
    ----------
    x : (N, d) embeddings; (N, T, d) of series of T dates.
    y : (N,) class ids or regression targets, (N, L) labels of 0 and 1, or None.
    samples : one row per sample: ``sample_id``, ``group_id``, …
    groups : (N,) names of the groups, the sample's id if it has no group; None: no groups.
    classes : names of the classes, by id.
    attributes : metadata of the store: backbone, dataset and input.
    """

    def __init__(
        self, x: np.ndarray, y: np.ndarray | None, samples: pd.DataFrame, attributes: dict
    ):
        self.x, self.y, self.samples, self.attributes = x, y, samples, attributes

    @property
    def groups(self) -> np.ndarray | None:
        known = self.samples.get("group_id")
        if known is None or known.isna().all():
            return None
        return known.fillna(self.samples["sample_id"]).to_numpy(object)

    @property
    def classes(self) -> list[str]:
        return list(self.attributes.get("classes", []))

    def __repr__(self) -> str:
        return f"FeatureSplit(x={self.x.shape}, y={None if self.y is None else self.y.shape})"


def _listed(value, known: Iterable) -> str:
    return near_names(str(value), [str(one) for one in known])
