"""Inventories: size and CRC-32 of every file in a folder, so that each of its bytes can be checked.

A CRC-32 takes a seventh of a SHA-256's time, and finds damage as well; neither proves who wrote a file.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

#: file of the inventory in its folder; it lists all other files below the folder
INVENTORY = "inventory.json"
_BLOCK = 1 << 20

#: path relative to the folder -> [size in bytes, CRC-32]
Inventory = dict[str, list[int]]


def crc_of(path) -> int:
    """CRC-32 of a file; raises OSError if it cannot be read."""
    crc = 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while block := os.read(descriptor, _BLOCK):
            crc = zlib.crc32(block, crc)
    finally:
        os.close(descriptor)
    return crc


def files_below(folder) -> Iterator[tuple[str, int]]:
    """Path relative to `folder` and size in bytes of every file below it, also behind links.

    The size is -1 of what cannot be read or is no regular file, such as a pipe or a broken link.
    """
    seen, places = {os.path.realpath(folder)}, [""]
    while places:
        inside = places.pop()
        try:
            entries = list(os.scandir(os.path.join(folder, inside)))
        except OSError:
            yield inside.rstrip("/"), -1
            continue
        for entry in entries:
            if entry.is_dir():
                # a link may lead back to a folder above it
                if not entry.is_symlink() or (real := os.path.realpath(entry)) not in seen:
                    places.append(f"{inside}{entry.name}/")
                    if entry.is_symlink():
                        seen.add(real)
            else:
                yield f"{inside}{entry.name}", _size(entry)


def _size(entry: os.DirEntry) -> int:
    try:
        status = entry.stat()
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def write_inventory(folder: Path, known: Mapping[str, list[int]], *, without: str) -> None:
    """Write the inventory of a folder.

    Parameters
    ----------
    known : entries that need no reading; one whose size is not the file's is ignored.
    without : a file that is left out, because it seals the inventory.
    """
    entries: Inventory = {}
    for name, size in sorted(files_below(folder)):
        if name in (without, INVENTORY):
            continue
        entry = known.get(name)
        entries[name] = entry if entry and entry[0] == size else [size, crc_of(folder / name)]
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False)
    (folder / INVENTORY).write_text(text, encoding="utf-8")


def read_inventory(folder) -> Inventory:
    """The inventory of a folder; raises OSError or ValueError if it is missing or damaged."""
    return json.loads(Path(folder, INVENTORY).read_text(encoding="utf-8"))
