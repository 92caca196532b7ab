"""The linear probe's sweep and refit against torchgeo-bench's: CPU time, objectives, chosen C.

    python benchmarks/linear.py --data DIR --weights FILE [--peers .peers]

DIR holds eurosat_rgb, uc_merced and dubai_seg; FILE is a checkpoint of timm's mobilenetv2_100;
--peers is a virtual environment with torchgeo-bench. Both sides run on the same arrays, in turn,
one thread each, after a warm-up; the medians' ratio is printed. Objectives are evaluated here, in
float64, from the coefficients of both sides: "worst" is the largest of ours / theirs - 1 over C.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _linear_data import CASES, make
from _timing import alternate, median_cpu, print_table, venv_python

GRID = 10.0 ** np.linspace(-6, 4, 40)
HEADER = [
    "case", "n", "d", "K", "ours s", "peer s", "ratio", "iterations", "worst f", "refit f",
    "best C", "val score", "peer's val at its C",
]  # fmt: skip


def objective(coef, bias, x, y, c: float) -> float:
    """Mean cross-entropy plus penalty, in float64."""
    logits = x.astype(np.float64) @ coef.T.astype(np.float64) + bias
    if y.ndim == 2:
        loss, scale = np.logaddexp(0.0, np.where(y > 0, -logits, logits)), y.size
    else:
        margins = logits - logits[np.arange(len(y)), y][:, None]
        peak = margins.max(axis=1)
        others = np.exp(margins - peak[:, None])
        others[np.arange(len(y)), y] = 0
        loss, scale = peak + np.log1p(others.sum(axis=1) + np.expm1(-peak)), len(y)
    return loss.mean() + (coef.astype(np.float64) ** 2).sum() / (2 * scale * c)


def compare(arrays, ours, peer) -> tuple[float, float]:
    """Largest relative excess of our objective over C, and that of the refit (nan: other C)."""
    x, y = arrays["x_train"], arrays["y_train"]
    excess = []
    for i, c in enumerate(GRID):
        values = [objective(side["coef"][i], side["bias"][i], x, y, c) for side in (ours, peer)]
        excess.append(values[0] / values[1] - 1)
    refit = float("nan")
    if np.isclose(float(ours["best"]), float(peer["best"])):
        x, y = (np.concatenate([arrays[f"{a}_train"], arrays[f"{a}_val"]]) for a in "xy")
        c = float(ours["best"])
        values = [
            objective(side["final_coef"], side["final_bias"], x, y, c) for side in (ours, peer)
        ]
        refit = values[0] / values[1] - 1
    return max(excess), refit


def measure(case: str, features: Path, peers: Path | None, repeats: int) -> list[object]:
    worker = str(Path(__file__).parent / "_linear_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        outputs = {side: str(Path(folder) / f"{side}.npz") for side in ("ours", "peer")}
        commands = {"ours": [sys.executable, worker, "ours", str(features), outputs["ours"]]}
        if peers is not None:
            python = str(venv_python(peers))
            commands["peer"] = [python, worker, "peer", str(features), outputs["peer"]]
        reports = alternate(commands, repeats)
        found = {side: dict(np.load(outputs[side])) for side in commands}
    with np.load(features) as file:
        arrays = {name: file[name] for name in file.files}
    n, d = arrays["x_train"].shape
    ours = found["ours"]
    row = [case, n, d, ours["final_coef"].shape[0], f"{median_cpu(reports['ours']):.2f}"]
    best = f"{float(ours['best']):.3g}"
    if peers is None:
        return [
            *row,
            "-",
            "-",
            int(ours["iterations"]),
            "-",
            "-",
            best,
            f"{ours['val'].max():.4f}",
            "-",
        ]
    peer = found["peer"]
    worst, refit = compare(arrays, ours, peer)
    ratio = median_cpu(reports["peer"]) / median_cpu(reports["ours"])
    return [
        *row,
        f"{median_cpu(reports['peer']):.1f}",
        f"{ratio:.1f}",
        f"{int(ours['iterations'])} / {int(peer['iterations'])}",
        f"{worst:.1e}",
        f"{refit:.1e}",
        f"{best} / {float(peer['best']):.3g}",
        f"{ours['val'].max():.4f} / {peer['val'].max():.4f}",
        f"{ours['val'][int(np.argmax(peer['val']))]:.4f} / {peer['val'].max():.4f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--peers", type=Path, help="virtual environment with torchgeo-bench")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:5])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "permafrost-benchmark-features"
    )
    options = parser.parse_args()
    rows = []
    for case in options.cases:
        print(case, file=sys.stderr, flush=True)
        features = make(case, options.data, options.weights, options.cache)
        rows.append(measure(case, features, options.peers, options.repeats))
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
