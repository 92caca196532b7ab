"""Take backbones, datasets and probes from the last file that names them, else from the demo."""

from __future__ import annotations

import copy
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.plan.catalogue import Catalogue, catalogue_folders
from permafrost.plan.suites import note_suite
from permafrost.probes.kinds import KINDS

NAMED = ("backbones", "datasets", "probes")


def complete(config: dict, layers: list[dict], demo: dict, root: Path) -> list[str]:
    """Take backbones, datasets and probes from the last layer that names them, else from the demo.

    Snakemake merges configuration files key by key, so it would run the probes of all files
    together. Of the demo's probes, only those that serve the datasets are taken, and of its
    datasets only those that the probes serve. Its other keys, such as the image size, are taken
    only with its datasets.

    Parameters
    ----------
    config : the configuration as Snakemake merged it; changed in place.
    layers : the files and command-line options that it was merged from; later ones win.
    demo : the configuration that replaces missing keys.
    root : the directory that relative paths in the configuration refer to.

    Returns
    -------
    Those of ``backbones``, ``datasets`` and ``probes`` that came from the demo.
    """
    for key in NAMED:
        for layer in layers:
            if key in layer:
                config[key] = copy.deepcopy(layer[key])
    note_suite(config, layers)
    missing = [key for key in NAMED if key not in config]
    for key, value in copy.deepcopy(demo).items():
        if key in missing:
            config[key] = value
        elif key not in NAMED and "datasets" in missing:
            own = config.get(key, {})
            config[key] = {**value, **own} if isinstance(own, dict) else own
    if missing and missing != list(NAMED):
        _keep_what_fits(config, missing, root)
    return missing


def _keep_what_fits(config: dict, missing: list[str], root: Path) -> None:
    """Drop the demo's probes that serve no dataset, or its datasets that no probe serves.

    If that would drop all of them, all are kept.
    """
    try:
        folders = catalogue_folders(config, root)
        catalogue = Catalogue("dataset", folders, config.get("extra_datasets", {}), root)
        tasks = {n: entry["task"] for n, entry in catalogue.choose(config["datasets"]).items()}
        served = {n: KINDS[p["kind"]].tasks for n, p in config["probes"].items() if p is not None}
    except (PermafrostError, KeyError, TypeError, AttributeError):
        return  # the plan reports this mistake
    fitting: dict[str, dict] | list[str]
    if "probes" in missing:
        fitting = {n: config["probes"][n] for n in served if served[n] & set(tasks.values())}
        config["probes"] = fitting or config["probes"]
    elif "datasets" in missing:
        fitting = [
            n for n, task in tasks.items() if any(task in known for known in served.values())
        ]
        config["datasets"] = fitting or config["datasets"]
