"""From a profile to a table: rows in the columns of a score, without a probe and without a rank."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.specification import SPLITS
from permafrost.core.tables import write_table
from permafrost.statistics.tables import SCORES, table_of

if TYPE_CHECKING:
    from permafrost.features.profiling.profile import Profile
    from permafrost.features.profiling.quantity import Quantity
    from permafrost.features.specification import ProfileSpec

# stands where a score has its probe
KIND = "profile"
# what the spread of repeats is: no interval of the value
QUARTILES = "quartiles"


def write_profile(profile: Profile, output: Path, *, spec: ProfileSpec, made: str) -> str:
    """Write the rows of `profile`, made by the job with the fingerprint `made`; returns a line for the log.

    ``lower`` and ``upper`` are quartiles of repeats, of which there were ``n_units``; ``settings`` has the
    unit, the machine, what was fed, and why there is no value. ``higher_is_better`` is null, so that nothing
    is ranked by a cost.
    """
    rows = [
        {**_common(profile, spec, made), **_row(name, one, profile.about)}
        for name, one in profile.quantities.items()
    ]
    write_table(output, table_of(rows, SCORES), {"fingerprint": made, "stage": spec.stage})
    return _summary(profile, spec)


def _common(profile: Profile, spec: ProfileSpec, made: str) -> dict:
    card = profile.card
    identity = [spec.entry, asdict(spec.extraction), spec.files]
    return {
        **dict.fromkeys(SCORES.names),
        "dataset": spec.dataset,
        "backbone": spec.backbone,
        "probe": KIND,
        "kind": KIND,
        "seed": 0,
        "task": card.task,
        **{f"n_{name}": None for name in SPLITS},
        "feature_dim": profile.feature_dim,
        "primary": False,
        "split_method": card.split_method,
        "spatially_random": card.spatially_random,
        "gates": "",
        "fingerprint": made,
        "backbone_fingerprint": fingerprint(*identity),
    }


def _row(name: str, one: Quantity, about: dict) -> dict:
    repeated = one.repeats is not None
    return {
        "metric": name,
        "value": one.value,
        "lower": one.lower,
        "upper": one.upper,
        "method": QUARTILES if one.lower == one.lower else None,
        "unit": "repeat" if repeated else None,
        "n_units": one.repeats,
        "settings": canonical_json({**about, "unit": one.unit, **one.notes}),
    }


def _summary(profile: Profile, spec: ProfileSpec) -> str:
    shown = [
        f"{name} {one.value:.4g} {one.unit}".strip()
        for name, one in profile.quantities.items()
        if one.value == one.value
    ]
    return f"{spec.dataset} | {spec.backbone}: {', '.join(shown)}"
