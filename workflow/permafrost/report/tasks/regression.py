"""Figures of a dataset whose images have a number each: how alpha was chosen, predictions and errors."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import read_metadata, read_table
from permafrost.report.figures import c_curve, numbers
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, save
from permafrost.report.tasks.probe_figures import draw_gains, draw_training_curves
from permafrost.statistics.predictions.columns import array_of
from permafrost.statistics.scores.gates import chance_level


def chance(material: Material, best: Evaluation) -> float:
    """What the primary metric gives without looking at the images."""
    return chance_level((), material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Validation curves of all backbones; predictions against the truth of the best evaluation."""
    figures = draw_curves(material, folder) + draw_gains(material, folder)
    figures += draw_training_curves(material, folder, "val_r2")
    if best is None:
        return figures, []
    path = material.predictions[best]
    wanted = ["target", "prediction"]
    table, _ = read_table(path, expect=material.expected(path), columns=wanted)
    figure = numbers.draw_numbers(
        *(array_of(table, name) for name in wanted),
        words=numbers.target_words(material.card),
        title=f"{material.name}: {name_of(best, material)}",
    )
    figures.append(
        save(
            figure,
            folder,
            "numbers",
            material.name,
            wide=True,
            alt=f"Predicted against true numbers, and errors, of {best[0]} with {best[2]} on {material.name}",
            caption="Every test sample of the best evaluation: predicted against true number, and the error "
            "against the true number. Errors that lean from positive to negative mean predictions that are "
            "drawn to the mean.",
        )
    )
    return figures, []


def draw_curves(material: Material, folder: Path, *, of: str = "") -> list[Drawn]:
    """An alpha curve per probe that chose alpha, at its first seed; `of` what its errors are, if not samples."""
    by_probe: dict[str, dict[str, dict]] = {}
    for backbone, seed, probe in material.first_seeds():
        path = material.predictions[backbone, seed, probe]
        settings = read_metadata(path, expect=material.expected(path))["settings"]
        if len(settings.get("alphas") or ()) > 1:
            by_probe.setdefault(probe, {})[backbone] = {
                "c": settings["alphas"],
                "score": settings["val_scores"],
                "best": settings["alpha"],
            }
    return [
        save(
            c_curve.draw_c_curve(
                curves,
                dataset=material.name,
                probe=probe,
                score="RMSE",
                setting="alpha",
                meaning="alpha (strength of the penalty, log scale)",
                lower_is_better=True,
            ),
            folder,
            "alpha",
            material.name,
            probe,
            wide=True,
            alt=f"Validation RMSE against alpha for every backbone on {material.name}",
            caption=f"How {probe} chose alpha: RMSE {'of ' if of else ''}{of}on validation (or of what was left out) "
            "for every alpha that was tried, the chosen one marked.",
        )
        for probe, curves in sorted(by_probe.items())
    ]
