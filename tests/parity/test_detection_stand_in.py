"""`init_as_pycocotools`: other programs' imports of pycocotools give this evaluator, until that is taken back."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
from permafrost.evaluators import detection
from permafrost.evaluators.detection import COCO, COCOeval, init_as_pycocotools, mask

pytestmark = pytest.mark.filterwarnings("ignore:imported pycocotools before")
NAMES = ["pycocotools", "pycocotools.coco", "pycocotools.cocoeval", "pycocotools.mask"]


def imported() -> list:
    from pycocotools import mask as masks
    from pycocotools.coco import COCO as index
    from pycocotools.cocoeval import COCOeval as evaluator

    return [index, evaluator, masks.encode]


def test_imports_give_this_evaluator_until_it_is_taken_back():
    pytest.importorskip("pycocotools")
    before = imported()
    own = [COCO, COCOeval, mask.encode]
    with init_as_pycocotools():
        assert imported() == own
        import pycocotools.mask as by_name

        assert by_name is mask
        inner = init_as_pycocotools()
        # what is not replaced is pycocotools' own
        assert importlib.import_module("pycocotools._mask").__name__ == "pycocotools._mask"
        inner.close()
        assert imported() == own
    assert imported() == before and before != own


def in_a_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


def test_importing_alone_replaces_nothing_and_programs_that_were_first_are_named(tmp_path):
    pytest.importorskip("pycocotools")
    (tmp_path / "early.py").write_text("from pycocotools.cocoeval import COCOeval\n")
    program = f"""
import sys, warnings
import permafrost as pf
from permafrost.evaluators.detection import coco, cocoeval, lviseval, stand_in
assert not [name for name in sys.modules if name.startswith("pycocotools")]
warnings.simplefilter("error")
pf.detection.init_as_pycocotools().close()
assert not [name for name in sys.modules if name.startswith("pycocotools")]
warnings.simplefilter("always")
sys.path.insert(0, {str(tmp_path)!r})
import early
with stand_in.init_as_pycocotools():
    pass
assert sys.modules["pycocotools.cocoeval"].COCOeval is early.COCOeval
"""
    assert "before, and go on with it: early." in in_a_process(program)


def test_it_works_where_pycocotools_is_not_installed():
    program = """
import sys
sys.meta_path.insert(0, type("None", (), {"find_spec": staticmethod(lambda name, *_: None)}))
from importlib.machinery import PathFinder
there = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "pycocotools" else there(name, *more)
from permafrost.evaluators.detection import init_as_pycocotools
with init_as_pycocotools():
    from pycocotools.cocoeval import COCOeval, Params, maskUtils
print(COCOeval.__module__)
"""
    assert "permafrost" in in_a_process(program)


def batches(seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    found, true = [], []
    for _ in range(4):
        boxes = rng.random((5, 4)) * 50
        boxes[:, 2:] += boxes[:, :2] + 5
        near = boxes + rng.random((5, 4)) * 4
        labels = torch.tensor(rng.integers(0, 3, 5))
        scores = torch.tensor(rng.random(5))
        true.append({"boxes": torch.tensor(boxes), "labels": labels})
        found.append({"boxes": torch.tensor(near), "scores": scores, "labels": labels})
    return found, true


def test_torchmetrics_gives_the_same_also_its_extended_summary():
    metrics = pytest.importorskip("torchmetrics.detection.mean_ap")
    pytest.importorskip("pycocotools")

    def summary() -> dict:
        metric = metrics.MeanAveragePrecision(extended_summary=True, class_metrics=True)
        metric.update(*batches(3))
        return metric.compute()

    reference = summary()
    with init_as_pycocotools():
        found = summary()
    assert found.keys() == reference.keys() and found["map"] > 0
    for key, value in reference.items():
        if key == "ious":
            assert found[key].keys() == value.keys()
            pairs = [(found[key][cell], each) for cell, each in value.items()]
        else:
            pairs = [(found[key], value)]
        for one, other in pairs:
            assert np.array_equal(np.asarray(one), np.asarray(other)), key


def test_it_is_offered_where_the_rest_is():
    assert detection.init_as_pycocotools is init_as_pycocotools
    assert "in this process" in init_as_pycocotools.__doc__
