"""Data for the figures of a dataset, and saving a figure with its texts."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.store_readers import is_here
from permafrost.core.tables import read_table
from permafrost.core.tasks import task_of
from permafrost.report.figures.style import save_figure
from permafrost.report.figures.vega import as_svg
from permafrost.statistics.leaderboard.rows import better_first, finite, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

Evaluation = tuple[str, int, str]  # (backbone, seed, probe)
# makes text in figures about as large as the surrounding text on the page
_PIXELS_PER_INCH, _LARGER = 110, 1.15
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


@dataclass
class Material:
    """Data for a dataset's figures.

    Attributes
    ----------
    name : of the dataset.
    card : its card.
    rows : its leaderboard rows.
    predictions : (backbone, seed, probe) -> path of a predictions table.
    scores : (backbone, seed, probe) -> path of a table of scores.
    stores : split -> path of its image store, which may be missing.
    expect : path -> required fingerprint of the file.
    examples : number of test images to show; picture_seed : seed of their choice.
    similarity : path of the table of pairs of backbones, if there is one.
    bins, bins_like : settings of the reliability diagrams, as for the scores.
    sets : options of prediction sets, as for the scores; None if there are none.
    reading_none : backbones that read no images.
    """

    name: str
    card: Card
    rows: list[dict]
    predictions: Mapping[Evaluation, Path]
    stores: Mapping[str, Path]
    scores: Mapping[Evaluation, Path] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    examples: int = 12
    picture_seed: int = 0
    similarity: Path | None = None
    bins: int = 15
    bins_like: str | None = None
    sets: Mapping | None = None
    reading_none: Collection[str] = ()

    @functools.cached_property
    def lines(self) -> list[dict]:
        """Its primary scores, with seeds merged into one line."""
        return merge_seeds(overall(self.rows))

    def expected(self, path) -> str | None:
        """The required fingerprint of the file at `path`."""
        return self.expect.get(str(path))

    def compared(self, path) -> list[dict]:
        """The rows of a table of comparisons, of backbones that have rows here."""
        own = {row["backbone"] for row in self.rows}
        rows = read_table(path, expect=self.expected(path))[0].to_pylist()
        return [row for row in rows if {row["backbone_a"], row["backbone_b"]} <= own]

    @property
    def images(self) -> Path | None:
        """Path of the test image store; None if none is planned."""
        return self.stores.get("test")

    @property
    def without_images(self) -> str | None:
        """Why no pictures can be shown, as a sentence; None if the image store is available."""
        if self.images is not None and is_here(self.images):
            return None
        return (
            f"No test images are shown: the image store of {self.name} is not here. An archive leaves "
            "stores out by default; snakemake computes them again."
        )

    def first_seeds(self) -> list[Evaluation]:
        """Every (backbone, seed, probe) with predictions, at the lowest seed of its probe."""
        lowest: dict[str, int] = {}
        for _, seed, probe in self.predictions:
            lowest[probe] = min(seed, lowest.get(probe, seed))
        return sorted(key for key in self.predictions if key[1] == lowest[key[2]])


@dataclass(frozen=True)
class Drawn:
    """A figure on disk: path, alternative text, whether it is wide, and its size in pixels."""

    path: Path
    alt: str
    caption: str
    wide: bool
    size: tuple[int, int]


def best_evaluation(material: Material, backbone: str | None = None) -> Evaluation | None:
    """(backbone, seed, probe) of the best primary score with available predictions.

    Only scores of the dataset's own task are considered, not those of retrieval. With several
    seeds, the best mean over seeds wins and its lowest seed is used, so that a lucky seed is not
    selected. With `backbone` only its evaluations are considered.
    """
    lines = [
        line
        for line in material.lines
        if finite(line["value"])
        and task_of(line["task"]).of_datasets
        and backbone in (None, line["backbone"])
        and _first(material, line) is not None
    ]
    if not lines:
        return None
    line = min(lines, key=lambda line: (*better_first(line), line["probe"]))
    return line["backbone"], _first(material, line), line["probe"]


def _first(material: Material, line: dict) -> int | None:
    known = [
        seed
        for seed in line["seeds"]
        if (line["backbone"], seed, line["probe"]) in material.predictions
    ]
    return min(known, default=None)


def best_of_each(material: Material) -> list[Evaluation]:
    """The best evaluation of every backbone, best backbone first."""
    names = {backbone for backbone, _, _ in material.predictions}
    best = [best_evaluation(material, name) for name in sorted(names)]
    values = {(line["backbone"], line["probe"]): better_first(line) for line in material.lines}
    return sorted((one for one in best if one is not None), key=lambda one: values[one[0], one[2]])


def of_evaluation(
    rows: Iterable[dict], evaluation: Evaluation, metric: str | None = None
) -> list[dict]:
    """The rows of one evaluation with a metric per class; without `metric`, all overall rows."""
    return [
        row
        for row in rows
        if row["setting"] is None
        and (row["class"] is None if metric is None else row["class"] is not None)
        and metric in (None, row["metric"])
        and (row["backbone"], row["seed"], row["probe"]) == evaluation
    ]


def name_of(evaluation: Evaluation, material: Material) -> str:
    """``backbone, probe``, and the seed if the probe ran with several."""
    backbone, seed, probe = evaluation
    repeated = len({s for b, s, p in material.predictions if (b, p) == (backbone, probe)}) > 1
    return f"{backbone}, {probe}, seed {seed}" if repeated else f"{backbone}, {probe}"


def names_of(evaluations: list[Evaluation], material: Material) -> str:
    """`name_of` each; a probe or seed that all share is named once."""
    names = [name_of(one, material) for one in evaluations]
    heads = {name.removeprefix(one[0]) for name, one in zip(names, evaluations, strict=True)}
    if len(names) > 1 and len(heads) == 1:
        return f"{heads.pop().removeprefix(', ')} for all of them"
    return "; ".join(names)


def slug(name: str) -> str:
    """`name` as part of a file name: a changed name gets a hash, so that names never collide."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def save(
    figure, folder: Path, kind: str, *names: str, alt: str, caption: str, wide=False, pixels=False
) -> Drawn:
    """Write ``{kind}__{name}….svg`` into `folder`, or with `pixels` a matplotlib ``.png``."""
    stem = folder / "__".join([kind, *map(slug, names)])
    if pixels:
        width, height = figure.get_size_inches().tolist()
        size = (round(_PIXELS_PER_INCH * width), round(_PIXELS_PER_INCH * height))
        return Drawn(save_figure(figure, stem), alt, caption, wide, size)
    path, svg = stem.with_name(f"{stem.name}.svg"), as_svg(figure)
    path.write_text(svg, encoding="utf-8")
    width, height = (round(_LARGER * float(side)) for side in _SIZE.search(svg).groups())
    return Drawn(path, alt, caption, wide, (width, height))
