"""What cannot change a result changes no fingerprint, with its counterpart that can."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import typing

import pytest
from helpers.plans import CONFIG, changed, fill_root, make_plan
from permafrost.core.identity import code_digest, file_digest
from permafrost.core.options import Options
from permafrost.plan import digests
from permafrost.plan.plugins import identified
from permafrost.plan.settings import Settings


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "project")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


# --- code of the user ------------------------------------------------------------------------------

CODE = b'''"""A network."""
import math

SCALE = 2  # times
TEXT = """two
lines"""

def build(inputs):
    """The network."""
    return [math.pi, SCALE]  # type: ignore
'''
SAME = {
    "a comment": CODE + b"# a remark\n",
    "another comment": CODE.replace(b"# times", b"# factor"),
    "a comment above": b"#!/usr/bin/env python\n# mine\n\n" + CODE,
    "blank lines": CODE.replace(b"\n\n", b"\n\n\n\n"),
    "a wrapped line": CODE.replace(
        b"[math.pi, SCALE]", b"[\n        math.pi,\n        SCALE\n    ]"
    ),
    "quotes": CODE.replace(b'"""The network."""', b"'The network.'"),
    "line ends of Windows": CODE.replace(b"\n", b"\r\n"),
}
OTHER = {
    "a number": CODE.replace(b"SCALE = 2", b"SCALE = 2.0"),
    "a docstring": CODE.replace(b"The network.", b"The networks."),
    "a text": CODE.replace(b"two\n", b"two\n\n"),
    "a name": CODE.replace(b"import math", b"import math as math"),
    "order": CODE.replace(b"math.pi, SCALE", b"SCALE, math.pi"),
    "a type comment": CODE.replace(b"# times", b"# type: float"),
    "no code": b"def build(:\n",
}


@pytest.mark.parametrize("change", SAME)
def test_comments_and_layout_are_no_part_of_code(tmp_path, change):
    (tmp_path / "one.py").write_bytes(CODE)
    (tmp_path / "other.py").write_bytes(SAME[change])
    assert SAME[change] != CODE
    assert code_digest(tmp_path / "one.py") == code_digest(tmp_path / "other.py")


@pytest.mark.parametrize("change", OTHER)
def test_all_else_is_a_part_of_code(tmp_path, change):
    (tmp_path / "one.py").write_bytes(CODE)
    (tmp_path / "other.py").write_bytes(OTHER[change])
    assert code_digest(tmp_path / "one.py") != code_digest(tmp_path / "other.py")


@pytest.mark.parametrize(
    "content", [b"def build(:\n", b"x = '\x00'\n", b"x = " + b"-" * 50_000 + b"1"]
)
def test_what_python_cannot_parse_counts_by_its_bytes(tmp_path, content):
    path = tmp_path / "broken.py"
    path.write_bytes(content)
    assert code_digest(path) == file_digest(path)


AUTHORS = {"kind": "galileo", "model": "nano", "model_file": "authors.py", "weights": None}


@pytest.mark.parametrize(
    "name", ["own.py", "helper.py", "package/__init__.py", "run_by_path.py", "authors.py"]
)
def test_a_comment_in_a_file_of_a_backbone_reruns_nothing(root, config, name):
    (root / "package").mkdir()
    for file in ("helper.py", "package/__init__.py", "authors.py", "run_by_path.py"):
        (root / file).write_text("WIDTH = 3\n")
    (root / "own.py").write_text("import helper\nimport package\n\ndef build(inputs): ...\n")
    config["extra_backbones"]["own"]["files"] = ["run_by_path.py"]
    config["extra_backbones"]["authors"] = AUTHORS
    config.update(backbones=["own", "authors"], datasets=["world"])
    backbone = "authors" if name == "authors.py" else "own"
    before, path = make_plan(root, config), root / name
    path.write_text(f"# a remark\n\n{path.read_text()}")
    assert changed(before, make_plan(root, config)) == set()
    path.write_text(f"{path.read_text()}\nMORE = 1\n")
    rerun = changed(before, make_plan(root, config))
    assert {names for names in rerun if names[0] == "extract"} == {("extract", "world", backbone)}


def test_a_comment_in_a_plug_in_is_no_part_of_it(tmp_path):
    (tmp_path / "helper.py").write_text("WIDTH = 3\n")
    (tmp_path / "mine.py").write_text("import helper\nKIND = helper.WIDTH\n")

    def found():
        cache = digests.DigestCache(tmp_path / "cache.json")
        return identified("mine.py:KIND", tmp_path, cache.digest)[0]

    before = found()
    for name in before["files"]:
        path = tmp_path / {"entrypoint": "mine.py"}.get(name, "helper.py")
        text = path.read_text()
        path.write_text(f"{text}# a remark\n")
        assert found() == before
        path.write_text(f"{text}MORE = 1\n")
        assert found() != before
        path.write_text(text)
    assert set(before["files"]) == {"entrypoint", "module helper"}


def test_a_cache_of_bytes_is_no_cache_of_code(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**12))
    path = tmp_path / "own.py"
    path.write_bytes(CODE)
    cache = digests.DigestCache(tmp_path / "cache.json")
    state = digests.content_state(path)
    cache._known[str(path)] = [*state, file_digest(path)]
    assert cache.digest(path) == code_digest(path)


# --- options ---------------------------------------------------------------------------------------

STAGES = (
    *("prepare", "extract", "probe", "fine_tune", "bootstrap", "compare", "measure", "views"),
    *("similarity", "profile", "aggregate", "report"),
)
#: option of the configuration -> another value, and the stages that it reruns by itself
OPTIONS: dict[str, tuple[object, set[str]]] = {
    "extraction.size": (64, {"extract", "views", "profile", "fine_tune"}),
    "extraction.interpolation": ("bicubic", {"extract", "views", "profile", "fine_tune"}),
    "extraction.antialias": (True, {"extract", "views", "profile", "fine_tune"}),
    "extraction.dtype": ("float16", {"extract", "views"}),
    "extraction.maps_dtype": ("float32", {"extract", "profile"}),
    "extraction.precision": ("bf16", {"extract", "views", "profile"}),
    "extraction.compile": (True, {"extract", "views", "profile"}),
    "extraction.maps_channels": (8, {"extract"}),
    "extraction.depths": ("all", {"extract"}),
    "bootstrap.confidence": (0.9, {"bootstrap", "measure", "similarity"}),
    "bootstrap.seed": (1, {"bootstrap", "measure", "similarity"}),
    "bootstrap.resamples": (100, {"bootstrap", "measure", "similarity"}),
    "bootstrap.method": ("bca", {"bootstrap"}),
    "comparison.confidence": (0.9, {"compare", "aggregate"}),
    "comparison.seed": (1, {"compare", "aggregate"}),
    "comparison.resamples": (100, {"compare", "aggregate"}),
    "calibration.bins": (10, {"bootstrap", "compare"}),
    "calibration.like": ("torchmetrics", {"bootstrap", "compare"}),
    "calibration.folds": (3, {"bootstrap"}),
    "calibration.floor": (0.01, {"bootstrap"}),
    # of tasks with one class
    "calibration.sets": ({}, set()),
    "measures.names": (["rankme", "lidar"], {"measure"}),
    "measures.split": ("test", {"measure", "similarity", "views"}),
    "measures.max_rows": (100, {"measure", "similarity"}),
    "measures.seed": (1, {"measure", "similarity"}),
    # of datasets with several dates
    "measures.temporal": ("max", set()),
    "measures.pair": ("difference", set()),
    "measures.shuffle_dates": (True, set()),
    # its jobs are gone
    "measures.similarity": (False, set()),
    "measures.augmentations": ({"views": 3}, {"views"}),
    "profile.batch_size": (8, {"profile"}),
    "profile.repeats": (5, {"profile"}),
    "profile.latency_repeats": (5, {"profile"}),
    "profile.warm_up": (1, {"profile"}),
    "profile.most_seconds": (1, {"profile"}),
    "profile.threads": (1, {"profile"}),
    "report.title": ("Mine", {"report"}),
    "report.examples": (2, {"report"}),
    "report.seed": (1, {"report"}),
    "archive.include_stores": (True, set()),
    "runtime.device": ("cpu", set()),
    "runtime.batch_size": (3, set()),
    "runtime.workers": (1, set()),
    "runtime.parts": (3, set()),
    "runtime.cache": ("shared", set()),
    "runtime.keep_maps": ("500 GB", set()),
    "runtime.light_jobs": ("process", set()),
    "runtime.light_jobs_on": ("driver", set()),
    "ranking.uncertainty": ("items", {"aggregate"}),
    "ranking.draws": (200, {"aggregate"}),
    "ranking.rope": (0.02, {"aggregate"}),
    "ranking.baseline": (None, {"aggregate"}),
    "ranking.bounds": ({"world": [0.0, 1.0]}, {"aggregate"}),
    "ranking.reference": (["bare", "net"], {"aggregate"}),
    "ranking.missing": ("baseline", {"aggregate"}),
    "ranking.derived": (True, set()),  # with some, see test_derived
    "versions": ("rerun", set(STAGES)),
    "results": ("elsewhere", set()),
    "data": ("./data", set()),
}
# keys that name what is run, or have tests of their own
NAMES = {
    *("suite", "catalogues", "backbones", "datasets", "extra_backbones", "extra_datasets"),
    *(
        "extra_probes",
        "extra_sources",
        "extra_metrics",
        "seeds",
        "groups",
        "fit",
        "unfit",
        "published",
        "derive",
        "derived_datasets",
    ),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fill_root(tmp_path_factory.mktemp("study") / "project")


def studied() -> dict:
    """A configuration with jobs of every stage; of its backbones `net`, `scene` and `place` set or ignore options."""
    config = copy.deepcopy(CONFIG)
    net = config["extra_backbones"]["net"]
    net["input"].update(interpolation="bilinear", antialias=False)
    config["extra_backbones"] |= {
        "bare": {"kind": "timm", "model": "resnet18", "weights": {"source": "random"}},
        # size and antialias are those of its weights
        "scene": {"kind": "torchgeo", "weights": "ResNet50_Weights.FMOW_RGB_GASSL"},
        "place": {"kind": "coordinates", "encoder": "harmonics"},
    }
    config["extra_backbones"]["bare"]["input"] = {"normalization": "dataset"}
    demo = {"kind": "demo", "chip_size": 32}
    config["extra_datasets"]["fields"] = {"task": "segmentation", "source": demo}
    config["backbones"] += ["bare", "scene", "place"]
    config["datasets"] = ["world", "fields"]
    config["probes"] |= {"dense": {"kind": "dense_knn"}, "tuned": {"kind": "fine_tune"}}
    return config | {"measures": {"augmentations": {}}, "profile": {}}


def by_themselves(plan) -> dict[tuple, dict]:
    """(stage, names …) -> what identifies a job, without its inputs."""
    found, inputs = {}, {"inputs", "cells", "stage"}
    for stage in plan.stages():
        for names in stage.every:
            spec = json.loads(stage.job(*names).spec)
            kind = (spec.get("options") or {}).get("kind")
            name = kind if kind == "fine_tune" else stage.name
            found[name, *names] = {key: spec[key] for key in spec.keys() - inputs}
    return found


@functools.cache
def _planned(root) -> dict[tuple, dict]:
    return by_themselves(make_plan(root, studied()))


def rerun_by(root, key: str, value: object) -> set[tuple]:
    """Jobs that another value of an option reruns, without those whose inputs it reruns."""
    other = studied()
    *path, last = key.split(".")
    place = other
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    before, after = _planned(root), by_themselves(make_plan(root, other))
    return {names for names in before.keys() & after.keys() if before[names] != after[names]}


def leaves_of(options: type, prefix: str = "") -> set[str]:
    """The options of the configuration, with a dot before those of a group."""
    found = set()
    hints = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        inner = [one for one in (hints[field.name], *typing.get_args(hints[field.name]))]
        group = [one for one in inner if isinstance(one, type) and issubclass(one, Options)]
        if group and not prefix and field.name not in NAMES:
            found |= leaves_of(group[0], f"{field.name}.")
        else:
            found.add(f"{prefix}{field.name}")
    return found


def test_every_option_is_looked_at():
    assert leaves_of(Settings) - NAMES == OPTIONS.keys()


@pytest.mark.parametrize("key", OPTIONS)
def test_an_option_reruns_the_stages_that_it_counts_for(study, key):
    value, stages = OPTIONS[key]
    assert {names[0] for names in rerun_by(study, key, value)} == stages


@pytest.mark.parametrize("key", [key for key in OPTIONS if key.startswith("extraction.")])
def test_an_option_reruns_no_backbone_that_sets_its_own_or_uses_none(study, key):
    rerun = rerun_by(study, key, OPTIONS[key][0])
    backbones = {names[2] for names in rerun}
    option = key.rpartition(".")[2]
    own = {"net": {"size", "interpolation", "antialias"}, "scene": {"size", "antialias"}}
    own["place"] = {*own["net"], "precision", "compile", "depths", "maps_channels"}
    # statistics of pixels have no blocks
    own["stats"] = {"depths"}
    everything = {"stats", "net", "own", "bare", "scene", "place"}
    assert backbones == {name for name in everything if option not in own.get(name, ())}
