"""A small part of a scene seen from an aircraft: its ground and the objects on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.data.world import covers, fields, plots, scene, shapes, spectra, stands
from permafrost.data.world.canvas import PIXEL_M, Canvas
from permafrost.data.world.things import KINDS, Thing

#: side length of the scene around a view, in its pixels of 10 m
WORLD = 128
#: objects this far outside a view, in pixels, still reach or shade it
MARGIN = 32
#: side length in pixels of the largest view that fits into a scene
LARGEST = int((WORLD - 8) * scene.SceneSpec.pixel_m / PIXEL_M) - 2 * MARGIN
#: the cover at the centre of consecutive views
_MIDDLES = (
    "forest",
    "residential",
    "scrubland",
    "orchard",
    "pasture",
    "residential",
    "industrial",
    "forest",
    "cropland",
)


@dataclass(frozen=True)
class ViewSpec:
    """All parameters of an aerial view; `number` is that of its scene."""

    seed: int
    number: int
    size: int

    def rng(self, part: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed("aerial", self.seed, self.number, self.size, part))

    @property
    def scene(self) -> scene.SceneSpec:
        return scene.SceneSpec(self.seed, self.number, WORLD)

    @property
    def pixel_m(self) -> float:
        return PIXEL_M

    @property
    def corner_m(self) -> tuple[float, float]:
        """Offset in metres from the upper left corner of the scene, down and right."""
        middle = (np.array(_middle(self)) + 0.5) * scene.SceneSpec.pixel_m
        down, right = middle - self.size / 2 * PIXEL_M
        return float(down), float(right)


@dataclass(frozen=True)
class View:
    """Content of a view and of `MARGIN` pixels around it.

    Attributes
    ----------
    canvas : heights and topmost objects.
    things : the objects; numbers on the canvas are positions in this list, plus 1.
    pixels : (things,) int64, number of pixels of each without occlusion.
    ground : (M, size, size) float32 shares of the materials of the bare ground, as in `spectra`.
    reflectances : (things, 13) float32 reflectance of each thing.
    rough : (things + 1,) float32 standard deviation of brightness inside each; the ground comes
        first.
    corners : (4, 2) x and y of the corners of each thing with straight sides, in pixels of canvas; else None.
    """

    canvas: Canvas
    things: list[Thing]
    pixels: np.ndarray
    ground: np.ndarray
    reflectances: np.ndarray
    rough: np.ndarray
    corners: Sequence[np.ndarray | None] = ()


def view(spec: ViewSpec) -> View:
    """Ground and objects of a view, independent of the bands of a photograph."""
    season = _season(spec)
    cover = cover_map(spec)
    ground = np.zeros((len(spectra.MATERIALS), *cover.shape), np.float32)
    density = {kind: np.zeros(cover.shape, np.float32) for kind in KINDS}
    median = {kind: np.full(cover.shape, KINDS[kind].diameter, np.float32) for kind in KINDS}
    for number in np.unique(cover):
        name = scene.CLASSES[number]
        plot = plots.Plot(spec.rng(f"plot {name}"), cover == number)
        land = plots.PLOTS[name](plot, season)
        for material, share in land.ground.items():
            ground[spectra.MATERIALS.index(material)][plot.here] = share
        for kind, per_hectare in land.things.items():
            density[kind][plot.here] = per_hectare
        for kind, diameter in land.sizes.items():
            median[kind][plot.here] = diameter
    darts = {
        kind: stands.throw(spec.rng(f"stand {kind}"), density[kind], median[kind], kind)
        for kind in KINDS
    }
    return _erect(spec, season, ground, stands.settle(darts))


def cover_map(spec: ViewSpec) -> np.ndarray:
    """(size, size) uint8 class ids of the ground, for the view and its margin; 10 m pixels get rounded corners."""
    side = spec.size + 2 * MARGIN
    reach = int(np.ceil(side / 2 * PIXEL_M / scene.SceneSpec.pixel_m)) + 1
    y, x = _middle(spec)
    around = scene.layout(spec.scene)[y - reach : y + reach + 1, x - reach : x + reach + 1]
    # positions of the view's pixels in units of the scene's pixel centres
    steps = (np.arange(side) + 0.5 - side / 2) * (PIXEL_M / scene.SceneSpec.pixel_m) + reach
    rng = spec.rng("borders")
    best = np.full((side, side), -1, np.float32)
    found = np.zeros((side, side), np.uint8)
    present = np.unique(around)
    if len(present) == 1:
        return np.full((side, side), present[0], np.uint8)
    for number in present:
        share = _interpolated((around == number).astype(np.float32), steps)
        share += 0.12 * fields.smooth_noise(rng, side, 3 / PIXEL_M, rough=0.3) * (share > 0)
        found[share > best] = number
        best = np.maximum(best, share)
    return found


def _interpolated(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Bilinear values on the grid `steps` x `steps`."""
    low = np.floor(steps).astype(int)
    part = (steps - low).astype(np.float32)
    rows = values[low] * (1 - part)[:, None] + values[low + 1] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


def _season(spec: ViewSpec) -> covers.Season:
    rng = spec.rng("season")
    return covers.Season(
        dryness=rng.uniform(0.15, 0.75),
        broadleaf=rng.uniform(-0.2, 1.0),
        harvest=rng.uniform(-0.3, 0.3),
    )


def middle_cover(number: int) -> str:
    """The cover at the centre of the view of a scene with this number, if the scene has it."""
    return _MIDDLES[number % len(_MIDDLES)]


def _middle(spec: ViewSpec) -> tuple[int, int]:
    """The scene pixel at the centre of the view: of eight candidates, the one with most covers around."""
    truth = scene.layout(spec.scene)
    reach = int(np.ceil((spec.size / 2 + MARGIN) * PIXEL_M / scene.SceneSpec.pixel_m)) + 2
    wanted = scene.CLASSES.index(middle_cover(spec.number))
    places = np.argwhere(truth[reach:-reach, reach:-reach] == wanted) + reach
    if not len(places):
        return WORLD // 2, WORLD // 2
    tried = places[spec.rng("place").integers(0, len(places), 8)]

    def variety(place) -> int:
        y, x = place
        return len(np.unique(truth[y - reach : y + reach, x - reach : x + reach]))

    y, x = max(tried, key=variety)
    return int(y), int(x)


def _erect(spec: ViewSpec, season: covers.Season, ground: np.ndarray, things: list[Thing]) -> View:
    rng = spec.rng("things")
    grain = rng.uniform(0, np.pi)
    canvas = Canvas(ground.shape[-1])
    pixels, reflectances, corners = [], [], []
    for number, thing in enumerate(things):
        angle = grain + rng.choice([0, np.pi / 2]) + rng.normal(0, 0.06)
        height, shape = thing.build(rng, angle)
        pixels.append(canvas.put(number, thing.y, thing.x, 1.3 * thing.radius, shape))
        reflectances.append(thing.reflectance(rng, season))
        corners.append(_corners(thing, shape))
    rough = [0.07, *(KINDS[thing.kind].rough for thing in things)]
    return View(
        canvas,
        things,
        np.array(pixels, np.int64),
        ground,
        np.array(reflectances, np.float32).reshape(len(things), len(spectra.BANDS)),
        np.array(rough, np.float32),
        corners,
    )


def _corners(thing: Thing, shape: shapes.Shape) -> np.ndarray | None:
    if not isinstance(shape, shapes.Straight):
        return None
    return np.array([thing.x, thing.y]) + shape.corners() / PIXEL_M
