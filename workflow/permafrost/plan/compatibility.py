"""Which parts of a configuration fit each other, from their entries alone: backbones, datasets, probes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from permafrost.backbones.galileo.bands import wants as galileo_wants
from permafrost.backbones.input.contract import (
    OWN_WANTS,
    WITHOUT_PIXELS,
    InputContract,
    check_channels,
    check_kernel,
    input_contract,
    resolve_input,
    wavelengths_nm,
)
from permafrost.backbones.input.matching import OfferedBands
from permafrost.backbones.olmoearth.bands import wants as olmoearth_wants
from permafrost.backbones.terratorch.families import family_of, wanted
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import task_of
from permafrost.plan.installed import Installed, Known
from permafrost.plan.mistakes import Mistakes
from permafrost.probes.kinds import KINDS

#: stands for the statistics of a band, which only its images tell
NO_STATISTICS = {"mean": 0.0, "std": 1.0, "min": 0.0, "max": 1.0, "p2": 0.0, "p98": 1.0}


#: kind of backbone -> from its entry to what it wants, for kinds whose own tables say it
WANTS_OF_ENTRY: dict[str, Callable[[dict], dict]] = {
    "galileo": lambda entry: galileo_wants(entry["groups"]),
    "olmoearth": lambda entry: olmoearth_wants(entry["modalities"]),
}


@dataclass(frozen=True)
class _Fed:
    """A backbone, and what it wants to be fed."""

    name: str
    where: str
    known: Known
    contract: InputContract

    def check(self, card: OfferedBands) -> None:
        where = f"{self.where} on {card.dataset}"
        plan = resolve_input(self.contract, card, where=where)
        check_channels(self.known.channels, plan, f"the weights of {self.name}", where)
        if self.known.radar is not None:
            wavelengths_nm(plan, where, radar=self.known.radar)


def known_of(entry: dict, offered: Callable[[], Installed | None], where: str) -> Known | None:
    """What is known of a backbone; None where only its job can tell, or it is fed nothing. An unknown name is refused.

    Parameters
    ----------
    offered : what is installed; asked only for kinds that come with a library.
    """
    kind = entry["kind"]
    if kind in WITHOUT_PIXELS:
        return None
    if kind in OWN_WANTS:
        return Known(OWN_WANTS[kind])
    if kind in WANTS_OF_ENTRY:
        return Known(WANTS_OF_ENTRY[kind](entry))
    if kind == "terratorch":
        family = family_of(entry["model"], where)
        if family.weights is None:
            return Known(wanted(entry, where))
        # what torchgeo's own weights want is known here
        installed, kind, entry = offered(), "torchgeo", {"weights": family.weights}
    else:
        # an environment of its own may have models that are not installed here
        installed = None if "environment" in entry else offered()
    return None if installed is None else getattr(installed, kind)(entry, where)


def check_feeding(
    backbones: dict[str, tuple[dict, str, Known]],
    datasets: dict[str, tuple[list[dict], list[str]]],
    extraction: dict,
    mistakes: Mistakes,
) -> None:
    """Add to `mistakes` what each backbone misses in each dataset: bands, units, statistics, wavelengths.

    Parameters
    ----------
    backbones : entry, place of the entry, and what is known of the weights, by name.
    datasets : bands and the names of those selected, by name.
    """
    fed = []
    for name, (entry, where, known) in backbones.items():
        with mistakes.gathered():
            contract = input_contract(known.wants, entry["input"], extraction, where=where)
            if "kernel_size" in entry:
                check_kernel(entry["kernel_size"], contract.crop or contract.size, where)
            fed.append(_Fed(name, where, known, contract))
    cards = [
        OfferedBands(name, [{**band, **NO_STATISTICS} for band in bands], selected)
        for name, (bands, selected) in datasets.items()
    ]
    # many backbones want the same of datasets that have the same bands
    fitting: set[tuple] = set()
    for card in cards:
        alike = repr((card.bands, card.selected))
        for one in fed:
            pair = (alike, one.contract, one.known.channels, repr(one.known.radar))
            if pair in fitting:
                continue
            with mistakes.gathered():
                one.check(card)
                fitting.add(pair)


def check_without_pixels(
    backbones: dict[str, dict],
    datasets: dict[str, dict],
    probes: dict[str, dict | None],
    places: dict[str, Callable[[str], str]],
    mistakes: Mistakes,
) -> None:
    """Add to `mistakes` what backbones are asked for that only know where images lie.

    Parameters
    ----------
    backbones, datasets, probes : entries and options by name; probes may be switched off.
    places : for ``backbone``, name -> file and name of the entry.
    """
    dense = [name for name, entry in datasets.items() if task_of(entry["task"]).dense]
    training = [
        name
        for name, options in probes.items()
        if options and KINDS[options["kind"]].reads == "images"
    ]
    for name, entry in backbones.items():
        if entry["kind"] not in WITHOUT_PIXELS:
            continue
        if training:
            mistakes.add(
                PermafrostError(
                    f"the probe {training[0]!r} feeds images to the backbone itself, and one of kind"
                    f" {entry['kind']} takes none",
                    where=places["backbone"](name),
                    remedy="run this probe in a configuration of its own, without this backbone",
                )
            )
        if "table" in entry and dense:
            mistakes.add(
                PermafrostError(
                    f"the dataset {dense[0]!r} needs maps, and a table has one embedding for an image",
                    where=places["backbone"](name),
                    remedy="use rasters of embeddings, or another configuration for this dataset",
                )
            )


def check_probes(
    probes: dict, datasets: dict, named: list[str] | None, where: str, mistakes: Mistakes
) -> None:
    """Every dataset needs a probe that serves it, and every probe a dataset.

    Parameters
    ----------
    probes, datasets : options and entries by name, of those that can be used.
    named : the datasets that the configuration asks for; None where that is not known.
    """
    unserved: dict[str, list[str]] = {}
    for name, entry in datasets.items():
        if not any(_serves(options, entry) for options in probes.values()):
            unserved.setdefault(entry["task"], []).append(repr(name))
    for task, names in unserved.items():
        mistakes.add(_no_probe(task, names, where))
    if named is None or len(datasets) < len(named):
        # a dataset that cannot be used may be the one that a probe is for
        return
    for name, options in probes.items():
        if not any(_serves(options, entry) for entry in datasets.values()):
            mistakes.add(_no_dataset(name, options["kind"], datasets, f"{where}: probes.{name}"))


def _serves(options: dict, entry: dict) -> bool:
    return KINDS[options["kind"]].serves(entry["task"], entry["dates"])


def _no_dataset(probe: str, kind: str, datasets: dict, where: str) -> PermafrostError:
    served, series = KINDS[kind].tasks, KINDS[kind].series
    tasks = {entry["task"] for entry in datasets.values()}
    about = f"whose tasks are {', '.join(sorted(tasks))}"
    if tasks & served:
        about = "none of whose samples are series of dates"
    return PermafrostError(
        f"the probe {probe!r} of kind {kind} serves none of the datasets, {about}",
        where=where,
        remedy=f"add a dataset of the task {' or '.join(sorted(served))}{' with dates: series' * series},"
        " or remove the probe",
    )


def _no_probe(task: str, datasets: list[str], where: str) -> PermafrostError:
    able = sorted(kind for kind, known in KINDS.items() if known.serves(task, "one"))
    return PermafrostError(
        f"no probe of this configuration serves the task {task!r} of dataset"
        f"{'s' if len(datasets) > 1 else ''} {' and '.join(datasets)}",
        where=f"{where}: probes",
        remedy=f"add a probe of kind {' or '.join(able)}" if able else "drop the dataset",
    )
