"""The report: figures, and one page that shows everything and works without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata, read_table
from permafrost.data.card import read_card
from permafrost.metrics.calibration.confidence import BINS

from .material import Material
from .rows import distinct
from .sections.dataset import dataset_section
from .sections.incomplete import incomplete_section
from .sections.run import run_section
from .sections.scores import scores_section

_TEMPLATE = Path(__file__).parent / "template"


def build_report(
    *,
    plan: dict,
    leaderboard_path,
    cards: Mapping[str, Path],
    predictions: Mapping[tuple[str, str, int, str], Path],
    images: Mapping[tuple[str, str], Path],
    comparisons: Mapping[tuple[str, str], Path],
    similarities: Mapping[str, Path] | None = None,
    output_dir,
    expect: Mapping[str, str] | None = None,
    title: str = "Permafrost",
    examples: int = 12,
    picture_seed: int = 0,
    hardware: Mapping[str, object] | None = None,
    incomplete: Mapping | None = None,
) -> None:
    """Write ``output_dir/index.html`` and ``output_dir/figures/*.{png,svg}``, whole or not at all.

    Parameters
    ----------
    plan : the recorded plan (``plan``, ``config``, ``backbones``, ``datasets``, ``probes``).
    leaderboard_path : the leaderboard table.
    cards : dataset -> card.json.
    predictions : (dataset, backbone, seed, probe) -> predictions table.
    images : (dataset, split) -> image store. A store that is missing costs the pictures, which a
        sentence replaces.
    comparisons : (dataset, probe) -> comparison table.
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
    with whole_directory(output_dir) as folder:
        figures = folder / "figures"
        figures.mkdir()
        materials = _materials(
            rows,
            plan,
            cards,
            predictions,
            images,
            expect,
            examples,
            picture_seed,
            similarities or {},
        )
        values = {
            "title": title,
            **scores_section(table, rows),
            "datasets": [
                dataset_section(material, _of_dataset(comparisons, material.name), figures)
                for material in materials
            ],
            **run_section(plan, [gathered, *metadata], hardware),
            "incomplete": incomplete_section(incomplete),
        }
        (folder / "index.html").write_text(render_page(values), encoding="utf-8")


def _materials(
    rows, plan, cards, predictions, images, expect, examples, picture_seed, similarities
) -> Iterator[Material]:
    """What each dataset's figures are drawn from; arguments as `build_report`."""
    for name in distinct(rows, "dataset"):
        yield Material(
            name,
            {**_read_card(cards, name, expect), **_described(plan["datasets"].get(name, {}))},
            [row for row in rows if row["dataset"] == name],
            _of_dataset(predictions, name),
            _of_dataset(images, name),
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


def _read_card(cards: Mapping[str, Path], dataset: str, expect: Mapping[str, str]) -> dict:
    if dataset not in cards:
        raise PermafrostError(
            f"no card is given for the dataset {dataset!r}", remedy="run snakemake again"
        )
    return read_card(cards[dataset], expect=expect.get(str(cards[dataset])))


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
