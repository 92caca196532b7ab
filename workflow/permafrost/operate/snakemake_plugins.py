"""Snakemake's plugins that only some runs need: which of them are here, and how the others are installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

#: extra of the package -> the plugins that it installs. A clone's environment (envs/run) has all of them
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
    """The plugins of an extra that cannot be imported."""
    return [name for name in PLUGINS[extra] if find_spec(name.replace("-", "_")) is None]


def remedy(extra: str) -> str:
    """How they are installed."""
    return f"run it through envs/run, or pip install {' '.join(lacking(extra))}"


def check_plugins(extra: str) -> None:
    """End the program with a sentence where a profile needs a plugin that is not here.

    Profiles call it: Snakemake reads them before it says that it knows no such executor, and lists those that it knows.
    """
    if absent := lacking(extra):
        sys.exit(
            f"permafrost: error: this profile needs {' and '.join(absent)}. Remedy: {remedy(extra)}"
        )
