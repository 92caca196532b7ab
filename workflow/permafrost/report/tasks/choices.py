"""Selection of a probe setting on validation: a curve per backbone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.tables import read_metadata
from permafrost.report.figures.c_curve import draw_c_curve
from permafrost.report.material.dataset import Drawn, Material, save


@dataclass(frozen=True)
class Choice:
    """A setting that probes select on validation.

    Attributes
    ----------
    figure : first part of the file's name.
    tried, chosen : their keys in a probe's record; least : smallest number of values for a curve.
    name, meaning : short name, and axis title.
    words : of the setting, in a sentence; caption : with the probe and the score.
    """

    figure: str
    tried: str
    chosen: str
    name: str
    meaning: str
    words: str
    caption: str
    least: int = 1
    lower_is_better: bool = False


_MARKED = "tried, the chosen one marked."
C = Choice(
    "c_curve",
    "c_grid",
    "best_c",
    "C",
    "C (inverse regularisation strength, log scale)",
    "C",
    f"How {{probe}} chose C: validation {{score}} for every C that was {_MARKED}",
)
RATE = Choice(
    "learning_rates",
    "learning_rates",
    "learning_rate",
    "rate",
    "learning rate (log scale)",
    "the learning rate",
    f"How {{probe}} chose its learning rate: validation {{score}} for every one that was {_MARKED}",
)
ALPHA = Choice(
    "alpha",
    "alphas",
    "alpha",
    "alpha",
    "alpha (strength of the penalty, log scale)",
    "alpha",
    "How {probe} chose alpha: {score} {of}on validation (or of what was left out) for every alpha that was "
    + _MARKED,
    least=2,
    lower_is_better=True,
)


def draw_choices(
    material: Material, folder: Path, choice: Choice, score: str, *, of: str = ""
) -> list[Drawn]:
    """A curve per probe that selected a setting, at its first seed; `of` is the unit of the score,
    if not samples."""
    by_probe: dict[str, dict[str, dict]] = {}
    for key in material.first_seeds():
        path = material.predictions[key]
        settings = read_metadata(path, expect=material.expected(path))["settings"]
        if len(settings.get(choice.tried) or ()) >= choice.least and settings.get("val_scores"):
            backbone, _, probe = key
            values = [math.nan if value is None else value for value in settings["val_scores"]]
            curve = {"c": settings[choice.tried], "score": values, "best": settings[choice.chosen]}
            by_probe.setdefault(probe, {})[backbone] = curve
    return [
        save(
            draw_c_curve(
                curves,
                dataset=material.name,
                probe=probe,
                score=score,
                setting=choice.name,
                meaning=choice.meaning,
                lower_is_better=choice.lower_is_better,
            ),
            folder,
            choice.figure,
            material.name,
            probe,
            wide=True,
            alt=f"Validation {score} against {choice.words} for every backbone on {material.name}",
            caption=choice.caption.format(probe=probe, score=score, of=of),
        )
        for probe, curves in sorted(by_probe.items())
    ]
