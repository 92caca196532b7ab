"""What training a backbone further gains over the same head on the frozen one."""

from __future__ import annotations

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)
from permafrost.report.notation import interval_of, signed
from permafrost.statistics.leaderboard.rows import finite, metric_name

_APART = 0.13  # of the two dots of a backbone from the middle of its row


def draw_tuned(lines: dict[str, dict[str, dict]], *, title: str, metric: str):
    """One row per backbone in the order given: a dot for frozen, one for fine-tuned, and their difference.

    Parameters
    ----------
    lines : backbone -> ``frozen``, ``fine-tuned`` and ``gain`` -> row with ``value, lower, upper``.
    """
    if not lines:
        raise ValueError("nothing to draw")
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH, 1.25 + 0.36 * len(lines)))
        axes = figure.add_subplot()
        for place, own in enumerate(lines.values()):
            for number, (name, marker) in enumerate((("frozen", "s"), ("fine-tuned", "o"))):
                _dot(axes, own[name], place + (2 * number - 1) * _APART, number, marker)
            axes.text(
                1.02,
                place,
                _words(own["gain"]),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=7.5,
            )
        axes.set_yticks(range(len(lines)), [plain(shorten(name)) for name in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(metric_name(metric))
        handles = [
            axes.plot([], [], color=COLOURS[n], marker=marker, lw=1, ms=5)[0]
            for n, marker in enumerate("so")
        ]
        axes.legend(
            handles,
            ["frozen", "fine-tuned"],
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=2,
            borderaxespad=0.2,
        )
        put_title(figure, title)
        put_note(
            figure, "On the right: fine-tuned minus frozen, with the interval of that difference."
        )
    return figure


def _dot(axes, row: dict, y: float, number: int, marker: str) -> None:
    if not finite(row["value"]):
        axes.annotate(
            "no value",
            (0.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=7,
            color=FAINT,
        )
        return
    if finite(row["lower"]) and finite(row["upper"]):
        axes.hlines(y, row["lower"], row["upper"], color=COLOURS[number], lw=1.4)
    axes.plot([row["value"]], [y], color=COLOURS[number], marker=marker, ms=5, lw=0)


def _words(row: dict) -> str:
    if not finite(row["value"]):
        return ""
    return f"{signed(row['value'])} {interval_of(row, signed)}"
