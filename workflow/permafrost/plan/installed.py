"""Models, weights and datasets of the installed timm and torchgeo, without importing them (20 s).

``installed.json`` in this folder describes the versions of the locked environments; see
``envs/lock.sh`` for how it is written. For other versions, a subprocess writes the same description
once, and it is cached.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from permafrost.backbones.kinds import Known
from permafrost.backbones.torchgeo.inputs import of_modality
from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.outputs import whole_file
from permafrost.plan.sources import code_hash

PACKAGES = ("timm", "torchgeo")
FILE = Path(__file__).with_name("installed.json")


class Installed:
    """Names of models, weights and dataset classes, and the input that weights expect.

    Parameters
    ----------
    content : from `describe`.
    """

    def __init__(self, content: dict) -> None:
        self._timm, self._torchgeo = content["timm"], content["torchgeo"]
        self._versions = content["versions"]

    def timm_models(self) -> list[str]:
        """Names of all timm architectures."""
        return list(self._timm["models"])

    def timm(self, entry: dict, where: str) -> Known:
        """The known properties of a timm backbone.

        Raises
        ------
        PermafrostError : timm does not have this model, or these weights.
        """
        name, models = entry["model"], self._timm["models"]
        where = f"{where}: model"
        architecture, _, tag = name.partition(".")
        title = f"timm {self._versions['timm']}"
        if name in self._timm["former"]:
            today = self._timm["former"][name]
            raise PermafrostError(
                f"{name!r} is a former name of a model of timm",
                where=where,
                remedy=f"write {today}" if today else "choose another model",
            )
        tags = look_up(models, architecture, f"{title} has no model", where=where)
        if "." in name:
            known = [f"{architecture}.{known}" if known else architecture for known in tags]
            look_up(known, name, f"{title} has no weights", where=where)
        source = entry["weights"]["source"]
        if source == "pretrained" and architecture in self._timm["untrained"]:
            raise PermafrostError(
                f"{title} has no pretrained weights for {name!r}",
                where=where,
                remedy="use weights: {source: random} or {source: file, path: …}, or another model",
            )
        trained = self._timm["statistics"][tags[tag]]
        normalization = "dataset" if source == "random" else "weights"
        return Known({"normalization": normalization, "unit": "unit_interval", **trained})

    def torchgeo(self, entry: dict, where: str) -> Known:
        """The known properties of a torchgeo backbone.

        Raises
        ------
        PermafrostError : torchgeo does not have this model or these weights, or they do not match.
        """
        name, weights = entry.get("model"), entry.get("weights")
        if weights is None:
            if name is None:
                raise PermafrostError(
                    "an entry without weights needs the key 'model'",
                    where=where,
                    remedy="name torchgeo's model function",
                )
            models = self._torchgeo["models"]
            if name not in models:
                models = [key for key, model in models.items() if "problem" not in model]
            look_up(models, name, "torchgeo has no model", where=f"{where}: model")
            return _weights(models[name], where, entry)
        weights = weights["like"] if isinstance(weights, dict) else weights
        known = self._torchgeo["weights"]
        look_up(known, weights, "torchgeo has no weights", where=f"{where}: weights")
        if name not in (None, known[weights]["model"]):
            raise PermafrostError(
                f"the weights are for {known[weights]['model']}, not for {name}",
                where=f"{where}: model",
                remedy="leave model out",
            )
        return _weights(known[weights], where, entry)

    def torchgeo_file(self, weights: str) -> str | None:
        """Name of the file that torchgeo downloads for these weights; None: unknown weights."""
        return self._torchgeo["weights"].get(weights, {}).get("file")

    def check_dataset(self, entry: dict, where: str) -> None:
        """Refuse an unknown torchgeo dataset class, or an unknown argument of one."""
        source, classes = entry["source"], self._torchgeo["datasets"]
        name = source["name"]
        look_up(
            classes,
            name,
            "torchgeo has no dataset of images named",
            where=where,
            remedy="use the name of one of torchgeo's NonGeoDataset classes",
        )
        given = [*source["arguments"]]
        for arguments in source["split_arguments"].values():
            given += arguments
        for key in given if classes[name] is not None else ():
            look_up(classes[name], key, f"torchgeo's {name} takes no argument", where=where)


def _weights(known: dict, where: str, entry: dict) -> Known:
    if "problem" in known:
        raise PermafrostError(known["problem"], where=where, remedy=known["remedy"])
    # JSON has lists, input contracts have tuples
    wants = {k: tuple(v) if isinstance(v, list) else v for k, v in known["wants"].items()}
    wants |= of_modality(known["model"], entry.get("modality"), where)
    widths = entry.get("bandwidths_nm")
    return Known(
        wants,
        known.get("channels"),
        known.get("radar"),
        known["model"].startswith("copernicusfm"),
        None if widths is None else tuple(widths),
    )


def installed(cache: Path) -> Installed | None:
    """The installed libraries; None: unknown, so wrong names fail only in their jobs.

    Parameters
    ----------
    cache : folder for descriptions of versions other than the locked ones.
    """
    try:
        versions = {package: version(package) for package in PACKAGES}
    except PackageNotFoundError:
        return None
    content = _read(FILE, versions)
    if content is None:
        # the description also depends on this library's code
        key = "-".join([*versions.values(), code_hash("extract")[:12]])
        kept = cache / f"installed-{key}.json"
        content = _read(kept, versions) or _find_out(kept, versions)
    return None if content is None else Installed(content)


def _read(path: Path, versions: dict) -> dict | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if content.get("versions") == versions else None


def _find_out(path: Path, versions: dict) -> dict | None:
    shown = " and ".join(f"{package} {number}" for package, number in versions.items())
    print(f"permafrost: asking {shown} for their models, once", file=sys.stderr)
    command = [sys.executable, "-m", "permafrost.plan.installed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        content = json.loads(done.stdout)
        with whole_file(path, exclusive=False) as partial:
            partial.write_text(done.stdout, encoding="utf-8")
    except ValueError:
        return None
    except PermafrostError:
        pass
    return content


# --- writing the description, which imports the libraries -----------------------------------------


def describe() -> dict:
    """Versions, models, weights and dataset classes of the installed libraries."""
    return {
        "versions": {package: version(package) for package in PACKAGES},
        "timm": _describe_timm(),
        "torchgeo": {**_describe_torchgeo(), "datasets": _describe_datasets()},
    }


def _describe_timm() -> dict:
    import timm
    from timm.models import get_deprecated_models

    from permafrost.backbones.timm_models import TimmOptions, TimmWeights, wants

    pretrained = TimmWeights(source="pretrained")
    names = [*timm.list_models(), *timm.list_models(pretrained=True)]
    statistics: list[dict] = []
    models: dict[str, dict[str, int]] = {}
    trained: dict[str, list] | set[str]
    for name in dict.fromkeys(names):
        chosen = TimmOptions(model=name, weights=pretrained)
        trained = {key: list(wants(chosen, name)[key]) for key in ("mean", "std")}
        if trained not in statistics:
            statistics.append(trained)
        architecture, _, tag = name.partition(".")
        models.setdefault(architecture, {})[tag] = statistics.index(trained)
    trained = {name.partition(".")[0] for name in timm.list_models(pretrained=True)}
    return {
        "models": models,
        "untrained": sorted(set(models) - trained),
        "former": get_deprecated_models(),
        "statistics": statistics,
    }


def _describe_torchgeo() -> dict:
    from torchgeo.models.api import _model_weights

    from permafrost.backbones.torchgeo.families import FAMILIES, NOT_FOR_IMAGES

    weights = {
        str(one): {
            **_wanted({"weights": str(one)}, model),
            "channels": _channels(one, model),
            "file": one.url.rpartition("/")[2],
        }
        for model, group in _model_weights.items()
        if isinstance(model, str)
        for one in group
    }
    names = [*FAMILIES, *NOT_FOR_IMAGES]
    return {"models": {name: _wanted({"model": name}, name) for name in names}, "weights": weights}


def _channels(weights, model: str) -> int | None:
    from permafrost.backbones.torchgeo.families import FAMILIES
    from permafrost.backbones.torchgeo.weights import channels_of

    own = model in FAMILIES and FAMILIES[model].contract is not None
    return None if own else channels_of(weights)


def _wanted(entry: dict, model: str) -> dict:
    from permafrost.backbones.torchgeo.families import FAMILIES
    from permafrost.backbones.torchgeo.models import TorchgeoOptions, wants

    try:
        wanted = wants(TorchgeoOptions(**{"weights": None} | entry), "")
    except PermafrostError as error:
        return {"model": model, "problem": error.problem, "remedy": error.remedy}
    return {"model": model, "wants": wanted, "radar": FAMILIES[model].radar}


def _describe_datasets() -> dict[str, list[str] | None]:
    """Class of an image dataset -> names of its arguments; None: it accepts any."""
    import torchgeo.datasets as library

    from permafrost.data.sources.torchgeo_samples import arguments_of

    return {
        name: arguments_of(cls)
        for name, cls in vars(library).items()
        if isinstance(cls, type) and issubclass(cls, library.NonGeoDataset)
    }


def main() -> None:
    """Print the description as JSON, one item per line, so that diffs are readable."""
    print(_lines(describe(), depth=3))


def _lines(content, depth: int) -> str:
    if not depth or not isinstance(content, dict):
        return json.dumps(content, sort_keys=True)
    items = (f"{json.dumps(key)}: {_lines(content[key], depth - 1)}" for key in sorted(content))
    return "{\n" + ",\n".join(items) + "\n}"


if __name__ == "__main__":
    main()
