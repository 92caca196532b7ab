"""How heads were trained: losses and validation scores of every epoch."""

from __future__ import annotations

from permafrost.report.figures.style import (
    COLOURS,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)
from permafrost.statistics.leaderboard.rows import finite

MOST = len(COLOURS)  # backbones in colour; others are grey
_OTHER = "#d0d0d0"
# score in a log of epochs -> in words
SCORES = {
    "val_mean_iou": "mean IoU",
    "val_change_f1": "F1 of change",
    "val_ap": "AP",
    "val_accuracy": "accuracy",
    "val_micro_ap": "micro-AP",
    "val_r2": "R²",
}


def draw_training(
    logs: dict[str, dict[str, dict]],
    *,
    dataset: str,
    score: str = "val_mean_iou",
    order: list[str] | None = None,
):
    """A line of panels per head: losses on the left, the validation score on the right.

    Parameters
    ----------
    logs : probe -> backbone -> {"epochs": [{epoch, train_loss, val_loss, and the score}], "epoch": the
        one that was scored}. A value that is None or not finite is left out.
    order : backbones, the first `MOST` of which are in colour.
    score : a key of `SCORES`.
    """
    if not logs:
        raise ValueError("no epochs to draw")
    backbones = order or list(
        dict.fromkeys(name for by_backbone in logs.values() for name in by_backbone)
    )
    others = backbones[MOST:]
    backbones = backbones[:MOST]
    with drawing() as Figure:
        figure = Figure(figsize=(1.25 * PAGE_WIDTH, 0.9 + 1.75 * len(logs)))
        grid = figure.subplots(len(logs), 2, squeeze=False, sharex="row")
        for (left, right), (probe, by_backbone) in zip(grid, logs.items(), strict=True):
            for backbone in (name for name in others if name in by_backbone):
                right.plot(*_series(by_backbone[backbone], score), color=_OTHER, lw=0.8, zorder=1)
            for backbone in (name for name in backbones if name in by_backbone):
                log = by_backbone[backbone]
                number = backbones.index(backbone)
                _losses(left, log, COLOURS[number])
                _scores(right, log, score, COLOURS[number], MARKERS[number])
            left.set_ylabel("loss")
            right.set_ylabel(f"validation {SCORES[score]}")
            left.set_title(plain(probe), fontsize=8.5, weight="normal")
            for axes in (left, right):
                axes.grid(axis="y")
                axes.xaxis.get_major_locator().set_params(integer=True)
                axes.margins(x=0.03)
        for axes in grid[-1]:
            axes.set_xlabel("epoch")
        grid[0, 1].legend(
            *_legend(backbones),
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            borderaxespad=0,
            handlelength=1.6,
        )
        put_title(figure, f"{dataset}: training of the heads")
        grey = f"; grey: scores of {len(others)} other backbones" if others else ""
        put_note(
            figure, f"solid: train loss, dashed: validation loss; the marked epoch was scored{grey}"
        )
    return figure


def _losses(axes, log: dict, colour: str) -> None:
    for key, style in (("train_loss", "-"), ("val_loss", (0, (4, 2)))):
        axes.plot(*_series(log, key), color=colour, ls=style, lw=1.3, label=key)


def _scores(axes, log: dict, score: str, colour: str, marker: str) -> None:
    epochs, values = _series(log, score)
    axes.plot(epochs, values, color=colour, lw=1.3, label=score)
    if log["epoch"] in epochs:
        axes.plot(
            [log["epoch"]],
            [values[epochs.index(log["epoch"])]],
            marker=marker,
            ms=5.5,
            mfc="white",
            mec=colour,
            mew=1.5,
            lw=0,
            zorder=4,
        )


def _series(log: dict, key: str) -> tuple[list, list]:
    known = [(one["epoch"], one[key]) for one in log["epochs"] if finite(one.get(key))]
    return [epoch for epoch, _ in known], [value for _, value in known]


def _legend(backbones: list[str]) -> tuple[list, list[str]]:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], mfc="white", lw=1.5, ms=5)
        for i in range(len(backbones))
    ]
    return handles, [plain(shorten(name, 30)) for name in backbones]
