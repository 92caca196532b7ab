"""The plan: every job that a configuration asks for, and the fingerprint of what each will leave."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from permafrost.backbones.input.fit import STRICT
from permafrost.core.environment import ROLE
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.plugins import places_of
from permafrost.core.tasks import targets_of
from permafrost.core.versions import installed_versions
from permafrost.data.digest import without_places
from permafrost.features.dates import without_dates
from permafrost.metrics.tasks import added_metrics
from permafrost.plan.catalogue import result_fields
from permafrost.plan.configuration import Configuration
from permafrost.plan.grid import LABELS, Grid
from permafrost.plan.groups import groups_of
from permafrost.plan.misfits import recorded_misfits
from permafrost.plan.options import (
    FEEDING,
    extraction_of,
    feeding_of,
    feeding_options,
    of_forward_pass,
    views_of,
)
from permafrost.plan.sources import code_hash, stage_libraries
from permafrost.probes.kinds import KINDS


@dataclass(frozen=True)
class Job:
    """The input of a stage: a specification (canonical JSON), a hash of its sources, and the fingerprint of both.

    Attributes
    ----------
    places : where the files lie that the spec names by their content; never part of the identity.
    """

    spec: str
    code: str
    fingerprint: str
    places: dict = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Stage:
    """All jobs of one stage.

    Attributes
    ----------
    labels : what a job is named by, such as dataset and backbone.
    job : makes a job from the values of `labels`.
    every : these values, for each job.
    """

    name: str
    labels: tuple[str, ...]
    job: Callable[..., Job]
    every: list[tuple]


class Plan(Grid):
    """All jobs of a configuration. Look-ups are cached, and read no file after construction.

    Every job's spec holds, under ``inputs``, the fingerprints of the jobs whose output it reads.
    So a fingerprint stands for the whole history of a result, and what changed upstream
    changes it, whatever the time stamps of files say.

    Parameters
    ----------
    config, root, where, checked : see `Configuration`, which raises what is wrong with them.
    """

    def __init__(
        self,
        config: dict,
        root: Path,
        *,
        where: str = "the configuration",
        checked: bool = False,
    ) -> None:
        chosen = Configuration(config, Path(root), where=where, checked=checked)
        super().__init__(chosen)
        self.data_root = chosen.data_root
        self.environments, self.keep_misfits = chosen.environments, chosen.keep_misfits
        self._identified, self._sources = chosen.identified, chosen.sources
        self._published, self._plugins = chosen.published, chosen.plugins
        if "suite" in self.config:
            self.config["suite"]["data"] = self._data_digest(self.named_datasets)

    def _data_digest(self, datasets: dict[str, dict]) -> str:
        """What identifies the datasets, whichever backbones fit them: their entries, and what their files hold."""
        entries = {name: result_fields(entry) for name, entry in datasets.items()}
        return fingerprint(
            {name: [without_places(entries[name])[0], self._sources[name]] for name in entries}
        )

    def stages(self) -> list[Stage]:
        """Every stage with its jobs, in the order of the flow."""
        return [
            Stage(stage, LABELS[stage], getattr(self, stage), names)
            for stage, names in self.every().items()
        ]

    def jobs(self) -> Iterator[Job]:
        """Every job of the plan, in the order of the flow."""
        for stage in self.stages():
            for names in stage.every:
                yield stage.job(*names)

    @property
    def hash(self) -> str:
        """Names the whole plan: it changes when any result of it would."""
        return self.report().fingerprint

    # --- the jobs ------------------------------------------------------------------------------

    @functools.cache  # noqa: B019  a plan lives as long as the process
    def prepare(self, dataset: str) -> Job:
        entry, places = without_places(result_fields(self.datasets[dataset]))
        matched, paths = self._matched(dataset)
        return self._job(
            "prepare",
            places={"entry": places, **({"matched": paths} if matched else {})},
            dataset=dataset,
            entry=entry,
            source=self._sources[dataset],
            **({"matched": matched} if matched else {}),
            **_order_of(entry.get("modalities")),
        )

    def _matched(self, dataset: str) -> tuple[dict, dict]:
        """By backbone, the embeddings that every image must have, and their paths: with ``unmatched: drop``."""
        matched, paths = {}, {}
        for name in self.backbones_on(dataset):
            known = self._identified[name]
            if known.entry.get("unmatched") == "drop":
                how = {key: known.entry[key] for key in ("rasters", "table") if key in known.entry}
                matched[name] = {**how, "digest": known.digests["files"]["embeddings"]}
                paths[name] = known.places["entry"]
        return matched, paths

    @functools.cache  # noqa: B019
    def extract(self, dataset: str, backbone: str) -> Job:
        return self._job(
            "extract",
            dataset=dataset,
            backbone=backbone,
            **self._running(dataset, backbone, extraction_of),
            inputs={"images": self.prepare(dataset).fingerprint},
        )

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
                else {"inputs": {"features": self.extract(dataset, backbone).fingerprint}}
            ),
        )

    def _dates(self, dataset: str, backbone: str) -> str:
        """The dates of features of a sample: one where the backbone is fed all of its images at once."""
        together = self.backbones[backbone]["input"].get("dates") == "all"
        return "one" if together else self.datasets[dataset]["dates"]

    def _running(self, dataset: str, backbone: str, options_of: Callable) -> dict:
        """The fields of a job that runs the backbone; `options_of` selects what its stage depends on."""
        known = self._identified[backbone]
        # a pair that no policy had to do anything for has the features that it has under strict
        options = feeding_options(self.config, self._policy(dataset, backbone))
        entry, extraction = options_of(self.datasets[dataset]["task"], known.entry, options)
        return {"entry": entry, "extraction": extraction, **known.digests, "places": known.places}

    def _policy(self, dataset: str, backbone: str) -> str | None:
        """The policy that the pair needs; None where only its job can tell."""
        if not self._fed_images(backbone):
            return STRICT
        cell = self.cells.get((dataset, backbone))
        return None if cell is None else cell.policy

    def _from_images(self, dataset: str, backbone: str) -> dict:
        """The fields of a probe that runs the backbone itself."""
        run = self._running(dataset, backbone, feeding_of)
        places, images = run.pop("places"), self.prepare(dataset).fingerprint
        inputs = {"images": images, "backbone": fingerprint(run, images)}
        return {**run, "inputs": inputs, "places": places}

    @functools.cache  # noqa: B019
    def bootstrap(self, dataset: str, backbone: str, probe: str, seed: int) -> Job:
        return self._job(
            "bootstrap",
            dataset=dataset,
            backbone=backbone,
            probe=probe,
            seed=seed,
            task=self._answers(dataset, probe),
            options={**self.config["bootstrap"], **self._calibration(dataset, probe)},
            inputs={"predictions": self.probe(dataset, backbone, probe, seed).fingerprint},
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
        )

    def _answers(self, dataset: str, probe: str) -> str:
        """What the predictions of a probe on a dataset are read as."""
        return KINDS[self.probes[probe]["kind"]].answers or self.datasets[dataset]["task"]

    @functools.cache  # noqa: B019
    def measure(self, dataset: str, backbone: str) -> Job:
        return self._job(
            "measure",
            dataset=dataset,
            backbone=backbone,
            options=without_dates(self._measures.of_features, self._dates(dataset, backbone)),
            inputs={
                "features": self.extract(dataset, backbone).fingerprint,
                **(
                    {"views": self.views(dataset, backbone).fingerprint}
                    if self._views and self._is_viewed(dataset, backbone)
                    else {}
                ),
            },
        )

    @functools.cache  # noqa: B019
    def views(self, dataset: str, backbone: str) -> Job:
        return self._job(
            "views",
            dataset=dataset,
            backbone=backbone,
            **self._running(dataset, backbone, views_of),
            split=self._measures.split,
            augmentations=self._views,
            inputs={"images": self.prepare(dataset).fingerprint},
        )

    @functools.cache  # noqa: B019
    def similarity(self, dataset: str) -> Job:
        backbones = self.backbones_on(dataset)
        features = {name: self.extract(dataset, name).fingerprint for name in backbones}
        return self._job(
            "similarity",
            dataset=dataset,
            options=without_dates(self._measures.of_pairs, self.datasets[dataset]["dates"]),
            inputs={"features": features},
        )

    @functools.cache  # noqa: B019
    def profile(self, dataset: str, backbone: str) -> Job:
        run = self._running(dataset, backbone, extraction_of)
        return self._job(
            "profile",
            dataset=dataset,
            backbone=backbone,
            **{**run, "extraction": of_forward_pass(run["extraction"])},
            options=self._profile,
            inputs={"images": self.prepare(dataset).fingerprint},
        )

    @functools.cache  # noqa: B019
    def aggregate(self) -> Job:
        # one hash stands for the thousands of scores, whose names the recorded plan lists
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
            # pairs, since canonical JSON has no order of keys
            groups=list(groups_of(self.named_datasets, self.config["groups"]).items()),
            ranking=self.config["ranking"],
            **({"published": published} if published else {}),
            **({"left_out": recorded_misfits(self.misfits)} if self.misfits else {}),
            cells=sorted((self.fed(*names) for names in self.pairs()), key=_place),
            **({"fit": self.config["fit"]} if self.config["fit"] != STRICT else {}),
            **({"suite": _without_title(self.config["suite"])} if "suite" in self.config else {}),
            inputs={
                "scores": fingerprint(sorted(scores)),
                **_if_any(measures=measures, profiles=profiles),
            },
        )

    def fed(self, dataset: str, backbone: str) -> dict:
        """What is known of a cell: ``fit``, ``bands_real``, ``bands_wanted``, and ``input_id``.

        Cells of one dataset with one ``input_id`` are one measurement: the same network, built and run in the same way,
        is fed the same. It is made of the entry but for its `input`, of the files, and of the recipe.
        """
        run = self._running(dataset, backbone, extraction_of)
        del run["places"]
        cell = self.cells.get((dataset, backbone))
        if cell is not None:
            # the recipe is what these lead to
            run["entry"] = {key: value for key, value in run["entry"].items() if key != "input"}
            run["extraction"] = {
                key: value for key, value in run["extraction"].items() if key not in FEEDING
            }
        known = {} if cell is None else cell._asdict()
        facts = {name: known.get(name) for name in ("fit", "bands_real", "bands_wanted")}
        made = fingerprint(run, known.get("recipe"))
        return {"dataset": dataset, "backbone": backbone, **facts, "input_id": made}

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
        """The option ``calibration`` of a job (only some `keys` of it), or nothing where none is judged."""
        options = self.config["calibration"]
        judged = KINDS[self.probes[probe]["kind"]].probabilities
        judged = judged and targets_of(self.datasets[dataset]["task"]).calibrated
        if options is None or not judged:
            return {}
        return {"calibration": {key: options[key] for key in keys or options}}

    def _used(self, stage: str, fields: dict) -> list[str]:
        """Names of the plug-ins on which a job depends, beside its inputs."""
        entry, options = fields.get("entry", {}), fields.get("options") or {}
        source = entry.get("source", {}).get("kind")
        known = {
            f"probes.{options.get('kind')}",
            f"backbones.{entry.get('kind')}",
            f"sources.{source}",
        }
        if stage == "bootstrap":
            known |= {f"metrics.{one.name}" for one in added_metrics(fields["task"])}
        shown = {"aggregate": ("metrics.",), "report": ("metrics.", "probes.")}.get(stage, ())
        return [name for name in self._plugins if name in known or name.startswith(shown)]

    def _job(self, stage: str, *, places: dict | None = None, **fields) -> Job:
        # the lock says the versions in an environment of a backbone's own
        if self.config["versions"] == "rerun" and ROLE not in fields.get("files", {}):
            fields["versions"] = _versions_of(stage)
        content = {"stage": stage, **fields}
        if self._plugins:
            used = {name: self._plugins[name] for name in self._used(stage, fields)}
            content |= {"plugins": used} if used else {}
            places = {**(places or {}), "plugins": places_of(self.config)}
        spec = canonical_json(content)
        code = code_hash(stage, content)
        return Job(spec, code, fingerprint(spec, code), places or {})


def _order_of(modalities: dict | None) -> dict[str, list[str]]:
    """The order of modalities, whose first one masks and boxes lie on, where canonical JSON would lose it."""
    order = list(modalities or ())
    return {} if order == sorted(order) else {"modalities": order}


@functools.cache
def _versions_of(stage: str) -> dict[str, str]:
    """Versions of the packages that a stage computes with, as they are installed."""
    return installed_versions(stage_libraries(stage))


def _place(cell: dict) -> tuple[str, str]:
    return cell["dataset"], cell["backbone"]


def _without_title(suite: dict) -> dict:
    return {key: value for key, value in suite.items() if key != "title"}


def _if_any(**lists: list) -> dict[str, str]:
    """A hash of each list under its name, without those that are empty."""
    return {name: fingerprint(sorted(items)) for name, items in lists.items() if items}
