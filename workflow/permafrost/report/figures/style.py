"""Style of pictures: fonts, colours, sizes, and saving; colours of all figures."""

from __future__ import annotations

import contextlib
import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

# Okabe and Ito (2008), "Color Universal Design": distinguishable with any colour vision. Black is
# reserved for text; yellow is too faint on white for lines and dots.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK = "#222222"
FAINT = "#6b6b6b"
RIGHT, WRONG = "#009E73", "#D55E00"

DPI = 160
_LEVEL = 3  # of compression

_SETTINGS = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same layout on every machine
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
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.06,
}


@contextlib.contextmanager
def drawing() -> Iterator:
    """Yield the `Figure` class under our settings, without ``matplotlib.pyplot``.

    Global settings are restored afterwards; no display or pyplot state is used.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        # a user's matplotlibrc must not change the report; our values are valid, so skip validation
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


def save_figure(figure, stem: Path) -> Path:
    """Write ``stem.png`` without dates or program names; return its path."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    path = stem.with_name(f"{stem.name}.png")
    with drawing():
        lay_out(figure)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    # nothing is transparent; the default level takes up to twice as long and saves up to a tenth
    picture = Image.frombuffer(
        "RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1
    )
    picture.convert("RGB").save(path, dpi=(DPI, DPI), compress_level=_LEVEL)
    return path


def lay_out(figure) -> None:
    """Compute the final layout once; saving would repeat it in a drawing that is discarded."""
    figure.set_dpi(DPI)  # text is measured less accurately at a lower resolution
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def put_note(figure, text: str) -> None:
    """A small remark below everything, wrapped at the figure's width."""
    lines = textwrap.wrap(text, max(20, int(14 * figure.get_figwidth())))
    figure.supxlabel(plain("\n".join(lines)), fontsize=7, color=FAINT, x=0.01, ha="left")


def shorten(name: str, limit: int = 34) -> str:
    """`name`, with an ellipsis in the middle if it is longer than `limit`.

    Both ends are kept, because names of a family differ in their prefix and in their suffix.
    """
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def plain(text: str) -> str:
    """`text` with matplotlib's mathtext switched off (a ``$`` in a class name is a ``$``)."""
    return text.replace("$", r"\$")
