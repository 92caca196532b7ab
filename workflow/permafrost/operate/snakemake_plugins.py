"""Snakemake plugins that only some runs need: check them, and how to install missing ones."""

from __future__ import annotations

import sys
from importlib.util import find_spec

#: extra of the package -> its plugins; the environments of envs/run have all of them
PLUGINS = {
    "generic": ("snakemake-executor-plugin-cluster-generic",),
    "kubernetes": ("snakemake-executor-plugin-kubernetes", "snakemake-storage-plugin-s3"),
    "s3": ("snakemake-storage-plugin-s3",),
}

USES = {
    "generic": "--profile profiles/generic",
    "kubernetes": "--profile profiles/kubernetes",
    "s3": "results on an object store",
}


def lacking(extra: str) -> list[str]:
    """The plugins of an extra that are not installed."""
    return [name for name in PLUGINS[extra] if find_spec(name.replace("-", "_")) is None]


def remedy(extra: str) -> str:
    """How to install the missing plugins of an extra."""
    return f"run it through envs/run, or pip install {' '.join(lacking(extra))}"


def check_plugins(extra: str) -> None:
    """Exit with an error message if a plugin of `extra` is not installed.

    Profiles call it, because Snakemake's own error only lists the executors that it knows.
    """
    if absent := lacking(extra):
        sys.exit(
            f"permafrost: error: this profile needs {' and '.join(absent)}. Remedy: {remedy(extra)}"
        )
