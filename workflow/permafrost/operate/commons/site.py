"""The static site of a commons: a table of all backbones, a page of each backbone and of each dataset.

Pages hold no script but the sorting of tables, load nothing from elsewhere, and open from a folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory
from permafrost.operate.commons.commons import Commons
from permafrost.operate.commons.facts import suite_config
from permafrost.operate.commons.standing import Column, columns, ordinal
from permafrost.report.figures import chart
from permafrost.report.figures.files import write_figure
from permafrost.report.material.dataset import slug
from permafrost.report.page import render_page

_LINK = re.compile(r"https://[\w.~:/?#@!$&'()*+,;=%-]+", re.ASCII)
_PANELS = 4


@dataclass
class SuiteResults:
    """A suite's version with its columns, and the rows of its table.

    Attributes
    ----------
    rows : one per label, sorted by comparisons significantly won minus lost; those without a comparison are last.
    """

    key: str
    reference: dict
    columns: list[Column]
    again: dict[str, list[str]]
    rows: list[dict] = field(default_factory=list)

    @classmethod
    def of(cls, key: str, commons: Commons) -> SuiteResults:
        reference = commons.suites[key]
        entries, again = commons.entries(key)
        tasks = {name: facts["task"] for name, facts in reference["datasets"].items()}
        found = cls(
            key, reference, columns(entries, suite_config(reference["suite"]), tasks), again
        )
        for label in dict.fromkeys(entry.label for entry in entries):
            first = next(entry for entry in entries if entry.label == label)
            found.rows.append(
                found._row(label, first.of.backbone, commons.submissions[first.folder.name])
            )
        found.rows.sort(key=lambda row: (not row["compared"], -row["net"], row["label"]))
        return found

    @property
    def title(self) -> str:
        about = self.reference["suite"]["suite"]
        return f"{about['name']}, version {about['version']}"

    def _row(self, label: str, backbone: str, submission) -> dict:
        cells = [
            next((line for line in column.lines if line["backbone"] == label), None)
            for column in self.columns
        ]
        better, worse, alike = (
            sum(len(cell[kind]) for cell in cells if cell) for kind in ("better", "worse", "alike")
        )
        compared = better + worse + alike
        return {
            "label": label,
            "about": submission.backbones[backbone],
            "submission": submission,
            "again": self.again.get(label, []),
            "cells": cells,
            "better": better,
            "worse": worse,
            "compared": compared,
            "net": better - worse,
            "href": f"backbones/{slug(label)}.html",
        }


def write_site(commons: Commons, output: Path) -> list[Path]:
    """Write the site into the folder `output`, replacing an earlier site; returns its pages, relative to it.

    Raises
    ------
    PermafrostError : the folder holds something else.
    """
    if output.exists() and not (output / "index.html").exists() and any(output.iterdir()):
        raise PermafrostError(
            "the folder has other content, which a site would replace",
            where=output,
            remedy="name another folder",
        )
    suites = [SuiteResults.of(key, commons) for key in sorted(commons.suites, key=_newest_first)]
    suites = [suite for suite in suites if suite.columns]
    shared = {"notices": [], "title": "Results", "link": link_of, "ordinal": ordinal}
    newest = [
        suite
        for place, suite in enumerate(suites)
        if _name(suite) not in map(_name, suites[:place])
    ]
    pages: dict[str, tuple[str, dict]] = {
        "index.html": ("commons.html.j2", {"suites": newest, "older": suites})
    }
    for suite in suites:
        pages[f"{suite.key}.html"] = ("commons.html.j2", {"suites": [suite], "older": suites})
    for label in dict.fromkeys(row["label"] for suite in suites for row in suite.rows):
        of = [(suite, row) for suite in suites for row in suite.rows if row["label"] == label]
        pages[of[0][1]["href"]] = ("commons_backbone.html.j2", {"label": label, "of": of})
    for name in dict.fromkeys(name for suite in suites for name in suite.reference["datasets"]):
        of = [
            (suite, suite.reference["datasets"][name])
            for suite in suites
            if name in suite.reference["datasets"]
        ]
        pages[f"datasets/{slug(name)}.html"] = (
            "commons_dataset.html.j2",
            {"name": name, "of": of, "seen": _seen(of)},
        )
    with whole_directory(output) as folder:
        for page, (template, values) in pages.items():
            (folder / page).parent.mkdir(parents=True, exist_ok=True)
            (folder / page).write_text(
                render_page(template, {**shared, **values}), encoding="utf-8"
            )
        for suite in suites:
            write_figure(folder / f"{suite.key}.svg", draw(suite))
    return [Path(page) for page in pages]


def draw(suite: SuiteResults) -> dict:
    """A figure: a panel per dataset and probe, with a dot and an interval per backbone."""
    names = [row["label"] for row in suite.rows]
    labels = chart.shortened(names, 26)
    across = min(_PANELS, len(suite.columns))
    look: dict[str, Any] = {"step": 20, "width": 150}
    views = [
        chart.dots(
            [
                chart.measured(
                    line, row=line["backbone"], series="", lane="", hollow=bool(line["gates"])
                )
                for line in column.lines
            ],
            labels,
            chart.number("value", column.metric, padding=8, axis={"tickCount": 4}),
            chart.series({"": ""}, legend=False),
            lanes=[""],
            beside=place % across > 0,
            title=[column.dataset, column.probe],
            **look,
        )
        for place, column in enumerate(suite.columns)
    ]
    note = "Dots: scores with 95 % intervals, computed again from predictions. Hollow: flagged, such as for few units."
    return chart.figure(chart.panels(views, across), title=suite.title, note=note, width=760)


def link_of(text: str | None) -> str | None:
    """An address that may become a link; None for everything else, such as scripts."""
    return text if text and _LINK.fullmatch(text) else None


def _seen(of: Iterable[tuple[SuiteResults, dict]]) -> list[tuple[str, list[str]]]:
    """Backbones that were trained on a collection that contains the dataset's images."""
    found = {
        row["label"]: sorted({*row["about"].trained_on} & {*facts["images_of"]})
        for suite, facts in of
        for row in suite.rows
    }
    return [(label, collections) for label, collections in found.items() if collections]


def _name(suite: SuiteResults) -> str:
    return suite.reference["suite"]["suite"]["name"]


def _newest_first(key: str) -> tuple[str, int]:
    name, _, version = key.rpartition("-v")
    return name, -int(version)
