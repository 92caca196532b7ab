"""What the probe commands share: their arguments, reading features, writing predictions."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_compute, add_job, add_splits, by_split, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    add_splits(parser, "--features", "feature stores to read")
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")
    add_compute(parser)


def run(arguments, probe) -> None:
    """Run `probe`(splits, options, device=, seed=) -> `Prediction` and write its table."""
    from permafrost.core.identity import derive_seed
    from permafrost.probes.features import read_features
    from permafrost.probes.predictions import write_predictions

    spec, fingerprint = read_job(arguments)
    splits = read_features(by_split(arguments.features), expect=spec["inputs"]["features"])
    seed = derive_seed(spec["dataset"], spec["backbone"], spec["probe"], spec["seed"])
    result = probe(splits, spec["options"], device=arguments.device, seed=seed)
    write_predictions(arguments.output, result, splits=splits, spec=spec, fingerprint=fingerprint)
