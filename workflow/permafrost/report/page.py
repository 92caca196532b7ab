"""The report: an overview page, a page per dataset and backbone, and figures; works offline."""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata, read_table
from permafrost.data.store.card import Card, read_card
from permafrost.metrics.calibration.confidence import BINS
from permafrost.report.explanations.leaderboard_state import left_out_words, same_words
from permafrost.report.material.dataset import Material, slug
from permafrost.report.material.extraction_times import read_extraction_times
from permafrost.report.notation import interval, number, signed
from permafrost.report.sections.backbone import NEEDED, backbone_page, backbone_sections
from permafrost.report.sections.dataset import (
    dataset_line,
    dataset_section,
    shown,
    trained_on_flags,
)
from permafrost.report.sections.derived import derived_overview, derived_section
from permafrost.report.sections.ensembles import ensembles_section
from permafrost.report.sections.explorer import embedded, explorer, not_told_apart
from permafrost.report.sections.extraction_times import extraction_section
from permafrost.report.sections.harder import harder_section
from permafrost.report.sections.image_map import image_map_section
from permafrost.report.sections.overview import overview
from permafrost.report.sections.published import add_published
from permafrost.report.sections.run import backbone_facts, incomplete_section, run_section
from permafrost.report.sections.scores import scores_section
from permafrost.report.sections.several import several_section
from permafrost.report.tables.portfolio import each_portfolio, portfolio_block
from permafrost.report.tables.recorded import read_runs
from permafrost.report.tables.suspected import reading_none
from permafrost.statistics.leaderboard.derived import DerivedLine, set_apart
from permafrost.statistics.leaderboard.harder import Loss, losses_of
from permafrost.statistics.leaderboard.rows import copies, distinct, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.predictions.reading import Predictions

_TEMPLATE = Path(__file__).parent / "template"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Inputs of a report, and how it is written.

    Attributes
    ----------
    plan : the recorded plan (``plan``, ``config``, ``backbones``, ``datasets``, ``probes``).
    leaderboard : path of the leaderboard table.
    standings : path of the standings (`standings.write_standings`); without them there is no
        overall ranking.
    cards : dataset -> card.json.
    predictions : (dataset, backbone, seed, probe) -> predictions table.
    scores : the same keys -> table of scores, with the charts of detections.
    images : (dataset, split) -> image store. If a store is missing, a sentence replaces the
        pictures.
    comparisons : (dataset, probe) -> comparison table.
    similarities : dataset -> table of pairs of backbones, if requested.
    features : (dataset, backbone) -> feature store of test. If a store is missing, the map of the test
        images says so.
    logs : (dataset, backbone) -> log of the extraction, for its time per image; it may be missing.
    expect : path (as text) -> required fingerprint of the file.
    examples : number of test images shown per dataset; picture_seed : seed of their choice.
    hardware : description of the machine, name -> value (`provenance.describe_machine`).
    incomplete : missing results and their causes, if jobs failed (`leaderboard_state.describe`).
    """

    plan: dict
    leaderboard: Path
    cards: Mapping[str, Path]
    predictions: Mapping[tuple[str, str, int, str], Path]
    images: Mapping[tuple[str, str], Path]
    comparisons: Mapping[tuple[str, str], Path]
    scores: Mapping[tuple[str, str, int, str], Path] = field(default_factory=dict)
    similarities: Mapping[str, Path] = field(default_factory=dict)
    features: Mapping[tuple[str, str], Path] = field(default_factory=dict)
    logs: Mapping[tuple[str, str], Path] = field(default_factory=dict)
    standings: Path | None = None
    published: Path | None = None
    expect: Mapping[str, str] = field(default_factory=dict)
    title: str = "Permafrost"
    examples: int = 12
    picture_seed: int = 0
    hardware: Mapping[str, object] | None = None
    incomplete: Mapping | None = None

    def write(self, folder) -> None:
        """Write ``folder/{index.html, backbones/*.html, datasets/*.html, figures/*}`` completely or
        not at all.

        Raises
        ------
        PermafrostError : an input is missing, damaged or from another plan.
        """
        table, gathered = read_table(self.leaderboard, expect=self._expected(self.leaderboard))
        rows, compared, derived = set_apart(table.to_pylist(), self._compared(), gathered)
        made = [
            read_metadata(path, expect=self._expected(path)) for path in self.predictions.values()
        ]
        scores = scores_section(table, rows)
        standings, tests = self._standings()
        times = read_extraction_times(self.logs, made)
        facts = backbone_facts(self.plan["backbones"], made, times)
        entrance = explorer(
            self.plan, rows, compared, standings=standings, tests=tests, facts=facts
        )
        shared = {"title": self.title, "times": times, **scores}
        with _rare_garbage_collection(), whole_directory(folder) as partial:
            for name in ("figures", "datasets", "backbones"):
                (partial / name).mkdir()
            # one dataset at a time, to bound memory
            alike, losses = not_told_apart(entrance), losses_of(rows)
            lines = [
                self._write_dataset(
                    self._material(name, rows),
                    shared,
                    partial,
                    alike,
                    [one for one in derived if one.row["dataset"] == name],
                    [one for one in losses if one.of == name],
                )
                for name in distinct(rows, "dataset")
            ]
            sections = backbone_sections(self.plan, [line["told"] for line in lines], made, facts)
            pages = self._write_backbones(sections, shared, partial)
            parts = {key: any(line["shown"][key] for line in lines) for key in lines[0]["shown"]}
            from markupsafe import Markup

            drawn = overview(entrance, tests, partial / "figures")
            several, curves = several_section(
                self.plan, merge_seeds(overall(rows)), self._runs, partial / "figures"
            )
            # figures show only the run's own scores
            if published := self._published():
                add_published(entrance, published, overall(rows), self.plan)
            values = {
                **shared,
                "datasets": [line["values"] for line in lines],
                "dataset_pages": {line["told"]["name"]: line["told"]["href"] for line in lines},
                "shown": parts,
                **run_section(self.plan, [gathered, *made], facts, self.hardware),
                "pages": pages,
                "incomplete": incomplete_section(self.incomplete),
                "left_out": self.plan.get("left_out", []),
                "overview": drawn,
                "explorer": Markup(embedded(entrance)),
                "derived": derived_overview(derived),
                "several": several,
                "portfolios": [
                    portfolio_block(*found)
                    for found in each_portfolio(
                        merge_seeds(overall(rows)), gathered.get("derived_datasets", ())
                    )
                ],
                "several_figures": [shown(figure) for figure in curves],
            }
            _write(partial / "index.html", "index.html.j2", values)

    def _write_dataset(
        self,
        material: Material,
        shared: dict,
        folder: Path,
        alike: dict,
        derived: list[DerivedLine],
        losses: list[Loss],
    ) -> dict:
        """Write the page of one dataset; returns its line for the overview page."""
        comparisons = _of_dataset(self.comparisons, material.name)
        section = dataset_section(material, comparisons, folder / "figures")
        section["derived"], drawn = derived_section(
            derived, merge_seeds(overall(material.rows)), folder / "figures"
        )
        section["derived_depths"] = any(one.block for one in derived)
        section["derived_figures"] = [shown(figure) for figure in drawn]
        section["harder"], drawn = harder_section(losses, material, self.images, folder / "figures")
        section["harder_figures"] = [shown(figure) for figure in drawn]
        own = {
            name: path
            for name, path in _of_dataset(self.features, material.name).items()
            if self.plan["backbones"].get(name, {}).get("kind") != "derived"
        }
        section["image_map"] = image_map_section(material, own, folder / "figures")
        section["extraction"] = (
            [] if section["costs"] else extraction_section(material, shared["times"])
        )
        section["ensembles"] = ensembles_section(overall(material.rows), self._runs)
        section["lines"] = [line for line in shared["lines"] if line["dataset"] == material.name]
        compared = {row["backbone"] for row in material.rows}
        section["flags"] += trained_on_flags(
            self.plan["datasets"].get(material.name, {}),
            {name: one for name, one in self.plan["backbones"].items() if name in compared},
        )
        section["left_out"] = left_out_words(
            self.plan.get("left_out", []), "dataset", material.name
        )
        section["same"] = same_words(copies(material.rows), "dataset", material.name)
        section["anchor"] = f"dataset-{slug(material.name)}"
        page = f"datasets/{slug(material.name)}.html"
        _write(folder / page, "dataset.html.j2", {**shared, "notices": [], "dataset": section})
        told = {"href": page, **{key: section[key] for key in NEEDED}}
        return {**dataset_line(section, page, alike), "told": told}

    def _write_backbones(self, sections: list[dict], shared: dict, folder: Path) -> dict[str, str]:
        """Write the page of each backbone; returns their paths."""
        pages = {}
        for section in sections:
            page = pages[section["name"]] = backbone_page(section["name"])
            _write(
                folder / page, "backbone.html.j2", {**shared, "notices": [], "backbone": section}
            )
        return pages

    def _material(self, name: str, rows: list[dict]) -> Material:
        """The data for the figures of one dataset."""
        judged = self.plan["config"].get("calibration") or {}
        shown = set(distinct(rows, "backbone"))
        predictions = _of_dataset(self.predictions, name)
        return Material(
            name,
            self._card(name),
            [row for row in rows if row["dataset"] == name],
            {key: path for key, path in predictions.items() if key[0] in shown},
            _of_dataset(self.images, name),
            _of_dataset(self.scores, name),
            self.expect,
            self.examples,
            self.picture_seed,
            self.similarities.get(name),
            bins=judged.get("bins", BINS),
            bins_like=judged.get("like"),
            sets=judged.get("sets"),
            reading_none=reading_none(self.plan["backbones"]),
        )

    def _card(self, dataset: str) -> Card:
        if dataset not in self.cards:
            raise PermafrostError(
                f"no card is given for the dataset {dataset!r}", remedy="run snakemake again"
            )
        card = read_card(self.cards[dataset], expect=self._expected(self.cards[dataset]))
        # display texts are not in the card, so that a new title reruns nothing
        entry = self.plan["datasets"].get(dataset, {})
        said = ("title", "published", "licence", "citation", "size_bytes")
        words = {key: entry[key] for key in said if entry.get(key)}
        return replace(card, **words)

    def _standings(self) -> tuple[list[dict], list[dict]]:
        """Rows of the standings, and the results of tests over datasets."""
        if self.standings is None:
            return [], []
        table, about = read_table(self.standings, expect=self._expected(self.leaderboard))
        return table.to_pylist(), about.get("tests", [])

    def _published(self) -> list[dict]:
        if self.published is None:
            return []
        return read_table(self.published, expect=self._expected(self.leaderboard))[0].to_pylist()

    def _runs(self, dataset: str, probe: str) -> dict[str, dict[int, Predictions]]:
        """Backbone -> seed -> predictions of backbones that are not derived."""
        return read_runs(
            (backbone, seed, path, self._expected(path))
            for (of, backbone, seed, by), path in self.predictions.items()
            if (of, by) == (dataset, probe)
            and self.plan["backbones"].get(backbone, {}).get("kind") != "derived"
        )

    def _compared(self) -> dict[tuple[str, str], list[dict]]:
        return {
            key: read_table(path, expect=self._expected(path))[0].to_pylist()
            for key, path in self.comparisons.items()
        }

    def _expected(self, path) -> str | None:
        return self.expect.get(str(path))


@contextlib.contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage a hundred times less often, and exclude existing objects.

    Figures consist of many small short-lived objects: with the default thresholds, collection takes
    a tenth of the time.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100 * thresholds[0], *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _of_dataset(paths: Mapping[tuple, Path], dataset: str) -> dict:
    """The entries of a dataset, keyed by the rest of their key (a single name without a tuple)."""
    own_paths = {key[1:]: path for key, path in paths.items() if key[0] == dataset}
    return {key[0] if len(key) == 1 else key: path for key, path in own_paths.items()}


def _write(path: Path, template: str, values: dict) -> None:
    path.write_text(render_page(template, values), encoding="utf-8")


def render_page(template: str, values: dict) -> str:
    """Fill a template; every value is escaped; a missing value is an error."""
    from markupsafe import Markup

    # the figures' script comes first, because it listens to the explorer's start event
    parts = ["page.js", *(["overview.js", "explorer.js"] if "explorer" in values else [])]
    mapped = (values.get("dataset") or {}).get("image_map")
    parts += ["image_map.js"] if mapped and mapped["data"] else []
    script = "".join((_TEMPLATE / name).read_text(encoding="utf-8") for name in parts)
    run = [script, *([str(values["overview"]["library"])] if values.get("overview") else [])]
    own = {
        "css": Markup((_TEMPLATE / "page.css").read_text(encoding="utf-8")),
        "js": Markup(script),
        "scripts": Markup(" ".join(map(_source, run))),  # a browser runs only these
    }
    return _templates().get_template(template).render(**values, **own) + "\n"


def _source(script: str) -> str:
    """The hash source of a script for a content security policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


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
