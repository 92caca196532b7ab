"""Checks of single outputs: stores, folders of masks and detections, tables, cards, stamped files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest
from permafrost.core.inventory import INVENTORY, crc_of, read_inventory
from permafrost.core.stores import GROUP, INVENTORY_DIGEST, SAMPLES, read_seal
from permafrost.core.tables import read_metadata
from permafrost.data.store.card import read_card
from permafrost.operate.verify.findings import Check, Finding
from permafrost.operate.verify.listing import Listing

# files of one batch, which one thread reads
_BATCH_FILES, _BATCH_BYTES = 256, 32 << 20
_STALE = "made from another plan"


@dataclass(frozen=True)
class Output:
    """An output of a job.

    Attributes
    ----------
    path : a file or folder below the results.
    name : the same, relative to the results.
    fingerprint, split : what it must have; None: anything.
    """

    path: Path
    name: str
    fingerprint: str | None = None
    split: str | None = None

    def finding(self, kind: str, reason: str, file: str | None = None) -> Finding:
        """A finding about the output, or about a file below it."""
        path = self.path if file is None else self.path / file
        return Finding(path, kind, reason, path if kind == "unexpected" else self.path)

    def refused(self, error: Exception, file: str | None = None) -> Finding:
        """The finding of an error while reading."""
        reason = error.problem if isinstance(error, PermafrostError) else first_line(error)
        return self.finding("stale" if reason.startswith(_STALE) else "changed", reason, file)


def missing(output: Output, file: str | None = None) -> Finding:
    """The finding of a file that does not exist."""
    return output.finding("missing", "the plan promises it", file)


def check_file(output: Output, listing: Listing) -> Iterator[Check]:
    """Check a table or a card, which hold their own digests."""
    size = listing.take(output.name)
    if size is None:
        # may be a folder of that name
        listing.take_below(output.name)
        yield found(missing(output))
        return
    read = read_card if output.name.endswith("/card.json") else read_metadata
    yield Check(1, max(size, 0), partial(_read_sealed, output, read))


def _read_sealed(output: Output, read: Callable) -> list[Finding]:
    try:
        read(output.path, expect=output.fingerprint)
    except (PermafrostError, OSError, ValueError, KeyError, TypeError) as error:
        return [output.refused(error)]
    return []


def check_sealed_folder(output: Output, listing: Listing) -> Iterator[Check]:
    """Check a store or a folder of GeoTIFFs: the seal, the inventory, and every file in it."""
    names = listing.take_below(output.name)
    seal = GROUP if GROUP in names or output.path.suffix else SAMPLES
    if seal not in names:
        yield found(missing(output, seal if output.path.exists() else None))
        return
    try:
        sealed = _seal(output, seal)
        whole = INVENTORY in names and (
            file_digest(output.path / INVENTORY) == sealed.get(INVENTORY_DIGEST)
        )
        entries = read_inventory(output.path) if whole else {}
    except (PermafrostError, OSError, ValueError, KeyError, TypeError) as error:
        yield found(output.refused(error, seal))
        return
    if not whole:
        reason = "its other files cannot be checked"
        if INVENTORY in names:
            yield found(output.finding("changed", f"not what was written; {reason}", INVENTORY))
        else:
            yield found(output.finding("missing", f"the seal names it; {reason}", INVENTORY))
        return
    yield Check(2, names.pop(seal) + names.pop(INVENTORY), list)
    expected = {name: (size, crc) for name, (size, crc) in entries.items()}
    yield from check_files(output, names, expected, crc_of)


def _seal(output: Output, seal: str) -> dict:
    if seal == GROUP:
        return read_seal(output.path, expect=output.fingerprint, split=output.split)
    return read_metadata(output.path / SAMPLES, expect=output.fingerprint)


def check_detections(output: Output, listing: Listing, table: Path) -> Iterator[Check]:
    """Check a folder of COCO files, whose digests are in the table of predictions.

    Without an undamaged table of its plan, which is a finding of its own, nothing is checked.
    """
    names = listing.take_below(output.name)
    if not names:
        yield found(missing(output))
        return
    try:
        digests = read_metadata(table, expect=output.fingerprint)["files"]
    except (PermafrostError, OSError, ValueError, KeyError, TypeError):
        reason = f"{table.name}, which holds its digests, is missing, damaged or of another plan"
        yield found(output.finding("changed", f"cannot be checked: {reason}"))
        return
    yield from check_files(
        output, names, {name: (None, digest) for name, digest in digests.items()}, file_digest
    )


def check_files(
    output: Output,
    names: Mapping[str, int],
    expected: Mapping[str, tuple],
    digest: Callable[[Path], object],
) -> Iterator[Check]:
    """Check files below an output.

    Parameters
    ----------
    names : files that exist, relative to the output, with sizes.
    expected : files that were written, with (size or None, digest).
    digest : computes the digest of a file; may raise OSError.
    """
    for name in names.keys() - expected.keys():
        yield found(output.finding("unexpected", "no run wrote it", name))
    batch, size = [], 0
    for name, (length, _) in expected.items():
        there = names.get(name)
        if there is None:
            yield found(missing(output, name))
        elif length is not None and there != length:
            yield found(_of_other_size(output, name, there, length))
        else:
            batch.append(name)
            size += max(there, 0)
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield Check(len(batch), size, partial(_compare, output, batch, expected, digest))
            batch, size = [], 0
    if batch:
        yield Check(len(batch), size, partial(_compare, output, batch, expected, digest))


def _of_other_size(output: Output, name: str, there: int, length: int) -> Finding:
    if there < 0:
        return output.finding("changed", "no regular file, or not readable", name)
    kind = "truncated" if there < length else "changed"
    return output.finding(kind, f"it has {there} bytes, {length} were written", name)


def _compare(
    output: Output, batch: list[str], expected: Mapping[str, tuple], digest: Callable
) -> list[Finding]:
    return [
        output.finding("changed", reason, name)
        for name in batch
        if (reason := altered(f"{output.path}/{name}", expected[name][1], digest))
    ]


def altered(path, expected: object, digest: Callable) -> str | None:
    """Why a file is not what was written; None if it is."""
    try:
        return None if digest(path) == expected else "altered since it was written"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def found(*findings: Finding) -> Check:
    """A check that reads nothing, because its findings are known."""
    return Check(0, 0, lambda: list(findings))
