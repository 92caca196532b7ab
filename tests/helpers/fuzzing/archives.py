"""Archives: of downloads, unpacked; and the product's own, restored."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from permafrost.core.snakemake_internals import record_path
from permafrost.data.download.steps import Unpack
from permafrost.data.download.unpacking import unpack
from permafrost.report.archive.restoring import restore_archive
from permafrost.report.archive.writing import write_archive

from helpers.fuzzing import Reader
from helpers.fuzzing.bounds import sandbox, written

_SCORES = "results/scores/demo/rcf/seed0/knn.parquet"
_PLAN = {
    "plan": "0123456789abcdef",
    "results": "results",
    "config": {},
    "backbones": {},
    "datasets": {},
    "outputs": [{"stage": "bootstrap", "path": _SCORES, "fingerprint": "b"}],
}
_RECORD = {"rule": "bootstrap", "incomplete": False, "starttime": 1.5, "input": []}


def _unpack(data: bytes) -> None:
    folder = sandbox() / "unpacked"
    archive = written(data[1:], "given.zip" if data[1:3] == b"PK" else "given.tar")
    try:
        unpack(Unpack(archive, folder, whole=data[:1] == b"w"))
        assert all(path.resolve().is_relative_to(folder) for path in folder.rglob("*"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _restore(data: bytes) -> None:
    folder = sandbox() / "clone"
    try:
        restore_archive(written(data, "given.zip"), folder)
        tops = {path.name for path in folder.iterdir()}
        assert tops <= {"results", ".snakemake"}, tops
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _downloads() -> list[bytes]:
    files = {"set/a.txt": b"a" * 50, "set/b/c.txt": b"c"}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    made = [stream.getvalue()]
    for mode in ("w", "w:gz", "w:xz"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=mode) as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        made.append(stream.getvalue())
    return [kind + each for each in made for kind in (b"w", b"a")]


def _archives() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in (
            ("Snakefile", "rule all:\n"),
            (_SCORES, "scores"),
            (str(record_path(_SCORES)), json.dumps(_RECORD)),
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        write_archive(plan=_PLAN, files=[Path(_SCORES)], root=root, output=root / "honest.zip")
        return [(root / "honest.zip").read_bytes()]


_WORDS = ("PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "../", "/etc/x", "ustar", "results/")
READERS = {
    "unpack": Reader(_unpack, _downloads, _WORDS),
    "restore": Reader(_restore, _archives, _WORDS),
}
