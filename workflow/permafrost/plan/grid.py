"""What is run: backbones, probes and seeds on each dataset, without fingerprints."""

from __future__ import annotations

from permafrost.backbones.derived import parents_of
from permafrost.backbones.kinds import kind_of
from permafrost.core.tasks import targets_of
from permafrost.data.derived import harder_of, loss_of, origins_of
from permafrost.features.kept_layers import KeptLayers
from permafrost.plan.compatibility import serves_derived
from permafrost.plan.configuration import Configuration
from permafrost.plan.options import is_seeded, is_several
from permafrost.probes.dense.choice import kept_layers
from permafrost.probes.kinds import KINDS

_PAIR = ("dataset", "backbone")
_EVALUATION = ("dataset", "backbone", "probe", "seed")
#: stage -> the labels of its jobs, in the order of the data flow
LABELS = {
    "prepare": ("dataset",),
    "resplit": ("dataset",),
    "extract": _PAIR,
    "extract_harder": _PAIR,
    "select": _PAIR,
    "derive": _PAIR,
    "views": _PAIR,
    "measure": _PAIR,
    "similarity": ("dataset",),
    "profile": _PAIR,
    "probe": _EVALUATION,
    "bootstrap": _EVALUATION,
    "compare": ("dataset", "probe"),
    "aggregate": (),
    "report": (),
}


class Grid:
    """All runs of a configuration, in its order.

    Attributes
    ----------
    config : with defaults.
    backbones, datasets : entries by name, without those that fit no partner.
    named_datasets : entries of all datasets that the configuration names.
    probes : options by name.
    parents : derived backbone to those that it is derived from.
    origins : derived dataset to those that it is derived from.
    harder : derived dataset with harder images to its degradation and severity.
    losses : dataset with relative losses to the dataset with the clean score, degradation and severity.
    misfits, cells : omitted pairs with reasons, and the input of the others, see
        `permafrost.plan.misfits`.
    """

    def __init__(self, chosen: Configuration) -> None:
        self.config = chosen.config
        self.backbones, self.datasets = chosen.backbones, chosen.datasets
        self.named_datasets = chosen.named_datasets
        self.probes, self.misfits, self.cells = chosen.probes, chosen.misfits, chosen.cells
        self.parents = {
            name: names for name, one in self.backbones.items() if (names := parents_of(one))
        }
        self.origins = {
            name: names for name, one in self.datasets.items() if (names := origins_of(one))
        }
        self.harder = {
            name: degradation
            for name in self.origins
            if (degradation := harder_of(self.datasets[name]))
        }
        self.losses = {
            name: loss for name in self.origins if (loss := loss_of(self.datasets[name]))
        }
        self._measures, self._profile = chosen.measures, chosen.profile
        self._views = self._measures and self._measures.views

    def every(self) -> dict[str, list[tuple]]:
        """Stage -> names of its jobs, as in `LABELS`, in the order of the data flow."""
        evaluations = list(self.evaluations())
        found: dict[str, list[tuple]] = {
            "prepare": [(name,) for name in self.datasets if name not in self.origins],
            "resplit": [(name,) for name in self.origins],
            "extract": [pair for pair in self.pairs() if self._made_by(*pair) == "extract"],
            "extract_harder": [p for p in self.pairs() if self._made_by(*p) == "extract_harder"],
            "select": [pair for pair in self.pairs() if self._made_by(*pair) == "select"],
            "derive": [pair for pair in self.pairs() if self._made_by(*pair) == "derive"],
            "views": self.viewed(),
            "measure": self.measured(),
            "similarity": [(name,) for name in self.paired()],
            "profile": self.profiled(),
            "probe": evaluations,
            "bootstrap": evaluations,
            "compare": self.compared(),
            "aggregate": [()],
            "report": [()],
        }
        return {stage: found[stage] for stage in LABELS}

    def _made_by(self, dataset: str, backbone: str) -> str:
        """The stage that makes the feature stores of a pair."""
        if backbone in self.parents:
            return "derive"
        if dataset in self.harder:
            return "extract_harder"
        return "select" if dataset in self.origins else "extract"

    def read_through(self, dataset: str, backbone: str) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose feature stores those of a derived backbone or dataset read, all of them."""
        found = [(dataset, one) for one in self.parents.get(backbone, ())]
        return found + [
            (origin, one)
            for origin in self.origins.get(dataset, ())
            for one in self.parents.get(backbone, [backbone])
        ]

    def pairs(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs that fit each other, in the configuration's order."""
        return [(dataset, one) for dataset in self.datasets for one in self.backbones_on(dataset)]

    def mapped(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose stores hold maps of layers."""
        stages = ("extract", "extract_harder")
        return [
            pair
            for pair in self.pairs()
            if self.has_maps(pair[0]) and self._made_by(*pair) in stages
        ]

    def has_maps(self, dataset: str) -> bool:
        """Whether features of the dataset include maps of layers."""
        return targets_of(self.datasets[dataset]["task"]).dense

    def kept_layers(self, dataset: str, backbone: str) -> KeptLayers | None:
        """The layers whose maps are stored; None: all. If maps are removed after use, only those that a probe reads."""
        if self.config["runtime"]["keep_maps"] is True:
            return None
        read = [
            kept_layers(self.probes[probe])
            for one in self.datasets
            if dataset in (one, *self.origins.get(one, ()))
            for probe in self.probes_of(one)
            if (one, backbone, probe) not in self.misfits
            and KINDS[self.probes[probe]["kind"]].reads in ("maps", "patches")
        ]
        named = [one for one in read if one is not None]
        if not read or len(named) < len(read):
            return None
        return KeptLayers(
            tuple(sorted({name for one in named for name in one.names})),
            tuple(sorted({stride for one in named for stride in one.strides})),
        )

    def backbones_on(self, dataset: str, probe: str | None = None) -> list[str]:
        """Names of the backbones that fit the dataset, and the probe if given."""
        if not self.misfits:
            return list(self.backbones)
        names = [(dataset, one) for one in self.backbones]
        return [
            pair[1]
            for pair in names
            if pair not in self.misfits and (*pair, probe) not in self.misfits
        ]

    def roots_on(self, dataset: str, probe: str | None = None) -> list[str]:
        """Like `backbones_on`, without derived backbones."""
        return [one for one in self.backbones_on(dataset, probe) if one not in self.parents]

    def probes_of(self, dataset: str) -> list[str]:
        """Names of the probes that support the dataset's task and dates."""
        entry = self.datasets[dataset]
        several = is_several(self.datasets[dataset])
        return [
            name
            for name, options in self.probes.items()
            # probes that read images support only samples of one image of one sensor
            if KINDS[options["kind"]].serves(entry["task"], entry["dates"])
            and not (several and KINDS[options["kind"]].reads == "images")
            and serves_derived(KINDS[options["kind"]], entry)
        ]

    def seeds_of(self, probe: str) -> list[int]:
        """The seeds of a probe: the configuration's, or [0] if the probe is deterministic."""
        return list(self.config["seeds"]) if is_seeded(self.probes[probe]) else [0]

    def evaluations(self):
        """Yields all (dataset, backbone, probe, seed), in the configuration's order."""
        for dataset in self.datasets:
            probes = self.probes_of(dataset)
            for backbone in self.backbones_on(dataset):
                for probe in probes:
                    if (dataset, backbone, probe) in self.misfits:
                        continue
                    for seed in self.seeds_of(probe):
                        yield dataset, backbone, probe, seed

    def compared(self) -> list[tuple[str, str]]:
        """(dataset, probe) pairs with at least two backbones to compare; a derived one is compared with its parent."""
        return [
            (dataset, probe)
            for dataset in self.datasets
            for probe in self.probes_of(dataset)
            if len(self.backbones_on(dataset, probe)) > 1
        ]

    def measured(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs with feature metrics: none, or all of datasets that are not derived."""
        return [] if self._measures is None else self._of_roots()

    def _of_roots(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs of datasets that are not derived."""
        return [pair for pair in self.pairs() if pair[0] not in self.origins]

    def profiled(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose cost is measured: none, or all that read images."""
        return (
            [] if self._profile is None else [p for p in self._of_roots() if self._fed_images(p[1])]
        )

    def viewed(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs with metrics of augmented views.

        None, or all whose samples are one image of one sensor and whose backbone reads images.
        """
        if not self._views:
            return []
        return [pair for pair in self.measured() if self._is_viewed(*pair)]

    def _is_viewed(self, dataset: str, backbone: str) -> bool:
        return self._fed_images(backbone) and not is_several(self.datasets[dataset])

    def _fed_images(self, backbone: str) -> bool:
        return kind_of(self.backbones[backbone]).pixels

    def paired(self) -> list[str]:
        """Datasets with similarities of backbones: none, or all with at least two that are not derived."""
        asked = self._measures is not None and self._measures.of_pairs is not None
        return [
            one
            for one in self.datasets
            if asked and one not in self.origins and len(self.roots_on(one)) > 1
        ]
