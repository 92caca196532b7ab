"""One evaluation by one tool, from files to statistics; prints what the whole process cost."""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import sys
import time
from pathlib import Path


def permafrost(iou_type: str, truth: str, found: str):
    from permafrost.evaluators.detection import evaluate

    lvis = iou_type == "lvis"
    kind = "bbox" if lvis else iou_type
    convention = "le90" if kind == "oriented" else None
    return evaluate(
        truth, found, iou_type=kind, mode="strict", lvis=lvis, box_convention=convention
    ).stats


def pycocotools(iou_type: str, truth: str, found: str):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    return _run(COCO, COCOeval, iou_type, truth, found)


def faster_coco_eval(iou_type: str, truth: str, found: str):
    from faster_coco_eval import COCO, COCOeval_faster

    return _run(COCO, COCOeval_faster, iou_type, truth, found)


def _run(data_class, evaluator, iou_type, truth, found):
    data = data_class(truth)
    run = evaluator(data, data.loadRes(found), iou_type)
    run.evaluate()
    run.accumulate()
    run.summarize()
    return run.stats[:12]


def vernier(iou_type: str, truth: str, found: str):
    from vernier import instance

    kinds = {"bbox": instance.Bbox, "segm": instance.Segm, "keypoints": instance.Keypoints}
    data = instance.CocoDataset.from_json(Path(truth).read_bytes())
    run = instance.Evaluator(iou=kinds[iou_type]())
    return run.evaluate(data, Path(found).read_bytes()).stats


def hotcoco(iou_type: str, truth: str, found: str):
    from hotcoco import COCO, LVIS, COCOeval, LVISEval, LVISResults

    if iou_type != "lvis":
        kind = "obb" if iou_type == "oriented" else iou_type
        return _run(COCO, COCOeval, kind, truth, found)
    data = LVIS(truth)
    run = LVISEval(data, LVISResults(data, found), "bbox")
    run.run()
    return run.stats


def peak_mb() -> float:
    """Largest memory of this process; `ru_maxrss` would count what the caller held before it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    tool, *arguments = sys.argv[1:]
    with contextlib.redirect_stdout(io.StringIO()):
        stats = globals()[tool](*arguments)
    report = {
        "stats": [float(value) for value in stats],
        "rss_mb": peak_mb(),
        "cpu_s": time.process_time(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
