"""The archive: one zip, verified on the way back, never writing where it should not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import warnings
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.snakemake_internals import record_path
from permafrost.report.archive.manifest import CHECKSUMS, CRATE, MANIFEST, checksum_lines
from permafrost.report.archive.restoring import restore_archive
from permafrost.report.archive.writing import write_archive

PLAN = {
    "plan": "0123456789abcdef",
    "results": "results",
    "config": {"seeds": [0]},
    "backbones": {"rcf": {"kind": "rcf"}},
    "datasets": {"demo": {"task": "classification", "licence": "CC0-1.0", "citation": "us"}},
    "outputs": [
        {"stage": "prepare", "path": "results/images/demo/test.zarr", "fingerprint": "a"},
        {
            "stage": "bootstrap",
            "path": "results/scores/demo/rcf/seed0/knn.parquet",
            "fingerprint": "b",
        },
        {"stage": "aggregate", "path": "results/leaderboard.parquet", "fingerprint": "c"},
    ],
}
FILES = [
    Path(p)
    for p in (
        "results/scores/demo/rcf/seed0/knn.parquet",
        "results/leaderboard.parquet",
        "results/report",
        "results/images/demo/test.zarr",
    )
]
MTIME = 1_790_000_000_123_456_789


def write(path: Path, content: str, mtime_ns: int = MTIME) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, ns=(mtime_ns, mtime_ns))


@pytest.fixture
def root(tmp_path) -> Path:
    root = tmp_path / "clone"
    write(root / "Snakefile", "rule all:\n    input: 'results/leaderboard.parquet'\n")
    write(root / "workflow/rules/common.smk", "# shared\n")
    write(root / "envs/cpu.lock", "numpy==2.5.5\n")
    write(root / "results/scores/demo/rcf/seed0/knn.parquet", "scores", MTIME + 1)
    write(root / "results/leaderboard.parquet", "leaders", MTIME + 2)
    write(root / "results/report/index.html", "<p>page", MTIME + 3)
    write(root / "results/report/.snakemake_timestamp", "", MTIME + 4)
    write(root / "results/report/figures/dot plot é.png", "png", MTIME + 3)
    write(root / "results/images/demo/test.zarr/zarr.json", "{}")
    write(root / "results/images/demo/test.zarr/images/c/0", "pixels")
    for row in PLAN["outputs"]:
        record = {"rule": row["stage"], "starttime": 1_789_999_000.5, "endtime": 1_790_000_000.5}
        write(root / record_path(row["path"]), json.dumps(record))
    return root


def archive_of(root: Path, name: str = "run.zip", **options) -> Path:
    output = root / "results/archive" / name
    write_archive(plan=PLAN, files=FILES, root=root, output=output, **options)
    return output


def rewrite(archive: Path, target: Path, change) -> Path:
    """Copy a zip member by member; `change(name, content)` gives the new content, None drops it."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            content = change(entry.filename, old.read(entry))
            if content is not None:
                new.writestr(entry, content)
    return target


def test_a_round_trip_gives_back_contents_and_time_stamps_to_the_nanosecond(root, tmp_path):
    restored = restore_archive(archive_of(root), tmp_path / "new")
    for path in (
        "results/leaderboard.parquet",
        "results/report/figures/dot plot é.png",
        "results/report/.snakemake_timestamp",
        str(record_path("results/leaderboard.parquet")),
    ):
        assert (tmp_path / "new" / path).read_bytes() == (root / path).read_bytes()
        assert (tmp_path / "new" / path).stat().st_mtime_ns == (root / path).stat().st_mtime_ns
        assert path in restored.written
    assert restored.plan == PLAN["plan"]
    assert not [path for path in (tmp_path / "new").iterdir() if "partial" in path.name]


def test_stores_are_left_out_unless_asked_for_but_their_records_are_kept(root, tmp_path):
    lean = archive_of(root)
    restored = restore_archive(lean, tmp_path / "lean")
    assert restored.left_out == ["results/images/demo/test.zarr"]
    assert not (tmp_path / "lean/results/images").exists()
    assert (tmp_path / "lean" / record_path("results/images/demo/test.zarr")).is_file()
    restored = restore_archive(archive_of(root, "full.zip", include_stores=True), tmp_path / "full")
    assert restored.left_out == []
    assert (tmp_path / "full/results/images/demo/test.zarr/images/c/0").read_text() == "pixels"


@pytest.mark.parametrize("name", ["zarr.json", "chip 1.tif"])
def test_predicted_masks_are_packed_with_the_stores_only(root, tmp_path, name):
    """They are a store, or a folder of GeoTIFFs; only the plan tells them from other folders."""
    masks = "results/masks/demo/rcf/seed0/fpn"
    write(root / masks / name, "mask")
    write(root / record_path(masks), "{}")
    plan = {
        **PLAN,
        "outputs": [*PLAN["outputs"], {"stage": "masks", "path": masks, "fingerprint": "m"}],
    }

    def restored(archive: str, **options):
        write_archive(
            plan=plan, files=[*FILES, Path(masks)], root=root, output=root / archive, **options
        )
        return restore_archive(root / archive, tmp_path / archive)

    lean = restored("lean.zip")
    assert lean.left_out == ["results/images/demo/test.zarr", masks]
    assert not (tmp_path / "lean.zip" / masks).exists()
    assert (tmp_path / "lean.zip" / record_path(masks)).is_file()
    assert (restored("full.zip", include_stores=True)).left_out == []
    assert (tmp_path / "full.zip" / masks / name).read_text() == "mask"
    shutil.rmtree(root / masks)
    assert restored("gone.zip").left_out == lean.left_out
    with pytest.raises(PermafrostError, match="fpn: the file to archive does not exist"):
        restored("none.zip", include_stores=True)


def test_the_same_files_give_the_same_bytes(root):
    first = archive_of(root, "a.zip").read_bytes()
    assert archive_of(root, "b.zip").read_bytes() == first


def test_checksums_can_be_verified_with_sha256sum(root, tmp_path):
    with zipfile.ZipFile(archive_of(root)) as archive:
        archive.extractall(tmp_path / "plain")
    lines = (tmp_path / "plain" / CHECKSUMS).read_text().splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    files = [path for path in (tmp_path / "plain").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "plain")) for path in files} == {*listed, CHECKSUMS}
    for path, digest in listed.items():
        assert hashlib.sha256((tmp_path / "plain" / path).read_bytes()).hexdigest() == digest


def test_the_crate_is_read_by_rocrate_and_meets_the_run_profile(root, tmp_path):
    from rocrate.rocrate import ROCrate

    archive = archive_of(root, agent="A. Person", include_stores=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crate = ROCrate(archive)
    assert crate.mainEntity.id == "Snakefile"
    assert set(crate.mainEntity.type) == {"File", "SoftwareSourceCode", "ComputationalWorkflow"}
    assert crate.mainEntity["programmingLanguage"].id.endswith("#snakemake")
    profiles = {entity.id for entity in crate.root_dataset["conformsTo"]}
    assert {
        "https://w3id.org/ro/wfrun/process/0.5",
        "https://w3id.org/ro/wfrun/workflow/0.5",
        "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
    } <= profiles
    (action,) = crate.root_dataset["mentions"]
    assert action.type == "CreateAction"
    assert action["instrument"] is crate.mainEntity
    assert action["agent"]["name"] == "A. Person"
    assert action["endTime"] == "2026-09-21T14:13:20+00:00"
    made = {entity.id for entity in action["result"]}
    assert {"results/leaderboard.parquet", "results/images/demo/test.zarr/"} <= made
    assert "#dataset-demo" in {entity.id for entity in action["object"]}
    assert crate.root_dataset["license"]["description"].endswith("demo: CC0-1.0.")
    leaders = crate.get("results/leaderboard.parquet")
    assert leaders["sha256"] == hashlib.sha256(b"leaders").hexdigest()
    parts = {unquote(entity.id) for entity in crate.root_dataset["hasPart"]}
    with zipfile.ZipFile(archive) as packed:
        listed = {name for name in packed.namelist() if ".zarr/" not in name}
    assert listed - parts == {CRATE, MANIFEST, CHECKSUMS}


def test_what_snakemake_has_no_record_of_is_reported(root):
    (root / record_path("results/leaderboard.parquet")).unlink()
    summary = write_archive(plan=PLAN, files=FILES, root=root, output=root / "out.zip")
    assert summary.without_record == ["results/leaderboard.parquet"]


def test_records_of_other_outputs_stay_out(root, tmp_path):
    write(root / record_path("results/other.parquet"), "{}")
    restore_archive(archive_of(root), tmp_path / "new")
    assert not (tmp_path / "new" / record_path("results/other.parquet")).exists()


def test_a_missing_result_is_an_error_and_leaves_no_archive(root):
    (root / "results/leaderboard.parquet").unlink()
    with pytest.raises(
        PermafrostError, match="leaderboard.parquet: the file to archive does not exist"
    ):
        archive_of(root)
    assert not (root / "results/archive").exists() or not list((root / "results/archive").iterdir())


def test_a_flipped_byte_is_found_and_nothing_is_written(root, tmp_path):
    archive = archive_of(root)
    raw = bytearray(archive.read_bytes())
    raw[raw.index(b"leaders")] ^= 1
    archive.write_bytes(raw)
    with pytest.raises(PermafrostError, match=r"leaderboard\.parquet"):
        restore_archive(archive, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_changed_file_with_a_valid_zip_checksum_is_found(root, tmp_path):
    def change(name, content):
        return b"liars!!" if name.endswith("leaderboard.parquet") else content

    forged = rewrite(archive_of(root), tmp_path / "forged.zip", change)
    with pytest.raises(PermafrostError, match="not what its checksum says"):
        restore_archive(forged, tmp_path / "new")


@pytest.mark.parametrize("name", [MANIFEST, CRATE, CHECKSUMS, "results/leaderboard.parquet"])
def test_a_missing_member_is_found(root, tmp_path, name):
    forged = rewrite(archive_of(root), tmp_path / "f.zip", lambda n, c: None if n == name else c)
    with pytest.raises(PermafrostError):
        restore_archive(forged, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_extra_member_is_found(root, tmp_path):
    archive = archive_of(root)
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr("results/extra.txt", "x")
    with pytest.raises(PermafrostError, match="do not agree"):
        restore_archive(archive, tmp_path / "new")


@pytest.mark.parametrize(
    "name", ["../out.txt", "/tmp/out.txt", "results/../../out.txt", "C:/x", "a\\..\\b"]
)
def test_members_that_escape_are_refused_even_with_matching_checksums(root, tmp_path, name):
    archive = archive_of(root)
    forged = tmp_path / "deep" / "forged.zip"
    forged.parent.mkdir()
    with zipfile.ZipFile(archive) as old:
        contents = {n: old.read(n) for n in old.namelist()}
    contents[name] = b"out"
    manifest = json.loads(contents[MANIFEST])
    entry = {
        "path": name,
        "size": 3,
        "sha256": hashlib.sha256(b"out").hexdigest(),
        "mtime_ns": 1,
        "role": "result",
    }
    manifest["files"].append(entry)
    contents[MANIFEST] = json.dumps(manifest).encode()
    sums = {n: hashlib.sha256(c).hexdigest() for n, c in contents.items() if n != CHECKSUMS}
    contents[CHECKSUMS] = checksum_lines(sums)
    with zipfile.ZipFile(forged, "w") as new:
        for n, content in contents.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = n
            new.writestr(info, content)
    with pytest.raises(PermafrostError, match="unsafe path"):
        restore_archive(forged, tmp_path / "deep" / "new")
    assert not (tmp_path / "deep/new").exists()
    assert not (tmp_path / "out.txt").exists()


def test_a_link_in_the_archive_is_refused(root, tmp_path):
    forged = tmp_path / "forged.zip"
    with zipfile.ZipFile(archive_of(root)) as old, zipfile.ZipFile(forged, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "results/leaderboard.parquet":
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            new.writestr(entry, content)
    with pytest.raises(PermafrostError, match="is a link"):
        restore_archive(forged, tmp_path / "new")


def test_a_link_in_the_folder_is_not_followed(root, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "new/results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermafrostError, match="results is a symbolic link"):
        restore_archive(archive_of(root), tmp_path / "new")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_existing_files_are_kept_unless_equal_or_overwrite_is_given(root, tmp_path):
    archive, new = archive_of(root), tmp_path / "new"
    write(new / "results/leaderboard.parquet", "mine")
    write(new / "results/report/index.html", "<p>page", 1)
    with pytest.raises(
        PermafrostError, match=r"1 files exist with other content: results/leaderboard"
    ):
        restore_archive(archive, new)
    assert (new / "results/leaderboard.parquet").read_text() == "mine"
    assert not (new / "results/scores").exists()
    restored = restore_archive(archive, new, overwrite=True)
    assert (new / "results/leaderboard.parquet").read_text() == "leaders"
    assert restored.same == ["results/report/index.html"]
    assert (new / "results/report/index.html").stat().st_mtime_ns == MTIME + 3


def test_a_second_restoration_writes_nothing(root, tmp_path):
    archive = archive_of(root)
    restore_archive(archive, tmp_path / "new")
    assert restore_archive(archive, tmp_path / "new").written == []


def test_the_code_of_a_clone_is_never_touched_and_differences_are_named(root, tmp_path):
    archive, new = archive_of(root), tmp_path / "new"
    write(new / "Snakefile", "# another version\n")
    write(new / "envs/cpu.lock", "numpy==2.5.5\n")
    restored = restore_archive(archive, new)
    assert restored.other_code == ["Snakefile", "workflow/rules/common.smk"]
    assert (new / "Snakefile").read_text() == "# another version\n"
    assert not (new / "workflow").exists()


def test_something_else_than_an_archive_is_refused_by_name(tmp_path):
    with pytest.raises(PermafrostError, match=r"no\.zip: the archive does not exist"):
        restore_archive(tmp_path / "no.zip", tmp_path)
    (tmp_path / "text.zip").write_text("hello")
    with pytest.raises(PermafrostError, match="not a readable zip"):
        restore_archive(tmp_path / "text.zip", tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("a.txt", "a")
    with pytest.raises(PermafrostError, match="not an archive of permafrost"):
        restore_archive(tmp_path / "other.zip", tmp_path)


def test_long_outputs_have_records_in_folders_as_snakemake_makes_them():
    path = record_path("results/" + "x" * 300 + ".parquet")
    assert [part[0] for part in path.parts[2:-1]] == ["@"]
    assert max(map(len, path.parts)) <= 255


def test_a_folder_without_a_workflow_cannot_be_archived(root):
    shutil.copytree(root / "results", root / "bare/results")
    with pytest.raises(PermafrostError, match="Snakefile is missing"):
        write_archive(plan=PLAN, files=FILES, root=root / "bare", output=root / "out.zip")
