"""Which backbones, datasets and probes fit each other, decided from their entries alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from permafrost.backbones.input.contract import (
    InputContract,
    InputPlan,
    check_channels,
    check_kernel,
    input_contract,
    left_to_run,
    resolve_input,
    wavelengths_nm,
)
from permafrost.backbones.input.matching import OfferedBands, find_band, wishes
from permafrost.backbones.input.scaling import per_channel
from permafrost.backbones.kinds import Known, kind_of
from permafrost.backbones.torchgeo.inputs import copernicusfm_widths_nm
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.tasks import targets_of
from permafrost.data.derived import in_folds, origins_of
from permafrost.plan.misfits import Cell, Cells
from permafrost.plan.mistakes import Mistakes
from permafrost.probes.kinds import KINDS, ProbeKind

#: placeholder for the statistics of a band, which are only known from its images
NO_STATISTICS = {"mean": 0.0, "std": 1.0, "min": 0.0, "max": 1.0, "p2": 0.0, "p98": 1.0}


#: unit that weights expect -> a unit that a band can be stored in, if they differ
_STORED = {"unit_interval": "uint8", None: "reflectance"}


@dataclass(frozen=True)
class _Fed:
    """A backbone and its input contract."""

    name: str
    where: str
    known: Known
    contract: InputContract
    asks: tuple[str, ...]

    def check(self, card: OfferedBands) -> Cell:
        where = f"{self.where} on {card.dataset}"
        plan = resolve_input(self.contract, card, where=where)
        check_planned(plan, self.known, self.name, where)
        real, wanted = plan.bands_real, plan.bands_wanted
        return Cell(plan.policy, plan.fit, real, wanted, fingerprint(plan.recipe()), self.asks)

    def is_wrong(self, cards: list[OfferedBands]) -> bool:
        """Whether the entry is wrong for every dataset.

        True if even a dataset made to match its input would not fit, or if an entry without a
        sensor names a band that no dataset has.
        """
        contract = self.contract
        if contract.bands == "all":
            return False
        asked = wishes(contract.bands, contract.sensor)
        offered = [band for card in cards for band in card.bands]
        # band names that come with weights have a sensor; others were typed and may be misspelled
        if contract.sensor is None and any(
            not one.known and all(find_band(one, [band], where=None) is None for band in offered)
            for one in asked
        ):
            return True
        own = contract.unit if contract.normalization in ("weights", "two_sigma") else None
        try:
            units = per_channel(own, len(asked), "unit", self.where)
            bands = [
                {"name": one.name, "sensor": one.sensor, "common_name": one.common_name}
                | {"wavelength_nm": one.wavelength_nm or one.about_nm, "scale": 1.0, "offset": 0.0}
                | {"unit": _STORED.get(unit, unit), **NO_STATISTICS}
                for one, unit in zip(asked, units, strict=True)
            ]
            made = OfferedBands("", bands, [band["name"] for band in bands])
            plan = resolve_input(contract, made)
            check_channels(self.known.channels, plan, "the weights", self.where)
        except PermafrostError:
            return True
        return False


def check_planned(plan: InputPlan, known: Known, name: str, where: str) -> None:
    """Refuse an input that the backbone `name` cannot take.

    Raises
    ------
    PermafrostError : the number of channels is wrong, or a band lacks a wavelength or bandwidth.
    """
    check_channels(known.channels, plan, f"the weights of {name}", where)
    if known.radar is not None:
        wavelengths_nm(plan, where, radar=known.radar)
    if known.needs_widths:
        copernicusfm_widths_nm(plan, known.widths_nm, where)


def check_feeding(
    backbones: dict[str, tuple[dict, str, Known]],
    datasets: dict[str, tuple[list[dict], list[str]]],
    extraction: dict,
    mistakes: Mistakes,
    cells: Cells | None = None,
) -> dict[tuple[str, ...], PermafrostError]:
    """(dataset, backbone) -> what the backbone lacks there: bands, units, statistics, wavelengths.

    If no dataset could fit, the backbone's entry is wrong; this error is added to `mistakes`.

    Parameters
    ----------
    backbones : name -> entry, its place, and the known properties of its weights.
    datasets : name -> bands, and names of the selected ones.
    cells : if given, filled with the input of each pair that fits.
    """
    fed = []
    for name, (entry, where, known) in backbones.items():
        with mistakes.gathered():
            contract = input_contract(known.wants, entry["input"], extraction, where=where)
            if "kernel_size" in entry:
                check_kernel(entry["kernel_size"], contract.crop or contract.size, where)
            asks = left_to_run(known.wants, entry["input"])
            fed.append(_Fed(name, where, known, contract, asks))
    cards = [
        OfferedBands(name, [{**band, **NO_STATISTICS} for band in bands], selected)
        for name, (bands, selected) in datasets.items()
    ]
    # many backbones share a contract, and many datasets their bands: check each combination once
    fitting: dict[tuple, Cell] = {}
    found: dict[tuple[str, ...], PermafrostError] = {}
    wrong: dict[str, bool] = {}
    for card in cards:
        alike = repr((card.bands, card.selected))
        for one in fed:
            pair = (alike, one.contract, repr(dataclasses.replace(one.known, wants={})))
            try:
                if pair not in fitting:
                    fitting[pair] = one.check(card)
                if cells is not None:
                    cells[card.dataset, one.name] = fitting[pair]._replace(asks=one.asks)
            except PermafrostError as error:
                if one.name not in wrong:
                    wrong[one.name] = one.is_wrong(cards)
                if wrong[one.name]:
                    mistakes.add(error)
                else:
                    found[card.dataset, one.name] = error
    return found


def check_without_pixels(
    backbones: dict[str, dict],
    datasets: dict[str, dict],
    probes: dict[str, dict | None],
    places: Mapping[str, Callable[[str], str]],
) -> dict[tuple[str, ...], PermafrostError]:
    """Misfits of backbones without pixels: (dataset, backbone), or with a probe as third -> why.

    Such backbones use the location of an image only. Tables of embeddings have no maps, and probes
    that pass images to the backbone cannot use it.

    Parameters
    ----------
    backbones, datasets, probes : entries and options by name; None: the probe is switched off.
    places : for ``backbone``, name -> file and name of the entry.
    """
    found: dict[tuple[str, ...], PermafrostError] = {}
    images = {name for name, one in probes.items() if one and KINDS[one["kind"]].reads == "images"}
    for name, entry in backbones.items():
        if kind_of(entry).pixels:
            continue
        where = places["backbone"](name)
        for dataset, about in datasets.items():
            if "table" in entry and targets_of(about["task"]).dense:
                found[dataset, name] = PermafrostError(
                    f"the dataset {dataset!r} needs maps, and a table has one embedding for an image",
                    where=where,
                    remedy="use rasters of embeddings, or another configuration for this dataset",
                )
                continue
            serving = [
                one for one, options in probes.items() if options and _serves(options, about)
            ]
            refused: dict[tuple[str, ...], PermafrostError] = {
                (dataset, name, probe): PermafrostError(
                    f"the probe {probe!r} passes images to the backbone, and one of kind"
                    f" {entry['kind']} takes none",
                    where=where,
                    remedy="run this probe in another configuration, without this backbone",
                )
                for probe in serving
                if probe in images
            }
            if refused and len(refused) == len(serving):
                found[dataset, name] = next(iter(refused.values()))
            else:
                found |= refused
    return found


def check_probes(
    probes: dict, datasets: dict, named: list[str] | None, where: str, mistakes: Mistakes
) -> None:
    """Add datasets that no probe serves, and probes that serve no dataset, to `mistakes`.

    Parameters
    ----------
    probes, datasets : options and entries by name, without invalid ones.
    named : names of the configuration's datasets; None: unknown.
    """
    unserved: dict[str, list[str]] = {}
    for name, entry in datasets.items():
        if not any(_serves(options, entry) for options in probes.values()):
            unserved.setdefault(entry["task"], []).append(repr(name))
    for task, names in unserved.items():
        mistakes.add(_no_probe(task, names, where))
    for dataset, entry in datasets.items():
        for name, options in probes.items() if in_folds(entry) else ():
            if _serves(options, entry) and (problem := _not_pooled(options)):
                place = f"{where}: probes.{name}"
                text = f"{dataset} has folds, and {problem[0]}"
                mistakes.add(PermafrostError(text, where=place, remedy=problem[1]))
    if named is None or len(datasets) < len(named):
        # a probe may serve a dataset whose entry is invalid
        return
    for name, options in probes.items():
        if not any(_serves(options, entry) for entry in datasets.values()):
            mistakes.add(_no_dataset(name, options["kind"], datasets, f"{where}: probes.{name}"))


def _serves(options: dict, entry: dict) -> bool:
    kind = KINDS[options["kind"]]
    return kind.serves(entry["task"], entry["dates"]) and serves_derived(kind, entry)


def serves_derived(kind: ProbeKind, entry: dict) -> bool:
    """Whether a kind of probes can be run on a derived dataset; true of all others."""
    if not origins_of(entry):
        return True
    return kind.pooled if in_folds(entry) else kind.reads != "images"


def _not_pooled(options: dict) -> tuple[str, str] | None:
    """Why predictions of several folds cannot be pooled, and the remedy."""
    if options.get("masks", "none") != "none":
        return "predicted rasters of folds are not written", "write masks: none"
    if options.get("score_threshold", 0) is None:
        return (
            "each of them would choose another score_threshold on validation",
            "give a score_threshold, such as 0.3",
        )
    return None


def _no_dataset(probe: str, kind: str, datasets: dict, where: str) -> PermafrostError:
    served, series = KINDS[kind].tasks, KINDS[kind].series
    tasks = {entry["task"] for entry in datasets.values()}
    about = f"whose tasks are {', '.join(sorted(tasks))}"
    if tasks & served:
        about = "none of whose samples are series of dates"
    return PermafrostError(
        f"the probe {probe!r} of kind {kind} fits none of the datasets, {about}",
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
