"""A GeoDataset of torchgeo, or one of images and one of masks that meet, as what a grid reads."""

from __future__ import annotations

import contextlib
import inspect
import io
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line, near_names
from permafrost.data.decode import UnreadableImage
from permafrost.data.sources.grid_layout import Grid
from permafrost.data.sources.torchgeo_samples import arguments_of
from permafrost.data.windows import Window


@dataclass(frozen=True, kw_only=True)
class GeoClass:
    """A GeoDataset class: its name, its ``paths`` inside the source's path, its other arguments."""

    name: str
    paths: list[str]
    arguments: dict


@dataclass(frozen=True, kw_only=True)
class GeoPair:
    """Where images come from, and masks where another class has them; `dates` (first, last) that count."""

    image: GeoClass
    mask: GeoClass | None = None
    dates: list[str] | None = None


class GeoLayers:
    """The intersection of the classes, read by bounds; torchgeo merges the files that lie there."""

    def __init__(
        self,
        pair: GeoPair,
        root: str,
        *,
        crs: str | None,
        resolution: float | None,
        where: object,
    ) -> None:
        target = {
            key: value for key, value in (("crs", crs), ("res", resolution)) if value is not None
        }
        parts = [_built(pair.image, root, target, where)]
        if pair.mask is not None:
            parts.append(_built(pair.mask, root, {}, where))
        try:
            # torchgeo prints what it converts
            with contextlib.redirect_stdout(io.StringIO()):
                self._dataset = parts[0] if len(parts) == 1 else parts[0] & parts[1]
        except (RuntimeError, ValueError) as error:
            raise PermafrostError(
                f"torchgeo's {' and '.join(type(part).__name__ for part in parts)} do not meet"
                f" ({first_line(error)})",
                where=where,
                remedy="correct paths in source.torchgeo; the two have to share ground and dates",
            ) from error
        self._dates = _dates(pair.dates, where)
        if not len(self._index()):
            raise PermafrostError(
                f"no file of the classes lies in these dates: {' to '.join(pair.dates)}",
                where=where,
                remedy="correct dates in source.torchgeo",
            )
        self.grid = _grid(self._dataset)
        # torchgeo keeps open files, and a file of GDAL's belongs to one thread
        self._lock = threading.Lock()

    @property
    def footprints(self) -> np.ndarray:
        """Where both have files, as shapely's shapes in pixels of the grid."""
        import shapely

        grid = self.grid
        return shapely.transform(
            self._index().geometry.to_numpy(),
            lambda points: np.stack(
                [
                    (points[:, 0] - grid.left) / grid.step[0],
                    (grid.top - points[:, 1]) / grid.step[1],
                ],
                axis=1,
            ),
        )

    def _index(self):
        """The rows of torchgeo's table of files that count."""
        import pandas as pd

        index = self._dataset.index
        if self._dates is None:
            return index
        return index[index.index.overlaps(pd.Interval(*self._dates, closed="both"))]

    def read(self, window: Window) -> dict:
        """torchgeo's sample of a window, its tensors as arrays.

        Raises
        ------
        UnreadableImage : the class cannot read it.
        """
        left, bottom, right, top = self.grid.bounds(window)
        across, down = self.grid.step
        place = [slice(left, right, across), slice(bottom, top, down)]
        if self._dates is not None:
            place.append(slice(*self._dates))
        try:
            with self._lock:
                sample = self._dataset[tuple(place)]
        # readers of many libraries hide behind a torchgeo dataset
        except Exception as error:
            raise UnreadableImage(first_line(error, named=True)) from error
        return {key: np.asarray(value) for key, value in sample.items() if hasattr(value, "numpy")}


def _built(part: GeoClass, root: str, target: dict, where: object):
    cls = _geo_class(part.name, where)
    known = arguments_of(cls)
    arguments = {**part.arguments, **target}
    unknown = [name for name in arguments if known is not None and name not in known]
    if unknown:
        raise PermafrostError(
            f"torchgeo's {part.name} takes no {', '.join(unknown)}; {near_names(unknown[0], known)}",
            where=where,
            remedy="correct arguments in source.torchgeo",
        )
    places = [str(Path(root, path)) for path in part.paths]
    try:
        # most take one or several paths, some one root
        key = "paths" if known is None or "paths" in known else "root"
        return cls(**{key: places[0] if len(places) == 1 else places}, **arguments)
    except Exception as error:
        raise PermafrostError(
            f"torchgeo's {part.name} cannot be built from {', '.join(places)}:"
            f" {first_line(error, named=True)}",
            where=where,
            remedy="correct paths or arguments in source.torchgeo",
        ) from error


def _geo_class(name: str, where: object):
    import torchgeo.datasets as library

    offered = {
        key: value
        for key, value in vars(library).items()
        if inspect.isclass(value) and issubclass(value, library.GeoDataset)
    }
    if name not in offered:
        raise PermafrostError(
            f"torchgeo has no GeoDataset named {name!r}; {near_names(name, offered)}",
            where=where,
            remedy="use the name of one of torchgeo's GeoDataset classes, or kind: torchgeo for"
            " datasets of single images",
        )
    return offered[name]


def _grid(dataset) -> Grid:
    from rasterio.crs import CRS

    left, bottom, right, top = map(float, dataset.index.total_bounds)
    across, down = map(float, dataset.res)
    return Grid(
        CRS.from_user_input(dataset.crs).to_string(),
        left,
        top,
        (across, down),
        int((right - left) / across + 1e-6),
        int((top - bottom) / down + 1e-6),
    )


def _dates(dates: list[str] | None, where: object):
    import pandas as pd

    if dates is None:
        return None
    try:
        first, last = map(pd.Timestamp, dates)
    except ValueError as error:
        raise PermafrostError(
            f"dates {dates} are no two dates ({first_line(error)})",
            where=where,
            remedy='write dates: ["2021-01-01", "2021-12-31"]',
        ) from error
    return first, last
