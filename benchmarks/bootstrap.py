"""CPU time of bootstrap intervals, against torchgeo-bench's on the same arrays.

    python benchmarks/bootstrap.py [--peers .peers] [--repeats 5] [--quick]

The peer is called in its own environment (`--peers`: a virtual environment with torchgeo-bench).
Both sides run in processes of one thread that are warmed up and then take turns; medians of CPU time
are compared. What is timed, for ours:

  drawn       the exact interval of one backbone, with its resamples drawn from the seed
  shared      the same, from resamples that were drawn before (they serve every backbone and probe
              of a dataset); the ratio at k evaluations spreads the one draw over k of them
  binomial    accuracy only: the law of the number of right answers, drawn itself; the same
              distribution of intervals, but not the resamples that other backbones see
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
}
CASES = [
    {"metric": "accuracy", "n": n, "skill": skill, "resamples": resamples}
    for resamples in (200, 1000)
    for n, skill in ((1000, 0.9), (5400, 0.9), (5400, 0.6), (10_000, 0.9))
] + [
    {"metric": "micro_ap", "n": 4000, "ties": ties, "resamples": resamples}
    for resamples in (200, 1000)
    for ties in (False, True)
]
LABELS, SHARE = 19, 0.15
SPREAD_OVER = (10, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, help="virtual environment with torchgeo-bench")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="200 resamples only")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--worker", choices=sorted(WORKERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve(WORKERS[arguments.worker])
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, one thread, CPU milliseconds")
    workers = {"ours": Worker(sys.executable, "ours")}
    if arguments.peers:
        workers["peer"] = Worker(arguments.peers / "bin" / "python", "peer")
    else:
        print("no --peers given: only our own times")
    results = []
    for case in CASES:
        if arguments.quick and case["resamples"] > 200:
            continue
        results.append(case | run(case, workers, arguments.repeats))
        print_case(results[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


def run(case: dict, workers: dict, repeats: int) -> dict:
    """Median CPU seconds of every variant and the intervals; the sides take turns."""
    times: dict[str, list[float]] = {}
    intervals = {}
    # the peer's average precision takes seconds: two turns of it tell enough
    turns = min(repeats, 2) if case["metric"] == "micro_ap" and case["resamples"] > 200 else repeats
    for turn in range(turns + 1):
        for worker in workers.values():
            for name, (seconds, interval) in worker.ask(case).items():
                intervals[name] = interval
                # the first turn warms up
                if turn:
                    times.setdefault(name, []).append(seconds)
    return {
        "seconds": {name: statistics.median(values) for name, values in times.items()},
        "intervals": intervals,
    }


def print_case(result: dict) -> None:
    seconds = result["seconds"]
    what = {key: result[key] for key in ("n", "skill", "ties", "resamples") if key in result}
    if result["metric"] == "micro_ap":
        what["labels"] = LABELS
    print(f"\n{result['metric']}  " + "  ".join(f"{k}={v}" for k, v in what.items()))
    peer = seconds.get("peer")
    if peer:
        print(f"  {'torchgeo-bench':22}{peer * 1e3:10.2f}          {shown(result, 'peer')}")
    for name in (name for name in seconds if name not in ("peer", "draw")):
        ratio = f"{peer / seconds[name]:8.1f}x" if peer else " " * 9
        print(f"  {name:22}{seconds[name] * 1e3:10.2f}{ratio} {shown(result, name)}")
    for evaluations in SPREAD_OVER:
        spread = seconds["shared"] + seconds["draw"] / evaluations
        ratio = f"{peer / spread:8.1f}x" if peer else ""
        print(f"  {f'shared by {evaluations}':22}{spread * 1e3:10.2f}{ratio}")
    print(f"  {'(the draw alone)':22}{seconds['draw'] * 1e3:10.2f}")


def shown(result: dict, name: str) -> str:
    low, high = result["intervals"][name]
    return f"[{low:.4f}, {high:.4f}]"


class Worker:
    """A process of one thread that times cases given as lines of JSON."""

    def __init__(self, python, name: str) -> None:
        self.process = subprocess.Popen(
            [str(python), __file__, "--worker", name],
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, case: dict) -> dict:
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker ended with {self.process.wait()}; see its message above")
        return json.loads(answer)


def serve(measure) -> None:
    # what a library prints must not end up among the answers
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answers.write(json.dumps(measure(json.loads(line))) + "\n")
        answers.flush()


def timed(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def arrays_of(case: dict):
    """The same arrays on both sides, from a seed."""
    import numpy as np

    rng = np.random.default_rng(1)
    if case["metric"] == "accuracy":
        target = rng.integers(0, 10, case["n"])
        guess = rng.integers(0, 10, case["n"])
        prediction = np.where(rng.random(case["n"]) < case["skill"], target, guess)
        return target, prediction, np.eye(10, dtype=np.float32)[prediction]
    target = (rng.random((case["n"], LABELS)) < SHARE).astype(np.int64)
    scores = (rng.normal(size=target.shape) + 2 * target).astype(np.float32)
    if case["ties"]:
        # as from five neighbours: six distinct scores
        scores = (np.clip(np.round(scores + 1.5), 0, 5) / 5).astype(np.float32)
    return target, (scores > 0.5).astype(np.int64), scores


def measure_peer(case: dict) -> dict:
    from torchgeo_bench.main import bootstrap_accuracy, bootstrap_map

    target, prediction, scores = arrays_of(case)
    if case["metric"] == "accuracy":
        call = (bootstrap_accuracy, target, prediction, case["resamples"], 95.0, 0)
    else:
        call = (bootstrap_map, target, scores, case["resamples"], 95.0, 0)
    seconds, (_, low, high) = timed(*call)
    return {"peer": (seconds, (low, high))}


def measure_ours(case: dict) -> dict:
    import numpy as np
    from permafrost.statistics.replicates.families import make_family
    from permafrost.statistics.resampling.intervals import percentile_interval
    from permafrost.statistics.resampling.resamples import draw_resamples

    target, prediction, scores = arrays_of(case)
    task = "classification" if case["metric"] == "accuracy" else "multilabel"
    n, resamples = case["n"], case["resamples"]

    def interval(drawn):
        family = make_family(
            target, prediction, scores, task=task, classes=scores.shape[1], units=np.arange(n)
        )
        return percentile_interval(family.replicates(drawn, [case["metric"]])[case["metric"]], 0.95)

    def by_law():
        right = int(np.count_nonzero(target == prediction))
        drawn = np.random.Generator(np.random.PCG64(0)).binomial(n, right / n, size=resamples)
        return percentile_interval(drawn / n, 0.95)

    seconds, drawn = timed(draw_resamples, n, resamples, 0)
    found = {
        "draw": (seconds, None),
        "drawn": timed(lambda: interval(draw_resamples(n, resamples, 0))),
        "shared": timed(interval, drawn),
    }
    if case["metric"] == "accuracy":
        found["binomial"] = timed(by_law)
    return found


WORKERS = {"ours": measure_ours, "peer": measure_peer}

if __name__ == "__main__":
    main()
