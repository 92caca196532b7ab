"""Embeddings that every image of a dataset must have: images without one are excluded for all backbones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from permafrost.core.opened import declare
from permafrost.core.option_models import read
from permafrost.core.promised import Promised
from permafrost.data.embeddings.files import read_of_options
from permafrost.data.embeddings.places import Place, places_in
from permafrost.data.embeddings.rasters import RasterEmbeddings, RasterOptions
from permafrost.data.embeddings.tables import TableEmbeddings, TableOptions
from permafrost.data.files.folders import content_state


@dataclass(frozen=True, kw_only=True)
class Required:
    """Embeddings of a backbone's entry, in rasters or in a table.

    Attributes
    ----------
    path : file or folder.
    digest : digest of the files read, from the plan; None in a job written by hand.
    """

    path: str
    digest: str | None = None
    rasters: RasterOptions | None = None
    table: TableOptions | None = None


class Matching:
    """Find images that lack an embedding of one of several backbones.

    Parameters
    ----------
    required : backbone -> fields of `Required`.
    digest_of : digest of the files of a folder that are read.
    """

    def __init__(self, required: dict[str, dict], digest_of: Callable) -> None:
        self._required = {
            name: read(Required, content, where=f"backbone {name}")
            for name, content in required.items()
        }
        self._promised = []
        for name, one in self._required.items():
            files = read_of_options(required[name])
            declare(one.path, files)
            if one.digest is not None:
                self._promised.append(
                    Promised(
                        f"{one.path} with its embeddings",
                        one.digest,
                        partial(digest_of, one.path, files),
                        partial(content_state, one.path, files),
                        where=f"backbone {name}",
                    )
                )

    def check(self) -> None:
        """Raise `PermafrostError` if the embeddings have changed since the plan."""
        for promised in self._promised:
            promised.check()

    def lacking(
        self, samples: dict[str, pa.Table], series: str | None
    ) -> dict[str, dict[str, list[int]]]:
        """Backbone -> split -> rows of samples with a date that has no embedding.

        Parameters
        ----------
        samples : the image stores' table of samples, by split.
        series : column with the dates of each sample; None if a sample is one image.
        """
        found = {}
        for name, options in self._required.items():
            has = _finder(options, f"backbone {name}")
            found[name] = {
                split: [
                    row
                    for row, dates in enumerate(places_in(table, series))
                    if not all(has(place) for place in dates)
                ]
                for split, table in samples.items()
            }
        return found


def _finder(options: Required, where: str) -> Callable[[Place], bool]:
    """A function that says whether a place has an embedding."""
    if options.table is not None:
        table = TableEmbeddings(options.path, options.table, where)
        by_id = options.table.by != "nearest"
        return lambda place: (by_id or place.known) and table.find(place).row is not None
    rasters = RasterEmbeddings(options.path, options.rasters, where)
    return lambda place: place.known and rasters.pooled(place) is not None
