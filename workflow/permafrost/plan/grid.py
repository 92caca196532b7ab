"""What is run: which backbones, probes and seeds on which datasets, whatever their jobs are identified by."""

from __future__ import annotations

from permafrost.backbones.kinds import kind_of
from permafrost.plan.configuration import Configuration
from permafrost.plan.options import is_seeded, is_several
from permafrost.probes.kinds import KINDS

_PAIR = ("dataset", "backbone")
_EVALUATION = ("dataset", "backbone", "probe", "seed")
#: stage -> what its jobs are named by, in the order of the flow
LABELS = {
    "prepare": ("dataset",),
    "extract": _PAIR,
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
    """What a configuration asks to be run, in its order.

    Attributes
    ----------
    config : complete. backbones, datasets : entries by name, of those with a pair that fits.
    named_datasets : of all that the configuration names.
    probes : options by name.
    misfits, cells : what is left out and why, and what the others are fed, see `permafrost.plan.misfits`.
    """

    def __init__(self, chosen: Configuration) -> None:
        self.config = chosen.config
        self.backbones, self.datasets = chosen.backbones, chosen.datasets
        self.named_datasets = chosen.named_datasets
        self.probes, self.misfits, self.cells = chosen.probes, chosen.misfits, chosen.cells
        self._measures, self._profile = chosen.measures, chosen.profile
        self._views = self._measures and self._measures.views

    def every(self) -> dict[str, list[tuple]]:
        """Stage to the names of its jobs, see `LABELS`, in the order of the flow."""
        evaluations = list(self.evaluations())
        found = {
            "prepare": [(name,) for name in self.datasets],
            "extract": self.pairs(),
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

    def pairs(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs that fit each other, in the configuration's order."""
        return [(dataset, one) for dataset in self.datasets for one in self.backbones_on(dataset)]

    def backbones_on(self, dataset: str, probe: str | None = None) -> list[str]:
        """Names of the backbones that fit the dataset, and the probe where one is named."""
        if not self.misfits:
            return list(self.backbones)
        names = [(dataset, one) for one in self.backbones]
        return [
            pair[1]
            for pair in names
            if pair not in self.misfits and (*pair, probe) not in self.misfits
        ]

    def probes_of(self, dataset: str) -> list[str]:
        """Names of the probes that serve the dataset: its task, and the dates of its samples."""
        entry = self.datasets[dataset]
        several = is_several(self.datasets[dataset])
        return [
            name
            for name, options in self.probes.items()
            # what reads images itself knows one image of one sensor
            if KINDS[options["kind"]].serves(entry["task"], entry["dates"])
            and not (several and KINDS[options["kind"]].reads == "images")
        ]

    def seeds_of(self, probe: str) -> list[int]:
        """The seeds a probe runs with: all of the configuration's, or 0 if chance plays no part."""
        return list(self.config["seeds"]) if is_seeded(self.probes[probe]) else [0]

    def evaluations(self):
        """All (dataset, backbone, probe, seed), in the configuration's order."""
        for dataset in self.datasets:
            probes = self.probes_of(dataset)
            for backbone in self.backbones_on(dataset):
                for probe in probes:
                    if (dataset, backbone, probe) in self.misfits:
                        continue
                    for seed in self.seeds_of(probe):
                        yield dataset, backbone, probe, seed

    def compared(self) -> list[tuple[str, str]]:
        """(dataset, probe) pairs with something to compare: two backbones or more."""
        return [
            (dataset, probe)
            for dataset in self.datasets
            for probe in self.probes_of(dataset)
            if len(self.backbones_on(dataset, probe)) > 1
        ]

    def measured(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose features are measured: all or none."""
        return [] if self._measures is None else self.pairs()

    def profiled(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs whose costs are measured: none, or all that are fed images."""
        return [] if self._profile is None else [p for p in self.pairs() if self._fed_images(p[1])]

    def viewed(self) -> list[tuple[str, str]]:
        """(dataset, backbone) pairs of which augmented views are measured: all of one image and one sensor, or none."""
        if not self._views:
            return []
        return [pair for pair in self.measured() if self._is_viewed(*pair)]

    def _is_viewed(self, dataset: str, backbone: str) -> bool:
        return self._fed_images(backbone) and not is_several(self.datasets[dataset])

    def _fed_images(self, backbone: str) -> bool:
        return kind_of(self.backbones[backbone]).pixels

    def paired(self) -> list[str]:
        """Datasets on which backbones are measured against each other: all or none."""
        asked = self._measures is not None and self._measures.of_pairs is not None
        return [one for one in self.datasets if asked and len(self.backbones_on(one)) > 1]
