"""Probes as their commands run them: a job from a spec, and options as the kind's dataclass."""

from __future__ import annotations

from permafrost.core.option_models import read
from permafrost.features.dates import without_dates
from permafrost.plan.validation import validate
from permafrost.probes.job import ImageProbeJob, ProbeJob
from permafrost.probes.kinds import KINDS


def options_of(kind: str, values: dict, **changes):
    """The options of a kind from a dictionary; ``kind`` may be among them."""
    values = {**values, **changes}
    values.pop("kind", None)
    return read(KINDS[kind].options_class(), values, where=kind)


def configured(kind: str, *, dates: str = "one", **values) -> dict:
    """Options as the plan gives them of a dataset with these `dates`, filled by the schema."""
    options = {"kind": kind, **values}
    config = {"backbones": ["a"], "datasets": ["b"], "probes": {"p": options}}
    validate(config, "config", where="test")
    return without_dates(config["probes"]["p"], dates)


def job_of(spec: dict, stores=None, output=None, *, fingerprint: str = "0" * 32, **how) -> ProbeJob:
    """The job with this spec."""
    kind = KINDS[spec["options"]["kind"]]
    job = ImageProbeJob if kind.reads == "images" else ProbeJob
    return job.of(
        spec, kind.options_class(), stores=stores, output=output, fingerprint=fingerprint, **how
    )


def run_probe(spec: dict, stores, output, **how) -> None:
    """Run the job with this spec."""
    job = job_of(spec, stores, output, **how)
    KINDS[job.kind].load()(job)
