"""What the commands share whose probes score several settings: see `probing`."""

from __future__ import annotations

from .arguments import by_split, read_job
from .probing import add_arguments  # noqa: F401


def run(arguments, probe, *, seed_of=("dataset", "backbone", "probe", "seed")) -> None:
    """Run `probe`(splits, options, device=, seed=) -> `Several` and write its table.

    Parameters
    ----------
    seed_of : what the seed follows from; without the backbone, all backbones are given the same draws.
    """
    from permafrost.core.identity import derive_seed
    from permafrost.probes.features import read_features
    from permafrost.probes.settings import write_several

    spec, fingerprint = read_job(arguments)
    splits = read_features(by_split(arguments.features), expect=spec["inputs"]["features"])
    seed = derive_seed(*(spec[name] for name in seed_of))
    result = probe(splits, spec["options"], device=arguments.device, seed=seed)
    write_several(arguments.output, result, splits=splits, spec=spec, fingerprint=fingerprint)
