"""What has to be done to get a dataset: files to get, archives to unpack. Light: lists of datasets import it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Get:
    """A file that lies elsewhere.

    Attributes
    ----------
    url : where; http or https.
    path : where it is to lie here.
    size : in bytes; None where only the server tells.
    checksum : name of an algorithm of `hashlib` and the hexadecimal digest; None where nobody published one.
    token : sent to the server of `url`, and to no server that it redirects to.
    """

    url: str
    path: Path
    size: int | None = None
    checksum: tuple[str, str] | None = None
    token: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Unpack:
    """An archive to unpack.

    Attributes
    ----------
    archive : a zip, or a tar of any compression.
    folder : what its members lie in afterwards.
    whole : `folder` is this archive's own: it appears with everything in it or not at all, without the
        archive's single outermost folder if it has one, and the archive is deleted. Otherwise members
        join what is in `folder`.
    """

    archive: Path
    folder: Path
    whole: bool = False


Step = Get | Unpack


def fetchable(entry: dict) -> bool:
    """Whether `fetching.missing_steps` can say how the data are got. Light, and asks nobody."""
    source = entry["source"]
    return "download" in entry or bool(source.get("arguments", {}).get("download"))
