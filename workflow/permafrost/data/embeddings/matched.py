"""Embeddings that every image of a dataset must have; images without one leave it before any backbone sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from permafrost.core.option_models import read
from permafrost.core.promised import Promised
from permafrost.data.embeddings.files import read_of_options
from permafrost.data.embeddings.places import Place, places_in
from permafrost.data.embeddings.rasters import RasterEmbeddings, RasterOptions
from permafrost.data.embeddings.tables import TableEmbeddings, TableOptions
from permafrost.data.files.folders import content_state


@dataclass(frozen=True, kw_only=True)
class Required:
    """Embeddings as the entry of a backbone describes them: in rasters or in a table.

    Attributes
    ----------
    path : file or folder.
    digest : of what is read there, as it was planned; None in a job that was written by hand.
    """

    path: str
    digest: str | None = None
    rasters: RasterOptions | None = None
    table: TableOptions | None = None


class Matching:
    """Which images have an embedding in all of some backbones.

    Parameters
    ----------
    required : backbone to the fields of `Required`.
    digest_of : digest of those files of a folder that are read.
    """

    def __init__(self, required: dict[str, dict], digest_of: Callable) -> None:
        self._required = {
            name: read(Required, content, where=f"backbone {name}")
            for name, content in required.items()
        }
        self._promised = []
        for name, one in self._required.items():
            files = read_of_options(required[name])
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
        """Raise `PermafrostError` unless the embeddings are those that the plan saw."""
        for promised in self._promised:
            promised.check()

    def lacking(
        self, samples: dict[str, pa.Table], series: str | None
    ) -> dict[str, dict[str, list[int]]]:
        """Backbone to split to the rows of samples of which a date has no embedding.

        Parameters
        ----------
        samples : of each split, as an image store has them.
        series : column with the dates of each sample; None where a sample is one image.
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
    """Whether there is an embedding of a place."""
    if options.table is not None:
        table = TableEmbeddings(options.path, options.table, where)
        by_id = options.table.by == "id"
        return lambda place: (by_id or place.known) and table.find(place).row is not None
    rasters = RasterEmbeddings(options.path, options.rasters, where)
    return lambda place: place.known and rasters.pooled(place) is not None
