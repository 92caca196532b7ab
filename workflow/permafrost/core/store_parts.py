"""Parts of a store: each holds some chunks of its arrays, and all of them are joined without copying.

A part is a zarr group as the store will be. Its arrays have the shape of the whole; of their chunks, only those of the
part are there. Its seal names them with their sizes, so that what is lost is found before parts are joined.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import (
    DIGEST,
    PARTS_REMEDY,
    StoreWriter,
    attributes_digest,
)
from permafrost.core.tables import check_fingerprint
from permafrost.core.versions import imported_versions

_SEAL = ("fingerprint", "files", "complete", DIGEST)


class PartWriter(StoreWriter):
    """Takes some chunks of arrays; for `stores.write_store`."""

    def seal(self, fingerprint: str) -> None:
        """Record what `StorePart` must find."""
        sealed = {
            **self.attributes,
            "versions": {**self.attributes.get("versions", {}), **imported_versions()},
            "fingerprint": fingerprint,
            "files": {name: _chunk_files(self.folder / name) for name in sorted(self._arrays)},
            "complete": True,
        }
        self.group.attrs.update({**sealed, DIGEST: attributes_digest(sealed)})


class StorePart:
    """A sealed part.

    Attributes
    ----------
    attributes : what its writer recorded, versions among it.
    files : array -> file of a chunk, relative to the array's folder -> bytes.

    Raises
    ------
    PermafrostError : missing, incomplete, damaged, or of another plan than `expect`.
    """

    def __init__(self, path: Path, *, expect: str) -> None:
        self.path = path
        try:
            attributes = json.loads((path / "zarr.json").read_bytes())["attributes"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._refuse("the part is missing, or was never completed") from error
        if not attributes.get("complete"):
            raise self._refuse("the part was never completed")
        check_fingerprint(path, attributes["fingerprint"], expect)
        if attributes.get(DIGEST) != attributes_digest(attributes):
            raise self._refuse("its attributes are not what was written")
        self.files: dict[str, dict[str, int]] = attributes["files"]
        for name, files in self.files.items():
            if _chunk_files(path / name) != files:
                raise self._refuse(f"files of its array {name!r} are missing or damaged")
        self.attributes = {key: value for key, value in attributes.items() if key not in _SEAL}

    def _refuse(self, problem: str) -> PermafrostError:
        return PermafrostError(problem, where=self.path, remedy=PARTS_REMEDY)


def join(writer: StoreWriter, parts: Sequence[StorePart]) -> None:
    """Put the chunks of all parts into a store that is being written, whose seal finds any that no part has."""
    for part in parts:
        for name, files in part.files.items():
            writer.adopt(name, part.path / name, files)


def _chunk_files(folder: Path) -> dict[str, int]:
    """Size of each file of chunks, by its path below the folder of an array."""
    found = (path for path in (folder / "c").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(found)}
