"""CPU time of bootstrap intervals of mean IoU, against evaluating every resample anew.

    python benchmarks/segmentation_bootstrap.py [--peers .peers] [--repeats 3] [--quick]

No tool that we know bootstraps it, so the peers are two ways of writing that down:

  re-summed     the confusion matrices of the drawn images are added up and evaluated by our own
                metrics, one resample after the other; from the same resamples, so the interval is ours
  torchmetrics  a MulticlassJaccardIndex (macro) is given the masks of the drawn images, one
                resample after the other. `--peers` names the virtual environment that has it. It
                draws for itself, a twentieth of the resamples, and its time is multiplied by 20

What is timed of ours:

  ours          mean IoU, drawing the resamples included
  shared        the same from resamples that were drawn before, as for a second backbone
  rows          every metric, overall and per class, with percentile intervals: what `permafrost bootstrap`
                does between reading and writing its tables
  bca           the same with BCa intervals, which need the jackknife too
"""

from __future__ import annotations

import argparse
import platform
import resource
import sys
from pathlib import Path

from _timing import alternate, cpu_seconds, median_cpu, print_table, venv_python

CASES = {
    # name: images, resamples, classes, pixels along a side (torchmetrics needs the masks)
    "small": (100, 200, 7, 128),
    "dubai_seg": (145, 2000, 5, None),
    "large": (5000, 2000, 20, None),
}
METHODS = ("ours", "shared", "rows", "bca", "re-summed", "torchmetrics")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, help="virtual environment with torchmetrics")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="the small case only")
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "METHOD"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, one thread, CPU seconds\n")
    rows = []
    for case in ["small"] if arguments.quick else list(CASES):
        rows += compare(case, arguments)
    print_table(["case", "what", "CPU s", "ratio", "mean IoU interval", "peak MB"], rows)


def compare(case: str, arguments) -> list[list[str]]:
    """One line per method: median CPU seconds, and how many times longer than ours it takes."""
    workers = {}
    for method in METHODS:
        python = sys.executable
        if method == "torchmetrics":
            if arguments.peers is None or CASES[case][3] is None:
                continue
            python = str(venv_python(arguments.peers))
        workers[method] = [python, __file__, "--worker", case, method]
    reports = alternate(workers, arguments.repeats)
    ours = median_cpu(reports["ours"])
    images, resamples, classes, side = CASES[case]
    name = f"{images:,} x {resamples:,} x {classes}" + (f", {side} px" if side else "")
    lines = []
    for method, found in reports.items():
        seconds = median_cpu(found)
        lower, upper = found[0]["interval"]
        lines.append(
            [
                name,
                method,
                f"{seconds:.3f}",
                f"{seconds / ours:.1f}",
                f"[{lower:.5f}, {upper:.5f}]",
                f"{found[0]['peak_mb']:.0f}",
            ]
        )
    return lines


def work(case: str, method: str) -> None:
    """Time one method on one case and print the figures as JSON."""
    import json

    images, resamples, classes, side = CASES[case]
    truth, guess = masks(images, classes, side or 8)
    if method == "torchmetrics":
        seconds, interval = by_torchmetrics(truth, guess, classes, resamples)
    else:
        import numpy as np

        # without masks to compare with, the counts are those of an image of 512 pixels a side
        matrices = confusions(truth, guess, classes) * (1 if side else np.int64(4096))
        seconds, interval = by_counts(method, matrices, resamples)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_s": seconds, "interval": interval, "peak_mb": peak}))


def masks(images: int, classes: int, side: int):
    """(N, side, side) truth and prediction, of a quality that differs between images."""
    import numpy as np

    rng = np.random.default_rng(1)
    truth = rng.integers(0, classes, (images, side, side), dtype=np.uint8)
    skill = rng.uniform(0.3, 0.95, (images, 1, 1))
    guess = rng.integers(0, classes, truth.shape, dtype=np.uint8)
    return truth, np.where(rng.random(truth.shape) < skill, truth, guess)


def confusions(truth, guess, classes: int):
    """(N, K, K) counts, without the library: the peer's environment does not have it."""
    import numpy as np

    image = np.arange(len(truth))[:, None, None]
    cells = (image * classes + truth) * classes + guess
    counts = np.bincount(cells.ravel(), minlength=len(truth) * classes**2)
    return counts.reshape(-1, classes, classes)


def by_counts(method: str, matrices, resamples: int):
    import numpy as np
    from permafrost.metrics.segmentation.evaluate import evaluate
    from permafrost.statistics.predictions.confusions import Confusions
    from permafrost.statistics.resampling.intervals import percentile_interval
    from permafrost.statistics.resampling.resamples import draw_resamples
    from permafrost.statistics.scores.bootstrap import bootstrap_scores

    images, classes = matrices.shape[:2]
    names = [f"{i:05}" for i in range(images)]
    found = Confusions.from_arrays(names, matrices, classes=[f"{c}" for c in range(classes)])
    units = np.arange(images)
    drawn = draw_resamples(images, resamples, 0)

    def replicates(drawn):
        return found.family(units).replicates(drawn, ["mean_iou"])["mean_iou"]

    def evaluated_anew():
        values = [
            evaluate(matrices[np.repeat(units, counts)].sum(axis=0))["mean_iou"]
            for counts in drawn.counts.T
        ]
        return np.array(values)

    def all_rows(method):
        options = {"resamples": resamples, "seed": 0, "method": method}
        row = bootstrap_scores(found, **options)[0]
        return row["lower"], row["upper"]

    run = {
        "ours": lambda: replicates(draw_resamples(images, resamples, 0)),
        "shared": lambda: replicates(drawn),
        "rows": lambda: all_rows("percentile"),
        "bca": lambda: all_rows("bca"),
        "re-summed": evaluated_anew,
    }[method]
    few = draw_resamples(images, 64, 1)
    seconds, result = cpu_seconds(run, warm_up=lambda: replicates(few))
    return seconds, result if isinstance(result, tuple) else percentile_interval(result, 0.95)


def by_torchmetrics(truth, guess, classes: int, resamples: int):
    """CPU seconds for all resamples, and the interval of the few that were drawn."""
    import numpy as np
    import torch
    from torchmetrics.classification import MulticlassJaccardIndex

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    target, prediction = torch.as_tensor(truth).long(), torch.as_tensor(guess).long()
    some = resamples // 20

    def evaluate(rows) -> float:
        metric = MulticlassJaccardIndex(num_classes=classes, average="macro")
        return float(metric(prediction[rows], target[rows]))

    def run():
        draws = [rng.integers(0, len(truth), len(truth)) for _ in range(some)]
        return np.percentile([evaluate(torch.as_tensor(rows)) for rows in draws], [2.5, 97.5])

    seconds, interval = cpu_seconds(run, warm_up=lambda: evaluate(torch.arange(len(truth))))
    return seconds * resamples / some, interval.tolist()


if __name__ == "__main__":
    main()
