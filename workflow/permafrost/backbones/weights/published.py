"""Published weights: from the library's cache, from ``{data}/weights``, or downloaded there once.

Fingerprints contain the name of weights, not their content. Checks ensure that a name always means
the same content: by the hash in the file name, by that in the hub's cache, and by
``{data}/weights/NAME.sha256``, which is written at the first use.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.opened import declare
from permafrost.core.outputs import whole_file

#: subfolder of the data folder for weights
FOLDER = "weights"
# torch.hub's convention: a file name contains the first digits of the SHA-256
_HASH = re.compile(r"-([0-9a-f]{8,64})(\.\w+)?")
_BLOB = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PublishedFile:
    """A file that contains the weights.

    Attributes
    ----------
    name : file name in ``{data}/weights``.
    url : address of the published file.
    cached : path in the library's cache, where it may be missing; None: not in the cache.
    """

    name: str
    url: str
    cached: Path | None = None

    @property
    def sha256(self) -> str | None:
        """The first digits of the SHA-256 from the file name; None if it has none."""
        found = _HASH.search(self.url.rpartition("/")[2])
        return found[1] if found and self.url.endswith(found[0]) else None


@dataclass(frozen=True)
class Published:
    """Weights by their `name` in entries, and alternative files with them, in order of preference."""

    name: str
    files: tuple[PublishedFile, ...]

    def here(self, folder: Path) -> tuple[PublishedFile, Path] | None:
        """(file, path) of the first available file: in a cache, else in `folder`; None without one."""
        for file in self.files:
            if file.cached is not None and file.cached.is_file():
                return file, file.cached
        for file in self.files:
            if (folder / file.name).is_file():
                return file, folder / file.name
        return None


def on_hub(name: str, hub: str, filenames: tuple[str, ...]) -> Published:
    """Weights in a repository of the Hugging Face hub.

    Parameters
    ----------
    name : of the weights, and of the file in ``{data}/weights`` without suffix.
    hub : ``owner/name``, with ``@revision`` unless it is the newest one.
    filenames : in the repository, in order of preference.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    # which revision is the newest does not count, since the content of the weights is checked
    declare(constants.HF_HUB_CACHE, lambda inside: "/refs/" in inside)
    repository, _, revision = hub.partition("@")
    files = []
    for filename in filenames:
        cached = try_to_load_from_cache(repository, filename, revision=revision or None)
        url = f"https://huggingface.co/{repository}/resolve/{revision or 'main'}/{filename}"
        suffix = Path(filename).suffix
        place = Path(cached) if isinstance(cached, str) else None
        files.append(PublishedFile(f"{name}{suffix}", url, place))
    return Published(name, tuple(files))


def at_address(name: str, url: str) -> Published:
    """Weights at a URL; torch.hub caches them by its last component."""
    import torch

    file = url.rpartition("/")[2]
    return Published(
        name, (PublishedFile(file, url, Path(torch.hub.get_dir(), "checkpoints", file)),)
    )


def obtain(weights: Published, folder: Path, *, where: str) -> tuple[Path, str]:
    """Path and SHA-256 of the weights; downloads to `folder` (``{data}/weights``) if they are missing.

    Raises
    ------
    PermafrostError : they cannot be downloaded, or the file fails `check`.
    """
    found = weights.here(folder)
    if found is None:
        _download(weights, folder, where)
        found = weights.here(folder)
    file, path = found
    return path, check(file, path, folder)


def check(file: PublishedFile, path: Path, folder: Path) -> str:
    """Verify the file at `path` and return its SHA-256; record it in `folder` at the first use.

    Raises
    ------
    PermafrostError : the SHA-256 does not match the file name, the hub's cache, or the first use.
    """
    digest, blob, record = file_digest(path), path.resolve().name, folder / f"{file.name}.sha256"
    declare(path)
    declare(record)
    for expected, said in (
        (file.sha256, "its name says"),
        (blob if _BLOB.fullmatch(blob) else None, "the hub says"),
    ):
        if expected is not None and not digest.startswith(expected):
            raise PermafrostError(
                f"the weights are damaged: their SHA-256 is {digest}, and {said} {expected}",
                where=path,
                remedy="delete the file; it is then downloaded again",
            )
    first = _recorded(record)
    if first not in (None, digest):
        raise PermafrostError(
            f"the weights differ from those first used under this name: their SHA-256 is {digest}, and not {first}",
            where=path,
            remedy="restore the first ones, or give these another name: weights: {source: file, path: …}",
        )
    if first is None and file.sha256 is None:
        # without a record if the data folder is read-only
        with (
            contextlib.suppress(OSError, PermafrostError),
            whole_file(record, exclusive=False) as partial,
        ):
            partial.write_text(f"{digest}  {file.name}\n")
    return digest


def _recorded(path: Path) -> str | None:
    try:
        words = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return words[0].lower() if words else None


def _download(weights: Published, folder: Path, where: str) -> None:
    # in a separate process, so that code for downloads does not count as code of the job
    program = "from permafrost.data.download.weights import main; raise SystemExit(main())"
    wanted = [[file.url, str(folder / file.name), file.sha256] for file in weights.files]
    command = [sys.executable, "-c", program, json.dumps(wanted)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        file = weights.files[0]
        raise PermafrostError(
            f"the weights {weights.name} are missing and cannot be downloaded ({done.stdout.strip() or 'see above'})",
            where=where,
            remedy=f"on a machine with a network run `permafrost fetch CONFIG`, or get {file.url} there; then put the"
            f" file to {folder / file.name}",
        )
