"""Which modules belong to a stage, checked against what Python really imports."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.plans import fill_root, make_plan
from permafrost.core.identity import syntax
from permafrost.plan import sources
from permafrost.plan.sources import ROOT, module_path, stage_files, stage_modules
from permafrost.probes.kinds import KINDS
from permafrost.stages import commands

# `serve` runs the jobs of others and has none
STAGES = (*KINDS, *(name for name in commands.STAGES if name != "serve"))
# commands that make no result: nothing is identified by their sources
OTHERS = [name for name in commands.COMMANDS if name not in commands.STAGES]
COMMANDS = (*(name.replace("-", "_") for name in OTHERS), "cli", "serve")
# for those who import the library: no command of its own
OFFERED = {
    "permafrost.evaluators.detection.coco",
    "permafrost.evaluators.detection.coco_images",
    "permafrost.evaluators.detection.cocoeval",
    "permafrost.evaluators.detection.lvis",
    "permafrost.evaluators.detection.lviseval",
    "permafrost.evaluators.detection.mask",
    "permafrost.evaluators.detection.parameters",
    "permafrost.evaluators.detection.per_image",
    "permafrost.evaluators.detection.prepared",
    "permafrost.evaluators.detection.stand_in",
    "permafrost.evaluators.detection.steps",
    "permafrost.evaluators.detection.streaming",
    "permafrost.evaluators.raster.modules",
    "permafrost.statistics.across_datasets.neuco_bench",
}
SLOW = (
    "permafrost.backbones.timm",
    "permafrost.backbones.torchgeo",
    "permafrost.backbones.terratorch",
)
# run as a file, by conversion.py
PROGRAMS = {
    "permafrost.backbones.weights.unpickling",
    "permafrost.plan.generated",
    "permafrost.plan.settings",
}
HEAVY = {"torch", "torchvision", "timm", "torchgeo", "torchmetrics", "sklearn", "pandas"}


def loaded_by(modules, *, script: str = "") -> set[str]:
    """Names in ``sys.modules`` of a fresh Python that imported `modules`."""
    lines = [f"import {module}" for module in modules]
    program = "\n".join(["import sys", *lines, script, "print('|'.join(sorted(sys.modules)))"])
    return set(output_of(program).splitlines()[-1].split("|"))


def output_of(program: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def own(modules) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "permafrost"}


def libraries_named(modules) -> set[str]:
    """Top-level names of all libraries that modules import anywhere, also inside functions."""
    found = set()
    for module in modules:
        for node in ast.walk(ast.parse(module_path(module).read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").split(".")[0])
    return found


# --- the modules of a stage ---------------------------------------------------------------------


def test_all_that_a_stage_loads_is_among_its_modules():
    # importing timm and torchgeo takes half a minute, and says nothing about our modules
    quick = {
        stage: sorted(name for name in stage_modules(stage) if not name.startswith(SLOW))
        for stage in STAGES
    }
    # one process for all: torch is loaded once, our modules anew for each stage
    script = f"""
import importlib, sys
for stage, names in {quick!r}.items():
    for name in [name for name in sys.modules if name.split(".")[0] == "permafrost"]:
        del sys.modules[name]
    for name in names:
        importlib.import_module(name)
    print(stage, *(name for name in sys.modules if name.split(".")[0] == "permafrost"))
"""
    loaded = {line.split()[0]: set(line.split()[1:]) for line in output_of(script).splitlines()}
    assert loaded.keys() == set(STAGES)
    more = {stage: loaded[stage] - set(stage_modules(stage)) for stage in STAGES}
    assert not any(more.values()), more


def modules_of(stages) -> list[str]:
    """The modules of all of these stages: what they together do not load, none of them loads."""
    return sorted({module for stage in stages for module in stage_modules(stage)})


def test_light_stages_know_no_heavy_library_at_all():
    modules = modules_of(["bootstrap", "compare", "aggregate"])
    assert libraries_named(modules) & HEAVY == set()
    # matching of objects loads SciPy, and resamples of detections the compiler
    loaded = loaded_by(modules)
    assert loaded & (HEAVY | {"zarr", "matplotlib"}) == set()


def test_probes_load_no_torch_and_no_scikit_learn():
    light = KINDS.keys() - {"segmentation", "detection", "fine_tune", "ltae"}
    assert loaded_by(modules_of([*light, "measure", "similarity"])) & HEAVY == set()


def test_starting_the_command_line_loads_nothing_but_errors_and_the_command():
    loaded = loaded_by(
        ["permafrost.stages.cli"],
        script="from permafrost.stages.cli import main\n"
        "try: main(['bootstrap', '--help'])\n"
        "except SystemExit: pass",
    )
    assert own(loaded) == {
        "permafrost",
        "permafrost.core",
        "permafrost.core.errors",
        "permafrost.core.extras",
        "permafrost.core.text",
        "permafrost.core.identity",
        "permafrost.core.limits",
        "permafrost.core.names",
        "permafrost.core.options",
        "permafrost.core.specification",
        "permafrost.stages",
        "permafrost.stages.arguments",
        "permafrost.stages.bootstrap",
        "permafrost.stages.cli",
        "permafrost.stages.commands",
    }
    assert loaded & {"numpy", "pyarrow", "yaml"} == set()


@pytest.mark.parametrize(
    ("stage", "room"),
    [
        ("knn", "backbones"),
        ("linear", "backbones"),
        ("knn", "data"),
        ("knn", "statistics"),
        ("extract", "probes"),
        ("prepare", "backbones"),
        ("bootstrap", "probes"),
        ("aggregate", "probes"),
    ],
)
def test_stages_are_independent_of_rooms_they_do_not_need(stage, room):
    prefix = f"permafrost.{room}."
    # what reads features through steps, or degrades images, counts for derived backbones and harder images alone
    chosen = (("permafrost.features.stored", ""), ("permafrost.core.rows_store", ""))
    assert [name for name in stage_modules(stage, chosen) if name.startswith(prefix)] == []


@pytest.mark.parametrize("stage", ["knn", "linear", "measure"])
def test_only_jobs_of_derived_backbones_depend_on_their_steps(stage):
    steps = "permafrost.features.derived.steps"
    assert steps in stage_modules(stage, sources.chosen_by({"derived": ["net"]}))
    assert steps not in stage_modules(stage, sources.chosen_by({}))
    assert steps in stage_modules("derive", sources.chosen_by({}))


@pytest.mark.parametrize("stage", STAGES)
def test_making_the_plan_is_no_part_of_any_stage(stage):
    assert {"permafrost.plan.plan", "permafrost.plan.sources"} & set(stage_modules(stage)) == set()


def test_kinds_that_a_registry_names_in_text_belong_to_the_stage():
    modules = stage_modules("extract")
    assert {"permafrost.backbones.rcf", "permafrost.backbones.imagestats"} <= set(modules)


def test_every_module_is_used_by_a_stage_a_command_or_the_plan():
    used = {name for command in (*STAGES, *COMMANDS) for name in stage_modules(command)}
    rules = "".join(path.read_text() for path in (ROOT.parent / "rules").glob("*.smk"))
    pending = re.findall(r"^from (permafrost[\w.]+) import", rules, flags=re.MULTILINE)
    assert pending
    while pending:
        module = pending.pop()
        if module not in used:
            used.add(module)
            pending += sources._read(module).modules
    every = {
        ".".join(["permafrost", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        for path in ROOT.rglob("*.py")
    }
    offered = {name for name in every if name.startswith("permafrost.interface")}
    assert every - used == OFFERED | PROGRAMS | offered, (
        "dead code, or an import that the plan does not see"
    )


def test_the_interface_is_no_part_of_any_job_and_loads_what_is_asked_for_alone():
    for stage in STAGES:
        assert not [name for name in stage_modules(stage) if "interface" in name], stage
    loaded = loaded_by(["permafrost"])
    assert not loaded & HEAVY and "permafrost.interface" not in loaded
    loaded = loaded_by(["permafrost"], script="permafrost.KNN, permafrost.LinearSweep")
    assert "sklearn" in loaded and not loaded & {"torch", "permafrost.interface.scoring"}


def test_every_file_beside_the_modules_is_used_by_a_stage():
    used = {file for command in (*STAGES, *COMMANDS) for file in stage_files(command)}
    others = {
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.suffix not in (*sources.NOT_READ, ".pyi", ".typed")
        and "__pycache__" not in path.parts
    }
    assert others <= used
    # what timm and torchgeo offer is read while planning, and by no job
    assert not any(ROOT / "plan/installed.json" in stage_files(stage) for stage in STAGES)


# --- the hash of a stage ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def already_read(tmp_path_factory):
    """A copy of the library's folder, with what was read of it, and the hashes."""
    ignored = shutil.ignore_patterns("__pycache__")
    folder = shutil.copytree(
        ROOT, tmp_path_factory.mktemp("library") / "permafrost", ignore=ignored
    )
    return folder, hashes(folder)


@pytest.fixture
def library(already_read, tmp_path):
    """A copy of the library's folder; what was read of it is kept, and read again where it changes."""
    return shutil.copytree(already_read[0], tmp_path / "permafrost")


@pytest.fixture
def before(already_read):
    """The hashes of the library as it is."""
    return already_read[1]


@contextlib.contextmanager
def copied_sources(library: Path):
    """`plan.sources` of the library at `library`."""
    spec = importlib.util.spec_from_file_location("_copied_sources", library / "plan/sources.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        assert library == module.ROOT
        yield module
    finally:
        del sys.modules[spec.name]


def hashes(library: Path) -> dict[str, str]:
    """Hash of every stage of the library at `library`, computed by the library itself."""
    with copied_sources(library) as module:
        return {stage: module.code_hash(stage) for stage in STAGES}


@pytest.mark.parametrize(
    ("file", "stages"),
    [
        ("backbones/rcf.py", {"extract", "extract_harder", "profile", "views", "fine_tune"}),
        ("features/profiling/timing.py", {"profile"}),
        ("features/views.py", {"views"}),
        ("metrics/representation/lidar.py", {"measure", "similarity", "report"}),
        ("data/store/prepare.py", {"prepare"}),
        ("probes/knn/probe.py", {"knn"}),
        ("probes/linear/probe.py", {"linear"}),
        ("probes/knn/sweep.py", {"knn_sweep"}),
        ("probes/few_shot/draws.py", {"few_shot"}),
        ("probes/retrieval.py", {"retrieval"}),
        (
            "probes/embeddings/features.py",
            {"fine_tune", *(name for name, one in KINDS.items() if one.reads == "embeddings")},
        ),
        ("probes/ridge/solver.py", {"ridge"}),
        ("probes/dense_ridge/patch_ridge.py", {"dense_ridge"}),
        ("probes/dense/patch_targets.py", {"dense_ridge", "dense_knn", "dense_centroid"}),
        ("probes/learners/random_forest.py", {"random_forest"}),
        (
            "probes/learners/shared.py",
            {"random_forest", "gradient_boosting", "svm", "nearest_centroid"},
        ),
        ("probes/sgd/linear_probe.py", {"sgd_linear"}),
        ("probes/sgd/mlp_probe.py", {"mlp"}),
        ("probes/sgd/training.py", {"sgd_linear", "mlp"}),
        ("stages/bootstrap.py", {"bootstrap"}),
        ("report/template/page.css", {"report"}),
        ("core/identity.py", set(STAGES)),
        ("plan/plan.py", set()),
        ("plan/sources.py", set()),
        ("stages/show.py", set()),
    ],
)
def test_a_file_belongs_to_exactly_the_stages_that_use_it(file, stages):
    assert {stage for stage in STAGES if ROOT / file in stage_files(stage)} == stages


def test_an_edit_changes_the_hash_of_exactly_the_stages_that_use_the_file(library, before):
    for file in ("probes/retrieval.py", "report/template/page.css"):
        with open(library / file, "a") as stream:
            stream.write("\nEDITED = 1\n")
    after = hashes(library)
    changed = {stage for stage in STAGES if before[stage] != after[stage]}
    assert changed == {"retrieval", "report"}


def test_neither_the_place_nor_time_stamps_nor_line_ends_change_a_hash(library):
    expected = {stage: sources.code_hash(stage) for stage in STAGES}
    for path in library.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        os.utime(path, (1, 1))
    # and nothing that was read before is there
    shutil.rmtree(library / "__pycache__")
    (library / "core" / "__pycache__").mkdir()
    (library / "core" / "__pycache__" / "paths.cpython-312.pyc").write_bytes(b"x")
    assert hashes(library) == expected


def test_comments_docstrings_and_layout_change_no_hash(library, before):
    path = library / "core" / "errors.py"
    text = path.read_text()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None:
            node.body[0].value.value = "Other words."
    path.write_text(f"# a comment\n{ast.unparse(tree)}\n\n\n")
    assert path.read_text() != text and hashes(library) == before
    # a text that is no docstring counts
    path.write_text(text.replace('", line"', "X").replace("Remedy: ", "Cure: "))
    assert all(hashes(library)[stage] != before[stage] for stage in STAGES)


def test_a_moved_line_between_two_modules_changes_the_hash(library):
    found = []
    original = {name: (library / f"core/{name}.py").read_text() for name in ("errors", "identity")}
    for moved_to in (None, "errors", "identity"):
        for name, text in original.items():
            more = "MOVED = 1\n" if name == moved_to else ""
            (library / f"core/{name}.py").write_text(text + more)
        found.append(hashes(library)["knn"])
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = ''", "x = b''"),
        ("x = 'a'", "x = 'b'"),
        ("def f(a): pass", "def f(a=None): pass"),
        ("def f(): 'doc'; return 1", "def f(): 'doc'; return 2"),
        ("f(a, b)", "f(a, *b)"),
        ("x = [a, b]", "x = [[a], b]"),
        ("x = [a, b]", "x = (a, b)"),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
        ("x = -1", "x = not 1"),
        ("from a import b", "from a import b as c"),
        ("x: int", "x: str"),
        ("x = 0.1", "x = 0.1j"),
        ("global_ = f'{x!r}'", "global_ = f'{x!s}'"),
    ],
)
def test_what_means_something_else_is_something_else(one, other):
    meanings = [syntax(ast.parse(text), docstrings=False) for text in (one, other)]
    assert meanings[0] != meanings[1]


# --- what a job uses of the registries -----------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("metrics/detection/evaluate.py", {"boxes"}),
        ("statistics/predictions/objects.py", {"boxes"}),
        ("statistics/predictions/queries.py", {"gallery"}),
        ("statistics/resampling/units.py", {"boxes", "gallery", "labels"}),
        ("backbones/rcf.py", {"rcf"}),
        ("backbones/timm_models.py", {"timm"}),
        ("backbones/registry.py", {"rcf", "timm"}),
        ("data/sources/yolo.py", {"yolo"}),
        ("data/world/things.py", {"demo"}),
        ("data/sources/demo.py", {"demo"}),
        ("data/sources/common.py", {"demo", "yolo", "masks", "numbers", "objects", "images"}),
        ("data/labels/masks.py", {"demo", "yolo", "masks", "numbers"}),
        ("data/labels/rasters.py", {"demo", "yolo", "masks", "numbers"}),
        ("data/labels/detection.py", {"demo", "yolo", "objects"}),
        ("metrics/segmentation/evaluate.py", {"boxes"}),
    ],
)
def test_a_job_depends_on_what_it_uses_of_a_registry(file, expected):
    source = {"source": {"kind": "torchgeo"}}
    jobs = {
        "labels": ("bootstrap", {"task": "classification"}),
        "boxes": ("bootstrap", {"task": "detection"}),
        "gallery": ("bootstrap", {"task": "retrieval"}),
        "rcf": ("extract", {"entry": {"kind": "rcf"}}),
        "timm": ("extract", {"entry": {"kind": "timm"}}),
        "demo": ("prepare", {"entry": {"source": {"kind": "demo"}}}),
        "yolo": ("prepare", {"entry": {"source": {"kind": "yolo"}}}),
        "masks": ("prepare", {"entry": {"task": "segmentation", **source}}),
        "numbers": ("prepare", {"entry": {"task": "pixel_regression", **source}}),
        "objects": ("prepare", {"entry": {"task": "detection", **source}}),
        "images": ("prepare", {"entry": {"task": "classification", **source}}),
    }
    using = {
        name
        for name, (stage, spec) in jobs.items()
        if ROOT / file in stage_files(stage, sources.chosen_by(spec))
    }
    assert using == expected


def test_registries_and_their_entries_are_where_the_choices_say():
    for registry in sources.CHOICES:
        entries = sources._read(registry).entries
        assert len(entries) > 3 and all(entries.values())
        module = importlib.import_module(registry)
        assert set(entries) == set(getattr(module, "KINDS", None) or module.TASKS)


def test_the_plan_says_for_every_job_what_it_uses(tmp_path):
    plan = make_plan(fill_root(tmp_path))
    jobs = [plan.prepare("pictures"), plan.extract("pictures", "net")]
    jobs += [plan.bootstrap("pictures", "net", "knn", 0), plan.compare("pictures", "knn")]
    for job in jobs:
        # an entry of one registry, and none of those which only `matched`, `derived`, `rows` and `harder` ask for
        chosen = sources.chosen_by(json.loads(job.spec))
        assert len([key for key, _ in chosen if key in (*sources.CHOICES, *sources.ASKED_FOR)]) == 9


def test_a_module_that_a_plug_in_imports_counts_whatever_it_serves():
    module = "permafrost.data.labels.masks"
    spec = {"entry": {"task": "classification", "source": {"kind": "demo"}}}
    assert module not in stage_modules("prepare", sources.chosen_by(spec))
    spec["plugins"] = {"sources.mine": {"library": [module]}}
    assert module in stage_modules("prepare", sources.chosen_by(spec))


def test_what_was_read_is_kept_and_read_again_where_a_file_changed(library, before):
    kept = library / "__pycache__" / "sources.json"
    content = json.loads(kept.read_text())
    content["files"]["core/errors.py"]["meaning"] = "something else"
    kept.write_text(json.dumps(content))
    # what is kept is used ...
    assert all(hashes(library)[stage] != before[stage] for stage in STAGES)
    # ... but not for another content, nor in another library
    path = library / "core" / "errors.py"
    path.write_text(path.read_text() + "# edited\n")
    assert hashes(library) == before
    content["files"]["core/identity.py"]["meaning"] = "something else"
    kept.write_text(json.dumps(content))
    (library / "core" / "new.py").write_text("")
    assert hashes(library) == before
