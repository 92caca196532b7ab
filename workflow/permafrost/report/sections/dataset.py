"""What the page says about one dataset: its card, its figures, its paired comparisons."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from permafrost.core.tables import read_table

from ..dataset_figures import draw_dataset
from ..figures.dataset import counted_of
from ..figures.numbers import target_words
from ..gates import explain, explain_at_length
from ..material import Drawn, Material
from ..rows import better_first, brief_count, overall
from ..score_text import p_value_text
from ..seeds import merge_seeds
from .calibration import calibration_section
from .costs import costs_section
from .measures import measures_section

_IMAGE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
# pictures hold pixels, so PNG is smaller; charts stay sharp as SVG
_PNG_KINDS = ("strip__", "pictures__", "backbones__", "detections__", "detections_backbones__")
_PIXELS_PER_INCH = 110  # on the page: text in figures is then about as large as text around them


def dataset_section(material: Material, comparisons: Mapping[str, Path], folder: Path) -> dict:
    """Everything that the template asks of a dataset; its figures are drawn into `folder`.

    Parameters
    ----------
    comparisons : probe -> comparison table.
    """
    figures, notes = draw_dataset(material, folder)
    calibration, of_calibration = calibration_section(material, comparisons, folder)
    measures, of_measures = measures_section(material, folder)
    costs, of_costs = costs_section(material, folder)
    card = material.card
    return {
        "name": material.name,
        "title": card.get("title") or "",
        "spatially_random": card["spatially_random"],
        "spatial_words": explain_at_length("spatially_random"),
        "facts": card_facts(card),
        "splits": [split_line(name, card) for name in card["splits"]],
        "counted": counted_of(card),
        "extremes": _extremes(card),
        "audit": audit_facts(card),
        "figures": [_embed(figure) for figure in figures],
        "notes": notes,
        "calibration": calibration,
        "calibration_figures": [_embed(figure) for figure in of_calibration],
        "measures": measures,
        "measure_figures": [_embed(figure) for figure in of_measures],
        "costs": costs,
        "cost_figures": [_embed(figure) for figure in of_costs],
        "comparisons": (compared := _comparisons(material, comparisons)),
        "comparison_remarks": comparison_remarks(compared),
    }


def card_facts(card: dict) -> list[tuple[str, str]]:
    """A dataset's card as (what, value) lines."""
    sizes, masks = card["image_size"], card["task"] == "segmentation"
    facts = [
        ("task", card["task"]),
        ("classes", str(len(card["classes"])) if card["classes"] else ""),
        *_target(card),
        ("ignored mask value", _or_none(card.get("ignore_index")) if masks else ""),
        ("dead classes", _dead(card) if masks else ""),
        *_objects(card),
        ("bands", ", ".join(band["name"] for band in card["bands"])),
        ("offered to backbones", ", ".join(card["selected"])),
        ("image size", _size(sizes["min"], sizes["max"])),
        ("ground sampling distance", f"{card['gsd_m']:g} m" if card.get("gsd_m") else "not known"),
        ("split", _split(card)),
        ("licence", card.get("licence") or "not given"),
        ("citation", card.get("citation") or "not given"),
    ]
    return [fact for fact in facts if fact[1]]


def _objects(card: dict) -> list[tuple[str, str]]:
    """What objects are, and how they are shown and matched."""
    given = card.get("detection")
    if not given:
        return []
    geometry = given["geometry"]
    scored = f"{geometry}, scored by its box" if geometry == "polygon" else geometry
    tiles, distance = given["tiles"], given["match_distance"]
    cut = f"{tiles['size']} pixels, {100 * tiles['overlap']:g} % shared" if tiles else "none"
    facts = [("geometry of objects", scored), ("windows", cut)]
    if distance is not None:
        return [*facts, ("a point is found within", f"{distance:g} pixels")]
    return [
        *facts,
        ("detections of an image that are scored", f"{given['max_detections']} of a class"),
    ]


def _target(card: dict) -> list[tuple[str, str]]:
    """What number is predicted, and how it is spread in train."""
    if "target" not in card:
        return []
    train = card["target"]["splits"]["train"]
    spread = f"{train['mean']:.4g} ± {train['std']:.4g} in train"
    return [("target", f"{target_words(card)}, {spread}"), *_without_data(card["target"]["splits"])]


def _without_data(splits: dict) -> list[tuple[str, str]]:
    """How many pixels have no number, where pixels have numbers at all."""
    gone = {
        name: split["without_data"] for name, split in splits.items() if "without_data" in split
    }
    shares = ", ".join(f"{100 * share:.3g} % of {name}" for name, share in gone.items())
    return [("pixels without data", shares)] if gone else []


def _extremes(card: dict) -> tuple[str, str]:
    """What the last two columns of the table of splits hold."""
    counted = counted_of(card)
    if counted == "numbers":
        return "smallest target", "largest target"
    of = "" if counted == "samples" else f" ({counted})"
    return f"smallest class{of}", f"largest class{of}"


def _or_none(value) -> str:
    return "none" if value is None else str(value)


def _dead(card: dict) -> str:
    names = [card["classes"][index] for index in card.get("dead_classes") or []]
    return f"{', '.join(names)} (in no mean)" if names else "none"


def _size(smallest: list[int], largest: list[int]) -> str:
    if smallest == largest:
        return f"{smallest[0]} × {smallest[1]} pixels"
    return f"{smallest[0]} × {smallest[1]} to {largest[0]} × {largest[1]} pixels"


def _split(card: dict) -> str:
    made = {
        "given": "as given by the data",
        "random": "made at random"
        + {"regression": ", stratified by tenth of the target", "pixel_regression": ""}.get(
            card["task"], ", stratified by class"
        ),
        "group": "made by group",
        "block": "made by spatial block",
    }.get(card["split_method"], card["split_method"])
    return made if card["split_method"] == "given" else f"{made}, seed {card['split_seed']}"


def split_line(name: str, card: dict) -> dict:
    """One split of a card as a line of a table; of masks, classes are counted in pixels."""
    split = card["splits"][name]
    counts = split["class_counts"] or [0]
    if "target" in card:
        counts = [card["target"]["splits"][name][key] for key in ("min", "max")]
    groups = split.get("groups")
    words = brief_count if card["task"] == "segmentation" else str
    words = "{:.4g}".format if "target" in card else words
    objects = (card.get("detection") or {}).get("splits", {}).get(name, {})
    return {
        "name": name,
        **{key: objects.get(key) for key in ("images", "objects", "empty", "crowd")},
        "count": split["count"],
        "groups": "not known" if groups is None else groups,
        "smallest": words(min(counts)),
        "largest": words(max(counts)),
    }


def audit_facts(card: dict) -> list[dict]:
    """The leakage audit as lines; ``bad`` where train and test share something."""
    audit = card["audit"]
    lines = [
        ("exact duplicates across splits", audit.get("exact_duplicates")),
        ("near-duplicates across splits (perceptual hash)", audit.get("near_duplicates")),
        ("groups shared by splits", audit.get("shared_groups")),
    ]
    facts = [
        {"name": name, "value": "not checked" if value is None else f"{value}", "bad": bool(value)}
        for name, value in lines
    ]
    distance = audit.get("min_distance_km")
    shown = "no coordinates" if distance is None else f"{distance:.3g} km"
    facts.append(
        {"name": "smallest distance from train to test", "value": shown, "bad": distance == 0}
    )  # fmt: skip
    return facts


def _comparisons(material: Material, paths: Mapping[str, Path]) -> list[dict]:
    lines = []
    for probe, path in sorted(paths.items()):
        table, _ = read_table(path, expect=material.expect.get(str(path)))
        own = sorted(merge_seeds(overall(material.rows, probe=probe)), key=better_first)
        if own:
            best, metric = own[0]["backbone"], own[0]["metric"]
            rows = [row for row in table.to_pylist() if row["metric"] == metric]
            lines += [{**line, "best": best} for line in comparison_lines(rows, best)]
    return lines


def comparison_lines(rows: list[dict], best: str) -> list[dict]:
    """Paired differences of the best backbone against each other one, signs turned accordingly."""
    lines = []
    for row in rows:
        if best not in (row["backbone_a"], row["backbone_b"]):
            continue
        turned = row["backbone_b"] == best
        sign = -1 if turned else 1
        limits = [sign * row["lower"], sign * row["upper"]]
        lines.append(
            {
                **row,
                "other": row["backbone_a"] if turned else row["backbone_b"],
                "difference": sign * row["difference"],
                "lower": min(limits),
                "upper": max(limits),
                "p_text": p_value_text(row["p_adjusted"], smallest=1 / (row["resamples"] + 1)),
            }
        )
    return sorted(
        lines, key=lambda line: (line["probe"], line["seed"], line["difference"], line["other"])
    )


def comparison_remarks(lines: list[dict]) -> list[str]:
    """The gates that comparisons met, in sentences, each with the probes that it is of."""
    probes: dict[str, set[str]] = {}
    for line in lines:
        for gate in filter(None, line["gates"].split(";")):
            probes.setdefault(gate, set()).add(line["probe"])
    return [
        f"{', '.join(sorted(probes[gate]))}: {explain(gate)}. {explain_at_length(gate)}"
        for gate in sorted(probes)
    ]


def _embed(figure: Drawn) -> dict:
    kind = "png" if figure.stem.name.startswith(_PNG_KINDS) else "svg"
    path = figure.stem.with_name(f"{figure.stem.name}.{kind}")
    coded = base64.b64encode(path.read_bytes()).decode()
    return {
        "data": f"data:{_IMAGE_TYPES[kind]};base64,{coded}",
        "alt": figure.alt,
        "caption": figure.caption,
        "wide": figure.wide,
        "width": round(_PIXELS_PER_INCH * figure.inches),
    }
