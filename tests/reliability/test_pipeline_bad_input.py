"""Bad input through a whole run: the bad entry is named, the rest goes on, and a repaired run ends."""

from __future__ import annotations

import zlib

import pytest
from helpers.datasets.images import RGB_ENTRY, class_files, encode, photo, write_folder, write_zip
from helpers.project import Project

SPLITS = {"train": 12, "val": 5, "test": 5}


def failed_run(project: Project, *targets: str) -> str:
    """What a run says that must fail; nothing half-written may be left."""
    done = project.snakemake(*targets, check=False)
    assert done.returncode != 0
    assert [str(path) for path in project.path("results").rglob("*.partial-*")] == []
    return done.stdout + done.stderr


def message_about(output: str, name: str) -> str:
    """The line of the failed job's error about `name`."""
    lines = [n for n in output.splitlines() if n.startswith("Error in rule ") and name in n]
    assert lines, f"no error names {name}:\n{output}"
    return lines[0]


def test_an_unknown_key_in_the_configuration_stops_before_anything_runs(project):
    before = project.path("results/leaderboard.csv").stat().st_mtime_ns
    project.edit("config/config.yaml", "bootstrap:\n", "bootstrp: {}\nbootstrap:\n")
    output = failed_run(project)
    assert "config.yaml" in output
    assert "bootstrp: unknown key, did you mean 'bootstrap'?" in output and "Remedy: " in output
    assert "Traceback" not in output
    assert project.path("results/leaderboard.csv").stat().st_mtime_ns == before
    project.configure()
    assert project.pending() == {}


@pytest.mark.slow
def test_weights_that_cannot_be_used_fail_by_name_and_the_others_go_on(project):
    timm, torch = pytest.importorskip("timm"), pytest.importorskip("torch")
    from safetensors.torch import save_file

    right = timm.create_model("test_resnet", num_classes=0).state_dict()
    broken = {name: tensor.clone() for name, tensor in right.items()}
    broken["layer1.0.conv1.weight"][0, 0, 0, 0] = torch.nan
    other = timm.create_model("test_vit", num_classes=0).state_dict()
    files = {"other-model": other, "not-numbers": broken}
    for name, state in files.items():
        save_file(state, project.path(f"{name}.safetensors"))
        project.config["extra_backbones"][name] = {
            **project.config["extra_backbones"]["tiny-network"],
            "weights": {"source": "file", "path": f"{name}.safetensors"},
        }
    project.configure(backbones=["imagestats", *files], probes={"knn": {"kind": "knn", "k": 3}})

    output = failed_run(project, "scores")
    other_model = message_about(output, "backbone other-model")
    assert "other-model.safetensors" in other_model and "conv1.0.weight" in other_model
    assert "Remedy: name the model that the checkpoint was saved from" in other_model
    not_numbers = message_about(output, "backbone not-numbers")
    assert "not-numbers.safetensors" in not_numbers and "Remedy: " in not_numbers
    assert "'layer1.0.conv1.weight' holds 1 values that are NaN" in not_numbers
    features = project.path("results/features/tiny-landcover")
    assert not [p for name in files for p in (features / name).glob("*.zarr")]
    assert project.path("results/scores/tiny-landcover/imagestats/seed0/knn.parquet").exists()

    for name in files:
        save_file(right, project.path(f"{name}.safetensors"))
    project.snakemake("features")
    assert project.pending("--", "features") == {}


@pytest.mark.slow
def test_datasets_that_cannot_be_used_fail_by_name_and_leave_nothing(fresh_project):
    project = fresh_project
    images = class_files(count=24, kind="jpeg")
    whole = images["town/003.jpeg"]
    archive = write_zip(project.path("cut.zip"), {**images, "town/003.jpeg": whole[:-300]})
    folder = write_folder(
        project.path("classless"),
        {
            f"{split}/{name}/{number}.png": encode(
                photo(zlib.crc32(f"{split}/{name}/{number}".encode()))
            )
            for split, count in SPLITS.items()
            for name in ("field", "town", "water")
            for number in range(count)
            if (split, name) != ("train", "water")
        },
    )
    source = {"kind": "folder", "path": str(archive)}
    given = {"kind": "folder", "path": str(folder), "split_folders": True}
    project.configure(
        backbones=["imagestats"],
        datasets=["cut", "classless"],
        extra_datasets={
            "cut": {**RGB_ENTRY, "source": source, "splits": {"method": "random"}},
            "classless": {**RGB_ENTRY, "source": given},
        },
        probes={"knn": {"kind": "knn", "k": 3}},
    )

    output = failed_run(project)
    cut = message_about(output, "dataset cut")
    assert "1 of 48 images cannot be used: town/003.jpeg" in cut and "truncated" in cut.lower()
    assert "Remedy: repair or remove these files" in cut
    classless = message_about(output, "dataset classless")
    assert "train has no sample of 1 class: water (water in val or test)" in classless
    assert "Remedy: " in classless and "allow_missing_classes" in classless
    left = [p for p in project.path("results/images").rglob("*") if p.suffix in (".zarr", ".json")]
    assert left == []

    write_zip(archive, images)
    for number in range(SPLITS["train"]):
        write_folder(folder, {f"train/water/{number}.png": encode(photo(5000 + number))})
    project.snakemake("features")
    assert project.pending("--", "features") == {}
