"""The page of one dataset: its card, its figures, its paired comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.core.text import bytes_words
from permafrost.data.derived import VALUES
from permafrost.report.explanations.gates import explain, explain_at_length, leakage_flags
from permafrost.report.figures.dataset import counted_of
from permafrost.report.figures.numbers import target_words
from permafrost.report.material.dataset import Drawn, Material
from permafrost.report.notation import true_minus
from permafrost.report.sections.calibration import calibration_section
from permafrost.report.sections.costs import costs_section
from permafrost.report.sections.measures import measures_section
from permafrost.report.sections.scores import comparison_lines, comparison_remarks
from permafrost.report.tasks.dataset_figures import draw_dataset
from permafrost.report.tasks.label_figures import draw_suspected
from permafrost.report.tasks.slice_figures import draw_failures
from permafrost.statistics.leaderboard.rows import better_first, brief_count, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

if TYPE_CHECKING:
    from permafrost.data.store.card import Card


# largest number of named backbones next to the best; with more, only their number
_NAMED = 2
_SPATIAL = {"short": explain("spatially_random"), "long": explain_at_length("spatially_random")}


def dataset_section(material: Material, comparisons: Mapping[str, Path], folder: Path) -> dict:
    """Template values of a dataset; its figures are drawn into `folder`.

    Parameters
    ----------
    comparisons : probe -> comparison table.
    """
    figures, notes = draw_dataset(material, folder)
    calibration, of_calibration = calibration_section(material, comparisons, folder)
    measures, of_measures = measures_section(material, folder)
    costs, of_costs = costs_section(material, folder)
    of_slices, slices = draw_failures(material, folder)
    of_labels, labels = draw_suspected(material, folder)
    card = material.card
    return {
        "name": material.name,
        "title": card.title or "",
        "task": card.task,
        "counts": [card.splits.get(split, {}).get("count") for split in SPLITS],
        "flags": dataset_flags(card),
        "facts": card_facts(card),
        "splits": split_lines(card),
        "audit": audit_facts(card),
        "figures": [shown(figure) for figure in figures],
        "notes": notes,
        "calibration": calibration,
        "calibration_figures": [shown(figure) for figure in of_calibration],
        "measures": measures,
        "measure_figures": [shown(figure) for figure in of_measures],
        "costs": costs,
        "cost_figures": [shown(figure) for figure in of_costs],
        "slices": slices,
        "slice_figures": [shown(figure) for figure in of_slices],
        "labels": labels,
        "label_figures": [shown(figure) for figure in of_labels],
        "comparisons": (compared := _comparisons(material, comparisons)),
        "comparison_remarks": comparison_remarks(compared),
    }


def dataset_flags(card: Card) -> list[dict]:
    """Warnings about all scores of a dataset, short and long."""
    flags = leakage_flags(card)
    flags += [_SPATIAL] if card.spatially_random else []
    if doubts := card.audit.get("bands"):
        found = "; ".join(doubt["found"] for doubt in doubts)
        long = f"In train {found}. Check the order, the names and the units of the bands in the dataset's entry."
        flags = [*flags, {"short": "pixels contradict what is declared of bands", "long": long}]
    return flags


def trained_on_flags(entry: Mapping, backbones: Mapping[str, Mapping]) -> list[dict]:
    """Backbones that were trained on images of a dataset, according to the catalogue entries.

    Parameters
    ----------
    entry : of the dataset; its `images_of` lists the collections that backbones list under
        `trained_on`.
    backbones : their entries by name.
    """
    seen = {
        name: sorted({*one.get("trained_on", [])} & {*entry.get("images_of", [])})
        for name, one in backbones.items()
    }
    told = [f"{name} (on {', '.join(sources)})" for name, sources in seen.items() if sources]
    if not told:
        return []
    long = (
        f"According to their entries, these were trained on collections that contain these images: {'; '.join(told)}."
        " Images of the test split may have been among them, with or without labels, so their scores may be too high."
    )
    return [{"short": "some backbones were pre-trained on this dataset's images", "long": long}]


def card_facts(card: Card) -> list[tuple[str, str]]:
    """A dataset's card as (what, value) lines."""
    sizes, masks = card.image_size, targets_of(card.task).masks
    facts = [
        ("task", card.task),
        ("classes", str(len(card.classes)) if card.classes else ""),
        *_target(card),
        ("ignored mask value", _or_none(card.ignore_index) if masks else ""),
        ("dead classes", _dead(card) if masks else ""),
        *_objects(card),
        *_choice(card),
        *_modalities(card),
        ("bands", ", ".join(band["name"] for band in card.bands)),
        ("offered to backbones", ", ".join(card.selected)),
        ("image size", _size(sizes["min"], sizes["max"])),
        ("ground sampling distance", f"{card.gsd_m:g} m" if card.gsd_m else "not known"),
        ("split", _split(card)),
        *_unmatched(card),
        ("images left out, not readable", ", ".join(card.skipped or [])),
        ("as published", card.published or ""),
        ("licence", card.licence or "not given"),
        ("citation", card.citation or "not given"),
        ("download", bytes_words(card.size_bytes) if card.size_bytes else ""),
    ]
    return [fact for fact in facts if fact[1]]


def _choice(card: Card) -> list[tuple[str, str]]:
    """Components and date that form a sample's image, and the number of samples without."""
    if card.choice is None:
        return []
    if "grid" in card.choice:
        return _grid(card.choice["grid"])
    date, left_out = card.choice.get("date", ""), card.choice["left_out"]
    named = date
    if isinstance(date, int):
        named = f"number {date}, from 0" if date >= 0 else f"number {-date} from the end"
    labels = ", ".join(f"{name} ({what})" for what, name in card.choice["labels"].items())
    return [
        ("parts of a sample that are its image", ", ".join(card.choice["parts"])),
        ("of several dates", named),
        ("samples without them, left out", str(left_out) if left_out else ""),
        ("labels are in", labels),
    ]


def _unmatched(card: Card) -> list[tuple[str, str]]:
    """Number of samples excluded for all backbones because one has no embedding of them."""
    said = []
    for backbone, of_split in (card.unmatched or {}).items():
        parts = ", ".join(f"{count} of {split}" for split, count in of_split.items() if count)
        said.append(f"{parts or 'none'} ({backbone})")
    return [("left out for all backbones, without an embedding", "; ".join(said))]


def _grid(grid: dict) -> list[tuple[str, str]]:
    """Tiling of a raster, and the number of excluded tiles with reasons."""
    (across, down), block = grid["pixel"], grid["block"]
    stride = grid["stride"]
    apart = "" if stride == grid["size"] else f", every {stride} pixels"
    left_out = [f"{count} with {why}" for why, count in grid["left_out"].items() if count]
    buffer = f", tiles of two at least {grid['buffer_m']:g} m apart" if grid["buffer_m"] else ""
    return [
        ("coordinate system of the tiles", grid["crs"]),
        (
            "grid",
            f"{grid['pixels'][1]} x {grid['pixels'][0]} pixels of {across:g} x {down:g} units",
        ),
        ("tiles", f"{grid['size']} pixels{apart}"),
        ("blocks of tiles", f"{block[0]} x {block[1]} pixels{buffer}" if block else ""),
        ("tiles left out", "; ".join(left_out)),
    ]


def _modalities(card: Card) -> list[tuple[str, str]]:
    """Sensors and dates of a sample, if it has more than one image."""
    facts = []
    for one in card.modalities or []:
        height, width = one["largest_size"]
        words = [f"{width} x {height} pixels"] if one["name"] else []
        dates = one["dates"]
        if dates is not None:
            few, most = dates["fewest"], dates["most"]
            words.append(f"{most} dates" if few == most else f"{few} to {most} dates")
            if dates["first"] is not None:
                words.append(f"{dates['first']} to {dates['last']}")
        facts.append((f"images {one['name']}" if one["name"] else card.dates, ", ".join(words)))
    return facts


# what geometries of annotations mean for the scores
_SCORED = {
    "polygon": ", scored by its box",
    "oriented_box": ": the smallest rectangle around each outline",
}
_MASKED = {"polygon": "polygon, scored by its mask", "box": "mask"}


def _objects(card: Card) -> list[tuple[str, str]]:
    """Kind of objects, and how they are cut into windows and matched."""
    options = card.detection
    if not options:
        return []
    geometry = options["geometry"]
    scored = f"{geometry}{_SCORED.get(geometry, '')}"
    if targets_of(card.task).instances:
        scored = _MASKED[geometry]
    tiles, distance = options["tiles"], options["match_distance"]
    cut = f"{tiles['size']} pixels, {100 * tiles['overlap']:g} % shared" if tiles else "none"
    facts = [
        ("geometry of objects", scored),
        ("objects are in pixels of", options.get("reference", "")),
        ("windows", cut),
    ]
    if distance is not None:
        return [*facts, ("a point is found within", f"{distance:g} pixels")]
    return [
        *facts,
        ("detections of an image that are scored", f"{options['max_detections']} of a class"),
    ]


def _target(card: Card) -> list[tuple[str, str]]:
    """The regression target, and its distribution in train."""
    if card.target is None:
        return []
    train = card.target["splits"]["train"]
    spread = f"{train['mean']:.4g} ± {train['std']:.4g} in train"
    return [("target", f"{target_words(card)}, {spread}"), *_without_data(card.target["splits"])]


def _without_data(splits: dict) -> list[tuple[str, str]]:
    """Number of pixels without a value, if pixels have values."""
    gone = {
        name: split["without_data"] for name, split in splits.items() if "without_data" in split
    }
    shares = ", ".join(f"{100 * share:.3g} % of {name}" for name, share in gone.items())
    return [("pixels without data", shares)] if gone else []


def _extremes(card: Card) -> tuple[str, str]:
    """Labels of the last two lines of the table of splits."""
    counted = counted_of(card)
    if counted == "numbers":
        return "smallest target", "largest target"
    of = "" if counted == "samples" else f" ({counted})"
    return f"smallest class{of}", f"largest class{of}"


def _or_none(value) -> str:
    return "none" if value is None else str(value)


def _dead(card: Card) -> str:
    names = [card.classes[index] for index in card.dead_classes or []]
    return f"{', '.join(names)} (in no mean)" if names else "none"


def _size(smallest: list[int], largest: list[int]) -> str:
    if smallest == largest:
        return f"{smallest[0]} × {smallest[1]} pixels"
    return f"{smallest[0]} × {smallest[1]} to {largest[0]} × {largest[1]} pixels"


def _split(card: Card) -> str:
    made = {
        "given": "as given by the data",
        "random": "made at random"
        + {"regression": ", stratified by tenth of the target", "pixel_regression": ""}.get(
            card.task, ", stratified by class"
        ),
        "group": "made by group",
        "block": "made by spatial block",
        "derived": _derived_split(card.derived or {}),
    }.get(card.split_method, card.split_method)
    return made if card.split_method == "given" else f"{made}, seed {card.split_seed}"


def _derived_split(derived: Mapping) -> str:
    """How the images of a derived dataset were divided; empty for others."""
    if not derived:
        return ""
    if "folds" in derived:
        folds, names = derived["folds"], derived["folds_tested"]
        apart = f", {folds['buffer_km']:g} km apart" if "buffer_km" in folds else ""
        by = folds.get("column", folds["by"])
        values = "column" in folds or by in VALUES or folds.get("k") == "each"
        named = f" ({', '.join(names)})" if values and len(names) < 7 else ""
        return (
            f"images of {derived['of']} in {len(names)} folds by {by}{named}{apart}; each image of test is "
            "answered by a probe that is trained on the others; train and val are those of the smallest fold"
        )
    if "share" in derived:
        return f"{100 * derived['share']:g} % of the train and val images of {derived['of']}"
    if "harder" in derived:
        ((kind, severity),) = derived["harder"].items()
        return f"images of {derived['of']}; those of test degraded: {kind}, severity {severity}"
    lost = derived.get("left_out") or {}
    dropped = ", ".join(f"{count} of {name}" for name, count in lost.items())
    return (
        f"trained on {derived['train']}, tested on {derived['test']}"
        f"{f'; images of other classes left out: {dropped}' if dropped else ''}"
    )


def split_lines(card: Card) -> dict:
    """A table with a column per split, whose width does not grow with the number of quantities.

    Returns
    -------
    ``names`` of the splits, and ``lines`` (quantity, its value in each split); classes of masks are
    counted in pixels.
    """
    columns = [_split_values(name, card) for name in card.splits]
    lines = [(name, [column[name] for column in columns]) for name in columns[0]]
    return {"names": list(card.splits), "lines": lines}


def _split_values(name: str, card: Card) -> dict[str, str]:
    split = card.splits[name]
    counts = split["class_counts"] or [0]
    words: Callable[[Any], str] = brief_count if targets_of(card.task).masks else str
    if card.target is not None:
        counts = [card.target["splits"][name][key] for key in ("min", "max")]
        words = lambda value: true_minus(f"{value:.4g}")  # noqa: E731
    values = {"samples": str(split["count"]), "groups": _or_unknown(split.get("groups"))}
    values |= {"without a place on Earth": _or_unknown(split.get("without_place"))}
    if counted_of(card) == "objects":
        objects = (card.detection or {}).get("splits", {}).get(name, {})
        named = (
            ("images", "images"),
            ("without objects", "empty"),
            ("objects", "objects"),
            ("crowds", "crowd"),
            ("cut at the edge", "clipped"),
            ("left out, without area in the image", "without_area"),
        )
        values |= {title: _or_unknown(objects.get(key)) for title, key in named}
    extremes = zip(_extremes(card), (min(counts), max(counts)), strict=True)
    return values | {title: words(count) for title, count in extremes}


def _or_unknown(value) -> str:
    return "not known" if value is None else str(value)


def audit_facts(card: Card) -> list[dict]:
    """The leakage audit as lines; ``bad`` if train and test overlap."""
    audit = card.audit
    lines = [
        ("exact duplicates across splits", audit.get("exact_duplicates")),
        ("near-duplicates across splits (perceptual hash)", audit.get("near_duplicates")),
        ("groups shared by splits", audit.get("shared_groups")),
        ("test images in training or validation", _total(audit.get("test_in_train"))),
        ("test images that copy others of test", _total(audit.get("copies_in_test"))),
    ]
    facts = [
        {"name": name, "value": "not checked" if value is None else f"{value}", "bad": bool(value)}
        for name, value in lines
    ]
    distance = audit.get("min_distance_km")
    shown = "no coordinates" if distance is None else f"{distance:.3g} km"
    facts.append(
        {"name": "smallest distance from train to test", "value": shown, "bad": distance == 0}
    )
    return facts


def _total(counts: Mapping[str, int] | None) -> int | None:
    """Total number of counted images of all kinds."""
    return None if counts is None else sum(n for kind, n in counts.items() if kind != "units")


def _comparisons(material: Material, paths: Mapping[str, Path]) -> list[dict]:
    lines = []
    for probe, path in sorted(paths.items()):
        compared = material.compared(path)
        of_probe = sorted(merge_seeds(overall(material.rows, probe=probe)), key=better_first)
        if of_probe:
            best, metric = of_probe[0]["backbone"], of_probe[0]["metric"]
            rows = [row for row in compared if row["metric"] == metric]
            lines += [{**line, "best": best} for line in comparison_lines(rows, best)]
    return lines


def shown(figure: Drawn) -> dict:
    """Template values of a figure."""
    return {
        "file": figure.path.name,
        "alt": figure.alt,
        "caption": figure.caption,
        "wide": figure.wide,
        "width": figure.size[0],
        "height": figure.size[1],
    }


def dataset_line(section: dict, page: str, alike: Mapping[tuple[str, str], list[str]]) -> dict:
    """A dataset's line on the overview page; `page` is the path of its own page.

    Parameters
    ----------
    alike : see `explorer.not_told_apart`.

    Returns
    -------
    ``values`` for the template, and ``shown``: the parts that need an explanation.
    """
    bests: dict[str, list[dict]] = {}
    for line in section["lines"]:
        if line["place"] in ("1", "1="):
            bests.setdefault(line["probe"], []).append(line)
    values = {
        **{key: section[key] for key in ("name", "title", "anchor", "task", "counts", "flags")},
        "href": page,
        "bests": [
            {**lines[0], **_named(lines, alike.get((section["name"], probe), []))}
            for probe, lines in bests.items()
        ],
    }
    shown = {key: bool(section[key]) for key in ("calibration", "measures", "costs")}
    return {"values": values, "shown": {**shown, "objects": targets_of(section["task"]).objects}}


def _named(best: list[dict], alike: list[str]) -> dict:
    """The best backbone: its name, the number of ``others`` not significantly worse, and whether it is ``certain``."""
    names = [line["backbone"] for line in best]
    others = sorted({*alike} - {*names})
    return {
        "backbone": " = ".join(names),
        "others": " or ".join(others) if len(others) <= _NAMED else f"{len(others)} others",
        "certain": len(names) == 1 and alike == names,
    }
