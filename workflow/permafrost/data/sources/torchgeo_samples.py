"""Which file a sample of a torchgeo dataset comes from: its name, and where it lies."""

from __future__ import annotations

import os
from pathlib import Path

from permafrost.core.errors import first_line

from ..decode import UnreadableImage, tiff_place
from ..georeference import NOWHERE, Georeference


def sample_path(part, number: int) -> str | None:
    """The image file of a sample, for the ways in which torchgeo's classes list their files."""
    if hasattr(part, "imgs"):
        return str(part.imgs[number][0])
    table = getattr(part, "sample_df", None)
    if table is not None and "image_path" in table and len(table) == len(part):
        return os.path.join(part.root, table["image_path"].iloc[number])
    for name in ("image_fns", "image_paths", "files", "source"):
        listed = getattr(part, name, None)
        if not isinstance(listed, list) or len(listed) != len(part):
            continue
        file = listed[number]
        file = file.get("image") if isinstance(file, dict) else file
        if isinstance(file, str | os.PathLike):
            return str(file)
    return None


def sample_name(part, split: str, number: int) -> str:
    """A name that is unique in the dataset and the same wherever it lies.

    Class and file of an image folder; the path below the root of other files; the dataset's own id;
    else split and number.
    """
    path = sample_path(part, number)
    if hasattr(part, "imgs"):
        return "/".join(path.split(os.sep)[-2:])
    if path is not None:
        return Path(os.path.relpath(path, getattr(part, "root", "."))).as_posix()
    ids = getattr(part, "ids", None)
    if isinstance(ids, list) and len(ids) == len(part):
        return f"{split}/{str(ids[number]).strip()}"
    return f"{split}/{number:07d}"


def sample_place(part, number: int) -> Georeference:
    """The georeference of a sample whose image file is a TIFF."""
    path = sample_path(part, number)
    if path is None or not path.lower().endswith((".tif", ".tiff")):
        return NOWHERE
    return tiff_place(Path(path).read_bytes())


def sample_size(part, number: int) -> tuple[int, int]:
    """Height and width from the header of a sample's image file, for classes that read it by Pillow."""
    from PIL import Image

    try:
        with Image.open(sample_path(part, number)) as image:
            return image.height, image.width
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UnreadableImage(first_line(error, named=True)) from error
