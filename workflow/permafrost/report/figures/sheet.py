"""A figure of square pictures in lines, with text above and below them; lengths are in inches."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.report.figures.style import DPI, FAINT, INK, plain, shorten

WIDTH = 10.4  # pictures need more room than charts
_GAP, _PART, _MARGIN = 0.06, 0.14, 0.05  # between panels, between two halves, around
_BARS = 0.5  # room for colour scales
_BELOW = 0.2  # room for a line of text below a line of pictures
_RIM = 0.02  # width of frames
LINE = 0.11  # height of a line of text below a picture


@dataclass(frozen=True)
class Grid:
    """The panels of a sheet.

    Attributes
    ----------
    across : panels per full width, which sets their size.
    above : room above each line, in inches.
    columns : panels per line; `across` by default.
    halved : whether a wider gap separates the first half of the panels from the second.
    heights : height of each line as a share of a panel's side, see `height_of`; squares by default.
    bars : whether there is room for colour scales below, see `Sheet.bar`.
    below : room below each line, in inches.
    """

    across: int
    above: list[float]
    columns: int | None = None
    halved: bool = False
    heights: list[float] | None = None
    bars: bool = False
    below: float = _BELOW

    @classmethod
    def of_pairs(cls, across: int, lines: list[tuple[str, list]], **options) -> Grid:
        """Two examples per line, with room for a heading above lines that have one."""
        above = [0.36 if heading else 0.05 for heading, _ in lines]
        return cls(across, above, halved=True, **options)

    @classmethod
    def of_columns(cls, across: int, lines: int, columns: int, **options) -> Grid:
        """An image per line, with room for the names of columns above the first."""
        return cls(across, [0.17] + [0.05] * (lines - 1), columns, **options)


@dataclass(frozen=True)
class Panel:
    """What shapes are drawn on: axes, or a part of them with units of its own.

    Attributes
    ----------
    axes : of matplotlib.
    units : transform of the part's units; those of the axes by default.
    clip : box outside of which nothing is drawn; the axes by default.
    """

    axes: Any
    units: Any = None
    clip: Any = None

    def add(self, collection, *, offsets: bool = False) -> None:
        """Add a collection of matplotlib whose paths, or with `offsets` their places, are in the
        panel's units."""
        place = collection.set_offset_transform if offsets else collection.set_transform
        place(self.axes.transData if self.units is None else self.units)
        self.axes.add_collection(collection, autolim=False)
        if self.clip is not None:
            collection.set_clip_box(self.clip)


class Sheet:
    """Arranges pictures, headings, texts and a legend.

    All pictures are put into one array of the figure's pixels, and all shapes are drawn on common
    axes: images and axes of matplotlib take most of the time that a sheet needs.

    Parameters
    ----------
    Figure : from `style.drawing`.
    title, note : above and below everything.
    legend : handles with labels, and the letters of the longest label.
    """

    def __init__(
        self, Figure, grid: Grid, title: str, note: str, legend: tuple[list, int] = ([], 10)
    ) -> None:
        from matplotlib.layout_engine import PlaceHolderLayoutEngine

        handles, longest = legend
        self._cell = cell_of(grid.across)
        self._half, self._part = grid.across // 2, _PART if grid.halved else 0.0
        columns = grid.across if grid.columns is None else grid.columns
        width = max(6.2, columns * (self._cell + _GAP) - _GAP + self._part + 2 * _MARGIN)
        ncols = max(1, int(width / (0.42 + 0.078 * max(longest, 10))))
        rows = math.ceil(len(handles) / ncols)
        self._tops, self._bottoms, y = [], [], 0.32
        for room, share in zip(grid.above, grid.heights or [1.0] * len(grid.above), strict=True):
            self._tops.append(y + room)
            self._bottoms.append(y + room + self._cell * share)
            y += room + self._cell * share + grid.below
        self._bars_top = y + 0.08
        legend_top = y + 0.04 + (_BARS if grid.bars else 0.0)
        height = legend_top + 0.19 * rows + 0.27
        self._pixels = np.full((round(height * DPI), round(width * DPI), 4), 255, np.uint8)
        # matplotlib rounds down to whole pixels
        self.height, self.width = ((side + 0.01) / DPI for side in self._pixels.shape[:2])
        self.figure = Figure(figsize=(self.width, self.height))
        # layout "none" lasts only until the figure is saved under our settings
        self.figure.set_layout_engine(PlaceHolderLayoutEngine(True, True))
        self._text(_MARGIN, 0.2, title, size=9.5, weight="bold")
        self._text(_MARGIN, self.height - 0.08, note, size=7, color=FAINT)
        self._legend = handles, ncols, legend_top

    def finished(self):
        """The figure with all pictures."""
        self.figure.add_artist(_pictures()(self._pixels))
        return self.figure

    @functools.cached_property
    def _paper(self):
        """Axes in inches from the top left, for all shapes."""
        axes = self.figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0), autoscale_on=False)
        axes.set_axis_off()
        return axes

    def _text(
        self, x: float, y: float, text: str, *, size: float, color=INK, weight="normal"
    ) -> None:
        """A line of text whose baseline is `y` inches below the top, `x` from the left."""
        look: dict[str, Any] = {"fontsize": size, "color": color, "weight": weight}
        line = _lines()(x * DPI, (self.height - y) * DPI, text, **look)
        self.figure.add_artist(line)

    def heading(self, line: int, text: str, colour: str = INK) -> None:
        if text:
            top = self._tops[line] - 0.2
            self._text(_MARGIN, top, text, size=8.5, color=colour, weight="bold")

    def picture(
        self, line: int, column: int, picture: np.ndarray, word: str, frame: str | None = None
    ) -> None:
        """Show (h, w, 3) or (h, w) in [0, 1], centred in a square, with `word` above; with `frame`, on
        grey in a frame of this colour."""
        rim = 0.0
        if frame is not None:
            from matplotlib.colors import to_rgb

            left, top, side = self._x(column), self._tops[line], self._cell
            self._put(np.array([[to_rgb(frame)]]), left, top, side, side)
            rim = _RIM
            side -= 2 * rim
            self._put(np.array([[0.93]]), left + rim, top + rim, side, side)
        # centre pictures of any shape in squares of one size
        height, width = (
            (self._cell - 2 * rim) * side / max(picture.shape[:2]) for side in picture.shape[:2]
        )
        left = self._x(column) + (self._cell - width) / 2
        self._put(picture, left, self._tops[line] + (self._cell - height) / 2, width, height)
        self._above(line, column, word)

    def canvas(
        self, line: int, column: int, picture: np.ndarray, word: str, size: tuple[float, float]
    ) -> Panel:
        """Show a picture at the top of its panel, and return the panel to draw on it.

        Parameters
        ----------
        size : width and height of the picture in the units of the drawing; anything beyond is
            clipped.
        """
        from matplotlib.transforms import Affine2D, Bbox, TransformedBbox

        left, top, scale = self._x(column), self._tops[line], self._cell / max(size)
        width, height = (scale * side for side in size)
        self._put(picture, left, top, width, height)
        self._above(line, column, word)
        inches = self._paper.transData
        box = TransformedBbox(Bbox.from_bounds(left, top, width, height), inches)
        return Panel(self._paper, Affine2D().scale(scale).translate(left, top) + inches, box)

    def _put(
        self, picture: np.ndarray, left: float, top: float, width: float, height: float
    ) -> None:
        """Show a picture, which may be NaN where nothing is shown, in a box given in inches."""
        (y0, y1), (x0, x1) = (
            (round(start * DPI), max(round((start + side) * DPI), round(start * DPI) + 1))
            for start, side in ((top, height), (left, width))
        )
        rows, columns = (
            ((np.arange(count) + 0.5) * (side / count)).astype(int)
            for count, side in zip((y1 - y0, x1 - x0), picture.shape[:2], strict=True)
        )
        shades = picture[rows][:, columns].astype(np.float32)
        np.clip(np.nan_to_num(shades, copy=False, nan=1.0), 0, 1, out=shades)
        shades *= 255
        shades += 0.5
        shown = shades if shades.ndim == 3 else shades[..., None]
        self._pixels[y0:y1, x0:x1, :3] = shown

    def _above(self, line: int, column: int, word: str) -> None:
        if word:
            word = shorten(word, int(self._cell * 72 / (0.62 * 7.5)))  # fits the picture's width
            self._text(self._x(column), self._tops[line] - 0.05, word, size=7.5, color=FAINT)

    def words(self, line: int, column: int, text: str) -> None:
        """Lines of text below a picture; `Grid.below` must have room for them."""
        for place, part in enumerate(text.split("\n")):
            self._text(self._x(column), self._bottoms[line] + 0.13 + place * LINE, part, size=7)

    def bar(self, place: int, low: float, high: float, colours: str, words: str) -> None:
        """The `place`-th colour scale, from `low` to `high`, with `words` below it."""
        width = min(0.44 * self.width, 3.6)
        axes = self.figure.add_axes(
            (
                (_MARGIN + 0.1 + place * (width + 0.45)) / self.width,
                1 - (self._bars_top + 0.13) / self.height,
                width / self.width,
                0.13 / self.height,
            )
        )
        shades = np.linspace(0, 1, 256)[None]
        axes.imshow(shades, cmap=colours, aspect="auto", extent=(low, high, 0, 1), vmin=0, vmax=1)
        axes.set_yticks([])
        axes.tick_params(axis="x", labelsize=7, length=2.5, pad=1.5)
        axes.set_xlabel(plain(words), fontsize=7.5, labelpad=1.5)

    def legend(self, **look):
        """Draw the legend, with lengths overridden by `look`; returns it."""
        handles, ncols, top = self._legend
        return self.figure.legend(
            handles=handles,
            loc="upper left",
            ncols=ncols,
            fontsize=7.5,
            bbox_to_anchor=(0, 1 - top / self.height),
            borderaxespad=0.2,
            handleheight=1.0,
            columnspacing=1.2,
            **{"handlelength": 1.3, **look},
        )

    def _x(self, column: int) -> float:
        return _MARGIN + column * (self._cell + _GAP) + (self._part if column >= self._half else 0)


@functools.cache
def _pictures():
    """An artist that draws pixels as they are; matplotlib would resample an image, in up to a second."""
    from matplotlib.artist import Artist

    class Pictures(Artist):
        zorder = -1

        def __init__(self, pixels: np.ndarray) -> None:
            super().__init__()
            self.pixels = pixels

        def draw(self, renderer) -> None:
            renderer.draw_image(renderer.new_gc(), 0, 0, np.ascontiguousarray(self.pixels[::-1]))

    return Pictures


@functools.cache
def _lines():
    """Text that is drawn as one bitmap; matplotlib lays out and draws each letter, in milliseconds."""
    from matplotlib.backends.backend_agg import get_hinting_flag
    from matplotlib.colors import to_rgb
    from matplotlib.font_manager import findfont, get_font
    from matplotlib.text import Text

    font_of = functools.lru_cache(lambda weight: findfont(f"DejaVu Sans:{weight}"))

    class Line(Text):
        def draw(self, renderer) -> None:
            if not self.get_text().strip():
                return
            font = get_font(font_of(self.get_weight()))
            font.clear()
            font.set_size(self.get_size(), renderer.dpi)
            font.set_text(self.get_text(), 0.0, flags=get_hinting_flag())
            font.draw_glyphs_to_bitmap(antialiased=True)
            cover = np.asarray(font.get_image())
            shown = np.empty((*cover.shape, 4), np.uint8)
            shown[..., :3] = np.round(255 * np.array(to_rgb(self.get_color())))
            shown[..., 3] = cover
            (left, baseline), (offset, _) = self.get_position(), font.get_bitmap_offset()
            # below the baseline as matplotlib draws it
            at = round(left + offset / 64), round(baseline - font.get_descent() / 64) - 1
            renderer.draw_image(renderer.new_gc(), *at, shown[::-1])

    return Line


def in_pairs(groups: list[tuple[str, list]]) -> list[tuple[str, list]]:
    """Heading and two examples for each line of a sheet; only the first line of a group has a heading."""
    return [
        (heading if first == 0 else "", examples[first : first + 2])
        for heading, examples in groups
        for first in range(0, len(examples), 2)
    ]


def cell_of(across: int) -> float:
    """Side of a panel in inches if `across` of them fill the width."""
    return (WIDTH - 2 * _MARGIN - (across - 1) * _GAP - _PART) / across


def height_of(size: tuple[float, float]) -> float:
    """Height of a picture of this width and height, as a share of the side of its panel."""
    return size[1] / max(size)


def most_pixels(cell: float) -> int:
    """Largest useful side of a picture in pixels in a panel of this size."""
    return int(2 * cell * DPI)
