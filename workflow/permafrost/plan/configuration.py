"""A configuration with its entries checked, and digests of the files that they name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from permafrost.backbones.derived import parents_of
from permafrost.backbones.digest import identify
from permafrost.core.environment import ROLE
from permafrost.core.errors import PermafrostError
from permafrost.core.plugins import add_plugins, places_of
from permafrost.core.read_files import Data, Here, place_of
from permafrost.core.specification import substitute
from permafrost.data.derived import origins_of
from permafrost.data.digest import downloaded, folder_content, source_digest
from permafrost.data.files.folders import Read, content_digest
from permafrost.data.sources import checked_entry
from permafrost.plan.catalogue import EVERY, Catalogue, catalogue_folders, result_fields
from permafrost.plan.compatibility import check_probes
from permafrost.plan.demo import NAMED
from permafrost.plan.derived import add_derived, check_derived
from permafrost.plan.derived_datasets import add_derived_datasets, check_groups, each_of_several
from permafrost.plan.digests import DIGESTS, DigestCache
from permafrost.plan.environments import Environment, environment_of
from permafrost.plan.folders import check_folders
from permafrost.plan.groups import check_ranking, read_bounds
from permafrost.plan.misfits import Cells, Misfits, fitting, refuses, remember, remembered
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.options import feeding_options, measuring, profiling
from permafrost.plan.plugins import identified, plugins_in_use
from permafrost.plan.published import check_published, identify_published
from permafrost.plan.read_before import ReadBefore
from permafrost.plan.validation import misfit, problems, without_faults


@dataclass(frozen=True)
class Identified:
    """The part of a backbone that enters the fingerprints of its jobs, and its paths, which do not.

    Attributes
    ----------
    entry : without paths.
    digests : of its files and its package.
    places : the paths.
    """

    entry: dict
    digests: dict
    places: dict


class Configuration:
    """A validated configuration. No file is read after construction.

    Parameters
    ----------
    config : the configuration; validated and completed with defaults in place.
    root : the directory that relative paths in the configuration refer to.
    where : the files the configuration was read from, for error messages.
    checked : skip the checks of entries, because the main process has made them; for cluster jobs,
        which plan again.
    identify : compute digests of the files that entries name. If False, `identified`,
        `environments`, `sources`, `published` and `plugins` are empty.

    Attributes
    ----------
    data_root : replaces ``{data}`` in paths.
    backbones, datasets : the chosen entries by name, without those that fit no partner.
    named_datasets : all chosen datasets, including those that fit no backbone.
    misfits, cells : omitted pairs with reasons, and the input of the others, see
        `permafrost.plan.misfits`.
    probes : options by name.
    identified : `Identified` of each backbone.
    environments : backbone to its environment, for backbones outside the main one.
    sources : dataset to the digest of its files.
    published : identities of the files of published results, and their paths.
    plugin_files : plug-in to the files of its identity by their role.
    read_before : what existing outputs were made from, beyond what entries declare; None: unknown.
    measures, profile : options of these stages; None: switched off.

    Raises
    ------
    PermafrostError : all mistakes that can be found before a job runs, as one list.
    """

    def __init__(
        self, config: dict, root: Path, *, where: str, checked: bool, identify: bool = True
    ) -> None:
        mistakes = Mistakes()
        with mistakes.gathered():
            add_plugins(places_of(config))
        faults = problems(config, "config")
        faults |= {f"{key}: missing": (key,) for key in NAMED if key not in config}
        mistakes.add(*(misfit(text, "config", where=where) for text in faults))
        self.config, self.root = config, root
        config = without_faults(config, faults) if faults else config
        self.data_root = str(config["data"])
        ranking, bounds = config["ranking"], config["ranking"]["bounds"]
        ranking["bounds"] = None
        with mistakes.gathered():
            ranking["bounds"] = read_bounds(bounds, self._locate, where)
        self._catalogues: dict[str, Catalogue] = {}
        for kind in ("backbone", "dataset"):
            folders, extra = catalogue_folders(config, root), config[f"extra_{kind}s"]
            with mistakes.gathered():
                self._catalogues[kind] = Catalogue(kind, folders, extra, root)
        named = {
            kind: catalogue.names(config[f"{kind}s"])
            for kind, catalogue in self._catalogues.items()
        }
        self.backbones = self._chosen("backbone", named.get("backbone", []), mistakes)
        self.datasets = self._chosen("dataset", named.get("dataset", []), mistakes)
        if config["derive"] and "backbone" in self._catalogues:
            catalogue = self._catalogues["backbone"]
            made = add_derived(catalogue, self.backbones, config["derive"])
            self.backbones |= self._chosen("backbone", made, mistakes)
        if config["derived_datasets"] and "dataset" in self._catalogues:
            self.datasets |= add_derived_datasets(
                self._catalogues["dataset"],
                self.datasets,
                each_of_several(config["derived_datasets"], self.datasets, where, mistakes),
                where,
                mistakes,
            )
        self.probes = {name: options for name, options in config["probes"].items() if options}
        self.identified: dict[str, Identified] = {}
        self.environments: dict[str, Environment] = {}
        self.sources: dict[str, str | None] = {}
        self.published: tuple[list[dict], list[str]] = [], []
        self.plugins: dict[str, dict] = {}
        self.plugin_files: dict[str, dict[str, str]] = {}
        self.read_before: ReadBefore | None = None
        if identify:
            self._identify(config, where, mistakes, look=not checked)
        self.measures = self.profile = None
        with mistakes.gathered():
            self.measures = measuring(config, where=where)
        with mistakes.gathered():
            self.profile = profiling(config, where=where)
        self.misfits: Misfits = {}
        self.cells: Cells = {}
        self._asked = [
            self.backbones,
            self.datasets,
            self.probes,
            feeding_options(config),
            config["unfit"],
        ]
        if checked:
            self._find_misfits_again(config)
        else:
            if "backbone" in self._catalogues:
                place = self._catalogues["backbone"].where
                depths = config["extraction"].get("depths")
                check_derived(self.backbones, named["backbone"], place, mistakes, depths)
            if not faults:
                self._check_probes(named.get("dataset"), where, mistakes)
            self._check(config, where, mistakes)
        mistakes.refuse(where)
        self.named_datasets = self.datasets
        self.backbones, self.datasets = fitting(self.misfits, self.backbones, self.datasets)

    def _chosen(self, kind: str, names: list[str], mistakes: Mistakes) -> dict[str, dict]:
        """The valid entries of these names."""
        chosen = {}
        for name in names:
            with mistakes.gathered():
                chosen[name] = self._catalogues[kind].entry(name)
        return chosen

    def _check_probes(self, named: list[str] | None, where: str, mistakes: Mistakes) -> None:
        check_probes(self.probes, self.datasets, named, where, mistakes)

    def _check(self, config: dict, where: str, mistakes: Mistakes) -> None:
        """Check options, entries, and the fit of backbones to datasets."""
        from permafrost.plan.checks import check_entries, check_options

        check_options(config, where, mistakes)
        check_folders(config, self.root, where, mistakes)
        if len(self._catalogues) < 2:
            return  # a catalogue cannot be read, so its names are unknown
        known = {*self._catalogues["dataset"].names([EVERY]), *self.datasets}
        check_ranking(config, known, list(self.backbones), where, mistakes)
        check_groups(config["groups"], self.datasets, where, mistakes)
        own = {"backbones": self.backbones, "datasets": self.datasets, "methods": self.probes}
        check_published(*self.published, own, where, mistakes)
        places = {kind: known.where for kind, known in self._catalogues.items()}
        found = check_entries(
            self.backbones, self.datasets, places, config, self.root, mistakes, self.cells
        )
        if found and refuses(config["unfit"], found, self.backbones, self.datasets):
            mistakes.add(*found.values())
            return
        self.misfits = {names: error.problem for names, error in found.items()}
        ranking, left = config["ranking"], fitting(found, self.backbones, self.datasets)[0]
        ranked = {names: one for names, one in self.misfits.items() if self._is_ranked(*names[:2])}
        if ranked and ranking["missing"] == "worst":
            mistakes.add(_worst(*next(iter(ranked.items())), where))
        if ranking["missing"] == "baseline" and ranking["baseline"] in self.backbones.keys() - left:
            mistakes.add(_no_baseline(ranking["baseline"], where))

    def _is_ranked(self, dataset: str, backbone: str) -> bool:
        """Whether a pair has a part in rankings, and not only the group of a configuration that names it."""
        return not (origins_of(self.datasets[dataset]) or parents_of(self.backbones[backbone]))

    def keep_misfits(self) -> None:
        """Save which pairs fit, for the jobs of this run that plan again."""
        remember(self.root, self._asked, self.misfits, self.cells)

    def _find_misfits_again(self, config: dict) -> None:
        """In a job that plans again: read them from the main process's file, or check again."""
        known = remembered(self.root, self._asked)
        if known is None:
            self._check(config, "", Mistakes())
        else:
            self.misfits, self.cells = known

    # --- identity ------------------------------------------------------------------------------

    def _identify(self, config: dict, where: str, mistakes: Mistakes, *, look: bool) -> None:
        """Compute the digests of all files; with `look`, also check them against the entries."""
        digests = DigestCache(self.root / DIGESTS)
        for name in self.backbones:
            with mistakes.gathered(), self._blaming("backbone", name):
                self.identified[name] = self._identify_backbone(name, digests)
        for name, entry in self.datasets.items():
            if origins_of(entry):
                # identified by those that it is derived from, and the table of its folds
                self.sources[name] = None
                with mistakes.gathered():
                    self.sources[name] = self._table_of_folds(name, digests, where)
                continue
            with mistakes.gathered(), self._blaming("dataset", name):
                self.sources[name] = self._digest_dataset(name, digests)
                if look:
                    self._look_at_files(name, digests)
        for name, place in plugins_in_use():
            with mistakes.gathered():
                self.plugins[name], self.plugin_files[name] = identified(
                    place, self.root, digests.digest
                )
        with mistakes.gathered():
            self.published = identify_published(config, self._locate, digests.content, where)
        with mistakes.gathered():
            self.read_before = self._read_before(config, digests)
        digests.save()

    def _read_before(self, config: dict, digests: DigestCache) -> ReadBefore:
        """What the existing outputs were made from and no entry declares."""
        results = self.root / config["results"]
        data = data_folders(self.datasets, str(self.root / self.data_root), digests.content)
        hidden = frozenset([os.path.abspath(results)])
        return ReadBefore(results, Here(self.root, digests.content, hidden), data)

    def _locate(self, path: str) -> Path:
        return self.root / substitute(path, self.data_root)

    def _identify_backbone(self, name: str, digests: DigestCache) -> Identified:
        known = identify(result_fields(self.backbones[name]), self.root, self._locate)
        named, package = known.files, {"package": known.package} if known.package else {}
        environment = environment_of(self.backbones[name])
        if environment is not None:
            self.environments[name] = environment
            # its lock file gives the versions there; the packages of this environment do not count
            named, package = {**named, ROLE: environment.shown(self.root)}, {}
        files = {
            role: (
                digests.content(self._locate(file), known.read[role])
                if role in known.read
                else digests.digest(self._locate(file))
            )
            for role, file in named.items()
        }
        places = {"entry": known.places, "files": named}
        return Identified(known.entry, {"files": files, **package}, places)

    def _digest_dataset(self, name: str, digests: DigestCache) -> str | None:
        located = substitute(self.datasets[name], str(self.root / self.data_root))
        return source_digest(located, digests.content)

    def _table_of_folds(self, name: str, digests: DigestCache, where: str) -> str | None:
        """The digest of the table whose values are folds, if there is one; its columns are checked."""
        folds = self.datasets[name]["derived"].get("folds") or {}
        if "table" not in folds:
            return None
        from permafrost.data.user_tables import values_of

        path = self._locate(folds["table"])

        def check() -> None:
            values_of(path, folds["column"])

        try:
            made = digests.digest(path)
            digests.once([made, folds["column"]], check)
        except PermafrostError as error:
            place = error.where or f"{where}: derived_datasets.{name}.folds"
            raise PermafrostError(error.problem, where=place, remedy=error.remedy) from error
        return made

    def _look_at_files(self, name: str, digests: DigestCache) -> None:
        from permafrost.data.class_files import check_files
        from permafrost.data.entry_checks import entry_mistakes
        from permafrost.data.sampled import KINDS, check_samples

        entry, where = self.datasets[name], self._catalogues["dataset"].where(name)
        if entry["source"]["kind"] not in KINDS:
            return
        located = checked_entry(substitute(entry, str(self.root / self.data_root)), where=where)
        if entry_mistakes(located, where=where):
            return  # reported with those of other entries

        def check() -> None:
            check_files(located, where=where)
            check_samples(located, where=where)

        digests.once([self.sources[name], result_fields(entry)], check)

    @contextlib.contextmanager
    def _blaming(self, kind: str, name: str) -> Iterator[None]:
        """Add the entry's place to errors raised inside."""
        try:
            yield
        except PermafrostError as error:
            where = self._catalogues[kind].where(name)
            raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error


def data_folders(
    datasets: Mapping[str, dict],
    data: str,
    digest_of: Callable[[Path, Read], str] = content_digest,
) -> dict[str, Data]:
    """Path of a record -> gives the digest of the files that the dataset's source has downloaded."""
    return {
        place_of({"stage": "prepare", "dataset": name}): partial(folder_content, folder, digest_of)
        for name, entry in datasets.items()
        if not origins_of(entry) and (folder := downloaded(substitute(entry, data))) is not None
    }


def _worst(names: tuple[str, ...], reason: str, where: str) -> PermafrostError:
    dataset, backbone, *_ = names
    return PermafrostError(
        f"missing: worst would rank {backbone} last on {dataset}, where it was excluded: {reason}",
        where=f"{where}: ranking.missing",
        remedy="use missing: common or baseline, or leave this pair out of the configuration",
    )


def _no_baseline(name: str, where: str) -> PermafrostError:
    return PermafrostError(
        f"missing: baseline takes the scores of {name}, which fits none of the datasets",
        where=f"{where}: ranking.baseline",
        remedy="name a backbone that fits, or use missing: common",
    )
