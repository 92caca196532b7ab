"""The commands that evaluate given files, run in this process."""

from __future__ import annotations

import argparse

from permafrost.stages import evaluate_boxes, evaluate_detections, evaluate_raster

COMMANDS = {
    "detections": evaluate_detections,
    "boxes": evaluate_boxes,
    "rasters": evaluate_raster,
}


def run(module, *options) -> None:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    given = ["--resamples", 20, *options]
    module.run(parser.parse_args([str(option) for option in given]))
