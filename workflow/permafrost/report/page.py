"""The report: a page over everything, a page for each dataset, and their figures; all works without a network."""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata, read_table
from permafrost.data.card import Card, read_card
from permafrost.metrics.calibration.confidence import BINS
from permafrost.report.material.dataset import Material, slug
from permafrost.report.sections.dataset import dataset_line, dataset_section
from permafrost.report.sections.incomplete import incomplete_section
from permafrost.report.sections.run import run_section
from permafrost.report.sections.scores import scores_section
from permafrost.report.tables.summary import read_summary
from permafrost.report.values.notation import interval, number, signed
from permafrost.report.values.rows import distinct

_TEMPLATE = Path(__file__).parent / "template"


def build_report(
    *,
    plan: dict,
    leaderboard_path,
    summary_path=None,
    cards: Mapping[str, Path],
    predictions: Mapping[tuple[str, str, int, str], Path],
    images: Mapping[tuple[str, str], Path],
    comparisons: Mapping[tuple[str, str], Path],
    scores: Mapping[tuple[str, str, int, str], Path] | None = None,
    similarities: Mapping[str, Path] | None = None,
    output_dir,
    expect: Mapping[str, str] | None = None,
    title: str = "Permafrost",
    examples: int = 12,
    picture_seed: int = 0,
    hardware: Mapping[str, object] | None = None,
    incomplete: Mapping | None = None,
) -> None:
    """Write ``output_dir/{index.html, datasets/*.html, figures/*}``, whole or not at all.

    Parameters
    ----------
    plan : the recorded plan (``plan``, ``config``, ``backbones``, ``datasets``, ``probes``).
    leaderboard_path : the leaderboard table.
    summary_path : the summary over datasets (`summary.write_summary`); without it none is shown.
    cards : dataset -> card.json.
    predictions : (dataset, backbone, seed, probe) -> predictions table.
    images : (dataset, split) -> image store. A store that is missing costs the pictures, which a
        sentence replaces.
    comparisons : (dataset, probe) -> comparison table.
    scores : (dataset, backbone, seed, probe) -> table of scores, which holds the charts of detections.
    similarities : dataset -> table of pairs of backbones, where it was asked for.
    expect : path (as text) -> fingerprint that the file must carry.
    examples : test images shown per dataset; picture_seed : chooses them.
    hardware : what was run on, name -> value (`provenance.describe_machine`).
    incomplete : of a run of which jobs failed, what lacks and why (`incomplete.describe`).

    Raises
    ------
    PermafrostError : an input is missing, damaged or made from another plan.
    """
    expect = {} if expect is None else expect
    table, gathered = read_table(leaderboard_path, expect=expect.get(str(leaderboard_path)))
    rows = table.to_pylist()
    metadata = [read_metadata(path, expect=expect.get(str(path))) for path in predictions.values()]
    shared = {"title": title, **scores_section(table, rows, _summary(summary_path, rows))}
    with _rare_garbage_collection(), whole_directory(output_dir) as folder:
        for name in ("figures", "datasets"):
            (folder / name).mkdir()
        materials = _materials(
            rows,
            plan,
            cards,
            predictions,
            scores or {},
            images,
            expect,
            examples,
            picture_seed,
            similarities or {},
        )
        lines = []
        for material in materials:
            # one dataset after the other: what was drawn of it is written before the next is read
            section = dataset_section(
                material, _of_dataset(comparisons, material.name), folder / "figures"
            )
            section["lines"] = [
                line for line in shared["lines"] if line["dataset"] == material.name
            ]
            section["anchor"] = f"dataset-{slug(material.name)}"
            page = f"datasets/{slug(material.name)}.html"
            _write(folder / page, "dataset.html.j2", {**shared, "notices": [], "dataset": section})
            lines.append(dataset_line(section, page))
        values = {
            **shared,
            "datasets": [line["values"] for line in lines],
            "shown": {key: any(line["shown"][key] for line in lines) for key in lines[0]["shown"]},
            **run_section(plan, [gathered, *metadata], hardware),
            "incomplete": incomplete_section(incomplete),
        }
        _write(folder / "index.html", "index.html.j2", values)


@contextlib.contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage a hundred times less often, and never look at what was read before.

    Figures are many small objects that live briefly: with the usual thresholds a tenth of the time goes into
    looking through them and all rows again and again.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100 * thresholds[0], *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _summary(path, rows: list[dict]) -> list[dict]:
    """The rows of the summary over datasets, if it is of the backbones and probes of the leaderboard."""
    if path is None:
        return []
    found = read_summary(path)
    scored = {(row["probe"], row["backbone"]) for row in rows if row["primary"]}
    if {(row["probe"], row["backbone"]) for row in found} != scored:
        raise PermafrostError(
            "the summary over datasets is of another leaderboard",
            where=path,
            remedy="delete the file and run snakemake again",
        )
    return found


def _materials(
    rows, plan, cards, predictions, scores, images, expect, examples, picture_seed, similarities
) -> Iterator[Material]:
    """What each dataset's figures are drawn from; arguments as `build_report`."""
    for name in distinct(rows, "dataset"):
        yield Material(
            name,
            replace(_read_card(cards, name, expect), **_described(plan["datasets"].get(name, {}))),
            [row for row in rows if row["dataset"] == name],
            _of_dataset(predictions, name),
            _of_dataset(images, name),
            _of_dataset(scores, name),
            expect,
            examples,
            picture_seed,
            similarities.get(name),
            bins=(plan["config"].get("calibration") or {}).get("bins", BINS),
        )


def _of_dataset(paths: Mapping[tuple, Path], dataset: str) -> dict:
    """The entries of a dataset, by what follows its name in the key (one name alone as such)."""
    found = {key[1:]: path for key, path in paths.items() if key[0] == dataset}
    return {key[0] if len(key) == 1 else key: path for key, path in found.items()}


def _described(entry: dict) -> dict:
    """What an entry says to people. The card has none of it, so that a new title reruns nothing."""
    return {key: entry[key] for key in ("title", "licence", "citation") if entry.get(key)}


def _read_card(cards: Mapping[str, Path], dataset: str, expect: Mapping[str, str]) -> Card:
    if dataset not in cards:
        raise PermafrostError(
            f"no card is given for the dataset {dataset!r}", remedy="run snakemake again"
        )
    return read_card(cards[dataset], expect=expect.get(str(cards[dataset])))


def _write(path: Path, template: str, values: dict) -> None:
    path.write_text(render_page(template, values), encoding="utf-8")


def render_page(template: str, values: dict) -> str:
    """Fill a template; every value is escaped, a value that is not given is an error."""
    from markupsafe import Markup

    script = (_TEMPLATE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = {
        "css": Markup((_TEMPLATE / "page.css").read_text(encoding="utf-8")),
        "js": Markup(script),
        "js_hash": Markup(f"sha256-{digest}"),  # a browser runs this script and no other
    }
    return _templates().get_template(template).render(**values, **own) + "\n"


@functools.cache
def _templates():
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"number": number, "signed": signed, "interval": interval}
    return environment
