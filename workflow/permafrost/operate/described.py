"""Describe one dataset, backbone or kind of probe, as lines of text or JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permafrost.backbones.input.fed import formula, listed, values_words
from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.text import bytes_words, printable
from permafrost.operate.chosen import weights_state
from permafrost.operate.named import find, find_one, like_lines
from permafrost.operate.offers import Offers, data_places, misfits, planned_input, state_of
from permafrost.plan.catalogue import EVERY
from permafrost.plan.validation import load_schema
from permafrost.probes.kinds import KINDS
from permafrost.report.explanations.gates import explain_at_length

if TYPE_CHECKING:
    from permafrost.backbones.input.fed import FedChannel

_WIDTH, _INDENT = 100, 14
_MOST_NAMED = 12
_SAID = (
    "title",
    "task",
    "published",
    "kind",
    "licence",
    "citation",
    "url",
    "year",
    "parameters",
    "trained_on",
    "images_of",
    "description",
    "runtime",
)


def describe(offers: Offers, name: str, dataset: str | None = None) -> list[str]:
    """Lines about the dataset, backbone or kind of probe with this name; a list if several match.

    Parameters
    ----------
    name : a name, or a part of one.
    dataset : also describe the backbone's input from this dataset.

    Raises
    ------
    PermafrostError : the name is unknown, or the dataset does not fit the backbone.
    """
    datasets, backbones = offers.datasets.names([EVERY]), offers.backbones.names([EVERY])
    if dataset is not None:
        name = _fed_backbone(offers, name, backbones)
        return [*_about_backbone(offers, name), *_fed(offers, name, dataset)]
    found = find(offers, name)
    if len(found) > 1:
        return like_lines(offers, name, found)
    what, name = find_one(offers, name)
    if what == "dataset":
        return _dataset(offers, name, backbones)
    return _backbone(offers, name, datasets) if what == "backbone" else _probe(name)


def _fed_backbone(offers: Offers, name: str, backbones: list[str]) -> str:
    found = [known for what, known in find(offers, name) if what == "backbone"]
    if len(found) == 1:
        return found[0]
    near = near_names(name, backbones, listing="`permafrost list backbones`")
    raise PermafrostError(
        f"--dataset shows the input of a backbone, and there is no backbone {name!r}, {near}",
        remedy="name a backbone, or leave --dataset out",
    )


def facts(offers: Offers, name: str, dataset: str | None = None) -> dict:
    """Like `describe`, as JSON: the entry, what is on this machine, and which partners fit.

    Raises
    ------
    PermafrostError : as `describe`, or several names match.
    """
    from permafrost.operate.as_fed import fed_of, known_card

    datasets, backbones = offers.datasets.names([EVERY]), offers.backbones.names([EVERY])
    if dataset is None:
        what, name = find_one(offers, name)
    else:
        what, name = "backbone", _fed_backbone(offers, name, backbones)
    at_hand: dict[str, Any]
    if what == "dataset":
        entry, found = offers.dataset(name), misfits(offers, [name], backbones)
        at_hand = {
            "data": state_of(entry),
            "places": [str(place) for place in data_places(entry)],
            "probes": _serving(entry["task"]),
        }
        fit = {backbone: found[name, backbone] for backbone in backbones}
        of, where = "dataset", offers.datasets.where(name)
    elif what == "backbone":
        entry, at_hand = offers.backbones.entry(name), {}
        at_hand["weights"] = weights_state(offers, entry)
        asked = datasets if dataset is None else [dataset]
        found = misfits(offers, asked, [name])
        fit = {one: found[one, name] for one in asked}
        of, where = "backbone", offers.backbones.where(name)
        if dataset is not None:
            planned = planned_input(offers, dataset, name)
            at_hand["fed"] = {**asdict(planned), "done": sorted(planned.done)}
            if (card := known_card(offers, dataset)) is not None:
                _, fed, unusual = fed_of(offers, card, name)
                at_hand["as_fed"] = [one._asdict() for one in fed]
                at_hand["unusual"] = [one.name for one in unusual]
    else:
        kind = KINDS[name]
        told = {"tasks": sorted(kind.tasks), "reads": kind.reads, "seeded": kind.seeded}
        return {"name": name, "is": "probe", "summary": kind.summary, **told}
    return {
        "name": name,
        "is": of,
        "where": where,
        "entry": entry,
        **at_hand,
        "fits": [one for one, reason in fit.items() if reason is None],
        "misfits": {one: reason for one, reason in fit.items() if reason is not None},
    }


def _dataset(offers: Offers, name: str, backbones: list[str]) -> list[str]:
    entry = offers.dataset(name)
    places = [str(place) for place in data_places(entry)]
    classes = entry.get("classes")
    splits = entry.get("splits", {})
    lines = [
        *_said(name, entry),
        *_line("dates", entry["dates"] if entry.get("dates", "one") != "one" else None),
        *(_modalities(entry["modalities"]) if "modalities" in entry else []),
        *_line("sensor", entry.get("sensor", None if "modalities" in entry else "not given")),
        *_line("bands", _bands(entry.get("bands"))),
        *_line("units", _plain(entry["units"]) if "units" in entry else None),
        *_line("pixel", f"{entry['gsd_m']:g} m on the ground" if "gsd_m" in entry else None),
        *_line("classes", f"{len(classes)}: {', '.join(classes)}" if classes else None),
        *_line("target", _plain(entry["target"]) if "target" in entry else None),
        *_line("splits", _plain(splits) if splits else "as the data name them"),
        *_line("source", _plain({k: v for k, v in entry["source"].items() if k != "label_values"})),
        *_line("data", "; ".join([state_of(entry), *places])),
        *_line("size", _size(entry)),
        *_downloads(entry),
        *_line("entry", offers.datasets.where(name)),
    ]
    found = misfits(offers, [name], backbones)
    fitting = [backbone for backbone in backbones if found[name, backbone] is None]
    lines += _line("fits", _counted(offers, fitting, len(backbones)))
    lines += _line("", f"permafrost list backbones --fits {name} names them")
    if len(fitting) < len(backbones):
        lines += _line("", "permafrost info BACKBONE says why another one does not")
    return [*lines, *_line("probes", ", ".join(_serving(entry["task"])))]


def _counted(offers: Offers, fitting: list[str], every: int) -> str:
    """The number of fitting backbones, with their names if few, else by kind."""
    if len(fitting) <= _MOST_NAMED:
        return f"{len(fitting)} of {every} backbones: {', '.join(fitting)}"
    kinds = Counter(str(offers.backbones.entry(name)["kind"]) for name in fitting)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{len(fitting)} of {every} backbones: {listed}"


def _about_backbone(offers: Offers, name: str) -> list[str]:
    entry = offers.backbones.entry(name)
    lines = _said(name, entry)
    for key, value in entry.items():
        lines += _line(key, None if key in _SAID else _plain(value))
    lines += _line("at hand", _AT_HAND[weights_state(offers, entry)])
    return lines + _line("entry", offers.backbones.where(name))


def _fed(offers: Offers, name: str, dataset: str) -> list[str]:
    """Lines about the backbone's input from the dataset: each channel, then the preprocessing."""
    from permafrost.operate.as_fed import fed_of, known_card

    card = known_card(offers, dataset)
    unusual: list[FedChannel]
    plan, fed, unusual = planned_input(offers, dataset, name), None, []
    if card is not None:
        plan, fed, unusual = fed_of(offers, card, name)
    entry = offers.dataset(dataset)
    lines = _line("from", f"{dataset}: {len(plan)} channels of {entry.get('title', dataset)}")
    for number, channel in enumerate(plan.channels, 1):
        said = _channel(channel, plan.normalization)
        if fed is not None and channel.index is not None:
            said += f"; fed {fed[number - 1].mean:.3g} ± {fed[number - 1].std:.3g} over train"
        lines += _line(f"channel {number}", said)
    if plan.fit != "exact":
        words = f"{plan.fit}, {plan.bands_real} of {plan.bands_wanted} wanted bands"
        lines += _line("fit", words)
        lines += _line("because", plan.reason and f"{plan.reason} (fit: {plan.policy})")
    if plan.left_out:
        lines += _line("left out", f"{', '.join(plan.left_out)}: the dataset has no band for it")
    if unusual:
        lines += _line("look at", explain_at_length(f"unusual_input:{listed(unusual)}"))
    size = "its native size" if plan.size is None else f"{plan.size} px ({plan.interpolation})"
    crop = "" if plan.crop is None else f", centre crop of {plan.crop} px"
    lines += _line("size", f"{size}{', antialiased' if plan.antialias else ''}{crop}")
    lines += _line("values", values_words(plan))
    sources = {*offers.backbones.entry(name).get("trained_on", [])} & {*entry.get("images_of", [])}
    if sources:
        lines += _line(
            "leakage", f"trained on images of this dataset ({', '.join(sorted(sources))})"
        )
    return lines


_AT_HAND = {
    "none": "needs no weights",
    "random": "random weights, drawn from the seed",
    "here": "the weights are on this machine",
    "missing": "the weights file is missing: get it, and put it where weights.path says",
    "to download": "the weights are downloaded by the first job that needs them",
}


def _channel(channel, normalization: str) -> str:
    if channel.index is None:
        return f"{channel.wanted}: {formula(channel, normalization)}, the dataset lacks it"
    of = f" of {channel.modality}" if channel.modality else ""
    waves = "" if channel.wavelength_nm is None else f", {channel.wavelength_nm:g} nm"
    wanted = channel.wanted if channel.wanted not in (None, channel.name) else channel.common_name
    said = f"{channel.name}{of} ({wanted}{waves})" if wanted else f"{channel.name}{of}{waves}"
    if channel.stands_for is not None:
        said += f", in place of {channel.stands_for}, {channel.distance_nm:g} nm away"
    if normalization == "weights" or channel.power is not None:
        said += f": {formula(channel, normalization)}"
    return said


def _backbone(offers: Offers, name: str, datasets: list[str]) -> list[str]:
    lines = _about_backbone(offers, name)
    found = misfits(offers, datasets, [name])
    fitting = [dataset for dataset in datasets if found[dataset, name] is None]
    lines += _line("fits", f"{len(fitting)} of {len(datasets)} datasets: {', '.join(fitting)}")
    reasons: dict[str, list[str]] = {}
    for dataset in datasets:
        if (reason := found[dataset, name]) is not None:
            reasons.setdefault(reason.replace(f" {dataset!r}", ""), []).append(dataset)
    for reason, unfit in reasons.items():
        lines += _line("not", f"{', '.join(unfit)}: {reason}")
    return lines


def _probe(name: str) -> list[str]:
    kind, options = KINDS[name], load_schema("config")["$defs"][name]["properties"]
    lines = [
        name,
        *_line("does", f"It {kind.summary}"),
        *_line("tasks", ", ".join(sorted(kind.tasks))),
        *_line("reads", kind.reads),
        *_line(
            "seeds", "runs once for each of the seeds" if kind.seeded else "chance plays no part"
        ),
    ]
    for key, option in options.items():
        if key != "kind":
            default = f" (default: {_plain(option['default'])})" if "default" in option else ""
            lines += _line(
                "option", f"{key}{default}: {option.get('description', '')}".rstrip(": ")
            )
    return lines


def _said(name: str, entry: dict) -> list[str]:
    lines = [name]
    for key in _SAID:
        missing = "not given" if key in ("licence", "citation") else None
        lines += _line(key, _plain(entry[key]) if key in entry else missing)
    return lines


def _line(what: str, value: str | None) -> list[str]:
    """``what`` and its value, wrapped; empty if the value is None."""
    if value is None:
        return []
    return textwrap.wrap(
        printable(" ".join(value.split()), 4000),
        _WIDTH,
        initial_indent=f"  {what:<{_INDENT - 2}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(value) -> str:
    """A value of an entry as short YAML."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(_plain(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _bands(bands: list | None) -> str | None:
    if bands is None:
        return None
    names = [band["name"] if isinstance(band, dict) else band for band in bands]
    return f"{len(names)}: {', '.join(names)}"


def _modalities(modalities: dict) -> list[str]:
    """Sensor and bands of each modality."""
    lines = []
    for name, one in modalities.items():
        sensor = [one["sensor"]] if "sensor" in one else []
        lines += _line("images", ", ".join([name, *sensor, f"bands {_bands(one['bands'])}"]))
    return lines


def _size(entry: dict) -> str | None:
    size = entry.get("size_bytes")
    return None if size is None else f"{bytes_words(size)} to download"


def _downloads(entry: dict) -> list[str]:
    """Sources of the files, with sizes and checksums if the entry has them."""
    lines = []
    for item in entry.get("download", []):
        names = item.get("files") or [item.get("file") or item["url"]]
        origin = f"{item['hub']} on the hub: " if "hub" in item else ""
        sums = [f"{key} {item[key]}" for key in ("sha256", "md5") if key in item]
        size = [bytes_words(item["bytes"])] if "bytes" in item else []
        told = f" ({', '.join([*size, *sums])})" if size or sums else ""
        lines += _line("download", f"{origin}{', '.join(names)}{told} to {Path(item['path'])}")
    if entry["source"]["kind"] == "torchgeo" and "download" not in entry:
        name = entry["source"]["name"]
        told = f"torchgeo's class {name} says where from: permafrost fetch --dry-run lists it"
        lines += _line("download", told)
    return lines


def _serving(task: str) -> list[str]:
    return [name for name, kind in KINDS.items() if task in kind.tasks]
