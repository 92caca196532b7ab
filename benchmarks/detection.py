"""Time of our evaluator against pycocotools, faster-coco-eval, vernier and hotcoco, whole processes.

    uv venv --python 3.12 .peers-detection
    VIRTUAL_ENV=.peers-detection uv pip install pycocotools==2.0.11 faster-coco-eval==1.8.0 \
        vernier==0.5.4 hotcoco==1.3.0
    envs/run python benchmarks/detection.py [--peers .peers-detection] --data FOLDER [--images 5000]

FOLDER receives a generated set (5,000 images, 80 categories, 36,000 truths, 200,000 detections; of other --images
in proportion) unless it holds one, and one of people with 17 keypoints (11,000 truths, 200,000 detections).
`lvis` are the boxes by LVIS's rules, and `oriented` boxes of any angle; of the peers, only hotcoco has these two.
Without --peers, only ours is run. CPU seconds are those of the whole process, imports and reading included, on one
thread; the runs alternate. All tools must agree on every statistic.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from _detection_data import make_keypoints, make_lvis, make_oriented, make_set, sizes_of
from _timing import alternate, median_cpu, print_table, venv_python

WORKER = Path(__file__).with_name("_detection_worker.py")
_TRUTH = {
    "keypoints": "keypoints_truth",
    "lvis": "lvis_truth",
    "oriented": "oriented_truth",
}
_FOUND = {"lvis": "bbox"}
TOOLS = ("permafrost", "vernier", "hotcoco", "faster_coco_eval", "pycocotools")
# kinds that only some tools have
_ONLY = dict.fromkeys(("lvis", "oriented"), ("permafrost", "hotcoco"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the generated set")
    parser.add_argument("--peers", type=Path, help="environment with the peers")
    parser.add_argument("--images", type=int, help="of a generated set")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=TOOLS)
    parser.add_argument(
        "--iou-types", nargs="+", default=["bbox", "segm", "keypoints", "lvis", "oriented"]
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds = options.iou_types
    paths = {kind: options.data / f"{_FOUND.get(kind, kind)}.json" for kind in kinds}
    truths = {kind: options.data / f"{_TRUTH.get(kind, 'truth')}.json" for kind in kinds}
    sizes = sizes_of(options.images) if options.images else {}
    for make, needed in (
        (make_keypoints, [p["keypoints"] for p in (paths, truths) if "keypoints" in kinds]),
        (make_oriented, [p["oriented"] for p in (paths, truths) if "oriented" in kinds]),
        (make_set, _of_set(options.data, paths)),
    ):
        if not all(path.exists() for path in needed):
            print("making the set", file=sys.stderr)
            make(options.data, seed=options.seed, **sizes)
    if "lvis" in kinds and not truths["lvis"].exists():
        make_lvis(options.data, seed=options.seed)
    if options.peers is None:
        print("no --peers given: only ours")
        options.tools = [tool for tool in options.tools if tool == "permafrost"]
    peers = options.peers and venv_python(options.peers)
    rows = []
    for iou_type in options.iou_types:
        workers = {
            tool: [
                sys.executable if tool == "permafrost" else str(peers),
                str(WORKER),
                tool,
                iou_type,
                str(truths[iou_type]),
                str(paths[iou_type]),
            ]
            for tool in options.tools
            if tool in _ONLY.get(iou_type, TOOLS)
        }
        rows += compare(iou_type, alternate(workers, options.repeats))
    print_table(["IoU", "tool", "CPU s", "times ours", "peak RSS, MB", "largest difference"], rows)


def _of_set(folder: Path, paths: dict[str, Path]) -> list[Path]:
    """The files that `make_set` writes, if one of them is needed."""
    needed = [path for kind, path in paths.items() if kind not in ("keypoints", "oriented")]
    return [folder / "truth.json", *needed] if needed else []


def compare(iou_type: str, reports: dict[str, list[dict]]) -> list[list[object]]:
    """A row per tool; ratios and differences are to the first."""
    ours = next(iter(reports.values()))
    return [
        [
            iou_type,
            tool,
            f"{median_cpu(runs):.2f}",
            f"{median_cpu(runs) / median_cpu(ours):.2f}",
            f"{max(run['rss_mb'] for run in runs):.0f}",
            f"{np.abs(np.subtract(runs[0]['stats'], ours[0]['stats'])).max():.1e}",
        ]
        for tool, runs in reports.items()
    ]


if __name__ == "__main__":
    main()
