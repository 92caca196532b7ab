"""Write the archive: one zip file with the results of a run, its records, and its description."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.names import results_refusal
from permafrost.core.outputs import whole_file
from permafrost.core.snakemake_internals import find_records
from permafrost.report.archive import provenance
from permafrost.report.archive.contents import is_result
from permafrost.report.archive.crate import WORKFLOW, Run, crate_json
from permafrost.report.archive.manifest import (
    CHECKSUMS,
    CRATE,
    MANIFEST,
    Member,
    checksum_lines,
    describe_file,
    describe_text,
    manifest_json,
)

STORE = ".zarr"
MASKS = "masks"  # stage whose outputs are predicted masks: stores, or folders of GeoTIFFs
# already compressed (zarr chunks: no suffix)
_PACKED = {".parquet", ".png", ".tif", ".zip", ".gz", ".zst", ""}
_CHUNK = 1 << 20


@dataclass(frozen=True)
class ArchiveSummary:
    """Which files were archived and which were not.

    Attributes
    ----------
    files : number of files in the archive.
    left_out : stores and predicted masks that were not included.
    without_record : outputs without a Snakemake record; after restoring, only their time stamps
        show that they are up to date.
    foreign : files among the results that no rule writes.
    """

    files: int
    left_out: list[str]
    without_record: list[str]
    foreign: list[str]

    def __str__(self) -> str:
        lines = [f"{self.files} files archived"]
        if self.left_out:
            lines.append(
                f"{len(self.left_out)} stores or masks left out (snakemake makes them again when needed)"
            )
        if self.without_record:
            lines.append(
                f"Snakemake has no record of {len(self.without_record)} outputs: {_some(self.without_record)}"
            )
        if self.foreign:
            lines.append(
                f"{len(self.foreign)} files that no rule writes left out: {_some(self.foreign)}"
            )
        return "\n".join(lines)


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:8]) + (", …" if len(paths) > 8 else "")


def write_archive(
    *,
    plan: dict,
    files: Iterable[Path],
    root: Path,
    output: Path,
    include_stores: bool = False,
    agent: str | None = None,
    incomplete: str | None = None,
) -> ArchiveSummary:
    """Write a zip file, completely or not at all: results, records, code, and a description.

    The same files, records and code on the same machine give the same bytes.

    Parameters
    ----------
    plan : the recorded plan; records are kept for all its ``outputs`` (rows with ``path``),
        including stores that are not archived.
    files : results, relative to `root`; a directory means all files in it. Stores (``*.zarr``) and
        predicted masks (the plan's outputs of the stage ``masks``, stores or folders of GeoTIFFs)
        are included only with `include_stores`.
    root : Snakemake's working directory, with the Snakefile.
    output : path of the zip file.
    agent : who ran it; by default git's user name, if set.
    incomplete : a sentence on what is missing, if jobs of the run failed.

    Raises
    ------
    PermafrostError : a file is missing, is outside `root`, or changes while it is packed; the
        results folder is not one that can be restored.
    """
    root, output = Path(root), Path(output)
    place = Path(plan["results"]).as_posix()
    if reason := results_refusal(place):
        raise PermafrostError(
            reason, remedy="set `results` in the configuration to another folder, such as results"
        )
    large = {Path(row["path"]) for row in plan.get("outputs", []) if row["stage"] == MASKS}
    results, stores, left_out = _expand(root, [Path(p) for p in files], large, include_stores)
    if output.resolve() in {(root / path).resolve() for path in results}:
        raise PermafrostError(
            "the archive cannot contain itself", where=output, remedy="remove it from files"
        )
    foreign = [path for path in results if not is_result(path.as_posix(), place)]
    results = [path for path in results if path not in set(foreign)]
    named = [row["path"] for row in plan.get("outputs", [])]
    records, lacking = find_records(root, [*named, *(path.as_posix() for path in results), *stores])
    lacking = [
        path
        for path in lacking
        if path in set(named) and (incomplete is None or (root / path).exists())
    ]
    members = [describe_file(root, path, "result") for path in results]
    members += [describe_file(root, path, "record") for path in sorted(set(records.values()))]
    members += [describe_file(root, path, "code") for path in _code(root)]
    newest = max(member.mtime_ns for member in members)
    texts = _run_texts(plan, root, incomplete)
    members += [describe_text(path, content, newest) for path, content in texts.items()]
    members.sort(key=lambda member: member.path)
    texts[MANIFEST] = manifest_json(
        plan["plan"],
        members,
        records={path: records[path].as_posix() for path in sorted(records)},
        stores=stores,
        left_out=left_out,
        without_record=lacking,
    )
    texts[CRATE] = crate_json(
        members,
        root=root,
        stores=stores,
        run=Run(
            plan,
            code=json.loads(texts["run/code.json"]),
            versions=json.loads(texts["run/packages.json"]),
            times=_times(root, records, members),
            agent=agent or provenance.git_user(root),
            incomplete=incomplete,
        ),
    )
    digests = {member.path: member.sha256 for member in members}
    digests |= {path: hashlib.sha256(texts[path]).hexdigest() for path in (MANIFEST, CRATE)}
    texts[CHECKSUMS] = checksum_lines(digests)
    _pack(output, root, members, texts, newest)
    foreign = [path.as_posix() for path in foreign]
    return ArchiveSummary(len(digests) + 1, left_out, lacking, foreign)


def _expand(root: Path, paths: list[Path], large: set[Path], include_stores: bool):
    """Files to pack, packed stores, and omitted stores; all relative and sorted.

    Paths in `large` count as stores.
    """
    files: set[Path]
    stores: set[str]
    left_out: set[str]
    files, stores, left_out = set(), set(), set()
    for path in paths:
        if path.is_absolute() or ".." in path.parts:
            raise PermafrostError(
                "not a path inside the working directory",
                where=path,
                remedy="give paths relative to the root",
            )
        is_store = path.suffix == STORE or path in large
        if not (root / path).exists() and (include_stores or not is_store):
            raise PermafrostError(
                "the file to archive does not exist",
                where=root / path,
                remedy=f"run snakemake; if it finds nothing to do, snakemake {path}",
            )
        if is_store:
            (stores if include_stores else left_out).add(path.as_posix())
            if not include_stores:
                continue
        if (root / path).is_dir():
            inside = [file for file in (root / path).rglob("*") if file.is_file()]
            files.update(file.relative_to(root) for file in inside)
        else:
            files.add(path)
    return sorted(files), sorted(stores), sorted(left_out)


def _code(source: Path) -> list[Path]:
    files = provenance.source_files(source)
    if Path(WORKFLOW) not in files:
        raise PermafrostError(
            "the workflow's Snakefile is missing",
            where=source,
            remedy="run in the repository's root",
        )
    return files


def _run_texts(plan: dict, source: Path, incomplete: str | None) -> dict[str, bytes]:
    """The files that describe the run, which exist only in the archive."""
    content = {
        "run/plan.json": plan,
        "run/code.json": provenance.describe_code(source),
        "run/machine.json": provenance.describe_machine(),
        "run/packages.json": provenance.installed_packages(),
    }
    texts = {
        path: (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
        for path, value in content.items()
    }
    texts["run/README.md"] = _readme(plan, incomplete).encode()
    return texts


def _readme(plan: dict, incomplete: str | None) -> str:
    warning = f"{incomplete} `results/report/failures.csv` says why.\n\n" if incomplete else ""
    return f"""# Permafrost run {plan["plan"]}

{warning}- `results/`: leaderboard, report, scores, comparisons and per-sample predictions
- `run/plan.json`: the resolved configuration; `run/code.json`, `run/packages.json`, `run/machine.json`:
  what it was run with
- `run/manifest.json`: every file with size, SHA-256 and time stamp; `run/SHA256SUMS`: the same for
  `sha256sum --check`
- `ro-crate-metadata.json`: this archive as a Workflow Run RO-Crate
- `.snakemake/metadata/`: what Snakemake needs to know that nothing is left to do

To go on from here, in a clone of the version named in `run/code.json`:

    permafrost restore ARCHIVE --into .
    snakemake -n

Restoring writes the results and Snakemake's records, never the code that the archive holds.
"""


def _times(root: Path, records: dict[str, Path], members: list[Member]) -> tuple[float, float]:
    """Start and end of the run: from Snakemake's records, else from the files' time stamps."""
    began, ended = [], []
    for path in records.values():
        record = json.loads((root / path).read_text(encoding="utf-8"))
        began += [record["starttime"]] if record.get("starttime") else []
        ended += [record["endtime"]] if record.get("endtime") else []
    stamps = [member.mtime_ns / 1e9 for member in members if member.role == "result"] or [0.0]
    return min(began, default=min(stamps)), max(ended, default=max(stamps))


def _pack(output: Path, root: Path, members: list[Member], texts: dict, newest: int) -> None:
    with (
        whole_file(output) as partial,
        zipfile.ZipFile(partial, "w", compresslevel=6, strict_timestamps=False) as archive,
    ):
        for path in (CRATE, MANIFEST, CHECKSUMS):
            archive.writestr(_entry(path, newest), texts[path])
        for member in members:
            if member.path in texts:
                archive.writestr(_entry(member.path, newest), texts[member.path])
            else:
                _pack_file(archive, root / member.path, member)


def _pack_file(archive: zipfile.ZipFile, path: Path, member: Member) -> None:
    digest = hashlib.sha256()
    info = _entry(member.path, member.mtime_ns)
    info.file_size = member.size  # lets zipfile choose the large format if needed
    with open(path, "rb") as stream, archive.open(info, "w") as packed:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            packed.write(chunk)
    if digest.hexdigest() != member.sha256:
        raise PermafrostError(
            "the file changed while it was archived",
            where=path,
            remedy="archive when nothing is running",
        )


def _entry(path: str, mtime_ns: int) -> zipfile.ZipInfo:
    """A zip entry with its time in UTC, at zip's precision of 2 s and 1 s for Unix tools."""
    seconds = max(mtime_ns // 10**9, 315_532_800)  # zip has no dates before 1980
    moment = datetime.fromtimestamp(seconds, UTC)
    info = zipfile.ZipInfo(path, moment.timetuple()[:6])
    info.create_system = 3  # Unix, on every system
    info.external_attr = 0o100644 << 16
    info.extra = struct.pack("<HHBl", 0x5455, 5, 1, min(seconds, 2**31 - 1))
    packed = Path(path).suffix in _PACKED and not path.startswith(".snakemake/")
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    return info
