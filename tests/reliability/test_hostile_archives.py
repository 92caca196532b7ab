"""Archives whose manifest and checksums fit, and that were made to do harm: none of them writes anything."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import zipfile
import zlib
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.snakemake_internals import record_path
from permafrost.report.archive.manifest import CHECKSUMS, MANIFEST, checksum_lines
from permafrost.report.archive.restoring import restore_archive
from permafrost.report.archive.writing import write_archive
from permafrost.stages.cli import main

SCORES = "results/scores/demo/rcf/seed0/knn.parquet"
PLAN = {
    "plan": "0123456789abcdef",
    "results": "results",
    "config": {},
    "backbones": {},
    "datasets": {},
    "outputs": [{"stage": "bootstrap", "path": SCORES, "fingerprint": "b"}],
}
RECORD = {"rule": "bootstrap", "incomplete": False, "starttime": 1.5, "input": []}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """An archive as `write_archive` makes it."""
    root = tmp_path_factory.mktemp("origin")
    for name, content in (
        ("Snakefile", "rule all:\n"),
        ("workflow/rules/common.smk", "# shared\n"),
        (SCORES, "scores"),
        (str(record_path(SCORES)), json.dumps(RECORD)),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    write_archive(plan=PLAN, files=[Path(SCORES)], root=root, output=root / "honest.zip")
    return root / "honest.zip"


@pytest.fixture
def honest(written, tmp_path) -> Path:
    """A copy of it, beside which a test may forge another."""
    return shutil.copy2(written, tmp_path / "honest.zip")


@pytest.fixture
def clone(tmp_path) -> Path:
    """A clone with sources, settings and an environment, which no archive may change."""
    folder = tmp_path / "clone"
    for name in (
        "Snakefile",
        "config/config.yaml",
        "workflow/permafrost/__init__.py",
        "profiles/local/config.yaml",
        ".venv/lib/site.py",
        "results/README.md",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine\n")
    (folder / "local").symlink_to("profiles/local")
    return folder


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def forge(honest: Path, extra: dict[str, tuple[str, bytes]], *, edit=None, plan=None) -> Path:
    """`honest` with further members (path -> role, content), and lists that fit them.

    `edit` changes the manifest's content, `plan` the archived plan's.
    """
    with zipfile.ZipFile(honest) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(contents[MANIFEST])
    if plan is not None:
        contents["run/plan.json"] = json.dumps(plan).encode()
    for path, (role, content) in extra.items():
        entry = {"path": path, "size": 0, "sha256": "", "mtime_ns": 1, "role": role}
        manifest["files"] = [f for f in manifest["files"] if f["path"] != path] + [entry]
        contents[path] = content
    for entry in manifest["files"]:
        content = contents[entry["path"]]
        entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if edit is not None:
        manifest = edit(manifest) or manifest
    contents[MANIFEST] = json.dumps(manifest).encode()
    sums = {n: hashlib.sha256(c).hexdigest() for n, c in contents.items() if n != CHECKSUMS}
    contents[CHECKSUMS] = checksum_lines(sums)
    forged = honest.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in contents.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename, info.compress_type = name, zipfile.ZIP_DEFLATED
            new.writestr(info, content)
    return forged


def refuse(archive: Path, clone: Path, match: str) -> None:
    """The archive is refused with a named error, with and without --overwrite, and nothing is written."""
    before = everything(clone)
    for overwrite in (False, True):
        with pytest.raises(PermafrostError, match=match):
            restore_archive(archive, clone, overwrite=overwrite)
        assert everything(clone) == before
    empty = clone.with_name("empty")
    with pytest.raises(PermafrostError, match=match):
        restore_archive(archive, empty)
    assert not empty.exists()


def test_the_honest_archive_is_restored_and_brings_no_code(honest, clone, tmp_path):
    before = everything(clone)
    restored = restore_archive(honest, clone)
    assert set(restored.written) == {SCORES, str(record_path(SCORES))}
    assert everything(clone).items() >= before.items()
    restored = restore_archive(honest, tmp_path / "bare")
    assert restored.code == ["Snakefile", "workflow/rules/common.smk"]
    assert "restoring writes no code" in str(restored)
    assert {path.name for path in (tmp_path / "bare").iterdir()} == {"results", ".snakemake"}


PLACES = [
    "snakemake.py",
    "sitecustomize.py",
    "Snakefile",
    "workflow/Snakefile",
    "workflow/rules/common.smk",
    "workflow/permafrost/core/errors.py",
    "config/config.yaml",
    "config/backbones/mine.yaml",
    "profiles/local/config.yaml",
    "local/config.yaml",
    "envs/run",
    "pyproject.toml",
    "tests/conftest.py",
    ".venv/lib/python3.12/site-packages/x.pth",
    ".git/hooks/post-checkout",
    ".GIT/hooks/post-checkout",
    ".snakemake/scripts/run.py",
    ".snakemake/auxiliary/x",
    ".snakemake/incomplete/x",
    ".snakemake/metadata/../../x.py",
    "Results/scores/demo/x.parquet",
    "results/README.md",
    "results/snakemake.py",
    "results/scores/demo/rcf/seed0/knn.py",
    "results/scores/demo/x.pkl",
    "results/predictions/demo/rcf/seed0/knn.parquet.py",
    "results/images/demo/test.zarr/.zarray",
    "results/images/demo/test.zarr/images/c/run.sh",
    "results/features/x.pth",
    "results/plans/config.yaml",
    "results/report/x.py",
    "results/report/run.sh",
    "results/logs/aggregate.log",
    "results/archive/old.zip",
    "results/.hidden/x.parquet",
    "results/scores/CON/x.parquet",
    "results/scores/nul.parquet",
    "results/scores/a|b.parquet",
    "results/scores/a\nb.parquet",
    "results/scores/trailing /x.parquet",
    "results/scores/" + "x" * 260 + ".parquet",
]


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("role", ["result", "record"])
def test_a_member_where_no_result_lies_is_refused_by_name(honest, clone, path, role):
    forged = forge(honest, {path: (role, b"import os\n")})
    refuse(forged, clone, "unsafe path|must not be restored|do not agree|not a list of checksums")


@pytest.mark.parametrize("path", [".venv/x.pth", ".git/hooks/x", "snakemake.py", "tests/x.py"])
def test_members_of_the_other_roles_have_their_places_too(honest, clone, path):
    for role in ("code", "run"):
        refuse(forge(honest, {path: (role, b"x")}), clone, "must not be restored")


def test_code_of_an_archive_is_not_written_where_there_is_none(honest, tmp_path):
    forged = forge(honest, {"workflow/rules/evil.smk": ("code", b"import os\n")})
    restore_archive(forged, tmp_path / "bare")
    assert not (tmp_path / "bare/workflow").exists()


@pytest.mark.parametrize(
    "results",
    ["workflow", "WORKFLOW/permafrost", "config", "envs", "profiles/local", "local", "tests", "docs",
     ".git", ".venv", ".snakemake", "", ".", "..", "/tmp/results", "a/../b",
     "C:/results", "a\\b", "con", 3, None, ["results"]],
)  # fmt: skip
def test_results_lie_in_a_folder_of_their_own(honest, clone, results):
    path = f"{results}/leaderboard.csv" if isinstance(results, str) and results else "x.csv"
    extra = {} if ".." in path or path.startswith("/") else {path: ("result", b"x")}
    forged = forge(honest, extra, plan={**PLAN, "results": results})
    refuse(forged, clone, "folder of the results|unsafe path")


@pytest.mark.parametrize("results", ["results/", "./results", "results"])
def test_the_folder_of_results_may_be_written_in_other_ways(honest, clone, results):
    restored = restore_archive(forge(honest, {}, plan={**PLAN, "results": results}), clone)
    assert SCORES in restored.written


def test_what_no_rule_writes_is_left_out_of_an_archive_and_named(tmp_path):
    root = tmp_path / "origin"
    for name in (
        "Snakefile",
        "results/report/index.html",
        "results/report/.DS_Store",
        "results/report/mine.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    files = [Path("results/report")]
    plan = {**PLAN, "results": "./results/"}
    summary = write_archive(plan=plan, files=files, root=root, output=tmp_path / "a.zip")
    assert summary.foreign == ["results/report/.DS_Store", "results/report/mine.py"]
    assert "2 files that no rule writes left out: results/report/.DS_Store" in str(summary)
    assert restore_archive(tmp_path / "a.zip", tmp_path / "new").written == [
        "results/report/index.html"
    ]


@pytest.mark.parametrize("results", ["workflow", "../results", "/tmp/results"])
def test_results_among_sources_are_not_archived(tmp_path, results):
    with pytest.raises(PermafrostError, match="folder of the results"):
        write_archive(plan={**PLAN, "results": results}, files=[], root=tmp_path, output=tmp_path)


def test_the_plan_decides_where_results_lie(honest, clone):
    refuse(forge(honest, {}, plan={**PLAN, "results": "runs/one"}), clone, "not below runs/one")
    refuse(forge(honest, {}, plan=["results"]), clone, "folder of the results")


@pytest.mark.parametrize(
    "record",
    [b"not json", b"[]", b'{"rule": 3}', b'{"incomplete": true}', b'{"external_jobid": "1; rm"}',
     b'{"script": "x.py"}', b'{"input": "x"}', b"[" * 100_000],
)  # fmt: skip
def test_a_record_that_snakemake_does_not_write_is_refused(honest, clone, record):
    forged = forge(honest, {str(record_path(SCORES)): ("record", record)})
    refuse(forged, clone, "must not be restored|cannot be read")


@pytest.mark.parametrize(
    "output", ["workflow/x.smk", "/etc/passwd", "results/../x", "results/x.py"]
)
def test_a_record_of_something_else_than_a_result_is_refused(honest, clone, output):
    forged = forge(honest, {str(record_path(output)): ("record", json.dumps(RECORD).encode())})
    refuse(forged, clone, "which is no result")


def test_names_that_are_one_where_case_does_not_count_are_refused(honest, clone):
    other = SCORES.replace("demo", "DEMO")
    refuse(forge(honest, {other: ("result", b"x")}), clone, "where case does not count")


def test_a_file_that_is_also_a_folder_is_refused(honest, clone):
    refuse(forge(honest, {f"{SCORES}/x.parquet": ("result", b"x")}), clone, "which is a file")


def test_one_name_twice_is_refused(honest, clone):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(honest, "a") as packed:
        packed.writestr(SCORES, "other")
    refuse(honest, clone, "occurs twice")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_an_entry_that_is_no_plain_file_is_refused(honest, clone, kind):
    forged = honest.with_name("forged.zip")
    with zipfile.ZipFile(honest) as old, zipfile.ZipFile(forged, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == SCORES:
                entry.external_attr = (kind | 0o777) << 16
            new.writestr(entry, content)
    refuse(forged, clone, "is a link, a folder entry, a device")


@pytest.mark.parametrize(
    "place", ["results", ".snakemake", "results/scores", ".snakemake/incomplete"]
)
def test_a_link_in_the_clone_is_not_followed(honest, clone, tmp_path, place):
    (tmp_path / "elsewhere").mkdir()
    if place == "results":
        (clone / "results/README.md").unlink()
        (clone / "results").rmdir()
    (clone / place).parent.mkdir(exist_ok=True)
    (clone / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermafrostError, match="is a symbolic link"):
        restore_archive(honest, clone, overwrite=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_member_that_declares_another_size_than_the_manifest_is_refused(honest, clone):
    def edit(manifest):
        manifest["files"][-1]["size"] += 1

    refuse(forge(honest, {}, edit=edit), clone, "has not the size")


def packed_bomb(honest: Path, declared: int | None) -> Path:
    """An archive with a member of 64 MiB of zeros, which the zip's directory says are `declared` bytes."""
    path = "results/scores/demo/zeros.parquet"
    forged = forge(honest, {path: ("result", bytes(1 << 26))})
    if declared is not None:
        raw = bytearray(forged.read_bytes())
        place = raw.rindex(path.encode()) - 46  # the entry in the central directory
        raw[place + 24 : place + 28] = declared.to_bytes(4, "little")
        forged.write_bytes(raw)
    return forged


def test_a_member_that_unpacks_to_more_than_it_declares_is_refused(honest, clone):
    refuse(packed_bomb(honest, 100), clone, "has not the size|cannot be read|checksum")


def test_a_member_that_declares_more_than_it_can_hold_is_refused(honest, clone):
    refuse(packed_bomb(honest, 0xFFFFFFF0), clone, "declares more bytes than it can hold")


def test_more_than_the_disk_holds_is_refused_before_it_is_unpacked(honest, clone, monkeypatch):
    import shutil

    usage = shutil.disk_usage(clone)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    refuse(packed_bomb(honest, None), clone, "are needed")


def test_overlapping_members_are_refused(honest, clone):
    """The directory of a zip may name the same packed bytes many times."""
    path = "results/scores/demo/random.parquet"
    twin = path.replace("random", "secund")
    content = os.urandom(1 << 16)
    forged = forge(honest, {path: ("result", content), twin: ("result", content)})
    with zipfile.ZipFile(forged) as packed:
        first, second = packed.getinfo(path), packed.getinfo(twin)
    raw = forged.read_bytes()
    directory = raw.index(b"PK\x01\x02")
    entries = raw[directory:].replace(
        second.header_offset.to_bytes(4, "little"), first.header_offset.to_bytes(4, "little")
    )
    held = second.compress_size + 30 + len(twin)
    cut = raw[: second.header_offset] + raw[second.header_offset + held : directory] + entries
    end = cut.rindex(b"PK\x05\x06")
    where = cut.index(b"PK\x01\x02").to_bytes(4, "little")
    forged.write_bytes(cut[: end + 16] + where + cut[end + 20 :])
    refuse(forged, clone, "overlap|cannot be read|occurs|declares")


WRONG = [
    lambda m: {**m, "files": None},
    lambda m: {**m, "files": {"a": 1}},
    lambda m: {**m, "files": ["x"]},
    lambda m: {**m, "plan": 3},
    lambda m: {**m, "plan": "../../x"},
    lambda m: {**m, "format": "1"},
    lambda m: {**m, "left_out": "x"},
    lambda m: {**m, "left_out": [3]},
    lambda m: {key: value for key, value in m.items() if key != "plan"},
    lambda m: [m],
    *(
        (lambda m, k=key, v=value: {**m, "files": [{**m["files"][0], k: v}, *m["files"][1:]]})
        for key, value in (("path", 3), ("path", ""), ("path", None), ("size", "12"), ("size", -1),
                           ("size", 1.5), ("sha256", 3), ("sha256", "x"), ("mtime_ns", "now"),
                           ("mtime_ns", 2**70), ("role", "settings"), ("mode", 0o755))
    ),
]  # fmt: skip


@pytest.mark.parametrize("edit", WRONG)
def test_a_manifest_of_wrong_types_ends_in_a_named_error(honest, clone, edit):
    refuse(forge(honest, {}, edit=edit), clone, r"manifest\.json|unsafe path|has not the size")


def test_a_manifest_that_nests_without_end_ends_in_a_named_error(honest, clone, tmp_path):
    with zipfile.ZipFile(honest) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    contents[MANIFEST] = b"[" * 200_000
    sums = {n: hashlib.sha256(c).hexdigest() for n, c in contents.items() if n != CHECKSUMS}
    contents[CHECKSUMS] = checksum_lines(sums)
    with zipfile.ZipFile(tmp_path / "deep.zip", "w") as new:
        for name, content in contents.items():
            new.writestr(name, content)
    refuse(tmp_path / "deep.zip", clone, "not JSON")


@pytest.mark.parametrize("seed", range(40))
def test_damage_anywhere_ends_in_a_named_error_or_changes_nothing(honest, clone, seed):
    """Bytes flipped and cut at random: a named error, or the very same results."""
    import random

    chance = random.Random(seed)
    raw = bytearray(honest.read_bytes())
    for _ in range(chance.choice((1, 5, 50))):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    if seed % 4 == 0:
        del raw[chance.randrange(len(raw)) :]
    honest.write_bytes(raw)
    before = everything(clone)
    try:
        restore_archive(honest, clone)
    except PermafrostError:
        assert everything(clone) == before
    else:
        assert (clone / SCORES).read_text() == "scores"


def test_the_command_names_what_it_refuses(honest, clone, capsys, monkeypatch):
    monkeypatch.chdir(clone)
    assert main(["restore", str(forge(honest, {"snakemake.py": ("result", b"x")}))]) == 1
    said = capsys.readouterr().err
    assert "snakemake.py (not below results)" in said and "nothing was written" in said


def test_zlib_is_what_the_bombs_are_packed_with():
    """The bound on what a member may declare: DEFLATE does not pack zeros by more."""
    from permafrost.report.archive.restoring import _MOST_PACKED

    assert (1 << 24) / len(zlib.compress(bytes(1 << 24), 9)) < _MOST_PACKED
