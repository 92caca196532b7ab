"""Weights that libraries publish: found in a cache of the hub, found in ``{data}/weights``, or downloaded there once.

A result is identified by the name of its weights. That this name always means the same content is held here: by the
hash in a file's name, by that in the hub's cache, and by ``{data}/weights/NAME.sha256``, which the first use writes.
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
from permafrost.core.outputs import whole_file

#: where weights lie in the data folder
FOLDER = "weights"
# what torch.hub reads of a name: the first digits of the SHA-256
_HASH = re.compile(r"-([0-9a-f]{8,64})(\.\w+)?")
_BLOB = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PublishedFile:
    """One file that may hold the weights.

    Attributes
    ----------
    name : in ``{data}/weights``.
    url : where it is published.
    cached : where the library's own cache has it, or would have it; None where it does not.
    """

    name: str
    url: str
    cached: Path | None = None

    @property
    def sha256(self) -> str | None:
        """As many digits as its name tells."""
        found = _HASH.search(self.url.rpartition("/")[2])
        return found[1] if found and self.url.endswith(found[0]) else None


@dataclass(frozen=True)
class Published:
    """Weights by the `name` that an entry gives them, and the files that may hold them, the best first."""

    name: str
    files: tuple[PublishedFile, ...]

    def here(self, folder: Path) -> tuple[PublishedFile, Path] | None:
        """The file that is here, and where: in a cache, else in `folder`."""
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
    name : of the weights, and without ending of the file in ``{data}/weights``.
    hub : ``owner/name``, with ``@revision`` where it is not the newest one.
    filenames : in it, the best first.
    """
    from huggingface_hub import try_to_load_from_cache

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
    """Weights at an address, which torch.hub keeps by the last part of it."""
    import torch

    file = url.rpartition("/")[2]
    return Published(
        name, (PublishedFile(file, url, Path(torch.hub.get_dir(), "checkpoints", file)),)
    )


def obtain(weights: Published, folder: Path, *, where: str) -> tuple[Path, str]:
    """The file of the weights and its SHA-256; downloaded to `folder` (``{data}/weights``) if it is nowhere.

    Raises
    ------
    PermafrostError : it cannot be downloaded, or the file is not the one that the name means.
    """
    found = weights.here(folder)
    if found is None:
        _download(weights, folder, where)
        found = weights.here(folder)
    file, path = found
    return path, check(file, path, folder)


def check(file: PublishedFile, path: Path, folder: Path) -> str:
    """SHA-256 of the file at `path`, which must be the one that is meant.

    Raises
    ------
    PermafrostError : its content is not what its name, the hub's cache, or its first use says.
    """
    digest, blob, record = file_digest(path), path.resolve().name, folder / f"{file.name}.sha256"
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
        # a data folder that cannot be written keeps no record
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
    # a process of its own: what only gets a file, whose content is checked, is no part of a job's code
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
