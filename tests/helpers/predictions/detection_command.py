"""``permafrost evaluate-detections`` on made-up files."""

from __future__ import annotations

import argparse
import json

from permafrost.stages import evaluate_detections


def write(folder, truth, results, name="predictions"):
    paths = folder / "truth.json", folder / f"{name}.json"
    for path, content in zip(paths, (truth, results), strict=True):
        path.write_text(json.dumps(content))
    return paths


def command(*options, resamples=50) -> None:
    parser = argparse.ArgumentParser()
    evaluate_detections.add_arguments(parser)
    given = ["--resamples", resamples, *options]
    evaluate_detections.run(parser.parse_args([str(option) for option in given]))


def given(files, kernel="bbox"):
    return "--truth", files[0], "--predictions", files[1], "--iou-type", kernel
