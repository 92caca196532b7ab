"""Options that several kinds of sources have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from annotated_types import Interval, MinLen

from permafrost.core.options import LeftOut, Natural, Options, Some, Text, TwoOrMore
from permafrost.data.entry import Split

_T = TypeVar("_T")
#: where images are: a column, folder or pattern; one for each date of a sample; or either for each modality
Several = Text | TwoOrMore[Text]
ByModality = Annotated[dict[str, _T], MinLen(2)]
Places = Several | ByModality[Several]
#: a file, or names of splits to files
FileOrFiles = Text | Annotated[dict[str, Text], MinLen(1)]
BySplit = Annotated[dict[Split, _T], MinLen(1)]
Corners = Literal["one_based", "zero_based", "edges"]


@dataclass(frozen=True, kw_only=True)
class Grouped(Options):
    """Samples whose names say which belong together."""

    group: LeftOut[Text] = None
    """Regular expression whose group in parentheses finds the scene, tile or flight in the name of a sample."""


@dataclass(frozen=True, kw_only=True)
class Clipped(Options):
    """Boxes that may reach beyond their image."""

    clip_boxes: bool = False
    """Cut boxes that reach beyond their image at its edge, leave out those that have no area in it, and count both in
    the card (detection). Without it, they are an error."""


@dataclass(frozen=True, kw_only=True)
class LabelChannel(Options):
    """Rasters of labels that may have several channels."""

    label_channel: LeftOut[Natural] = None
    """Of masks or targets with several channels, the one that is meant, from 0 (segmentation, pixel_regression)."""


@dataclass(frozen=True, kw_only=True)
class Stored(Grouped):
    """Files of samples in a folder or an archive."""

    path: str
    """Directory, zip or tar of the images; read in place."""
    root: str = ""
    """Folder inside path that names are relative to; coco, deepforest: <split> in it stands for the split's name."""


@dataclass(frozen=True, kw_only=True)
class WebTileNames(Options):
    """For images that are tiles of a web map: gives their places, and groups them by the ground they show unless group
    says otherwise.
    """

    pattern: str
    """How x, y and zoom stand in the names, such as "OAM-<x>-<y>-<z>", anywhere in them."""
    group_zoom: LeftOut[Annotated[int, Interval(ge=0, le=22)]] = None
    """Tiles within one tile of this zoom are one group. Default is the smallest zoom of the data, so that tiles of
    several zooms that show the same ground stay together."""


@dataclass(frozen=True, kw_only=True)
class ObjectFiles(Stored):
    """Images and files of annotations."""

    web_tiles: LeftOut[WebTileNames] = None


@dataclass(frozen=True, kw_only=True)
class PairedFiles(Stored):
    """Files that belong together by their names; kinds add ``images``, and where their companions are."""

    extensions: Some[str] = field(default_factory=lambda: ["jpg", "jpeg", "png", "tif", "tiff"])
    """Endings of image files, without the dot, in any case."""
    other_files: Literal["error", "ignore"] = "error"
    """What to do about files that are neither an image nor what belongs to one."""


@dataclass(frozen=True, kw_only=True)
class PairedObjects(PairedFiles, ObjectFiles):
    """Images with a file of annotations each."""

    missing: Literal["error", "empty"] = "error"
    """What an image is that has no file of its own (yolo: or an empty one): an error, or an image without objects."""
