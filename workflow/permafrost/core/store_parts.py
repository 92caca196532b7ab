"""Parts of a store, written by separate jobs and joined by links, without copying.

A part is a zarr group like the whole store. Its arrays have the full shape, but only the chunks of
the part exist. Its seal lists the chunk files with their sizes, so that lost files are found before
parts are joined.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import content_digest, file_digest
from permafrost.core.inventory import INVENTORY
from permafrost.core.stores import (
    DIGEST,
    INVENTORY_DIGEST,
    PARTS_REMEDY,
    StoreWriter,
)
from permafrost.core.tables import check_fingerprint
from permafrost.core.versions import imported_versions

_SEAL = ("fingerprint", "files", "beside", "complete", INVENTORY_DIGEST, DIGEST)


@dataclass(frozen=True)
class Part:
    """Part `number` (from 0) of `count`."""

    number: int
    count: int

    @classmethod
    def of(cls, name: str) -> Part:
        """Parse ``2-of-8``, the third of eight parts; raises `PermafrostError` for another text."""
        number, of, count = name.partition("-of-")
        if not (of and number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise PermafrostError(
                f"{name!r} names no part", remedy="write 0-of-8 to 7-of-8 for eight parts"
            )
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}-of-{self.count}"

    def span(self, samples: int, batch: int) -> tuple[int, int]:
        """[first, stop) of this part's samples, in whole batches; the first part is never empty."""
        batches = -(-samples // batch)
        first, last = (-(-batches * part // self.count) for part in (self.number, self.number + 1))
        return min(first * batch, samples), min(last * batch, samples)


class PartWriter(StoreWriter):
    """Writes chunks of arrays, and other files; for `stores.write_store`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._beside: list[str] = []

    def beside(self, name: str) -> Path:
        """Path for another file of the part, which the seal will list."""
        self._beside.append(name)
        return self.folder / name

    def seal(self, fingerprint: str) -> None:
        """Record the sizes of chunk files and the digests of other files, which `StorePart` checks."""
        sealed = {
            **self.attributes,
            "versions": {**self.attributes.get("versions", {}), **imported_versions()},
            "fingerprint": fingerprint,
            "files": {name: _chunk_files(self.folder / name) for name in sorted(self._arrays)},
            "beside": {name: file_digest(self.folder / name) for name in self._beside},
            "complete": True,
        }
        self.set_attributes(sealed)


class StorePart:
    """A sealed part, opened for reading.

    Attributes
    ----------
    attributes : recorded by its writer, including versions.
    files : array -> chunk file (relative to the array's folder) -> size in bytes.

    Raises
    ------
    PermafrostError : it is missing, incomplete or damaged, or its fingerprint is not `expect`.
    """

    def __init__(self, path: Path, *, expect: str) -> None:
        self.path = path
        self._arrays: dict = {}
        try:
            attributes = json.loads((path / "zarr.json").read_bytes())["attributes"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._refuse("the part is missing, or was never completed") from error
        if not attributes.get("complete"):
            raise self._refuse("the part was never completed")
        check_fingerprint(path, attributes["fingerprint"], expect)
        if attributes.get(DIGEST) != content_digest(attributes, DIGEST):
            raise self._refuse("its attributes are not what was written")
        self.files: dict[str, dict[str, int]] = attributes["files"]
        for name, files in self.files.items():
            if _chunk_files(path / name) != files:
                raise self._refuse(f"files of its array {name!r} are missing or damaged")
        beside = {**attributes["beside"], INVENTORY: attributes.get(INVENTORY_DIGEST)}
        for name, digest in beside.items():
            if not (path / name).is_file() or file_digest(path / name) != digest:
                raise self._refuse(f"its file {name} is missing or damaged")
        self.attributes = {key: value for key, value in attributes.items() if key not in _SEAL}

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop) of an array; raises `PermafrostError` if the part does not hold them."""
        import zarr

        if name not in self._arrays:
            array = zarr.open_group(self.path, mode="r", zarr_format=3)[name]
            self._arrays[name] = array.with_config({"read_missing_chunks": False})
        try:
            return np.asarray(self._arrays[name][start:stop])
        except Exception as error:
            raise self._refuse(
                f"rows {start} to {stop} of {name!r} are damaged ({first_line(error)})"
            ) from error

    def _refuse(self, problem: str) -> PermafrostError:
        return PermafrostError(problem, where=self.path, remedy=PARTS_REMEDY)


def sorted_parts(parts: Sequence[StorePart]) -> list[StorePart]:
    """Parts sorted by number; raises `PermafrostError` unless each part is there exactly once."""
    parts = sorted(parts, key=lambda part: part.attributes["part"]["number"])
    about = [part.attributes["part"] for part in parts]
    numbers = [one["number"] for one in about]
    if numbers != list(range(about[0]["count"])):
        raise PermafrostError(
            f"of {about[0]['count']} parts, {', '.join(map(str, numbers))} are here",
            where=parts[0].path.parent.parent,
            remedy=PARTS_REMEDY,
        )
    check_same(parts, "parts with count", [one["count"] for one in about])
    return parts


def check_same(parts: Sequence[StorePart], what: str, values: Sequence) -> None:
    """Raise `PermafrostError` if the parts' `values` differ; `what` names the values."""
    for part, value in zip(parts, values, strict=True):
        if value != values[0]:
            raise PermafrostError(
                f"{what} {value} and {values[0]} cannot be joined",
                where=part.path.parent,
                remedy=PARTS_REMEDY,
            )


def join(writer: StoreWriter, parts: Sequence[StorePart]) -> None:
    """Link the chunks of all parts into a store; its seal fails if a chunk is missing."""
    for part in parts:
        for name, files in part.files.items():
            writer.adopt(name, part.path / name, files)


def _chunk_files(folder: Path) -> dict[str, int]:
    """Chunk file, relative to the folder of an array, to its size in bytes."""
    found = (path for path in (folder / "c").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(found)}
