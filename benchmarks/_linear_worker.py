"""Fit one side of the linear probe's benchmark: ``python _linear_worker.py ours|peer IN OUT``.

Runs in either environment, so it imports only what its side needs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import cpu_seconds

GRID = 10.0 ** np.linspace(-6, 4, 40)


def ours(arrays: dict) -> tuple[float, dict]:
    from permafrost.probes.linear import LinearSettings, fit_linear

    multilabel = arrays["y_train"].ndim == 2
    classes = arrays["y_train"].shape[1] if multilabel else int(arrays["y_train"].max()) + 1
    task = "multilabel" if multilabel else "classification"
    names = ("x_train", "y_train", "x_val", "y_val")

    def fit(rows=None):
        data = [arrays[name][:rows] if rows else arrays[name] for name in names]
        settings = LinearSettings(GRID, keep_path=True)
        return fit_linear(data[:2], data[2:], settings, n_classes=classes, task=task)

    seconds, done = cpu_seconds(fit, warm_up=lambda: fit(200))
    settings = done.settings
    path = {
        "coef": np.stack([c for c, _ in done.path]),
        "bias": np.stack([b for _, b in done.path]),
    }
    path |= {"final_coef": done.coef, "final_bias": done.intercept}
    return seconds, {
        **path,
        "val": np.array(settings["val_scores"]),
        "best": settings["best_c"],
        "iterations": sum(settings["iterations"]) + settings["final"]["iterations"],
    }


def peer(arrays: dict) -> tuple[float, dict]:
    """torchgeo-bench's evaluate_logistic; only the time inside its fits is counted."""
    import torch
    import torchgeo_bench.linear as linear
    import torchgeo_bench.main as main

    torch.set_num_threads(1)
    multilabel = arrays["y_train"].ndim == 2
    fits, val_scores = [], []

    class Recorded(linear.LogisticRegression):
        def fit(self, x, y):
            seconds, result = cpu_seconds(lambda: super(Recorded, self).fit(x, y))
            fits.append((seconds, self.coef_.copy(), self.intercept_.copy(), self.n_iter_))
            return result

    name = "average_precision_score" if multilabel else "accuracy_score"
    score = getattr(main, name)

    def recorded_score(*values, **options):
        val_scores.append(score(*values, **options))
        return val_scores[-1]

    # the first torch.optim.LBFGS of a process imports for seconds
    linear.LogisticRegression(max_iter=2).fit(torch.randn(50, 4), torch.arange(50) % 3)
    main.LogisticRegression = Recorded
    setattr(main, name, recorded_score)
    labels = {
        k: arrays[k].astype(np.float32 if multilabel else np.int64) for k in arrays if k[0] == "y"
    }
    inputs = [
        labels.get(f"{a}_{part}", arrays[f"{a}_{part}"])
        for part in ("train", "val", "test")
        for a in "xy"
    ]
    result = main.evaluate_logistic(*inputs, list(GRID), 0, 1, True, "cpu", temp_scale=False)
    return sum(f[0] for f in fits), {
        "coef": np.stack([f[1] for f in fits[:-1]]),
        "bias": np.stack([f[2] for f in fits[:-1]]),
        "final_coef": fits[-1][1],
        "final_bias": fits[-1][2],
        "val": np.array(val_scores[: len(GRID)]),
        "best": result[3],
        "iterations": sum(f[3] for f in fits),
    }


if __name__ == "__main__":
    side, source, target = sys.argv[1:]
    with np.load(source) as file:
        seconds, found = {"ours": ours, "peer": peer}[side]({k: file[k] for k in file.files})
    np.savez(target, **found)
    print(json.dumps({"cpu_s": seconds}))
