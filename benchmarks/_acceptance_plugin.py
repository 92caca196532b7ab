"""A pytest plugin that puts our `COCOeval` where a foreign suite calls its own; see `acceptance.py`.

``ACCEPTANCE`` names the suite. What the suite compares with, pycocotools in most, stays as it is.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import types

import numpy as np
from permafrost.evaluators.detection import coco, cocoeval, init_as_pycocotools, mask

SUITE = os.environ.get("ACCEPTANCE", "")
# of detectron2's suite, which compares many times in one test: the runs in their order
_RUNS: list = []


class FasterIndex(coco.COCO):
    """Ours with one more function of faster-coco-eval."""

    @staticmethod
    def load_json(json_file):
        with open(json_file) as file:
            return json.load(file)


class FasterCocoEval(cocoeval.COCOeval):
    """Ours with the constructor of faster-coco-eval, whose further options are passed over."""

    def __init__(self, cocoGt=None, cocoDt=None, iouType="segm", *_, **options):
        ratio = options.get("boundary_dilation_ratio", 0.02)
        super().__init__(cocoGt, cocoDt, iouType, boundary_ratio=ratio)
        if options.get("kpt_oks_sigmas") is not None:
            self.params.kpt_oks_sigmas = np.array(options["kpt_oks_sigmas"])

    def run(self):
        self.evaluate()
        self.accumulate()
        self.summarize()


def recorded(kind: type) -> type:
    """`kind` whose objects are listed, and keep their first error instead of raising it."""

    def kept(name: str):
        def step(self):
            try:
                if self.failed is None:
                    getattr(kind, name)(self)
            except Exception as error:
                self.failed = error
                self.eval = {"precision": np.float64(0), "recall": np.float64(0)}

        return step

    def begin(self, *given) -> None:
        _RUNS.append(self)
        self.failed = None
        kind.__init__(self, *given)

    steps = {name: kept(name) for name in ("evaluate", "accumulate", "summarize")}
    return type("Recorded", (kind,), {"__init__": begin, **steps})


def _compared() -> list[tuple[str, str]]:
    """Name of every pair of runs and why they differ, "" where they do not."""
    found = []
    for place, (theirs, ours) in enumerate(itertools.pairwise(_RUNS)):
        # results that only one of the two could index have one run
        if isinstance(theirs, cocoeval.COCOeval) or not isinstance(ours, cocoeval.COCOeval):
            continue
        refused = [type(each.failed).__name__ for each in (theirs, ours) if each.failed is not None]
        if len(refused) == 2:
            why = ""
        elif refused:
            whose = "pycocotools" if ours.failed is None else "ours"
            why = f"{whose} alone refuses: {theirs.failed or ours.failed}"
        else:
            same = (
                np.array_equal(theirs.eval[name], ours.eval[name])
                for name in ("precision", "recall")
            )
            why = "" if all(same) else "the figures differ"
        kind = "both refuse" if len(refused) == 2 else "compared"
        found.append((f"{kind} {place}", why))
    return found


def _replace_faster_coco_eval() -> None:
    import faster_coco_eval
    import faster_coco_eval.core
    import faster_coco_eval.core.faster_eval_api as api
    import faster_coco_eval.core.mask as their_mask

    for module in (faster_coco_eval, faster_coco_eval.core):
        module.COCO, module.COCOeval_faster = FasterIndex, FasterCocoEval
    api.COCOeval = api.COCOeval_faster = FasterCocoEval
    for name in mask.__all__:
        setattr(their_mask, name, getattr(mask, name))


def _without_extension() -> None:
    """detectron2 without its compiled part."""
    import detectron2

    detectron2._C = sys.modules["detectron2._C"] = types.ModuleType("detectron2._C")


def pytest_configure() -> None:
    if SUITE.startswith("detectron2"):
        _without_extension()
    if SUITE == "faster-coco-eval":
        _replace_faster_coco_eval()


def pytest_collection_finish(session) -> None:
    if SUITE == "torchmetrics":
        # after the tests have imported pycocotools, with which they compare
        init_as_pycocotools()
    if SUITE != "detectron2":
        return
    for module in {item.module for item in session.items if hasattr(item.module, "COCOeval_opt")}:
        module.COCOeval = recorded(module.COCOeval)
        module.COCOeval_opt = recorded(cocoeval.COCOeval)
        module.TestCOCOeval.assertTrue = lambda *_, **options: None


def pytest_sessionfinish() -> None:
    if _RUNS:
        with open(os.environ["ACCEPTANCE_COMPARED"], "w") as file:
            json.dump(_compared(), file)
