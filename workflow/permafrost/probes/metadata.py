"""What every table of predictions says of itself, so that it can be judged alone."""

from __future__ import annotations

# repeated from the feature store
_INHERITED = (
    "weights_sha256",
    "input",
    "split_method",
    "spatially_random",
    "parameters",
    "device",
)


def prediction_metadata(
    attributes: dict,
    *,
    spec: dict,
    fingerprint: str,
    counts: dict[str, int],
    feature_dim: int,
    settings: dict,
    gates: list[str],
) -> dict:
    """Metadata of a table, from the attributes of the test feature store and the job's spec.

    Parameters
    ----------
    counts : number of samples by split.
    settings, gates : what the probe fitted, and the sanity checks it did not pass; those of the
        features are added.
    """
    return {
        "fingerprint": fingerprint,
        "stage": spec["stage"],
        **{key: spec[key] for key in ("dataset", "backbone", "probe", "seed")},
        "kind": spec["options"]["kind"],
        "task": attributes["task"],
        "classes": attributes["classes"],
        # the number that is predicted, where it is one
        **({"target": attributes["target"]} if "target" in attributes else {}),
        **{f"n_{split}": count for split, count in counts.items()},
        "feature_dim": feature_dim,
        "settings": settings,
        "gates": sorted({*attributes.get("gates", []), *gates}),
        "options": spec["options"],
        "backbone_fingerprint": spec["inputs"]["features"],
        **{key: attributes.get(key) for key in _INHERITED},
        # those of the probe itself are recorded by the table
        "feature_versions": attributes.get("versions"),
    }
