"""Raster files of one sensor or several, with rasters or polygons of labels, as inputs of tiles."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError, near_names
from permafrost.data.bands.sensors import Band
from permafrost.data.entry import DatasetEntry, Nodata
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, open_members
from permafrost.data.files.windows import Window
from permafrost.data.labels.masks import MaskCoding
from permafrost.data.labels.rasters import Raster, TargetCoding
from permafrost.data.sources.grid_layout import Grid
from permafrost.data.sources.grid_options import KEEPS_VALUES, GridOptions
from permafrost.data.sources.grid_rasters import KEPT_OPEN, Layer, all_hold
from permafrost.data.sources.grid_scenes import Scene, declared_grid, read_scenes
from permafrost.data.sources.grid_shapes import Burnt, read_shapes
from permafrost.data.sources.reading import coded


class _Sensor:
    """The pixels of one sensor: one layer with all bands, or one per band.

    Parameters
    ----------
    scenes : rasters by their band; None for rasters with all bands.
    nodata : as the entry declares it.
    placed : further arguments of `Layer`.
    """

    def __init__(
        self,
        scenes: dict[str | None, list[Scene]],
        bands: int,
        nodata: str | Nodata | None,
        placed: dict,
    ) -> None:
        self._nodata = nodata.value if isinstance(nodata, Nodata) else None
        self._strict = nodata is None
        self.layers = [
            Layer(one, marked=nodata != "keep", strict=self._strict, **placed)
            for one in scenes.values()
        ]
        self._check_bands(bands, placed["where"])
        self._reads_nodata = self._nodata is not None or any(layer.marks for layer in self.layers)

    def image(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """(C, H, W) pixels, and (H, W) bool, True where there are data.

        A missing pixel is one that is missing in all bands; if the entry declares no nodata, in at
        least one.
        """
        parts = [layer.read(window) for layer in self.layers]
        values = np.concatenate([values for values, _ in parts])
        return values, self._joined([valid for _, valid in parts]) & ~all_hold(values, self._nodata)

    def valid(self, window: Window) -> np.ndarray:
        """(H, W) bool, True where there are data; reads pixels only if necessary."""
        if self._reads_nodata:
            return self.image(window)[1]
        return self._joined([layer.covered(window) for layer in self.layers])

    def _joined(self, valid: list[np.ndarray]) -> np.ndarray:
        return (np.logical_and if self._strict else np.logical_or).reduce(valid)

    def _check_bands(self, bands: int, where: object) -> None:
        for layer in self.layers:
            expected = bands if len(self.layers) == 1 else 1
            if layer.bands != expected:
                raise PermafrostError(
                    f"{layer.scenes[0].name} has {layer.bands} bands, the entry declares {expected}",
                    where=where,
                    remedy="list bands in the order of the files",
                )
        kinds = sorted({str(layer.dtype) for layer in self.layers})
        if len(kinds) > 1:
            raise PermafrostError(
                f"the files of bands hold values of different types: {', '.join(kinds)}",
                where=where,
                remedy="store all of them in one type",
            )


class RasterInputs:
    """Raster files of one sensor, or of several on one grid, and their labels.

    Attributes
    ----------
    grid : the pixels are read on this grid.
    footprints : arrays of shapely geometries in pixels of the grid; a tile must intersect one of
        each array.
    name : prefix of tile names.
    """

    def __init__(
        self,
        entry: DatasetEntry,
        bands: Sequence[Band],
        coding: MaskCoding | TargetCoding,
        classes: Sequence[str],
        *,
        where: object,
    ) -> None:
        options: GridOptions = entry.source
        self._coding, self._ignore = coding, entry.ignore_index
        self._channel = options.label_channel
        self.members = open_members(options.path, where=where)
        named = _by_sensor(options, entry, bands, where)
        scenes = {
            sensor: {
                band: read_scenes(self.members, matching(self.members, one, where), where=where)
                for band, one in files.items()
            }
            for sensor, files in named.items()
        }
        first = next(iter(next(iter(scenes.values())).values()))
        self.name = (
            first[0].name.rpartition("/")[2].rpartition(".")[0] if len(first) == 1 else "mosaic"
        )
        self.grid = declared_grid(first, options.crs, options.resolution, where=where)
        placed = {
            "grid": self.grid,
            "declared": options.crs is not None or options.resolution is not None,
            "where": where,
        }
        keep = max(2, KEPT_OPEN // sum(map(len, scenes.values())))
        self._sensors = [
            _Sensor(
                one,
                sum(band.modality == sensor for band in bands),
                entry.nodata_of(sensor),
                {**placed, "resampling": options.resampling, "keep": keep},
            )
            for sensor, one in scenes.items()
        ]
        self.footprints = [_boxes(layer) for sensor in self._sensors for layer in sensor.layers]
        self._labels = self._opened_labels(entry, classes, placed)
        if isinstance(self._labels, Layer):
            self.footprints.append(_boxes(self._labels))

    def images(self, window: Window) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each sensor, (C, H, W) pixels, and (H, W) bool, True where there are data."""
        return [sensor.image(window) for sensor in self._sensors]

    def valid(self, window: Window) -> np.ndarray:
        """(H, W) bool, True where all sensors have data; reads pixels only if necessary."""
        return np.logical_and.reduce([sensor.valid(window) for sensor in self._sensors])

    def labels(self, window: Window) -> np.ndarray:
        """(H, W) class ids or numbers; raises `UnreadableImage` for pixels outside all masks
        without an ignore index."""
        if isinstance(self._labels, Burnt):
            return self._labels.read(window)
        values, covered = self._labels.read(window)
        values = values[self._channel or 0]
        if isinstance(self._coding, TargetCoding):
            scene = self._labels.scenes[0]
            raster = Raster(values, scene.nodata, ~covered, scene.scale, scene.offset)
            return coded(self._coding, raster)
        if covered.all():
            return coded(self._coding, values)
        if self._ignore is None:
            raise UnreadableImage(
                f"{np.count_nonzero(~covered)} of its pixels lie outside of all masks",
                remedy="say that they have no label, ignore_index: 255; min_labelled in source can leave such"
                " tiles out",
            )
        ids = np.full(values.shape, self._ignore, np.int32)
        ids[covered] = coded(self._coding, values[covered])
        return ids

    def both(self, window: Window) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """The results of `images` and `labels`."""
        return self.images(window), self.labels(window)

    def shapes(self, name: str, where: object) -> np.ndarray:
        """The polygons of a file in pixels of the grid."""
        return read_shapes(self.members, name, self.grid, None, where=where).polygons

    def _opened_labels(self, entry: DatasetEntry, classes: Sequence[str], placed: dict):
        options, where = entry.source, placed["where"]
        names = matching(self.members, options.labels, where)
        if options.polygons:
            return _burnt(self.members, names, entry, classes, self.grid, where)
        scenes = read_scenes(self.members, names, where=where)
        channels = scenes[0].bands
        if channels > 1 and self._channel is None or (self._channel or 0) >= channels:
            raise PermafrostError(
                f"{scenes[0].name} has {channels} channels",
                where=where,
                remedy="set label_channel in source, counted from 0",
            )
        stored = {(scene.nodata, scene.scale, scene.offset) for scene in scenes}
        if isinstance(self._coding, TargetCoding) and len(stored) > 1:
            raise PermafrostError(
                f"the target rasters differ in nodata, scale or offset, e.g. {scenes[0].name}",
                where=where,
                remedy="store all of them alike",
            )
        # unless labels are interpolated, marked values stay values with the meaning in the entry
        blended = options.label_resampling not in KEEPS_VALUES
        return Layer(scenes, resampling=options.label_resampling, marked=blended, **placed)


def matching(members: Members, patterns: str | Sequence[str], where: object) -> list[str]:
    """The names that match the patterns, in pattern order and each once; raises `PermafrostError`
    if a pattern matches none."""
    found: list[str] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fits = fnmatch.filter(members.names, pattern)
        if not fits:
            raise PermafrostError(
                f"{members.place} holds no file {pattern!r}; {near_names(pattern, members.names)}",
                where=where,
                remedy="correct the pattern: it is relative to path, and * stands for any characters",
            )
        found += sorted(fits)
    return list(dict.fromkeys(found))


def _by_sensor(
    options: GridOptions, entry: DatasetEntry, bands: Sequence[Band], where: object
) -> dict[str | None, dict]:
    """Sensor -> patterns of its bands' files, in the order of the entry; None for the only sensor or for all bands."""
    if entry.modalities is None:
        return {None: _by_band(options.images, bands, where)}
    given = options.images if isinstance(options.images, dict) else {}
    if set(given) != set(entry.modalities):
        raise PermafrostError(
            f"images names files for {', '.join(given) or 'no modality'}, the modalities are"
            f" {', '.join(entry.modalities)}",
            where=where,
            remedy="name the files of each modality: images: {NAME: PATTERN}",
        )
    return {
        name: _by_band(given[name], [band for band in bands if band.modality == name], where)
        for name in entry.modalities
    }


def _by_band(patterns, bands: Sequence[Band], where: object) -> dict[str | None, str | list[str]]:
    """Band -> patterns of its files; None if files hold all bands."""
    if not isinstance(patterns, dict):
        return {None: patterns}
    # without the modality prefix of duplicate band names
    expected = [band.name.rpartition(":")[2] for band in bands]
    if list(patterns) != expected:
        raise PermafrostError(
            f"images names files for {', '.join(patterns)}, the bands are {', '.join(expected)}",
            where=where,
            remedy="name the files of each band, in the order of bands",
        )
    return patterns


def _burnt(members, names, entry: DatasetEntry, classes: Sequence[str], grid: Grid, where) -> Burnt:
    options: GridOptions = entry.source
    if len(names) > 1:
        raise PermafrostError(
            f"masks names {len(names)} files of polygons: {', '.join(names[:5])}",
            where=where,
            remedy="merge the polygons into one file",
        )
    found = read_shapes(members, names[0], grid, options.attribute, where=where)
    meaning = _meaning(options, classes, entry.ignore_index, names[0], where)
    ids, unknown = [], set()
    for value in found.values if found.values is not None else [None] * len(found.polygons):
        key = _text(value)
        unknown |= {key} - set(meaning)
        ids.append(meaning.get(key))
    if unknown:
        raise PermafrostError(
            f"{names[0]} has {options.attribute} {', '.join(sorted(unknown)[:5])}:"
            f" {near_names(min(unknown), meaning)}",
            where=where,
            remedy="set label_values in source: the class of each value (null: no label)",
        )
    background = entry.ignore_index
    if options.background is not None:
        background = classes.index(options.background)
    return Burnt(found.polygons, ids, background)


def _meaning(options: GridOptions, classes: Sequence[str], ignore, name: str, where) -> dict:
    """Value of the attribute -> class id; without an attribute, None -> the only class of the polygons."""
    if options.attribute is None:
        ours = [number for number, one in enumerate(classes) if one != options.background]
        return {"": ours[0]}
    numbers = {one: number for number, one in enumerate(classes)}
    if options.label_values is None:
        return numbers
    return {
        str(value): ignore if one is None else numbers[one]
        for value, one in options.label_values.items()
    }


def _text(value) -> str:
    """An attribute in the form that entries use: 3 for 3.0, an empty text for a missing one."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _boxes(layer: Layer) -> np.ndarray:
    return shapely.box(*np.array([scene.box for scene in layer.scenes], float).T)
