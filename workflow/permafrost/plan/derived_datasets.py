"""Derived datasets of a configuration: their entries, and which backbones and groups they fit."""

from __future__ import annotations

from collections.abc import Mapping

from permafrost.backbones.derived import parents_of
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.options import build
from permafrost.core.tasks import targets_of
from permafrost.data.derived import (
    DATES_DROPPED,
    MOVING,
    ONLY_RGB,
    OTHER_BANDS,
    PART_OF,
    RGB,
    Folds,
    check_folds,
    harder_of,
    in_folds,
    is_optical,
    origins_of,
    shared_classes,
)
from permafrost.plan.catalogue import Catalogue
from permafrost.plan.mistakes import Mistakes


def each_of_several(
    asked: Mapping[str, dict], chosen: Mapping[str, dict], where: str, mistakes: Mistakes
) -> dict[str, dict]:
    """`derived_datasets` with an entry for each degradation and severity, each share, and each pair of a transfer."""
    found: dict[str, dict] = {}
    for name, derived in asked.items():
        own = {name: derived}
        if isinstance(derived.get("share"), list):
            own = {}
            with mistakes.gathered():
                own = _each_share(name, derived, f"{where}: derived_datasets.{name}")
        elif "transfer" in derived and len(derived.keys() & _ALONE) == 1:
            own = {}
            with mistakes.gathered():
                own = _each_pair(name, derived, chosen, f"{where}: derived_datasets.{name}")
        elif derived.get("harder"):
            own = {
                f"{name}-{kind}-{severity}": {
                    **derived,
                    "harder": {kind: severity},
                    "title": f"{derived.get('title', name)}: {kind.replace('_', ' ')} {severity}",
                }
                for kind, asked_for in derived["harder"].items()
                for severity in _severities(kind, asked_for)
            }
        for one in own:
            with mistakes.gathered():
                if one in found:
                    raise PermafrostError(
                        f"two datasets are named {one!r}",
                        where=f"{where}: derived_datasets",
                        remedy="rename one of the entries",
                    )
        found |= own
    return found


#: keys of which an entry with a transfer has only one
_ALONE = {"of", "folds", "share", "harder", "train", "test", "transfer", "classes"}


def _each_share(name: str, derived: dict, where: str) -> dict[str, dict]:
    """The entries of several shares, by their percentage."""
    found: dict[str, dict] = {}
    for share in derived["share"]:
        percent = f"{100 * share:g}"
        key = f"{name}-{percent}".replace(".", "_")
        if key in found:
            raise PermafrostError(
                f"two shares are {percent} %", where=where, remedy="remove one of them"
            )
        title = f"{derived.get('title', name)}: {percent} %"
        found[key] = {**derived, "share": share, "title": title, PART_OF: name}
    return found


def _each_pair(name: str, derived: dict, chosen: Mapping[str, dict], where: str) -> dict[str, dict]:
    """The entries of a transfer: each dataset trained on, with each tested on, itself among them."""
    every, asked = derived["transfer"]["of"], derived["transfer"].get("classes")
    lacking = [one for one in every if one not in chosen]
    if lacking:
        raise PermafrostError(
            f"it is derived from {lacking[0]!r}, which is not a dataset of this run"
            f" ({near_names(lacking[0], chosen)})",
            where=where,
            remedy=f"add {lacking[0]} to `datasets`",
        )
    classes: Mapping[str, Mapping] | None = None
    if not targets_of(chosen[every[0]]["task"]).numbers:
        classes = _alike_in_all(every, chosen, where) if asked is None else asked
        for called, by_dataset in classes.items():
            if different := sorted({*every} ^ {*by_dataset}):
                raise PermafrostError(
                    f"the class {called} names {', '.join(by_dataset)}, and the datasets are {', '.join(every)}",
                    where=f"{where}.transfer.classes",
                    remedy=f"give its classes of {different[0]}"
                    if different[0] in every
                    else f"remove {different[0]}",
                )
    elif asked is not None:
        raise PermafrostError("classes has no effect on numbers", where=where, remedy="remove it")
    own = {key: one for key, one in derived.items() if key != "transfer"}
    title = derived.get("title", name)
    return {
        f"{name}-{train}-to-{test}": {
            **own,
            **{"train": train, "test": test, "title": f"{title}: {train} to {test}", PART_OF: name},
            **(
                {}
                if classes is None
                else {
                    "classes": {k: {"train": o[train], "test": o[test]} for k, o in classes.items()}
                }
            ),
        }
        for train in every
        for test in every
    }


def _alike_in_all(
    every: list[str], chosen: Mapping[str, dict], where: str
) -> dict[str, dict[str, str]]:
    """The classes that the entries of all these datasets list."""
    unlisted = [one for one in every if not chosen[one].get("classes")]
    listed = [chosen[one].get("classes") or [] for one in every]
    found = [called for called in listed[0] if all(called in one for one in listed)]
    if unlisted or len(found) < 2:
        raise PermafrostError(
            f"the entry of {unlisted[0]} does not list its classes"
            if unlisted
            else f"the datasets have {len(found) or 'no'} class with the same name in all",
            where=where,
            remedy="name the classes of each dataset under transfer.classes",
        )
    return {called: dict.fromkeys(every, called) for called in found}


def _severities(kind: str, asked: str | int | list[int]) -> list[int]:
    every = [1] if kind == ONLY_RGB else [1, 2, 3, 4, 5]
    if asked == "all":
        return every
    # the schema accepts 3.0 as an integer
    return [int(one) for one in (asked if isinstance(asked, list) else [asked])]


def _configured(name: str, derived: Mapping) -> str:
    """The key in the configuration of an entry from `each_of_several`."""
    harder = harder_of({"derived": derived})
    if PART_OF in derived:
        return derived[PART_OF]
    return name.removesuffix(f"-{harder[0]}-{harder[1]}") if harder else name


def add_derived_datasets(
    catalogue: Catalogue, chosen: Mapping[str, dict], asked: dict, where: str, mistakes: Mistakes
) -> dict[str, dict]:
    """The entries of `derived_datasets`: each is that of the dataset whose images are trained on, with ``derived``."""
    found = {}
    for name, derived in asked.items():
        # one mistake of an entry is told once, not for each severity
        place = f"{where}: derived_datasets.{_configured(name, derived)}"
        with mistakes.gathered():
            for origin in origins_of({"derived": derived}):
                if origin in asked and origin not in chosen:
                    raise PermafrostError(
                        f"it is derived from {origin!r}, which is derived itself",
                        where=place,
                        remedy=f"name what {origin} is derived from",
                    )
                if origin not in chosen:
                    raise PermafrostError(
                        f"it is derived from {origin!r}, which is not a dataset of this run"
                        f" ({near_names(origin, chosen)})",
                        where=place,
                        remedy=f"add {origin} to `datasets`",
                    )
            _check_dataset(catalogue, chosen, name, derived, place)
            found[name] = _entry(chosen, name, derived)
    return found


#: keys of an entry that say how the parent was made, and not what it is
_OF_PARENT = ("title", "published", "size_bytes", "download", "citation", "url")
#: keys that go together
_ASKED = ({"of", "folds"}, {"of", "share"}, {"of", "harder"}, {"train", "test"})


def _entry(chosen: Mapping[str, dict], name: str, derived: dict) -> dict:
    origins = origins_of({"derived": derived})
    entry = {key: one for key, one in chosen[origins[0]].items() if key not in _OF_PARENT}
    entry |= {"derived": derived, "title": derived.get("title", name)}
    images_of = {one for origin in origins for one in chosen[origin].get("images_of", ())}
    if images_of:
        entry["images_of"] = sorted(images_of)
    if "train" in derived and "classes" in entry:
        # of those that the entries list; else the data say
        listed = [chosen[derived[key]].get("classes") for key in ("train", "test")]
        known = derived.get("classes")
        if known is not None or all(listed):
            shared = list(shared_classes(known, *(one or [] for one in listed)))
            # the job refuses fewer, with both lists
            entry |= {"classes": shared} if len(shared) > 1 else {}
    return entry


def _check_dataset(
    catalogue: Catalogue, chosen: Mapping[str, dict], name: str, derived: dict, where: str
) -> None:
    origins = origins_of({"derived": derived})
    problem = None
    asked = derived.keys() & (_ALONE - {"classes"})
    kind, severity = harder_of({"derived": derived}) or ("", 0)
    texts = isinstance(name, str) and all(
        isinstance(one, str) for one in derived.get("classes", ())
    )
    if asked not in _ASKED:
        problem = (
            f"{', '.join(sorted(derived.keys() & _ALONE))} do not go together",
            "give of and folds, of and share, of and harder, train and test, or transfer alone",
        )
    elif not texts:
        problem = "a name is not a text", "put names that are numbers into quotes"
    elif catalogue.has(name):
        problem = f"there is a dataset {name!r} in the catalogues", "choose another name"
    elif derived.get("train", "") == derived.get("test") and PART_OF not in derived:
        problem = "it trains and tests on one dataset", "name the dataset itself, or give it folds"
    elif len({chosen[one]["task"] for one in origins}) > 1:
        tasks = " and ".join(chosen[one]["task"] for one in origins)
        problem = f"the datasets have different tasks: {tasks}", "name datasets of one task"
    elif derived["seed"] and not asked & {"share", "harder"}:
        problem = (
            "seed has no effect without share or harder",
            "remove it; folds have a seed of their own",
        )
    elif derived.get(OTHER_BANDS) is not None and "train" not in derived:
        problem = f"{OTHER_BANDS} has no effect without train and test", "remove it"
    elif derived.get(OTHER_BANDS) and "classes" in derived:
        problem = f"{OTHER_BANDS} compares the same images, so classes has no effect", "remove it"
    elif "classes" in derived and targets_of(chosen[origins[0]]["task"]).numbers:
        problem = "classes has no effect on numbers", "remove it"
    elif "classes" in derived and "train" not in derived:
        problem = "classes has no effect on images of one dataset", "remove it"
    elif kind == ONLY_RGB and severity > 1:
        problem = f"{kind} has no severity {severity}", f"write {kind}: 1"
    elif kind == DATES_DROPPED and chosen[origins[0]]["dates"] != "series":
        problem = f"{origins[0]} is not a series, so no dates can be dropped", f"remove {kind}"
    elif kind in MOVING and targets_of(chosen[origins[0]]["task"]).dense:
        task = chosen[origins[0]]["task"]
        problem = (
            f"{kind} moves what is labelled, and labels of the task {task} would not move with it",
            f"remove {kind}",
        )
    elif targets_of(chosen[origins[0]]["task"]).dense and "train" in derived:
        task = chosen[origins[0]]["task"]
        problem = (
            f"pairs of datasets need labels of images, and the task is {task}",
            "name datasets with labels of images",
        )
    elif (
        targets_of(chosen[origins[0]]["task"]).objects
        and derived.get("folds", {}).get("repeats", 1) > 1
    ):
        problem = "folds of objects are not repeated", "remove repeats"
    if problem:
        raise PermafrostError(problem[0], where=where, remedy=problem[1])
    if "folds" in derived:
        check_folds(build(Folds, derived["folds"]), where=where)


def check_groups(
    groups: Mapping[str, list[str]], datasets: Mapping[str, dict], where: str, mistakes: Mistakes
) -> None:
    """Add groups of rankings that name several datasets with the same test images to `mistakes`."""
    for group, names in groups.items():
        tested: dict[str, str] = {}
        for name in names:
            images = (origins_of(datasets.get(name, {})) or [name])[-1]
            other = tested.setdefault(images, name)
            if other != name:
                mistakes.add(
                    PermafrostError(
                        f"{other} and {name} test the same images, which a ranking would count twice",
                        where=f"{where}: groups.{group}",
                        remedy="name one of them",
                    )
                )


def misfits_of_derived_datasets(
    backbones: Mapping[str, dict],
    datasets: Mapping[str, dict],
    found: Mapping[tuple[str, ...], PermafrostError],
    cells: Mapping,
    wants: Mapping[str, Mapping],
    bands: Mapping[str, tuple[list[dict], list[str]]],
    where: str,
) -> dict[tuple[str, ...], PermafrostError]:
    """(dataset, backbone) -> why a backbone has no features on a derived dataset.

    Parameters
    ----------
    found : the misfits of other datasets.
    cells : (dataset, backbone) -> its input, where it is known.
    wants : backbone -> fields of its input contract that its kind or its weights define, where they are known.
    bands : dataset -> its bands, and the names of the selected ones.
    """
    refused: dict[tuple[str, ...], PermafrostError] = {}
    for dataset, about in datasets.items():
        origins = origins_of(about)
        for name, entry in backbones.items() if origins else ():
            lacking = next((one for one in origins if (one, name) in found), None)
            policies = {getattr(cells.get((one, name)), "policy", None) for one in origins}
            if lacking is not None:
                problem = f"it does not fit {lacking}: {found[lacking, name].problem}"
            elif harder_of(about) and not (parents_of(entry) or kind_of(entry).pixels):
                problem = "it reads no images, so harder ones are the same to it"
            elif (lacking_bands := _unchanged(about, bands.get(origins[0]))) is not None:
                problem = lacking_bands
            elif parents_of(entry) and in_folds(about):
                problem = "derived backbones have no folds: steps would learn from images that a fold tests"
            elif len(origins) > 1 and kind_of(entry).is_fitted(entry):
                problem = "it is fitted to train, so its features of two datasets are not the same"
            elif about["derived"].get(OTHER_BANDS):
                continue
            elif len(policies) > 1:
                problem = (
                    f"its input of {origins[0]} is made in another way than that of {origins[1]}"
                )
            elif name in wants and not _alike({**wants[name], **entry["input"]}, origins, bands):
                problem = (
                    f"it reads other bands of {origins[0]} than of {origins[1]}, or other units"
                )
            else:
                continue
            refused[dataset, name] = PermafrostError(
                problem, where=f"{where}: derived_datasets.{dataset}", remedy="leave this pair out"
            )
    return refused


def _unchanged(about: Mapping, offered: tuple[list[dict], list[str]] | None) -> str | None:
    """Why a degradation changes no band of a dataset; None if it changes some, or bands are unknown."""
    kind, severity = harder_of(about) or ("", 0)
    if not severity or offered is None:
        return None
    bands = [band for band in offered[0] if band["name"] in offered[1]]
    colours = {band.get("common_name") for band in bands}
    if kind in ("haze", "clouds") and not any(map(is_optical, bands)):
        return f"{kind} changes optical bands, and the dataset has none"
    if kind == "bands_left_out" and len(bands) < 2:
        return "the only band cannot be left out"
    if kind == ONLY_RGB and (not colours.issuperset(RGB) or len(bands) <= len(RGB)):
        return "the dataset has not red, green, blue and other bands"
    return None


def _alike(
    contract: Mapping, origins: list[str], bands: Mapping[str, tuple[list[dict], list[str]]]
) -> bool:
    """Whether a backbone gets the same from all datasets.

    If it takes all of their bands, these are the same in the same order. If nothing scales values, units are the same.
    """
    offered = [
        [band for band in bands[origin][0] if band["name"] in bands[origin][1]]
        for origin in origins
        if origin in bands
    ]
    found: list[list] = []
    if contract.get("bands") == "all":
        found.append([[one.get("common_name") or one["name"] for one in each] for each in offered])
    if contract.get("normalization") == "none":
        keys = ("unit", "scale", "offset")
        found.append([{tuple(one.get(key) for key in keys) for one in each} for each in offered])
    return all(one == each[0] for each in found for one in each)
