"""The report: figures, and one page that shows everything and works without a network."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata, read_table
from permafrost.statistics.ranks import missing_results

from . import content
from .dataset_figures import draw_dataset
from .gates import explain_at_length
from .material import Drawn, Material
from .rows import better_first, distinct, overall
from .seeds import merge_seeds

_TEMPLATE = Path(__file__).parent / "template"
_IMAGE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
# pictures hold pixels, so PNG is smaller; charts stay sharp as SVG
_PNG_KINDS = ("strip__", "pictures__", "backbones__")
_PIXELS_PER_INCH = 110  # on the page: text in figures is then about as large as text around them


def build_report(
    *,
    plan: dict,
    leaderboard_path,
    cards: Mapping[str, Path],
    predictions: Mapping[tuple[str, str, int, str], Path],
    images: Mapping[str, Path],
    comparisons: Mapping[tuple[str, str], Path],
    output_dir,
    expect: Mapping[str, str] | None = None,
    title: str = "Permafrost",
    examples: int = 12,
    picture_seed: int = 0,
    hardware: Mapping[str, object] | None = None,
) -> None:
    """Write ``output_dir/index.html`` and ``output_dir/figures/*.{png,svg}``, whole or not at all.

    Parameters
    ----------
    plan : the recorded plan (``plan``, ``config``, ``backbones``, ``datasets``, ``probes``).
    leaderboard_path : the leaderboard table.
    cards : dataset -> card.json.
    predictions : (dataset, backbone, seed, probe) -> predictions table.
    images : dataset -> test image store. A dataset or a store that is missing costs the pictures,
        which a sentence replaces.
    comparisons : (dataset, probe) -> comparison table.
    expect : path (as text) -> fingerprint that the file must carry.
    examples : test images shown per dataset; picture_seed : chooses them.
    hardware : what was run on, name -> value (`provenance.describe_machine`).

    Raises
    ------
    PermafrostError : an input is missing, damaged or made from another plan.
    """
    expect = {} if expect is None else expect
    table, _ = read_table(leaderboard_path, expect=expect.get(str(leaderboard_path)))
    rows = table.to_pylist()
    metadata = [read_metadata(path, expect=expect.get(str(path))) for path in predictions.values()]
    with whole_directory(output_dir) as folder:
        (folder / "figures").mkdir()
        datasets = [
            _dataset(
                Material(
                    name,
                    {**_read_card(cards, name), **_described(plan["datasets"].get(name, {}))},
                    [row for row in rows if row["dataset"] == name],
                    {key[1:]: path for key, path in predictions.items() if key[0] == name},
                    images.get(name),
                    expect,
                    examples,
                    picture_seed,
                ),
                {probe: path for (dataset, probe), path in comparisons.items() if dataset == name},
                folder / "figures",
            )
            for name in distinct(rows, "dataset")
        ]
        page = render_page(
            {
                "title": title,
                "plan_hash": plan["plan"],
                "backbones": content.entry_lines(plan["backbones"]),
                "dataset_entries": content.entry_lines(plan["datasets"]),
                "probes": content.entry_lines(
                    plan.get("probes") or plan["config"].get("probes", {})
                ),
                "settings": _settings(plan["config"]),
                "summary": content.summary(rows),
                "lines": content.leaderboard_lines(rows),
                "several_seeds": any(len(line["seeds"]) > 1 for line in merge_seeds(overall(rows))),
                "confidence": _confidence(rows),
                "datasets": datasets,
                "gates": content.gates_met(rows),
                "missing": missing_results(table),
                "versions": content.versions_met([plan, *metadata]),
                "hardware": [
                    (str(name), _words(value)) for name, value in (hardware or {}).items()
                ],
                "compute": content.compute_words(metadata),
            }
        )
        (folder / "index.html").write_text(page, encoding="utf-8")


def render_page(values: dict) -> str:
    """Fill the template; every value is escaped, a value that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {
        "css": Markup((_TEMPLATE / "page.css").read_text(encoding="utf-8")),
        "js": Markup((_TEMPLATE / "page.js").read_text(encoding="utf-8")),
    }
    return environment.get_template("page.html.j2").render(**values, **own) + "\n"


def _described(entry: dict) -> dict:
    """What an entry says to people. The card has none of it, so that a new title reruns nothing."""
    return {key: entry[key] for key in ("title", "licence", "citation") if entry.get(key)}


def _dataset(material: Material, comparisons: Mapping[str, Path], folder: Path) -> dict:
    figures, notes = draw_dataset(material, folder)
    card = material.card
    return {
        "name": material.name,
        "title": card.get("title") or "",
        "spatially_random": card["spatially_random"],
        "spatial_words": explain_at_length("spatially_random"),
        "facts": content.card_facts(card),
        "splits": [content.split_line(name, card) for name in card["splits"]],
        "counted": "pixels" if card["task"] == "segmentation" else "samples",
        "audit": content.audit_facts(card),
        "figures": [_embed(figure) for figure in figures],
        "notes": notes,
        "comparisons": _comparisons(material, comparisons),
    }


def _comparisons(material: Material, paths: Mapping[str, Path]) -> list[dict]:
    lines = []
    for probe, path in sorted(paths.items()):
        table, _ = read_table(path, expect=material.expect.get(str(path)))
        own = sorted(merge_seeds(overall(material.rows, probe=probe)), key=better_first)
        if own:
            best = own[0]["backbone"]
            lines += [
                {**line, "best": best} for line in content.comparison_lines(table.to_pylist(), best)
            ]
    return lines


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


def _words(value) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none found"
    return "not known" if value is None else str(value)


def _confidence(rows: list[dict]) -> str:
    levels = distinct(overall(rows), "confidence") if rows else []
    return " or ".join(f"{100 * level:g} %" for level in levels)


def _settings(config: dict) -> list[tuple[str, str]]:
    """The rest of the configuration, section by section, as indented JSON."""
    shown = ("backbones", "datasets", "probes")
    return [
        (name, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))
        for name, value in sorted(config.items())
        if name not in shown
    ]


def _read_card(cards: Mapping[str, Path], dataset: str) -> dict:
    if dataset not in cards:
        raise PermafrostError(
            f"no card is given for the dataset {dataset!r}", remedy="run snakemake again"
        )
    try:
        return json.loads(Path(cards[dataset]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PermafrostError(
            f"the card of dataset {dataset!r} cannot be read ({error})",
            where=cards[dataset],
            remedy="delete the file and run snakemake again",
        ) from error
