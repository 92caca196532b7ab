"""Figures of a regression dataset: selection of alpha, predictions and errors."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import read_table
from permafrost.report.figures import numbers
from permafrost.report.material.dataset import Drawn, Evaluation, Material, name_of, save
from permafrost.report.tasks.choices import ALPHA, draw_choices
from permafrost.report.tasks.probe_figures import draw_gains, draw_training_curves
from permafrost.statistics.predictions.columns import array_of
from permafrost.statistics.scores.gates import chance_level


def chance(material: Material, best: Evaluation) -> float:
    """The value of the primary metric without information from the images."""
    return chance_level((), material.card.task)


def draw(
    material: Material, best: Evaluation | None, folder: Path
) -> tuple[list[Drawn], list[str]]:
    """Validation curves of all backbones; predictions of the best evaluation against the truth."""
    figures = draw_choices(material, folder, ALPHA, "RMSE") + draw_gains(material, folder)
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
