"""The page's section on the run: failures, catalogue entries, settings, versions, machine."""

from __future__ import annotations

import json
from collections.abc import Mapping

from permafrost.backbones.derived import parents_of
from permafrost.core.versions import environments_of, gather_versions, mixture_words
from permafrost.probes.kinds import KINDS
from permafrost.report.explanations.leaderboard_state import headline, policy_words, suite_words
from permafrost.report.material.extraction_times import ExtractionTime, typical_times


def incomplete_section(about: Mapping | None) -> dict | None:
    """Template values of an incomplete run; None for a complete one.

    Parameters
    ----------
    about : the leaderboard's ``incomplete`` metadata (`report.explanations.incomplete.describe`).
    """
    if about is None:
        return None
    missing: dict[tuple[str, str], list[str]] = {}
    for row in about["missing"]:
        seed = f", seed {row['seed']}" if row["seed"] else ""
        what = f"{row['dataset']}, {row['probe']}{seed}"
        missing.setdefault((row["backbone"], row["reason"]), []).append(what)
    return {
        "headline": headline(about),
        "failures": about["failures"],
        "missing": [
            {"backbone": backbone, "reason": reason, "what": "; ".join(what)}
            for (backbone, reason), what in missing.items()
        ],
    }


def run_section(
    plan: dict, metadata: list[dict], facts: list[dict], hardware: Mapping[str, object] | None
) -> dict:
    """Template values of the run.

    Parameters
    ----------
    plan : the recorded plan; metadata : of the leaderboard and of every table of predictions.
    facts : `backbone_facts`.
    hardware : description of the machine that made the page, name -> value.
    """
    met = gather_versions(metadata)
    probes = plan.get("probes") or plan["config"].get("probes", {})
    return {
        "plan_hash": plan["plan"],
        "suite": suite_words(plan["config"].get("suite")),
        "policy": policy_words(plan["config"].get("fit")),
        "backbones": entry_lines(plan["backbones"]),
        "backbone_facts": facts,
        "dataset_entries": entry_lines(plan["datasets"]),
        "probes": entry_lines(probes),
        "reading": probes_explained(probes),
        "settings": _settings(plan["config"]),
        "versions": {name: ", ".join(versions) for name, versions in met.items()},
        "mixture": mixture_words(metadata, environments_of(plan)),
        "hardware": [(str(name), _words(value)) for name, value in (hardware or {}).items()],
        "compute": compute_words(metadata),
    }


def probes_explained(probes: Mapping[str, dict]) -> dict:
    """Descriptions of the probes of a run.

    Returns
    -------
    ``training``, ``reading`` : names of probes that train backbones, and of those that leave them frozen.
    probes : each kind that ran, with its ``names`` and its ``summary`` (`probes.kinds.KINDS`).
    """
    names: dict[str, list[str]] = {}
    for name, options in sorted(probes.items()):
        names.setdefault(options["kind"], []).append(name)
    training = [name for kind in names if KINDS[kind].trains_backbone for name in names[kind]]
    return {
        "training": training,
        "reading": sorted(set(probes) - set(training)),
        "probes": [
            {"kind": kind, "names": names[kind], "summary": KINDS[kind].summary}
            for kind in KINDS
            if kind in names
        ],
    }


def entry_lines(entries: Mapping[str, dict]) -> list[dict]:
    """Catalogue entries as name, title and the rest as indented JSON."""
    return [
        {
            "name": name,
            "title": entry.get("title") or "",
            "kind": entry.get("kind") or entry.get("task") or "",
            "entry": json.dumps(entry, indent=2, sort_keys=True, ensure_ascii=False),
        }
        for name, entry in sorted(entries.items())
    ]


def backbone_facts(
    entries: Mapping[str, dict],
    metadata: list[dict],
    times: Mapping[tuple[str, str], ExtractionTime] | None = None,
) -> list[dict]:
    """Properties of the backbones from their catalogue entries; None or "" if missing.

    Parameters
    ----------
    metadata : of the tables of predictions, which record the parameters of the network that ran.
    times : (dataset, backbone) -> time of the extraction.
    """
    typical = typical_times(times or {})
    counted = {
        one["backbone"]: one["parameters"] for one in metadata if one.get("parameters") is not None
    }
    return [
        {
            "name": name,
            "parameters": entry.get("parameters", counted.get(name)),
            "extraction_ms": float(f"{typical[name]:.3g}") if name in typical else None,
            "year": entry.get("year"),
            "trained_on": ", ".join(entry.get("trained_on", [])),
            "licence": entry.get("licence", ""),
            "citation": entry.get("citation", ""),
        }
        for name, entry in sorted(entries.items())
        # a derived backbone has those of its parents
        if not parents_of(entry)
    ]


def _settings(config: dict) -> list[tuple[str, str]]:
    """The rest of the configuration, section by section, as indented JSON."""
    shown = ("backbones", "datasets", "probes")
    return [
        (name, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))
        for name, value in sorted(config.items())
        if name not in shown
    ]


def compute_words(metadata: list[dict]) -> str:
    """The recorded computation: devices, backbones that get all dates, precision of heads."""
    devices = sorted({one["device"] for one in metadata if one.get("device")})
    sentences = [f"Features were computed on {' and '.join(devices)}."] if devices else []
    for backbone, dataset, most in sorted(
        {
            (one["backbone"], one["dataset"], one["input"]["most_dates"])
            for one in metadata
            if (one.get("input") or {}).get("dates") == "all"
        }
    ):
        dates = "1 date" if most == 1 else f"up to {most} dates"
        sentences.append(f"{backbone} got all dates of a sample of {dataset} at once ({dates}).")
    sentences += sorted({words for one in metadata for words in _fed_words(one)})
    settings = [one["settings"] for one in metadata if "settings" in one]
    precisions = sorted({one["precision"] for one in settings if one.get("precision")})
    sentences += [f"Heads were trained in {' and '.join(precisions)}."] if precisions else []
    return " ".join(sentences)


def _fed_words(one: dict) -> list[str]:
    """Metadata passed to a backbone, and whether its position embeddings were resized."""
    said, told = [], dict(one.get("metadata") or {})
    if told:
        reasons = told.pop("reasons", {})
        parts = [
            f"{name.removesuffix('_m').replace('_', ' ')} {state}"
            + (f" ({reasons[name]})" if name in reasons else "")
            for name, state in told.items()
        ]
        said.append(f"{one['backbone']} on {one['dataset']}: {', '.join(parts)}.")
    positions = (one.get("input") or {}).get("positions")
    if positions:
        said.append(f"{one['backbone']} on {one['dataset']}: {positions}.")
    return said


def _words(value) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none found"
    return "not known" if value is None else str(value)
