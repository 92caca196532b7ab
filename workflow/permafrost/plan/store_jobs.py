"""The jobs of a plan that make stores, or run a backbone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.backbones.input.fit import STRICT
from permafrost.backbones.kinds import kind_of
from permafrost.core.environment import ROLE
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.plugins import places_of
from permafrost.core.versions import installed_versions
from permafrost.data.derived import PART_OF, origins_of
from permafrost.data.digest import without_places
from permafrost.metrics.tasks import added_metrics
from permafrost.plan.catalogue import result_fields
from permafrost.plan.configuration import Configuration
from permafrost.plan.grid import Grid
from permafrost.plan.options import (
    FEEDING,
    asked_of_run,
    extraction_of,
    feeding_of,
    feeding_options,
    of_forward_pass,
    views_of,
)
from permafrost.plan.sources import ASKED_FOR, chosen_by, code_hash, stage_libraries


@dataclass(frozen=True)
class Job:
    """One job of a stage.

    Attributes
    ----------
    spec : the specification, canonical JSON.
    code : hash of the sources that the job uses.
    fingerprint : of both.
    places : paths of the files that the spec identifies by content; not in the fingerprint.
    """

    spec: str
    code: str
    fingerprint: str
    places: dict = field(default_factory=dict, compare=False)


class StoreJobs(Grid):
    """The jobs that make image and feature stores, and those that run a backbone; see `Plan`."""

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
        self._plugin_files, self._read = chosen.plugin_files, chosen.read_before
        if "suite" in self.config:
            roots = {name: one for name, one in self.named_datasets.items() if not origins_of(one)}
            self.config["suite"]["data"] = self._data_digest(roots)

    def _data_digest(self, datasets: dict[str, dict]) -> str:
        """The fingerprint of the datasets' entries and files."""
        entries = {name: result_fields(entry) for name, entry in datasets.items()}
        return fingerprint(
            {name: [without_places(entries[name])[0], self._sources[name]] for name in entries}
        )

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
        """Backbone -> embeddings that every image must have, and -> their paths.

        Only backbones with ``unmatched: drop``.
        """
        matched, paths = {}, {}
        for name in self.backbones_on(dataset):
            known = self._identified[name]
            if known.entry.get("unmatched") == "drop":
                how = {key: known.entry[key] for key in ("rasters", "table") if key in known.entry}
                matched[name] = {**how, "digest": known.digests["files"]["embeddings"]}
                paths[name] = known.places["entry"]
        return matched, paths

    @functools.cache  # noqa: B019
    def resplit(self, dataset: str) -> Job:
        entry = result_fields(self.datasets[dataset])
        del entry["source"], entry["splits"]
        images = {name: self.prepare(name).fingerprint for name in self.origins[dataset]}
        said = ("title", PART_OF)
        derived = {key: one for key, one in entry.pop("derived").items() if key not in said}
        if not derived.keys() & {"share", "harder"}:
            del derived["seed"]
        harder = {"harder": derived.pop("harder")} if "harder" in derived else {}
        places: dict = {}
        if "table" in derived.get("folds", ()):
            places = {"derived": {"folds": {"table": derived["folds"]["table"]}}}
            derived["folds"] = {**derived["folds"], "table": self._sources[dataset]}
        return self._job(
            "resplit",
            places=places,
            dataset=dataset,
            entry=entry,
            derived=derived,
            **harder,
            inputs={"images": images},
        )

    @functools.cache  # noqa: B019
    def select(self, dataset: str, backbone: str) -> Job:
        entry = self.backbones[backbone]
        own = entry.get("input", {})
        # mean and deviation of train, unless the weights or the entry state them
        by_train = own.get("normalization") == "two_sigma" and own.get("mean") is None
        fitted: dict[str, Any] = (
            {"fitted": True} if by_train or kind_of(entry).is_fitted(entry) else {}
        )
        features = {
            name: self.extract(name, backbone).fingerprint for name in self.origins[dataset]
        }
        return self._job(
            "select",
            dataset=dataset,
            backbone=backbone,
            **fitted,
            inputs={"rows": self.resplit(dataset).fingerprint, "features": features},
        )

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
    def extract_harder(self, dataset: str, backbone: str) -> Job:
        (parent,) = self.origins[dataset]
        kind, severity = self.harder[dataset]
        return self._job(
            "extract_harder",
            dataset=dataset,
            backbone=backbone,
            # as on the parent, so that images of severity 0 give its features
            **self._running(parent, backbone, extraction_of),
            **self._rows_of(dataset),
            harder={kind: severity},
            inputs={
                "images": self.prepare(parent).fingerprint,
                "rows": self.resplit(dataset).fingerprint,
                "features": {parent: self.extract(parent, backbone).fingerprint},
            },
        )

    @functools.cache  # noqa: B019
    def derive(self, dataset: str, backbone: str) -> Job:
        features = {
            name: self.features(dataset, name).fingerprint for name in self.parents[backbone]
        }
        return self._job(
            "derive",
            dataset=dataset,
            backbone=backbone,
            entry=self._identified[backbone].entry,
            inputs={"features": features},
            **self._rows_of(dataset),
        )

    def features(self, dataset: str, backbone: str) -> Job:
        """The job that makes the feature stores of a pair."""
        return getattr(self, self._made_by(dataset, backbone))(dataset, backbone)

    def _read_through(self, dataset: str, backbone: str) -> dict[str, Any]:
        """Fields of a job that reads features of others: ``derived`` and ``rows``, the backbones and datasets."""
        derived = {"derived": self.parents[backbone]} if backbone in self.parents else {}
        return {**derived, **self._rows_of(dataset)}

    def _rows_of(self, dataset: str) -> dict[str, Any]:
        """The field ``rows`` of a job that reads stores of a derived dataset: those that it is derived from."""
        return {"rows": self.origins[dataset]} if dataset in self.origins else {}

    def _dates(self, dataset: str, backbone: str) -> str:
        """The option ``dates`` of features; ``one`` if the backbone reads all dates together."""
        # joined backbones get the same dates, see `derive`
        root = self.parents.get(backbone, [backbone])[0]
        together = self.backbones[root]["input"].get("dates") == "all"
        return "one" if together else self.datasets[dataset]["dates"]

    def _running(self, dataset: str, backbone: str, options_of: Callable) -> dict:
        """The fields of a job that runs the backbone; `options_of` selects those its stage uses."""
        known = self._identified[backbone]
        # if the policy changes nothing for a pair, its features are those of `strict`
        options = asked_of_run(
            known.entry,
            feeding_options(self.config, self._policy(dataset, backbone)),
            pixels=self._fed_images(backbone),
            asks=None if (cell := self.cells.get((dataset, backbone))) is None else cell.asks,
        )
        entry, extraction = options_of(self.datasets[dataset]["task"], known.entry, options)
        return {"entry": entry, "extraction": extraction, **known.digests, "places": known.places}

    def _policy(self, dataset: str, backbone: str) -> str | None:
        """The policy that changes the pair's input; None: only known in its job."""
        if not self._fed_images(backbone):
            return STRICT
        cell = self.cells.get((dataset, backbone))
        return None if cell is None else cell.policy

    def _from_images(self, dataset: str, backbone: str) -> dict:
        """The fields of a probe's job that runs the backbone itself."""
        run = self._running(dataset, backbone, feeding_of)
        places, images = run.pop("places"), self.prepare(dataset).fingerprint
        inputs = {"images": images, "backbone": fingerprint(run, images)}
        return {**run, "inputs": inputs, "places": places}

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

    def fed(self, dataset: str, backbone: str) -> dict:
        """The row of a pair that describes its input.

        Keys: ``dataset``, ``backbone``, ``fit``, ``bands_real``, ``bands_wanted``, ``input_id``.
        Pairs of one dataset with the same ``input_id`` are the same measurement: the same network
        with the same input. It is a fingerprint of the entry without `input`, the files, and the
        recipe of the input.
        """
        if backbone in self.parents or dataset in self.origins:
            # the input of the first parent, and a measurement of its own
            made = self.features(dataset, backbone).fingerprint
            root = self.parents.get(backbone, [backbone])[0]
            # of two datasets, the input that lacks more
            fed = [self.fed(one, root) for one in self.origins.get(dataset, [dataset])]
            worst = min(fed, key=lambda one: (one["fit"] == "exact", one["bands_real"] or 0))
            return {**worst, "dataset": dataset, "backbone": backbone, "input_id": made}
        run = self._running(dataset, backbone, extraction_of)
        del run["places"]
        cell = self.cells.get((dataset, backbone))
        if cell is not None:
            # the recipe already contains the effect of these
            run["entry"] = {key: value for key, value in run["entry"].items() if key != "input"}
            run["extraction"] = {
                key: value for key, value in run["extraction"].items() if key not in FEEDING
            }
        known = {} if cell is None else cell._asdict()
        facts = {name: known.get(name) for name in ("fit", "bands_real", "bands_wanted")}
        made = fingerprint(run, known.get("recipe"))
        return {"dataset": dataset, "backbone": backbone, **facts, "input_id": made}

    def _used(self, stage: str, fields: dict) -> list[str]:
        """Names of the plug-ins that a job uses itself, apart from those of its inputs."""
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
        # the lock file gives the versions in a backbone's separate environment
        if self.config["versions"] == "rerun" and ROLE not in fields.get("files", {}):
            fields["versions"] = _versions_of(stage, "harder" in fields)
        content = {"stage": stage, **fields}
        if self._plugins:
            used = {name: self._plugins[name] for name in self._used(stage, fields)}
            content |= {"plugins": used} if used else {}
            files = {name: self._plugin_files[name] for name in used}
            places = {**(places or {}), "plugins": places_of(self.config), "plugin_files": files}
        spec = canonical_json(content)
        code = code_hash(stage, content)
        made = fingerprint(spec, code)
        if self._read and (read := self._read.planned(content, made)) is not None:
            spec = canonical_json({**content, "read": read})
            made = fingerprint(spec, code)
        return Job(spec, code, made, places or {})


def _order_of(modalities: dict | None) -> dict[str, list[str]]:
    """The order of modalities if not sorted; labels refer to the first, but JSON is sorted."""
    order = list(modalities or ())
    return {} if order == sorted(order) else {"modalities": order}


@functools.cache
def _versions_of(stage: str, harder: bool) -> dict[str, str]:
    """Installed versions of the packages that a stage uses; those of degradations only for harder images."""
    others = chosen_by(dict.fromkeys({*ASKED_FOR.values()} - {"harder"}))
    return installed_versions(stage_libraries(stage, () if harder else others))
