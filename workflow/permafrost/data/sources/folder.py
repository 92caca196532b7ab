"""Kind ``folder``: one sub-folder per class, in a directory or an archive.

``<root>/<class>/…/<image>``, or with splits ``<root>/<split>/<class>/…/<image>``.
"""

from __future__ import annotations

import zipfile
import zlib

from permafrost.core.errors import PermafrostError

from ..decode import UnreadableImage, decode_image, image_format, tiff_lonlat
from ..files import open_members
from ..records import Decoded, Record
from .common import class_ids, declared_bands, decoding_of, require_task


class FolderSource:
    """Images whose class is the name of their folder.

    Options: ``path``; ``root`` (folder inside it, default its top); ``split_folders`` (true when the
    first level names splits); ``extensions`` (files that are images; others are an error unless
    ``other_files: ignore``).
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
        self.task = require_task(entry, ["classification"], where=where)
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = None
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options["path"], where=where)
        self._root = options.get("root", "").strip("/")
        depth = 2 if options.get("split_folders") else 1
        names = self._images(options, depth, where)
        levels = [name.removeprefix(f"{self._root}/").split("/") for name in names]
        self.classes, ids = class_ids(
            [parts[depth - 1] for parts in levels], entry.get("classes"), where=where
        )
        self._names = names
        self._records = [
            Record(
                sample_id="/".join(parts),
                label=ids[parts[depth - 1]],
                split=parts[0] if depth == 2 else None,
            )
            for parts in levels
        ]

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        return decode_image(read_member(self._members, self._names[index]), self._decoding)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])

    def _images(self, options: dict, depth: int, where) -> list[str]:
        prefix = f"{self._root}/" if self._root else ""
        names = [name for name in self._members.names if name.startswith(prefix)]
        if not names:
            raise PermafrostError(
                f"{options['path']} holds no folder {self._root!r}",
                where=where,
                remedy="correct root",
            )
        endings = tuple(
            "." + e.lower()
            for e in options.get("extensions", ["jpg", "jpeg", "png", "tif", "tiff"])
        )
        images, others = [], []
        for name in names:
            in_class = name.removeprefix(prefix).count("/") >= depth
            (images if in_class and name.lower().endswith(endings) else others).append(name)
        if others and options.get("other_files", "error") != "ignore":
            raise PermafrostError(
                f"{options['path']} holds {len(others)} files that are no images in class folders,"
                f" e.g. {', '.join(others[:5])}",
                where=where,
                remedy="set root to the folder of the classes, or other_files: ignore",
            )
        return images


def read_member(members, name: str) -> bytes:
    """Bytes of a member; damage of the archive at this place counts as an unreadable image."""
    try:
        return members.read(name)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UnreadableImage(f"cannot be read ({error})") from error


def locate_member(members, name: str) -> tuple[float | None, float | None]:
    """lon, lat of a member that is a georeferenced TIFF; None for others."""
    data = read_member(members, name)
    return tiff_lonlat(data) if image_format(data) == "tiff" else (None, None)
