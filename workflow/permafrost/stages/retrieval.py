"""``permafrost retrieval``: feature stores in, what every test image finds in a gallery out."""

from __future__ import annotations

from .arguments import by_split, read_job
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.features import read_features
    from permafrost.probes.retrieval import run_retrieval
    from permafrost.probes.retrieval_table import write_retrieved

    spec, fingerprint = read_job(arguments)
    splits = read_features(by_split(arguments.features), expect=spec["inputs"]["features"])
    result = run_retrieval(splits, spec["options"])
    write_retrieved(arguments.output, result, splits=splits, spec=spec, fingerprint=fingerprint)
