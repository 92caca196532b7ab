"""Versions of the packages that results are computed with."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from permafrost import __version__

#: module -> name of its distribution, of all packages that numbers can depend on
COMPUTING = {
    "PIL": "pillow",
    "faiss": "faiss-cpu",
    "h5py": "h5py",
    "kornia": "kornia",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "rasterio": "rasterio",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "segmentation_models_pytorch": "segmentation-models-pytorch",
    "shapely": "shapely",
    "sklearn": "scikit-learn",
    "timm": "timm",
    "torch": "torch",
    "torchgeo": "torchgeo",
    "torchvision": "torchvision",
    "zarr": "zarr",
}

#: keys of metadata that hold versions: of the stage itself, of the features, of the scores gathered
RECORDED = ("versions", "feature_versions", "score_versions")

_PYTHON = ".".join(map(str, sys.version_info[:3]))


def imported_versions() -> dict[str, str]:
    """Distribution to version, of `COMPUTING` what this process has imported, and of Python."""
    found = {
        distribution: getattr(sys.modules[module], "__version__", None)
        for module, distribution in COMPUTING.items()
        if module in sys.modules
    }
    known = {name: str(version) for name, version in found.items() if version}
    return {"python": _PYTHON, **known}


def joined_versions(recorded: Iterable[dict[str, str]]) -> dict[str, str]:
    """As `imported_versions` of one process that imported what each of several had imported."""
    met = {name: version for one in recorded for name, version in one.items()}
    return {name: met[name] for name in ("python", *COMPUTING.values()) if name in met}


def recorded_versions(packages: Iterable[str]) -> dict[str, str]:
    """Distribution to version, of this library and of `packages` that a backbone is made with."""
    from importlib.metadata import version

    # this library is not installed where a backbone lives in an environment of its own
    return {"permafrost": __version__, **{name: version(name) for name in packages}}


def installed_versions(modules: Iterable[str]) -> dict[str, str]:
    """The same of what is installed, for `modules` that stages import; nothing is imported."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": _PYTHON}
    for module in modules:
        if module in COMPUTING:
            try:
                found[COMPUTING[module]] = version(COMPUTING[module])
            except PackageNotFoundError:
                continue
    return found


def gather_versions(recorded: Iterable[dict]) -> dict[str, list[str]]:
    """Package to all its versions, sorted, from the records of results.

    Parameters
    ----------
    recorded : metadata or attributes; of each, the keys in `RECORDED`, whose values map a package to a version or
        to a list of versions.
    """
    met: dict[str, set[str]] = {}
    for one in recorded:
        for key in RECORDED:
            for package, versions in (one.get(key) or {}).items():
                each = versions if isinstance(versions, list) else [versions]
                met.setdefault(package, set()).update(map(str, each))
    return {package: sorted(versions) for package, versions in sorted(met.items())}


def mixture_words(recorded: Iterable[dict], environments: Mapping[str, str | None]) -> str:
    """The packages that have more than one version in one environment, in words; empty where none has.

    Parameters
    ----------
    recorded : as in `gather_versions`; of a backbone's, with the key ``backbone``.
    environments : backbone to its environment; None, or no entry: the main one. The versions there are its lock's, so
        they may differ from those of the main environment.
    """
    parts: dict[str | None, list[dict]] = {}
    for one in recorded:
        home = environments.get(one.get("backbone"))
        for key in RECORDED:
            # a table that was made from features was made in the main environment
            there = key == "feature_versions" or not (
                key == "score_versions" or one.get("feature_versions")
            )
            parts.setdefault(home if there else None, []).append({key: one.get(key)})
    mixed: dict[str, set[str]] = {}
    for part in parts.values():
        for package, versions in gather_versions(part).items():
            if len(versions) > 1:
                mixed.setdefault(package, set()).update(versions)
    return "; ".join(
        f"{package} {' and '.join(sorted(versions))}" for package, versions in sorted(mixed.items())
    )


def environments_of(plan: dict) -> dict[str, str | None]:
    """Backbone to the name of its environment, of a recorded plan."""
    return {name: entry.get("environment") for name, entry in plan["backbones"].items()}
