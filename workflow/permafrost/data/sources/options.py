"""Options shared by several kinds of sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from annotated_types import Interval, MinLen

from permafrost.core.options import ByName, LeftOut, Natural, Options, Some, Text, TwoOrMore
from permafrost.data.entry import Split

_T = TypeVar("_T")
#: location of images: a column, folder or pattern; one for each date of a sample; or either for
#: each modality
Several = Text | TwoOrMore[Text]
ByModality = Annotated[dict[str, _T], MinLen(2)]
Places = Several | ByModality[Several]
#: a file, or split names to files
FileOrFiles = Text | Annotated[dict[str, Text], MinLen(1)]
BySplit = Annotated[dict[Split, _T], MinLen(1)]
Corners = Literal["one_based", "zero_based", "edges"]


@dataclass(frozen=True, kw_only=True)
class Grouped(Options):
    """Samples whose names show which belong together."""

    group: LeftOut[Text] = None
    """Regular expression with one group in parentheses that finds the scene, tile or flight in a sample's name."""


@dataclass(frozen=True, kw_only=True)
class Clipped(Options):
    """Boxes that may reach beyond their image."""

    clip_boxes: bool = False
    """Cut boxes at the edge of their image, drop those without area in it, and count both in the
    card (detection). Without it, boxes that reach beyond their image are an error."""


@dataclass(frozen=True, kw_only=True)
class Renamed(Options):
    """Objects whose files name them otherwise than the classes."""

    label_values: LeftOut[ByName[str | None]] = None
    """Mapping of the names or numbers in the files to classes; null omits such objects. The key "*" is
    for all that no other key names. Without it, they are an error."""


@dataclass(frozen=True, kw_only=True)
class LabelChannel(Options):
    """Label rasters that may have several channels."""

    label_channel: LeftOut[Natural] = None
    """Channel to use of masks or targets with several, from 0 (segmentation, pixel_regression)."""


@dataclass(frozen=True, kw_only=True)
class Stored(Grouped):
    """Files of samples in a folder or an archive."""

    path: str
    """Directory, zip or tar of the images; read in place."""
    root: str = ""
    """Folder inside path that names are relative to; for coco and deepforest, <split> in it stands
    for the split's name."""


@dataclass(frozen=True, kw_only=True)
class WebTileNames(Options):
    """For images that are tiles of a web map: defines their locations, and groups them by area
    unless group is given.
    """

    pattern: str
    """Pattern of x, y and zoom in the names, such as "OAM-<x>-<y>-<z>", anywhere in them."""
    group_zoom: LeftOut[Annotated[int, Interval(ge=0, le=22)]] = None
    """Tiles within one tile of this zoom form a group. Default is the smallest zoom of the data, so
    that tiles of the same area stay together."""


@dataclass(frozen=True, kw_only=True)
class ObjectFiles(Stored):
    """Images with annotation files."""

    web_tiles: LeftOut[WebTileNames] = None


@dataclass(frozen=True, kw_only=True)
class PairedFiles(Stored):
    """Files matched by their names; kinds add ``images``, and the location of the matching files."""

    if TYPE_CHECKING:
        images: Places | None

    extensions: Some[str] = field(default_factory=lambda: ["jpg", "jpeg", "png", "tif", "tiff"])
    """Endings of image files, without the dot, ignoring case."""
    other_files: Literal["error", "ignore"] = "error"
    """Handling of files that are neither an image nor belong to one."""


@dataclass(frozen=True, kw_only=True)
class PairedObjects(PairedFiles, ObjectFiles):
    """Images with one annotation file each."""

    missing: Literal["error", "empty"] = "error"
    """Handling of images without an annotation file (yolo: or with an empty one): an error, or an
    image without objects."""
