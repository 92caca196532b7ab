"""The plan: every job that a configuration asks for, and the fingerprint of what each will leave."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.specification import substitute
from permafrost.core.tasks import task_of
from permafrost.core.versions import installed_versions
from permafrost.data.digest import without_places
from permafrost.plan.catalogue import Catalogue, result_fields
from permafrost.plan.demo import NAMED
from permafrost.plan.digests import DIGESTS, DigestCache
from permafrost.plan.extraction import extraction_of, feeding_of, views_of
from permafrost.plan.measuring import measuring
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.probes import KINDS, check_probes, is_seeded
from permafrost.plan.profiling import of_forward_pass, profiling
from permafrost.plan.sources import code_hash, stage_libraries
from permafrost.plan.validation import misfit, problems, without_faults


@dataclass(frozen=True)
class Job:
    """What a stage is told: one canonical JSON string, one hash of its sources, and their fingerprint.

    Attributes
    ----------
    places : where the files lie that the spec names by their content; never part of the identity.
    """

    spec: str
    code: str
    fingerprint: str
    places: dict = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class _Identified:
    """A backbone: its entry without places, digests of its files and its package, and where all that lies."""

    entry: dict
    digests: dict
    places: dict


class Plan:
    """All jobs of a configuration. Look-ups are cached, and read no file after construction.

    Every job's spec holds, under ``inputs``, the fingerprints of the jobs whose output it reads.
    So a fingerprint stands for the whole history of a result, and what changed upstream
    changes it, whatever the time stamps of files say.

    Parameters
    ----------
    config : the configuration; validated and completed with defaults in place.
    root : the directory that relative paths in the configuration refer to.
    where : the files the configuration was read from, for error messages.
    checked : entries were judged when the run was planned: a job on a cluster plans again, and need not.

    Raises
    ------
    PermafrostError : everything that is known to be wrong before a job runs, as one list.
    """

    def __init__(
        self,
        config: dict,
        root: Path,
        *,
        where: str = "the configuration",
        checked: bool = False,
    ) -> None:
        mistakes = Mistakes()
        faults = problems(config, "config")
        faults |= {f"{key}: missing": (key,) for key in NAMED if key not in config}
        mistakes.add(*(misfit(text, "config", where=where) for text in faults))
        self.config, self.root, self.where = config, Path(root), where
        config = without_faults(config, faults) if faults else config
        self._digests = DigestCache(self.root / DIGESTS)
        self.data_root = str(config["data"])
        self._catalogues: dict[str, Catalogue] = {}
        for kind in ("backbone", "dataset"):
            folders = [self.root / folder for folder in config["catalogues"]]
            with mistakes.gathered():
                self._catalogues[kind] = Catalogue(kind, folders, config[f"extra_{kind}s"])
        self.backbones = self._chosen("backbone", config["backbones"], mistakes)
        self.datasets = self._chosen("dataset", config["datasets"], mistakes)
        self.probes = {name: options for name, options in config["probes"].items() if options}
        self._identified, self._dataset_sources = {}, {}
        for name in self.backbones:
            with mistakes.gathered():
                self._identified[name] = self._identify_backbone(name)
        for name in self.datasets:
            with mistakes.gathered():
                self._dataset_sources[name] = self._digest_dataset(name)
        self._digests.save()
        self._measures = self._profile = None
        with mistakes.gathered():
            self._measures = measuring(config, where=where)
        with mistakes.gathered():
            self._profile = profiling(config, where=where)
        self._views = self._measures and self._measures.views
        if not faults:
            check_probes(self.probes, self.datasets, self._named("dataset"), where, mistakes)
        if not checked:
            from permafrost.plan.checks import check_entries, check_options

            check_options(config, where, mistakes)
            places = {kind: known.where for kind, known in self._catalogues.items()}
            check_entries(self.backbones, self.datasets, places, config, self.root, mistakes)
        mistakes.refuse(where)

    def _chosen(self, kind: str, names: list[str], mistakes: Mistakes) -> dict[str, dict]:
        """The entries of these names that can be used."""
        chosen = {}
        catalogue = self._catalogues.get(kind)
        for name in [] if catalogue is None else catalogue.names(names):
            with mistakes.gathered():
                chosen[name] = catalogue.entry(name)
        return chosen

    def _named(self, kind: str) -> list[str] | None:
        """The names that the configuration asks for; None where the catalogue cannot be read."""
        catalogue = self._catalogues.get(kind)
        return None if catalogue is None else catalogue.names(self.config[f"{kind}s"])

    # --- what is run ---------------------------------------------------------------------------

    def probes_of(self, dataset: str) -> list[str]:
        """Names of the probes that serve the dataset's task."""
        task = self.datasets[dataset]["task"]
        return [
            name for name, options in self.probes.items() if task in KINDS[options["kind"]].tasks
        ]

    def seeds_of(self, probe: str) -> list[int]:
        """The seeds a probe runs with: all of the configuration's, or 0 if chance plays no part."""
        return list(self.config["seeds"]) if is_seeded(self.probes[probe]) else [0]

    def evaluations(self):
        """All (dataset, backbone, probe, seed), in the configuration's order."""
        for dataset in self.datasets:
            for backbone in self.backbones:
                for probe in self.probes_of(dataset):
                    for seed in self.seeds_of(probe):
                        yield dataset, backbone, probe, seed

    # --- the jobs ------------------------------------------------------------------------------

    @functools.cache  # noqa: B019  a plan lives as long as the process
    def prepare(self, dataset: str) -> Job:
        entry, places = without_places(result_fields(self.datasets[dataset]))
        return self._job(
            "prepare",
            places={"entry": places},
            dataset=dataset,
            entry=entry,
            source=self._dataset_sources[dataset],
        )

    @functools.cache  # noqa: B019
    def extract(self, dataset: str, backbone: str) -> Job:
        entry, extraction = extraction_of(
            self.datasets[dataset]["task"],
            self._identified[backbone].entry,
            self.config["extraction"],
        )
        return self._job(
            "extract",
            dataset=dataset,
            backbone=backbone,
            entry=entry,
            extraction=extraction,
            **self._identified[backbone].digests,
            places=self._identified[backbone].places,
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
            options=options,
            **(
                self._from_images(dataset, backbone)
                if kind.reads == "images"
                else {"inputs": {"features": self.extract(dataset, backbone).fingerprint}}
            ),
        )

    def _from_images(self, dataset: str, backbone: str) -> dict:
        """What a probe is told that runs the backbone itself."""
        entry, extraction = feeding_of(
            self.datasets[dataset]["task"],
            self._identified[backbone].entry,
            self.config["extraction"],
        )
        told = {"entry": entry, "extraction": extraction, **self._identified[backbone].digests}
        images = self.prepare(dataset).fingerprint
        return {
            **told,
            "inputs": {"images": images, "backbone": fingerprint(told, images)},
            "places": self._identified[backbone].places,
        }

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
            for backbone in self.backbones
            for seed in self.seeds_of(probe)
        }
        return self._job(
            "compare",
            dataset=dataset,
            probe=probe,
            task=self._answers(dataset, probe),
            options={**self.config["comparison"], **self._calibration(dataset, probe, "bins")},
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
            options=self._measures.of_features,
            inputs={
                "features": self.extract(dataset, backbone).fingerprint,
                **({"views": self.views(dataset, backbone).fingerprint} if self._views else {}),
            },
        )

    @functools.cache  # noqa: B019
    def views(self, dataset: str, backbone: str) -> Job:
        entry, extraction = views_of(
            self.datasets[dataset]["task"],
            self._identified[backbone].entry,
            self.config["extraction"],
        )
        return self._job(
            "views",
            dataset=dataset,
            backbone=backbone,
            entry=entry,
            extraction=extraction,
            split=self._measures.split,
            augmentations=self._views,
            **self._identified[backbone].digests,
            places=self._identified[backbone].places,
            inputs={"images": self.prepare(dataset).fingerprint},
        )

    @functools.cache  # noqa: B019
    def similarity(self, dataset: str) -> Job:
        features = {name: self.extract(dataset, name).fingerprint for name in self.backbones}
        return self._job(
            "similarity",
            dataset=dataset,
            options=self._measures.of_pairs,
            inputs={"features": features},
        )

    @functools.cache  # noqa: B019
    def profile(self, dataset: str, backbone: str) -> Job:
        entry, extraction = extraction_of(
            self.datasets[dataset]["task"],
            self._identified[backbone].entry,
            self.config["extraction"],
        )
        return self._job(
            "profile",
            dataset=dataset,
            backbone=backbone,
            entry=entry,
            extraction=of_forward_pass(extraction),
            **self._identified[backbone].digests,
            places=self._identified[backbone].places,
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
        return self._job(
            "aggregate",
            options=self.config["comparison"],
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

    def jobs(self) -> Iterator[Job]:
        """Every job of the plan, in the order of the flow."""
        for dataset in self.datasets:
            yield self.prepare(dataset)
            for backbone in self.backbones:
                yield self.extract(dataset, backbone)
        lists = (
            (self.views, self.viewed()),
            (self.measure, self.measured()),
            (self.profile, self.profiled()),
            (self.probe, self.evaluations()),
            (self.bootstrap, self.evaluations()),
            (self.compare, self.compared()),
        )
        for job, every in lists:
            for names in every:
                yield job(*names)
        for dataset in self.paired():
            yield self.similarity(dataset)
        yield self.aggregate()
        yield self.report()

    def _calibration(self, dataset: str, probe: str, *keys: str) -> dict:
        """The option ``calibration`` of a job (only some `keys` of it), or nothing where none is judged."""
        options = self.config["calibration"]
        judged = KINDS[self.probes[probe]["kind"]].probabilities
        judged = judged and task_of(self.datasets[dataset]["task"]).calibrated
        if options is None or not judged:
            return {}
        return {"calibration": {key: options[key] for key in keys or options}}

    def compared(self) -> list[tuple[str, str]]:
        """(dataset, probe) pairs with something to compare: two backbones or more."""
        if len(self.backbones) < 2:
            return []
        return [(dataset, probe) for dataset in self.datasets for probe in self.probes_of(dataset)]

    def measured(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose features are measured: all or none."""
        if self._measures is None:
            return []
        return [(dataset, backbone) for dataset in self.datasets for backbone in self.backbones]

    def profiled(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose costs are measured: all or none."""
        if self._profile is None:
            return []
        return [(dataset, backbone) for dataset in self.datasets for backbone in self.backbones]

    def viewed(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs of which augmented views are measured: all or none."""
        return self.measured() if self._views else []

    def paired(self) -> list[str]:
        """Datasets on which backbones are measured against each other: all or none."""
        asked = self._measures is not None and self._measures.of_pairs is not None
        return list(self.datasets) if asked and len(self.backbones) > 1 else []

    @property
    def hash(self) -> str:
        """Names the whole plan: it changes when any result of it would."""
        return self.report().fingerprint

    # --- construction --------------------------------------------------------------------------

    def _job(self, stage: str, *, places: dict | None = None, **fields) -> Job:
        if self.config["versions"] == "rerun":
            fields["versions"] = _versions_of(stage)
        content = {"stage": stage, **fields}
        spec = canonical_json(content)
        code = code_hash(stage, content)
        return Job(spec, code, fingerprint(spec, code), places or {})

    def _identify_backbone(self, name: str) -> _Identified:
        """What identifies a backbone, wherever its files lie."""
        from permafrost.backbones.digest import identify

        def located(path: str) -> Path:
            return self.root / substitute(path, self.data_root)

        with self._blaming("backbone", name):
            known = identify(result_fields(self.backbones[name]), self.root, located)
            digests = {
                role: self._digests.digest(located(file)) for role, file in known.files.items()
            }
        package = {"package": known.package} if known.package else {}
        places = {"entry": known.places, "files": known.files}
        return _Identified(known.entry, {"files": digests, **package}, places)

    def _digest_dataset(self, name: str) -> str:
        from permafrost.data.digest import source_digest

        with self._blaming("dataset", name):
            located = substitute(self.datasets[name], str(self.root / self.data_root))
            return source_digest(located, self._digests.content)

    @contextlib.contextmanager
    def _blaming(self, kind: str, name: str):
        """Let an error say which entry it comes from."""
        try:
            yield
        except PermafrostError as error:
            where = self._catalogues[kind].where(name)
            raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error


@functools.cache
def _versions_of(stage: str) -> dict[str, str]:
    """Versions of the packages that a stage computes with, as they are installed."""
    return installed_versions(stage_libraries(stage))


def _if_any(**lists: list) -> dict[str, str]:
    """A hash of each list under its name, without those that are empty."""
    return {name: fingerprint(sorted(items)) for name, items in lists.items() if items}
