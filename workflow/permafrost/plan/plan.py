"""The plan: every job of a configuration, with its fingerprint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from permafrost.backbones.input.fit import STRICT
from permafrost.core.identity import fingerprint
from permafrost.core.tasks import targets_of
from permafrost.data.derived import origins_of
from permafrost.features.dates import without_dates
from permafrost.plan.grid import LABELS
from permafrost.plan.groups import groups_of
from permafrost.plan.misfits import recorded_misfits
from permafrost.plan.store_jobs import Job, StoreJobs
from permafrost.probes.kinds import KINDS


@dataclass(frozen=True)
class Stage:
    """All jobs of one stage.

    Attributes
    ----------
    labels : names of a job's labels, such as ``dataset`` and ``backbone``.
    job : gives a job from the values of its labels.
    every : the values of the labels of each job.
    """

    name: str
    labels: tuple[str, ...]
    job: Callable[..., Job]
    every: list[tuple]


class Plan(StoreJobs):
    """All jobs of a configuration. Jobs are cached, and no file is read after construction.

    A job's spec holds, under ``inputs``, the fingerprints of the jobs whose output it reads. So any
    change upstream changes the fingerprint, regardless of time stamps.

    Parameters
    ----------
    config, root, where, checked : as in `Configuration`.

    Raises
    ------
    PermafrostError : as `Configuration`.
    """

    def stages(self) -> list[Stage]:
        """Every stage with its jobs, in the order of the data flow."""
        return [
            Stage(stage, LABELS[stage], getattr(self, stage), names)
            for stage, names in self.every().items()
        ]

    def jobs(self) -> Iterator[Job]:
        """Every job of the plan, in the order of the data flow."""
        for stage in self.stages():
            for names in stage.every:
                yield stage.job(*names)

    @property
    def hash(self) -> str:
        """Identifies the plan: changes if any of its results would change."""
        return self.report().fingerprint

    # --- the jobs ------------------------------------------------------------------------------

    @functools.cache  # noqa: B019
    def probe(self, dataset: str, backbone: str, probe: str, seed: int) -> Job:
        options = self.probes[probe]
        kind = KINDS[options["kind"]]
        return self._job(
            options["kind"],
            dataset=dataset,
            backbone=backbone,
            probe=probe,
            seed=seed,
            options=without_dates(options, self._dates(dataset, backbone)),
            **(
                self._from_images(dataset, backbone)
                if kind.reads == "images"
                else {
                    "inputs": {"features": self.features(dataset, backbone).fingerprint},
                    **self._read_through(dataset, backbone),
                    **({"drawn_on": self.origins[dataset][0]} if dataset in self.losses else {}),
                }
            ),
        )

    @functools.cache  # noqa: B019
    def bootstrap(self, dataset: str, backbone: str, probe: str, seed: int) -> Job:
        inputs = {"predictions": self.probe(dataset, backbone, probe, seed).fingerprint}
        harder: dict[str, Any] = {}
        if dataset in self.losses:
            parent, kind, severity = self.losses[dataset]
            inputs["clean"] = self.probe(parent, backbone, probe, seed).fingerprint
            harder = {"harder": {"of": parent, "degradation": kind, "severity": severity}}
        return self._job(
            "bootstrap",
            dataset=dataset,
            backbone=backbone,
            probe=probe,
            seed=seed,
            task=self._answers(dataset, probe),
            options={**self.config["bootstrap"], **self._calibration(dataset, probe)},
            inputs=inputs,
            **harder,
        )

    @functools.cache  # noqa: B019
    def compare(self, dataset: str, probe: str) -> Job:
        predictions = {
            f"{backbone}/seed{seed}": self.probe(dataset, backbone, probe, seed).fingerprint
            for backbone in self.backbones_on(dataset, probe)
            for seed in self.seeds_of(probe)
        }
        return self._job(
            "compare",
            dataset=dataset,
            probe=probe,
            task=self._answers(dataset, probe),
            options={
                **self.config["comparison"],
                **self._calibration(dataset, probe, "bins", "like"),
            },
            inputs={"predictions": predictions},
            **self._derived([name.rpartition("/")[0] for name in predictions]),
        )

    def _derived(self, backbones: Iterable[str]) -> dict[str, Any]:
        """The field ``derived`` of a job of several backbones: those of them that are derived, to their parents."""
        if self.config["ranking"]["derived"]:
            return {}
        found = {name: self.parents[name] for name in backbones if name in self.parents}
        return {"derived": found} if found else {}

    def _answers(self, dataset: str, probe: str) -> str:
        """The task that a probe's predictions on a dataset are evaluated as."""
        return KINDS[self.probes[probe]["kind"]].answers or self.datasets[dataset]["task"]

    @functools.cache  # noqa: B019
    def measure(self, dataset: str, backbone: str) -> Job:
        return self._job(
            "measure",
            dataset=dataset,
            backbone=backbone,
            options=without_dates(self._measures.of_features, self._dates(dataset, backbone)),
            inputs={
                "features": self.features(dataset, backbone).fingerprint,
                **(
                    {"views": self.views(dataset, backbone).fingerprint}
                    if self._views and self._is_viewed(dataset, backbone)
                    else {}
                ),
            },
            **self._read_through(dataset, backbone),
        )

    @functools.cache  # noqa: B019
    def similarity(self, dataset: str) -> Job:
        backbones = self.roots_on(dataset)
        features = {name: self.extract(dataset, name).fingerprint for name in backbones}
        return self._job(
            "similarity",
            dataset=dataset,
            options=without_dates(self._measures.of_pairs, self.datasets[dataset]["dates"]),
            inputs={"features": features},
        )

    @functools.cache  # noqa: B019
    def aggregate(self) -> Job:
        # one hash replaces thousands of scores; the recorded plan lists their names
        scores = [
            [*evaluation, self.bootstrap(*evaluation).fingerprint]
            for evaluation in self.evaluations()
        ]
        measures = [[*names, self.measure(*names).fingerprint] for names in self.measured()]
        profiles = [[*names, self.profile(*names).fingerprint] for names in self.profiled()]
        published, files = self._published
        return self._job(
            "aggregate",
            places={"published": files} if files else None,
            options=self.config["comparison"],
            # as pairs, because canonical JSON does not keep the order of keys
            groups=list(
                groups_of(
                    {name: one for name, one in self.named_datasets.items() if not origins_of(one)},
                    self.config["groups"],
                ).items()
            ),
            ranking={key: one for key, one in self.config["ranking"].items() if key != "derived"},
            **({"published": published} if published else {}),
            **({"left_out": recorded_misfits(self.misfits)} if self.misfits else {}),
            cells=sorted((self.fed(*names) for names in self.pairs()), key=_place),
            **({"fit": self.config["fit"]} if self.config["fit"] != STRICT else {}),
            **({"suite": _without_title(self.config["suite"])} if "suite" in self.config else {}),
            **self._derived(self.backbones),
            **({"derived_datasets": list(self.origins)} if self.origins else {}),
            inputs={
                "scores": fingerprint(sorted(scores)),
                **_if_any(measures=measures, profiles=profiles),
            },
        )

    @functools.cache  # noqa: B019
    def report(self) -> Job:
        comparisons = [[d, p, self.compare(d, p).fingerprint] for d, p in self.compared()]
        similarities = [[name, self.similarity(name).fingerprint] for name in self.paired()]
        return self._job(
            "report",
            options=self.config["report"],
            inputs={
                "leaderboard": self.aggregate().fingerprint,
                "comparisons": fingerprint(sorted(comparisons)),
                **_if_any(similarities=similarities),
            },
        )

    def _calibration(self, dataset: str, probe: str, *keys: str) -> dict:
        kind, task = self.probes[probe]["kind"], self.datasets[dataset]["task"]
        return calibration_of(self.config["calibration"], kind, task, *keys)

    def changes(self) -> dict[str, list[str]]:
        """Job -> what it read before without declaring it and has changed since."""
        for _ in self.jobs() if self._read else ():
            pass
        return self._read.changes if self._read else {}


def calibration_of(options: dict | None, kind: str, task: str, *keys: str) -> dict:
    """The option ``calibration`` of a job (`keys`: only these); ``{}`` if it does not apply.

    Parameters
    ----------
    options : of the configuration. kind : of the probe. task : of the dataset.
    """
    targets = targets_of(task)
    if options is None or not (KINDS[kind].probabilities and targets.calibrated):
        return {}
    if not targets.one_class:
        options = {key: options[key] for key in options if key != "sets"}
    return {"calibration": {key: options[key] for key in keys or options}}


def _place(cell: dict) -> tuple[str, str]:
    return cell["dataset"], cell["backbone"]


def _without_title(suite: dict) -> dict:
    return {key: value for key, value in suite.items() if key != "title"}


def _if_any(**lists: list) -> dict[str, str]:
    """Name -> hash of its list, without empty lists."""
    return {name: fingerprint(sorted(items)) for name, items in lists.items() if items}
