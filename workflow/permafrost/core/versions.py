"""Versions of the packages that compute results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from permafrost import __version__

#: module -> distribution, for all packages that can affect results; see `_distribution`
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
#: distributions that hold FAISS, those of `envs` first
FAISS = ("faiss-cpu", "faiss-gpu-cu12", "faiss-gpu-cuvs", "faiss-gpu")

#: keys of metadata with versions: of the stage itself, of its features, of its scores
RECORDED = ("versions", "feature_versions", "score_versions")

_PYTHON = ".".join(map(str, sys.version_info[:3]))


def imported_versions() -> dict[str, str]:
    """Distribution to version, for Python and the packages of `COMPUTING` imported by this process."""
    found = {
        _distribution(module): getattr(sys.modules[module], "__version__", None)
        for module in COMPUTING
        if module in sys.modules
    }
    known = {name: str(version) for name, version in found.items() if version}
    return {"python": _PYTHON, **known}


def _distribution(module: str) -> str:
    """The distribution that holds a module: of FAISS, the one that is installed."""
    if module != "faiss":
        return COMPUTING[module]
    from importlib.metadata import distributions

    installed = (name for name in FAISS if any(distributions(name=name)))
    return next(installed, COMPUTING[module])


def joined_versions(recorded: Iterable[dict[str, str]]) -> dict[str, str]:
    """The union of several results of `imported_versions`."""
    met = {name: version for one in recorded for name, version in one.items()}
    named = ("python", *COMPUTING.values(), *FAISS)
    return {name: met[name] for name in dict.fromkeys(named) if name in met}


def recorded_versions(packages: Iterable[str]) -> dict[str, str]:
    """Distribution to version, for this library and for `packages` of a backbone."""
    from importlib.metadata import version

    # a backbone's own environment does not have this library installed
    return {"permafrost": __version__, **{name: version(name) for name in packages}}


def installed_versions(modules: Iterable[str]) -> dict[str, str]:
    """As `imported_versions`, for those of `modules` that are installed; imports nothing."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": _PYTHON}
    for module in modules:
        if module in COMPUTING:
            try:
                distribution = _distribution(module)
                found[distribution] = version(distribution)
            except PackageNotFoundError:
                continue
    return found


def gather_versions(recorded: Iterable[dict]) -> dict[str, list[str]]:
    """Package to the sorted list of its versions in several results.

    Parameters
    ----------
    recorded : metadata or attributes of results; the keys in `RECORDED` map packages to a version
        or a list of versions.
    """
    met: dict[str, set[str]] = {}
    for one in recorded:
        for key in RECORDED:
            for package, versions in (one.get(key) or {}).items():
                each = versions if isinstance(versions, list) else [versions]
                met.setdefault(package, set()).update(map(str, each))
    return {package: sorted(versions) for package, versions in sorted(met.items())}


def mixture_words(recorded: Iterable[dict], environments: Mapping[str, str | None]) -> str:
    """Packages with several versions within one environment, as text; empty without any.

    Versions may differ between environments, since each has its own lock file.

    Parameters
    ----------
    recorded : as in `gather_versions`; results of a backbone have the key ``backbone``.
    environments : backbone to its environment; None or missing: the main environment.
    """
    parts: dict[str | None, list[dict]] = {}
    for one in recorded:
        home = environments.get(one.get("backbone"))
        for key in RECORDED:
            # only features come from a backbone's environment; tables made from them do not
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
    """Backbone to the name of its environment (None: the main one), from a recorded plan."""
    return {name: entry.get("environment") for name, entry in plan["backbones"].items()}
