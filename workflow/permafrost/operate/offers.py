"""Tables of the available datasets, backbones and probes, and which fit; reads no data."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.backbones.derived import parents_of
from permafrost.backbones.input.contract import input_contract, resolve_input
from permafrost.backbones.input.fit import STRICT
from permafrost.backbones.input.matching import OfferedBands
from permafrost.backbones.kinds import kind_of as backbone_kind_of
from permafrost.core import extras
from permafrost.core.errors import PermafrostError
from permafrost.core.plugins import add_plugins, places_of
from permafrost.core.specification import substitute
from permafrost.core.text import bytes_words, printable_name
from permafrost.data.download.steps import fetchable
from permafrost.data.files.members import is_junk
from permafrost.data.sources import checked_entry, kind_of
from permafrost.features.specification import ExtractionSettings
from permafrost.operate.chosen import (
    Choice,
    chosen,
    count_words,
    named_like,
    title_of,
    weights_state,
)
from permafrost.plan.catalogue import EVERY, Catalogue, catalogue_folders, read_yaml
from permafrost.plan.compatibility import (
    NO_STATISTICS,
    check_feeding,
    check_planned,
    check_without_pixels,
)
from permafrost.plan.derived import misfits_of_derived
from permafrost.plan.installed import installed
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.options import feeding_options
from permafrost.plan.validation import misfit, problems
from permafrost.probes.kinds import KINDS

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import InputPlan
    from permafrost.data.store.card import Card

_CONFIG = Path("config/config.yaml")
_LONGEST_CELL = 44


@dataclass(frozen=True)
class Offers:
    """The catalogues and the data folder of a project.

    Attributes
    ----------
    datasets, backbones : the catalogues.
    root : the project's folder, which relative paths refer to.
    data : the data folder.
    config : the configuration, not validated.
    """

    datasets: Catalogue
    backbones: Catalogue
    root: Path
    data: Path
    config: dict

    def dataset(self, name: str) -> dict:
        """The validated entry, with the data folder in its paths."""
        return substitute(self.datasets.entry(name), str(self.data))

    def extraction(self) -> dict:
        """The configuration's options of extraction and its policy `fit`, with defaults.

        Raises
        ------
        PermafrostError : an option is invalid.
        """
        asked = ("extraction", "fit")
        complete = copy.deepcopy({key: self.config[key] for key in asked if key in self.config})
        if not complete:
            # the same as of the schema, without the library of schemas, which is slow to import
            defaults = asdict(ExtractionSettings()).items()
            given = {key: value for key, value in defaults if value is not None}
            return feeding_options({"extraction": given}, STRICT)
        faults = problems(complete, "config")
        if wrong := [text for text, path in faults.items() if path[:1] and path[0] in asked]:
            raise misfit("; ".join(wrong), "config", where="the configuration")
        return feeding_options(complete)


def read_offers(root: Path, files: Sequence[Path] = (), data: Path | None = None) -> Offers:
    """The catalogues that the project's configuration and further `files` name.

    Parameters
    ----------
    data : replaces the configuration's data folder.

    Raises
    ------
    PermafrostError : a file cannot be read, or a catalogue is invalid.
    """
    config: dict = {"extra_datasets": {}, "extra_backbones": {}}
    own = root / _CONFIG
    for layer in map(read_yaml, [*([own] if own.exists() else []), *files]):
        extra = {key: config[key] | (layer.get(key) or {}) for key in config if "extra_" in key}
        config |= layer | extra
    add_plugins(places_of(config))
    folders = catalogue_folders(config, root)
    return Offers(
        Catalogue("dataset", folders, config["extra_datasets"], root),
        Catalogue("backbone", folders, config["extra_backbones"], root),
        root,
        root / config.get("data", "data") if data is None else data,
        config,
    )


type Rows = list[tuple[str, ...]]


def dataset_lines(offers: Offers, task: str | None = None, pattern: str | None = None) -> list[str]:
    """The lines of `dataset_table`."""
    return aligned(dataset_table(offers, task, pattern))


def dataset_table(offers: Offers, task: str | None = None, pattern: str | None = None) -> Rows:
    """A heading and a row per dataset: task, sensor, bands, dates, GSD, licence, state of the data.

    Parameters
    ----------
    task : only datasets of this task.
    pattern : as in `Choice`.
    """
    heading = ("name", "task", "sensor", "bands", "dates", "pixel", "licence", "data")

    def row(name: str, entry: dict) -> tuple[str, ...]:
        entry = substitute(entry, str(offers.data))
        ground = f"{entry['gsd_m']:g} m" if "gsd_m" in entry else "-"
        parts = list(entry["modalities"].values()) if "modalities" in entry else [entry]
        bands = str(sum(len(one["bands"]) for one in parts if "bands" in one) or "-")
        licence = entry.get("licence", "not given")
        sensor = ", ".join(dict.fromkeys(one.get("sensor", "-") for one in parts))
        dates = entry.get("dates", "one")
        return name, entry["task"], sensor, bands, dates, ground, licence, state_of(entry)

    names = [
        name
        for name in offers.datasets.names([EVERY])
        if named_like(name, title_of(offers.datasets, name), pattern)
    ]
    rows = _rows(offers.datasets, row, len(heading), names)
    return [heading, *(one for one in rows if task in (None, one[1]))]


def backbone_lines(offers: Offers, choice: Choice | None = None) -> list[str]:
    """The lines of `backbone_table`."""
    return aligned(backbone_table(offers, choice))


def backbone_table(offers: Offers, choice: Choice | None = None) -> Rows:
    """A heading and a row per matching backbone: title, kind, size, model, weights, licence.

    Raises
    ------
    PermafrostError : no backbone matches, or the dataset of `Choice.fits` is unknown.
    """
    heading = ("name", "title", "kind", "size", "model or weights", "weights", "licence")

    def row(name: str, entry: dict) -> tuple[str, ...]:
        weights = entry.get("weights")
        named = weights if isinstance(weights, str) else entry.get("model", "-")
        licence, title = entry.get("licence", "not given"), entry.get("title", "-")
        size = "-" if "parameters" not in entry else count_words(entry["parameters"])
        return name, title, entry["kind"], size, named, weights_state(offers, entry), licence

    choice, names = choice or Choice(), offers.backbones.names([EVERY])
    if choice.fits is not None:
        offers.datasets.entry(choice.fits)
        found = misfits(offers, [choice.fits], names)
        names = [name for name in names if found[choice.fits, name] is None]
    names = list(chosen(offers, names, choice))
    if not names:
        raise PermafrostError("no backbone matches", remedy="relax or correct the filters")
    return [heading, *_rows(offers.backbones, row, len(heading), names)]


def _rows(catalogue: Catalogue, row: Callable, columns: int, names: Iterable[str]) -> Rows:
    """A row per name. Entries are not validated, which takes a second; broken ones are marked."""
    rows = []
    for name in names:
        try:
            rows.append(row(name, catalogue.written(name)))
        except (PermafrostError, LookupError, TypeError, ValueError, AttributeError):
            broken = "broken entry: permafrost info says what is wrong"
            rows.append((name, broken, *[""] * (columns - 2)))
    return rows


def probe_lines(task: str | None = None, pattern: str | None = None) -> list[str]:
    """The lines of `probe_table`."""
    return aligned(probe_table(task, pattern), longest=90)


def probe_table(task: str | None = None, pattern: str | None = None) -> Rows:
    """A heading and a row per kind of probe: name, tasks, description."""
    rows = [
        (name, ", ".join(sorted(kind.tasks)), kind.brief)
        for name, kind in KINDS.items()
        if (task is None or task in kind.tasks) and named_like(name, kind.brief, pattern)
    ]
    return [("kind", "tasks", "what its command does"), *rows]


def data_places(entry: dict) -> list[Path]:
    """Files and folders of the data; empty for generated data."""
    source = entry["source"]
    if source["kind"] == "torchgeo":
        root = source.get("arguments", {}).get("root")
        return [] if root is None else [Path(root)]
    places = []
    for key in kind_of(source["kind"]).places:
        named = source.get(key)
        named = named.values() if isinstance(named, dict) else [named]
        # places that begin with <path>/ are inside another place
        places += [Path(place) for place in named if place and not place.startswith("<")]
    return places


def state_of(entry: dict) -> str:
    """Whether the data are on this machine, else how to get them; no file is read.

    ``generated``, ``here``, ``to get by hand``, or ``to fetch`` with the size if known.
    """
    places = data_places(entry)
    if not places:
        return "generated"
    if all(map(_is_here, places)):
        return "here"
    if not fetchable(entry):
        return "to get by hand"
    return "to fetch" + (f", {bytes_words(entry['size_bytes'])}" if "size_bytes" in entry else "")


def _is_here(place: Path) -> bool:
    if place.is_dir():
        return any(not is_junk(item.name) for item in place.iterdir())
    return place.exists()


def misfits(
    offers: Offers, datasets: Sequence[str], backbones: Sequence[str]
) -> dict[tuple[str, str], str | None]:
    """(dataset, backbone) -> why the pair does not fit, as a plan would report it; None: it fits.

    A pair that can only be checked in a job counts as fitting.
    """
    from permafrost.data.entry_checks import selected_bands

    extraction = offers.extraction()
    offered = functools.cache(lambda: installed(offers.root / ".snakemake" / "permafrost"))

    @functools.cache
    def bands_of(dataset: str) -> tuple[list[dict], list[str]] | PermafrostError:
        place = offers.datasets.where(dataset)
        try:
            return selected_bands(checked_entry(offers.dataset(dataset), where=place), where=place)
        except PermafrostError as error:
            return error

    @functools.cache
    def known(backbone: str) -> tuple | PermafrostError | None:
        where = offers.backbones.where(backbone)
        try:
            entry = offers.backbones.entry(backbone)
            wants = backbone_kind_of(entry).known(entry, where, offered)
        except PermafrostError as error:
            return error
        return None if wants is None else (entry, where, wants)

    # what check_feeding reads of a pair, without names: many backbones have the same input, and datasets the same bands
    of_bands = functools.cache(lambda dataset: repr(bands_of(dataset)))
    fitting: set[tuple[str, str]] = set()

    @functools.cache
    def of_input(backbone: str) -> str:
        entry, _, wants = known(backbone)  # type: ignore[misc]
        return repr((entry["input"], entry.get("kernel_size"), wants))

    found: dict[tuple[str, str], str | None] = {}
    for dataset, backbone in itertools.product(datasets, backbones):
        bands, fed = bands_of(dataset), known(backbone)
        mistakes = Mistakes()
        # a broken entry fits nothing; the other pairs are still checked
        mistakes.add(*[one for one in (bands, fed) if isinstance(one, PermafrostError)][:1])
        if not mistakes and _are_elsewhere(offers, dataset, backbone):
            mistakes.add(PermafrostError("embeddings do not exist for generated images"))
        # without mistakes, neither is an error
        if fed is not None and not mistakes:
            pair = of_bands(dataset), of_input(backbone)
            if pair not in fitting:
                refused = check_feeding({backbone: fed}, {dataset: bands}, extraction, mistakes)  # type: ignore[dict-item]
                mistakes.add(*refused.values())
            if not mistakes:
                fitting.add(pair)
                found[dataset, backbone] = None
                continue
        if fed is None and not mistakes:
            entries = (
                {backbone: offers.backbones.entry(backbone)},
                {dataset: offers.dataset(dataset)},
            )
            places: dict[str, Callable[[str], str]] = {"backbone": offers.backbones.where}
            mistakes.add(*check_without_pixels(*entries, {}, places).values())
            read = set(parents_of(offers.backbones.entry(backbone))) & set(
                offers.backbones.names([EVERY])
            )
            lacking: dict[tuple[str, ...], PermafrostError] = {
                names: PermafrostError(why)
                for names, why in misfits(offers, [dataset], sorted(read)).items()
                if why
            }
            mistakes.add(*misfits_of_derived(*entries, lacking, offers.backbones.where).values())
        try:
            mistakes.refuse(offers.backbones.where(backbone))
            found[dataset, backbone] = None
        except PermafrostError as error:
            found[dataset, backbone] = error.problem
    return found


def _are_elsewhere(offers: Offers, dataset: str, backbone: str) -> bool:
    """Whether a backbone's precomputed embeddings are missing, and the dataset is generated."""
    entry = offers.backbones.entry(backbone)
    if entry["kind"] != "embeddings" or offers.dataset(dataset)["source"]["kind"] != "demo":
        return False
    return not (offers.root / substitute(entry["path"], str(offers.data))).exists()


def planned_input(
    offers: Offers, dataset: str, backbone: str, known_card: Card | None = None
) -> InputPlan:
    """How a backbone's input tensor is made from a dataset.

    Parameters
    ----------
    known_card : the dataset's card; None: its statistics are unknown and replaced by 0 and 1.

    Raises
    ------
    PermafrostError : the dataset does not fit the backbone, or an entry is invalid.
    """
    from permafrost.data.entry_checks import selected_bands

    entry, described = offers.backbones.entry(backbone), offers.dataset(dataset)
    where, place = offers.backbones.where(backbone), offers.datasets.where(dataset)
    here = offers.root / ".snakemake" / "permafrost"
    kind = backbone_kind_of(entry)
    kind.check_model(where)
    known = kind.known(entry, where, lambda: installed(here))
    if known is None:
        raise PermafrostError(
            "the input of these weights is defined by their library, which is not installed",
            where=where,
            remedy=extras.remedy("workflow"),
        )
    card: Card | OfferedBands | None = known_card
    if card is None:
        bands, selected = selected_bands(checked_entry(described, where=place), where=place)
        card = OfferedBands(dataset, [{**band, **NO_STATISTICS} for band in bands], selected)
    contract = input_contract(known.wants, entry["input"], offers.extraction(), where=where)
    plan = resolve_input(contract, card, where=f"{where} on {dataset}")
    check_planned(plan, known, backbone, f"{where} on {dataset}")
    return plan


def aligned(rows: Rows, longest: int = _LONGEST_CELL) -> list[str]:
    """Rows of text as lines with aligned columns; cells are shortened to `longest` characters."""
    cells = [[printable_name(cell, longest) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
