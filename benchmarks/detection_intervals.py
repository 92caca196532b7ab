"""CPU time of the intervals of detection scores, against evaluating every resample anew.

    envs/run python benchmarks/detection_intervals.py --data FOLDER [--resamples 400] [--categories 80 1203] \
        [--images N]

FOLDER receives a generated set per number of categories (80: 5,000 images, 36,000 truths and 200,000
detections, the size of COCO's validation part; more: 20,000, 100,000 and 600,000, about LVIS's; with --images as many
images, and truths and detections in the first proportion) unless it holds one. Each set is evaluated and resampled in
a process of its own, on one thread. The last column is what the resamples would cost if each were evaluated, over what
they cost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from _detection_data import make_set, sizes_of
from _timing import print_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the generated sets")
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--categories", type=int, nargs="+", default=[80, 1203])
    parser.add_argument("--images", type=int, help="of a generated set")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(timed(options.worker, options.resamples)))
        return
    rows = []
    for categories in options.categories:
        folder = options.data / f"{categories}_categories"
        if not (folder / "truth.json").exists():
            sizes = {"images": 20_000, "truths": 100_000, "detections": 600_000}
            if options.images:
                sizes = sizes_of(options.images)
            elif categories <= 80:
                sizes = {}
            make_set(folder, categories=categories, masks=False, **sizes)
        command = [sys.executable, __file__, "--data", folder, "--worker", folder]
        command += ["--resamples", str(options.resamples)]
        ran = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
        once, resampled = json.loads(ran.stdout)
        ratio = once * options.resamples / resampled
        rows.append([categories, f"{once:.2f}", f"{resampled:.2f}", f"{ratio:.0f}"])
    columns = ["categories", "evaluation, CPU s", f"{options.resamples} resamples, CPU s"]
    print_table([*columns, "evaluating each / ours"], rows)


def timed(folder: Path, resamples: int) -> tuple[float, float]:
    """CPU seconds of one evaluation and of all rows with intervals; the compiler's first run apart."""
    from permafrost.evaluators.detection import evaluate
    from permafrost.evaluators.intervals.detection import (
        DetectionScores,
        detection_rows,
        image_units,
    )

    started = time.process_time()
    evaluation = evaluate(folder / "truth.json", folder / "bbox.json", iou_type="bbox")
    once = time.process_time() - started
    scores, units = DetectionScores(evaluation), image_units(evaluation)
    drawn = {"confidence": 0.95, "seed": 0}
    detection_rows(DetectionScores(evaluation), units, resamples=2, **drawn)
    started = time.process_time()
    detection_rows(scores, units, resamples=resamples, **drawn)
    return once, time.process_time() - started


if __name__ == "__main__":
    main()
