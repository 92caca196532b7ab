"""Steps to get a dataset: files to download, archives to unpack. Light: lists of datasets import it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Get:
    """A file to download.

    Attributes
    ----------
    url : http or https.
    path : target on this machine.
    size : in bytes; None if only the server knows it.
    checksum : (name of a `hashlib` algorithm, hexadecimal digest); None if none is published.
    token : sent to the server of `url`, but not to servers that it redirects to.
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
    folder : folder for its members.
    whole : the archive fills `folder` alone. It then appears complete or not at all, without the
        archive's single outermost folder if there is one, and the archive is deleted. Otherwise
        members are added to `folder`.
    """

    archive: Path
    folder: Path
    whole: bool = False


Step = Get | Unpack


def fetchable(entry: dict) -> bool:
    """Whether `fetching.missing_steps` knows how to get the data. Light, and uses no network."""
    source = entry["source"]
    return "download" in entry or bool(source.get("arguments", {}).get("download"))
