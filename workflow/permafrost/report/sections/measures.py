"""The page's section on features: feature metrics with the scores, and similarity of backbones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from permafrost.core.tables import read_table
from permafrost.report.explanations.measures import (
    LABELLED,
    OF_VIEWS,
    brief,
    first_of,
    is_flagged,
    measured_lines,
    measured_names,
    notes_of,
    remarks,
    sample_words,
    view_words,
    words_of,
)
from permafrost.report.figures.matrices import draw_similarity
from permafrost.report.figures.measures import draw_measures
from permafrost.report.material.dataset import Drawn, Material, save
from permafrost.report.notation import interval_of
from permafrost.report.sections.scores import best_cell, value_cell
from permafrost.statistics.leaderboard.rows import finite, interval_words


def measures_section(material: Material, folder: Path) -> tuple[dict | None, list[Drawn]]:
    """Template values, None if nothing was measured, and the figures."""
    lines = measured_lines(material.rows)
    pairs = _pairs(material)
    if not lines and not pairs:
        return None, []
    values: dict = {"columns": [], "lines": [], "remarks": [], "words": "", "pairs": []}
    figures = []
    if lines:
        names = measured_names(row for line in lines for row in line["measures"].values())
        values |= _table(lines, names)
        figures.append(_figure(material, lines, names, folder))
    if pairs:
        values["pairs"] = [_pair(row) for row in sorted(pairs, key=_most_alike_first)]
        figures.append(_matrix(material, pairs, [line["backbone"] for line in lines], folder))
    return values, figures


def _table(lines: list[dict], names: list[str]) -> dict:
    return {
        "columns": [
            {"name": words_of(name)[0], "words": words_of(name)[1], "labelled": name in LABELLED}
            for name in names
        ],
        "lines": [
            {
                "backbone": line["backbone"],
                "best": best_cell(line["best"]),
                "cells": [_cell(line["measures"].get(name)) for name in names],
            }
            for line in lines
        ],
        "remarks": remarks(lines),
        "words": _words(lines, names),
    }


def _words(lines: list[dict], names: list[str]) -> str:
    """The measured samples, and how the intervals were computed."""
    said = []
    if row := first_of(lines, views=False):
        said.append(
            f"Measured on {sample_words(row)} ({interval_words(row)}). RankMe and the dimensions grow with the "
            "number of rows: only values of equally many rows compare."
        )
    if row := first_of(lines, views=True):
        made = ", ".join(words_of(name)[0] for name in names if name in OF_VIEWS)
        said.append(
            f"Of augmented views ({made}): {notes_of(row)['views']} of each of {sample_words(row)} "
            f"({interval_words(row)}); {view_words(row)}."
        )
    return " ".join(said)


def _cell(row: dict | None) -> dict:
    return value_cell(row, brief, flagged=row is not None and is_flagged(row))


def _figure(material: Material, lines: list[dict], names: list[str], folder: Path) -> Drawn:
    figure = draw_measures(lines, names, title=f"{material.name}: measures of the features")
    return save(
        figure,
        folder,
        "measures",
        material.name,
        wide=True,
        alt=f"Measures of the features of every backbone on {material.name}, next to its best score",
        caption="Measures of the features next to the best score of each backbone, which orders them. "
        "A measure says how features are spread, not how good they are, and ranks nothing.",
    )


def _pairs(material: Material) -> list[dict]:
    path = material.similarity
    if path is None:
        return []
    return read_table(path, expect=material.expected(path))[0].to_pylist()


def _most_alike_first(row: dict) -> tuple:
    value = row["value"] if finite(row["value"]) else -np.inf
    return (-value, row["backbone_a"], row["backbone_b"])


def _pair(row: dict) -> dict:
    notes = json.loads(row["notes"])
    said = [f"undefined, {notes['undefined']}"] if "undefined" in notes else []
    said += [notes[name] for name in ("flag", "interval") if name in notes]
    return {**row, "interval": interval_of(row), "remark": "; ".join(said)}


def _matrix(material: Material, pairs: list[dict], order: list[str], folder: Path) -> Drawn:
    """The matrix of all pairs; backbones in the given order, if any."""
    backbones = {row[side] for row in pairs for side in ("backbone_a", "backbone_b")}
    names = [name for name in order if name in backbones] + sorted(backbones - set(order))
    values = np.full((len(names), len(names)), np.nan)
    np.fill_diagonal(values, 1.0)
    for row in pairs:
        a, b = names.index(row["backbone_a"]), names.index(row["backbone_b"])
        values[a, b] = values[b, a] = row["value"] if finite(row["value"]) else np.nan
    if len(names) > 2:
        # a backbone without any defined pair has constant features, so its diagonal is undefined
        # too
        alone = np.flatnonzero(np.isnan(values).sum(axis=1) == len(names) - 1)
        values[alone, alone] = np.nan
    undefined = "; grey: undefined" if np.isnan(values).any() else ""
    figure = draw_similarity(
        values,
        names,
        title=f"{material.name}: how alike the features of backbones are",
        note=f"{pairs[0]['n_rows']} samples of {pairs[0]['split']}{undefined}",
    )
    return save(
        figure,
        folder,
        "similarity",
        material.name,
        alt=f"Debiased linear CKA of every pair of backbones on {material.name}",
        caption="How alike two backbones see the images: debiased linear CKA of their features. 1: equal up "
        "to rotation and scale; about 0, also slightly below: unrelated. The diagonal is 1 by definition.",
    )
