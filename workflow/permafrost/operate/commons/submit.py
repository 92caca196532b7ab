"""Make a submission of a finished run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.identity import file_digest
from permafrost.core.names import NAME_WORDS, is_name
from permafrost.core.outputs import whole_directory
from permafrost.core.tables import read_metadata
from permafrost.core.versions import gather_versions
from permafrost.operate.commons.facts import digest_of_names, sample_names
from permafrost.operate.commons.submission import MANIFEST, Evaluation
from permafrost.plan.recorded import current_plan, places, read_plan

# keys of entries that a submission states
_OF_BACKBONE = ("title", "citation", "licence", "url", "parameters", "trained_on")
_OF_DATASET = ("title", "citation", "licence", "images_of")


def submit(
    results: Path,
    output: Path,
    *,
    suite: str,
    author: str,
    licence: str,
    confirmed: Mapping[str, str],
    overlap: Mapping[str, str],
) -> tuple[dict, list[str]]:
    """Write the folder `output`; returns the manifest, and what was left out.

    Parameters
    ----------
    results : of a run of the suite. suite : its name.
    confirmed : backbone to the URL where its authors confirm the results.
    overlap : backbone to what is known of test images among those of its pre-training.

    Raises
    ------
    PermafrostError : the run is not one of the suite as it is; nothing is finished; an output was altered, or an
        image store is missing.
    """
    if not is_name(output.name):
        raise PermafrostError(
            f"{output.name!r} cannot be the name of a submission", remedy=f"use {NAME_WORDS}"
        )
    plan = read_plan(current_plan(results), results)
    about = _suite_of(plan, suite, results)
    found, left_out = _evaluations(plan, results)
    if not found:
        raise PermafrostError("the run has no scores yet", where=results, remedy="finish the run")
    datasets = list(dict.fromkeys(one.dataset for one in found))
    backbones = list(dict.fromkeys(one.backbone for one in found))
    for option, given in (("--confirmed", confirmed), ("--overlap", overlap)):
        for name in given:
            look_up(backbones, name, f"{option} names a backbone without results", where=option)
    metadata = [found[one] for one in found]
    manifest = {
        "format": 1,
        "name": output.name,
        "author": author,
        "licence": licence,
        "suite": {key: about[key] for key in ("name", "version", "digest")},
        "fit": plan["config"]["fit"],
        "left_out": plan.get("left_out", []),
        "versions": gather_versions(metadata),
        "hardware": sorted({one["device"] for one in metadata if one.get("device")}),
        "backbones": {
            name: _stated(plan["backbones"][name], _OF_BACKBONE)
            | ({"confirmed": confirmed[name]} if name in confirmed else {})
            | ({"overlap": overlap[name]} if name in overlap else {})
            for name in backbones
        },
        "datasets": {
            name: {
                "split": digest_of_names(
                    *(
                        sample_names(results / "images" / name / f"{part}.zarr")
                        for part in ("train", "val")
                    )
                ),
                **_stated(plan["datasets"][name], _OF_DATASET),
            }
            for name in datasets
        },
    }
    copied = {f"cards/{name}.json": f"images/{name}/card.json" for name in datasets}
    copied |= {
        (name := one.file(kind)): name for one in found for kind in ("predictions", "scores")
    }
    with whole_directory(output) as folder:
        for name, source in copied.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(results / source, folder / name)
        manifest["files"] = {name: file_digest(folder / name) for name in sorted(copied)}
        (folder / MANIFEST).write_text(json_text(manifest), encoding="utf-8")
    return manifest, left_out


def _stated(entry: dict, keys: tuple[str, ...]) -> dict:
    return {key: entry[key] for key in keys if entry.get(key)}


def json_text(content) -> str:
    """JSON as a person reads it."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _suite_of(plan: dict, suite: str, results: Path) -> dict:
    about = plan["config"].get("suite")
    if not about or about["name"] != suite:
        ran = f"the suite {about['name']}" if about else "no suite"
        raise PermafrostError(
            f"the run is of {ran}, not of {suite}",
            where=results,
            remedy=f"run `permafrost suite {suite} --backbones A,B`",
        )
    if about["changed"]:
        raise PermafrostError(
            f"the run changed the suite, so its scores are not comparable: {'; '.join(about['changed'])}",
            where=results,
            remedy="run the suite as it is",
        )
    return about


def _evaluations(plan: dict, results: Path) -> tuple[dict[Evaluation, dict], list[str]]:
    """Finished evaluations of the suite to the metadata of their predictions, and what was left out."""
    found: dict[Evaluation, dict] = {}
    left_out = []
    # scores are planned of the same evaluations
    rows = [(row, path) for row, path in places(plan, results) if row["stage"] == "bootstrap"]
    expected = {str(path): row["fingerprint"] for row, path in places(plan, results)}
    for row, path in rows:
        one = Evaluation(row["dataset"], row["backbone"], row["seed"], row["probe"])
        of_suite = (
            one.dataset in plan["config"]["datasets"] and one.probe in plan["config"]["probes"]
        )
        predictions = results / one.file("predictions")
        if not path.exists() or not predictions.exists():
            left_out.append(f"{' '.join(map(str, one))}: not finished")
            continue
        read_metadata(path, expect=row["fingerprint"])
        metadata = read_metadata(predictions, expect=expected[str(predictions)])
        if not of_suite or "derived" in metadata or "derived" in plan["datasets"][one.dataset]:
            left_out.append(f"{' '.join(map(str, one))}: derived, not a part of the suite")
            continue
        found[one] = metadata
    return dict(sorted(found.items())), left_out
