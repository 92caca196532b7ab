"""One look for every figure: fonts, colours, sizes, and how a figure becomes bytes."""

from __future__ import annotations

import contextlib
import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

# Okabe and Ito (2008), "Color Universal Design": distinguishable with any colour vision. Black is
# kept for text and yellow left out (too faint on white for lines and dots).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "D", "^", "v", "P")
INK = "#222222"
FAINT = "#6b6b6b"
GRID = "#dddddd"
RIGHT, WRONG = "#009E73", "#D55E00"

PAGE_WIDTH = 7.2  # inches: the text width of an A4 or letter page
DPI = 160
_LEGEND_SHARE = 0.97  # of the figure's width

_SETTINGS = {
    # DejaVu Sans is shipped with matplotlib, so layouts are the same on every machine; an SVG names the others for
    # readers who lack it
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica", "sans-serif"],
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
    "svg.fonttype": "none",  # text stays text: a fifth of the size, and a search finds it
    "svg.hashsalt": "permafrost",  # ids in the SVG are drawn from this, not from a random number
    "path.simplify": True,
}


@contextlib.contextmanager
def drawing() -> Iterator:
    """Yield ``matplotlib.pyplot``-free drawing tools: the `Figure` class under our settings.

    Nothing global stays changed, and no display or pyplot state is involved.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        # a user's matplotlibrc must not change the report; ours are valid, so they are set without another check
        for name, value in _settings().items():
            matplotlib.rcParams._set(name, value)
        yield Figure


@functools.cache
def _settings() -> dict:
    """Matplotlib's defaults with our settings, checked once."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        return {
            name: matplotlib.rcParams._get(name)
            for name in matplotlib.rcParams
            if name != "backend"
        }


def save_figure(figure, stem: Path, kind: str = "svg") -> Path:
    """Write ``stem.svg`` or ``stem.png`` without dates or program names; return its path."""
    without_traces = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    path = stem.with_name(f"{stem.name}.{kind}")
    with drawing():
        lay_out(figure)
        figure.savefig(path, format=kind, dpi=DPI, metadata=without_traces[kind])
    return path


def lay_out(figure) -> None:
    """Give everything its final place, once: saving would do it again in a drawing that is thrown away."""
    figure.set_dpi(DPI)  # coarser text is measured less well
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def put_title(figure, text: str) -> None:
    """A title at the figure's left edge, broken where the figure ends."""
    lines = textwrap.wrap(text, max(20, int(10.5 * figure.get_figwidth())))
    figure.suptitle(plain("\n".join(lines)), x=0.01, ha="left", weight="bold", fontsize=9.5)


def put_note(figure, text: str) -> None:
    """A small remark below everything, broken where the figure ends."""
    figure.supxlabel(_wrapped(figure, text), fontsize=7, color=FAINT, x=0.01, ha="left")


def put_names(figure, names: list[str], note: str, *, columns: int) -> None:
    """The remark of `put_note`, and below it names in columns."""
    from matplotlib.lines import Line2D

    legend = figure.legend(
        [Line2D([], [], lw=0)] * len(names),
        [plain(name) for name in names],
        title=_wrapped(figure, note),
        loc="outside lower left",
        alignment="left",
        ncols=columns,
        fontsize=7,
        title_fontsize=7,
        handlelength=0,
        handletextpad=0,
        labelspacing=0.2,
    )
    legend.get_title().set_color(FAINT)


def _wrapped(figure, text: str) -> str:
    return plain("\n".join(textwrap.wrap(text, max(20, int(14 * figure.get_figwidth())))))


def stripe_rows(axes, count: int) -> None:
    """A pale stripe behind every second of `count` rows at 0, 1, …: one artist, however many rows there are."""
    from matplotlib.collections import PolyCollection

    corners = [
        [(0, row - 0.5), (1, row - 0.5), (1, row + 0.5), (0, row + 0.5)]
        for row in range(1, count, 2)
    ]
    axes.add_collection(
        PolyCollection(
            corners, facecolors="#f5f5f5", lw=0, zorder=0, transform=axes.get_yaxis_transform()
        ),
        autolim=False,
    )


def legend_shape(labels: list[str], inches: float) -> tuple[int, float]:
    """Columns of a legend that fits into `inches`, and how high it is."""
    font = _SETTINGS["legend.fontsize"] / 72
    widest = 0.62 * font * max(map(len, labels), default=1) + 5 * font
    columns = max(1, min(3, len(labels), int(inches / widest)))
    return columns, 1.45 * font * -(-len(labels) // columns)


def put_legend(axes, labels: list[str], handles: list | None = None, **look) -> None:
    """A legend above `axes` that starts at the figure's left edge, in as many columns as the figure has room for."""
    from matplotlib.transforms import blended_transform_factory

    figure = axes.figure
    columns, _ = legend_shape(labels, _LEGEND_SHARE * figure.get_figwidth())
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    axes.legend(
        handles,
        [plain(label) for label in labels],
        loc="lower left",
        ncols=columns,
        bbox_to_anchor=(0.01, 1.0),
        bbox_transform=blended_transform_factory(figure.transFigure, axes.transAxes),
        borderaxespad=0.2,
        **look,
    )


def shorten(name: str, limit: int = 34) -> str:
    """`name`, with its middle replaced by an ellipsis where it is longer than `limit`.

    The ends are kept since families of names differ in their prefix and in their suffix.
    """
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def plain(text: str) -> str:
    """`text` with matplotlib's mathtext switched off (a ``$`` in a class name is a ``$``)."""
    return text.replace("$", r"\$")
