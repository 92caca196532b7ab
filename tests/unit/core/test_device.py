"""`device: auto`: one rule for torch and FAISS, tried with drivers and libraries that are made up."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import yaml
from helpers.project import REPOSITORY
from helpers.stages.probe_jobs import options_of
from permafrost.core import device
from permafrost.core.device import gpu_is_visible, resolve_device, takes_gpu, torch_is_built_for_gpu
from permafrost.core.errors import PermafrostError
from permafrost.probes.embeddings.features import Features
from permafrost.probes.kinds import KINDS


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A machine whose driver shows a GPU."""
    file = tmp_path / "nvidiactl"
    file.touch()
    monkeypatch.setattr(device, "DRIVERS", (tmp_path / "none", file))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def torch_that(monkeypatch, *, built: bool, sees: bool) -> None:
    import torch

    monkeypatch.setattr(device, "torch_is_built_for_gpu", lambda: built)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: sees)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(sees))


def faiss_that(monkeypatch, *, built: bool, sees: bool, fails: str | None = None) -> None:
    import faiss

    if built:
        monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    else:
        monkeypatch.delattr(faiss, "StandardGpuResources", raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: int(sees), raising=False)
    monkeypatch.setattr(device, "faiss_fails_on_gpu", lambda number: fails)


@pytest.mark.parametrize("library", ["torch", "faiss"])
@pytest.mark.parametrize(
    ("built", "sees", "expected"),
    [(True, True, "cuda"), (True, False, "cpu"), (False, False, "cpu")],
)
def test_auto_is_a_gpu_only_where_the_library_can_use_it(
    driver, monkeypatch, library, built, sees, expected
):
    {"torch": torch_that, "faiss": faiss_that}[library](monkeypatch, built=built, sees=sees)
    assert resolve_device("auto", library) == expected


def test_auto_is_the_cpu_if_faiss_sees_a_gpu_and_cannot_compute_on_it(driver, monkeypatch):
    faiss_that(monkeypatch, built=True, sees=True, fails="no kernel image is available")
    assert resolve_device("auto", "faiss") == "cpu"


def test_faiss_is_tried_in_a_process_of_its_own_which_it_may_abort(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    module = tmp_path / "faiss.py"
    module.write_text(
        "import os, sys\nprint('no kernel image is available', file=sys.stderr, flush=True)\nos.abort()\n"
    )
    device.faiss_fails_on_gpu.cache_clear()
    assert device.faiss_fails_on_gpu(0) == "no kernel image is available"
    module.write_text(
        "from types import SimpleNamespace\nStandardGpuResources = IndexFlatL2 = IndexFlatIP = lambda *size: None\n"
        "def index_cpu_to_gpu(resources, number, index):\n    assert number == 3\n"
        "    return SimpleNamespace(add=lambda rows: None, search=lambda rows, k: None)\n"
    )
    assert device.faiss_fails_on_gpu(3) is None
    device.faiss_fails_on_gpu.cache_clear()


@pytest.mark.parametrize("library", ["torch", "faiss"])
@pytest.mark.parametrize("hidden", ["", "-1", "no driver"])
def test_without_a_visible_gpu_auto_is_the_cpu_and_no_library_is_asked(
    driver, monkeypatch, tmp_path, library, hidden
):
    for name in ("torch", "faiss"):
        monkeypatch.setattr(device, f"{name}_sees_gpu", lambda: pytest.fail("was asked"))
    if hidden == "no driver":
        monkeypatch.setattr(device, "DRIVERS", (tmp_path / "none",))
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not gpu_is_visible()
    assert resolve_device("auto", library) == "cpu"


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1"])
@pytest.mark.parametrize("library", ["torch", "faiss"])
def test_a_device_that_is_named_is_kept(library, name):
    assert resolve_device(name, library) == name


def test_all_that_run_torch_follow_the_same_rule(driver, monkeypatch):
    from permafrost.features.devices import choose_device

    torch_that(monkeypatch, built=True, sees=False)
    assert choose_device("auto").type == "cpu"
    torch_that(monkeypatch, built=True, sees=True)
    assert choose_device("auto").type == "cuda"
    monkeypatch.setattr(device, "DRIVERS", ())
    assert choose_device("auto").type == "cpu"


# --- with a GPU and the CPU environment ------------------------------------------------------------


def split(seed: int) -> Features:
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % 2
    embeddings = (rng.normal(size=(40, 4)) + 3 * labels[:, None]).astype(np.float32)
    samples = pa.table({"sample_id": [f"{seed}-{i}" for i in range(40)]})
    return Features(embeddings, labels, samples, {"classes": ["a", "b"], "task": "classification"})


def splits() -> dict[str, Features]:
    return {name: split(seed) for seed, name in enumerate(("train", "val", "test"))}


@pytest.mark.parametrize(
    ("probe", "options"),
    [
        ("knn", {"k": 5, "metric": "l2"}),
        ("knn_sweep", {"k": [1, 5], "metrics": ["l2"], "weights": ["uniform"], "temperature": 0.1}),
    ],
)
def test_neighbours_are_searched_on_the_cpu_where_faiss_has_no_part_for_gpus(
    driver, monkeypatch, probe, options
):
    faiss_that(monkeypatch, built=False, sees=False)
    module = importlib.import_module(KINDS[probe].run.partition(":")[0])
    run, options = getattr(module, f"run_{probe}"), options_of(probe, options)
    on_auto, on_cpu = (run(splits(), options, device=name, seed=0) for name in ("auto", "cpu"))
    ranked = [getattr(result, "ranked", result) for result in (on_auto, on_cpu)]
    np.testing.assert_array_equal(ranked[0].prediction, ranked[1].prediction)
    with pytest.raises(PermafrostError, match="cannot compute on this GPU.*device: auto or cpu"):
        run(splits(), options, device="cuda", seed=0)


def test_linear_probes_are_fitted_on_the_cpu_where_torch_is_no_cuda_build(driver, monkeypatch):
    from permafrost.probes.linear.probe import run_linear

    torch_that(monkeypatch, built=False, sees=False)
    options = {
        "c_min": 0.01,
        "c_max": 10.0,
        "c_count": 3,
        "merge_val": True,
        "standardize": True,
        "ties": "smallest",
        "solver": "lbfgs",
    }
    run_linear(splits(), options_of("linear", options), device="auto", seed=0)
    with pytest.raises(PermafrostError, match="no CUDA device"):
        run_linear(splits(), options_of("linear", options), device="cuda", seed=0)


# --- planning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("__version__ = '2.9.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", True),
        ("__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n", False),
        ("__version__ = '2.9.0'\ncuda = None\nhip = '6.3.42131'\n", True),
    ],
)  # fmt: skip
def test_the_build_of_torch_is_read_from_its_version_file(monkeypatch, tmp_path, text, built):
    (tmp_path / "version.py").write_text(text)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    assert torch_is_built_for_gpu() is built


def test_the_build_that_is_installed_is_read_right():
    import torch

    assert torch_is_built_for_gpu() == bool(torch.version.cuda or torch.version.hip)


def test_jobs_take_a_gpu_where_they_will_use_one(driver, monkeypatch):
    monkeypatch.setattr(device, "torch_is_built_for_gpu", lambda: True)
    assert [takes_gpu(name) for name in ("auto", "cuda", "cuda:1", "cpu")] == [
        True,
        True,
        True,
        False,
    ]
    monkeypatch.setattr(device, "torch_is_built_for_gpu", lambda: False)
    assert not takes_gpu("auto")
    monkeypatch.setattr(device, "DRIVERS", ())
    assert not takes_gpu("auto")


def test_planning_imports_neither_torch_nor_faiss():
    code = (
        "import sys; from permafrost.core import device; device.DRIVERS = ('/',);"
        "device.takes_gpu('auto'); print({'torch', 'faiss', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def rules_with(line: str) -> set[str]:
    """Names of the rules that hold a line, and of those made of them by `use rule`."""
    found = set()
    for file in (REPOSITORY / "workflow/rules").glob("*.smk"):
        # in the order of the file, in which a rule comes before those that are made of it
        for block in re.split(r"^(?=rule |use rule )", file.read_text(), flags=re.MULTILINE):
            name = re.match(r"(?:use rule (\w+) as|rule) (\w+)(?: with)?:", block)
            inherits = name and name[1] in found and "resources:" not in block
            if name and (inherits or re.search(rf"^ +{line}$", block, re.MULTILINE)):
                found.add(name[2])
    return found


@pytest.mark.parametrize("name", ["slurm", "generic", "kubernetes"])
def test_clusters_send_every_rule_that_counts_a_gpu_to_the_nodes_that_have_one(name):
    profile = yaml.safe_load((REPOSITORY / f"profiles/{name}/config.yaml").read_text())
    sent = {name for name, wants in profile["set-resources"].items() if wants.get("gpu") == 1}
    # what joins parts needs none
    counted = rules_with(
        r"gpu=(gpu|probe_gpu|lambda wildcards: 0 if parts\(wildcards\) else gpu\(wildcards\)),"
    )
    assert {
        "extract",
        "extract_harder",
        "views",
        "probe_maps",
        "probe_maps_with_masks",
        "probe_maps_with_detections",
        "probe_images",
    } <= sent
    # where a profile is to be made, or light probes are to run on a GPU, its user says
    light = {"probe_embeddings", "probe_patches", "probe_patches_with_masks"}
    assert counted == sent | {"profile"} | light
    if name == "slurm":
        assert all(profile["set-resources"][one]["slurm_partition"] == "gpu" for one in sent)
