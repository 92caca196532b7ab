"""Kind ``folder``: one sub-folder per class, in a directory or an archive.

``<root>/<class>/…/<image>``, or with splits ``<root>/<split>/<class>/…/<image>``. For the tasks
segmentation and pixel_regression: files of images and files of masks or rasters, see
`permafrost.data.sources.pairs`.
"""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import decode_image
from permafrost.data.digest import IMAGE_ENDINGS
from permafrost.data.files import open_members
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.sources.common import class_ids, declared_bands, decoding_of
from permafrost.data.sources.pairs import PairSource, check_pairs
from permafrost.data.sources.reading import grouped, locate_member, read_member


def open_folder(entry: dict, *, where: object) -> Source:
    """Folders of classes, or pairs of images and masks or rasters, as the task asks for."""
    kind = FolderSource if entry["task"] == "classification" else PairSource
    return kind(entry, where=where)


def check_entry(entry: dict, *, where: object) -> None:
    """Refuse options of the source that the task has no use for."""
    check = _refuse_patterns if entry["task"] == "classification" else check_pairs
    check(entry, where=where)


class FolderSource:
    """Images whose class is the name of their folder.

    Options: ``path``; ``root`` (folder inside it, default its top); ``split_folders`` (true when the
    first level names splits); ``extensions`` (files that are images; others are an error unless
    ``other_files: ignore``); ``group`` (a regular expression whose group in parentheses is the
    sample's group, found in its name).
    """

    task = "classification"

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
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
        sample_ids = ["/".join(parts) for parts in levels]
        groups = grouped(sample_ids, options.get("group"), where=where)
        self._records = [
            Record(
                sample_id=sample_id,
                label=ids[parts[depth - 1]],
                split=parts[0] if depth == 2 else None,
                group_id=group,
            )
            for sample_id, parts, group in zip(sample_ids, levels, groups, strict=True)
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
        endings = tuple("." + e.lower() for e in options.get("extensions", IMAGE_ENDINGS))
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


def _refuse_patterns(entry: dict, *, where: object) -> None:
    given = [key for key in ("images", "masks", "targets") if key in entry["source"]]
    if given:
        raise PermafrostError(
            f"{' and '.join(given)} in source are for the tasks segmentation and pixel_regression",
            where=where,
            remedy="use root for the folder of the classes, or correct the task",
        )
