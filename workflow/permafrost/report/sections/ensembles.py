"""The section of a dataset's page on averages of backbones."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.ensembles import WAYS, ensemble_block, has_probabilities
from permafrost.statistics.leaderboard.rows import distinct
from permafrost.statistics.several_datasets import Read

#: with more backbones or images it takes minutes: the command has them
_MOST_BACKBONES, _MOST_IMAGES = 8, 10_000


def ensembles_section(rows: list[dict], read: Read) -> list[Block]:
    """Pairs and greedy selection, for each probe of a dataset whose predictions can be averaged.

    Parameters
    ----------
    rows : the dataset's primary rows of backbones that are not derived. read : gives kept predictions.
    """
    blocks = []
    for probe in distinct(rows, "probe"):
        own = [row for row in rows if row["probe"] == probe]
        names, row = distinct(own, "backbone"), own[0]
        few = 2 <= len(names) <= _MOST_BACKBONES and row["n_test"] <= _MOST_IMAGES
        if not few or not has_probabilities(row):
            continue
        runs = read(row["dataset"], probe)
        for way, select in WAYS.items():
            try:
                blocks.append(ensemble_block(row, way, select(runs)))
            except PermafrostError:
                # several predictions per image, no common seed, or too few units
                continue
    return blocks
