"""Machine-readable description of an archive: a Workflow Run Crate (RO-Crate 1.1).

Profiles: https://w3id.org/ro/wfrun/process/0.5, https://w3id.org/ro/wfrun/workflow/0.5 and
https://w3id.org/workflowhub/workflow-ro-crate/1.0. They require: the main entity is a
ComputationalWorkflow with its language; a CreateAction, mentioned by the root, has it as instrument
and lists its inputs and outputs; the root names the profiles and a licence.
"""

from __future__ import annotations

import json
import mimetypes
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from permafrost.report.archive.manifest import Member

WORKFLOW = "Snakefile"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_TERMS = "https://w3id.org/ro/terms/workflow-run/context"  # defines sha256, among others
_TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".smk": "text/x-snakemake",
}


@dataclass(frozen=True)
class Run:
    """Facts about the run for a crate, besides its files.

    Attributes
    ----------
    plan : the recorded plan.
    code : version of the workflow (`provenance.describe_code`).
    versions : of installed packages, by name.
    times : start and end of the run in seconds since 1970.
    agent : name of the person who ran it, if known.
    incomplete : a sentence on what is missing, if jobs of the run failed.
    """

    plan: dict
    code: dict
    versions: dict[str, str]
    times: tuple[float, float]
    agent: str | None
    incomplete: str | None = None


def crate_json(members: list[Member], *, root: Path, stores: list[str], run: Run) -> bytes:
    """``ro-crate-metadata.json`` of an archive.

    Parameters
    ----------
    members : all files except this one; members inside `stores` are described by their store only.
    root : the folder that contains them.
    stores : paths of included stores (directories).
    """
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(_TERMS)
    began, ended = (
        datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds") for second in run.times
    )
    entities = {
        member.path: _file(crate, root, member) for member in members if not _inside(member, stores)
    }
    results = [entities[m.path] for m in members if m.role == "result" and m.path in entities]
    for store in stores:
        properties = {
            "name": store,
            "description": "store (zarr) or folder; its files are in run/manifest.json",
        }
        results.append(crate.add_dataset(dest_path=f"{store}/", properties=properties))
    workflow = _workflow(crate, run.code, run.versions)
    plan, incomplete = run.plan, run.incomplete
    inputs = [entities[path] for path in ("run/plan.json",) if path in entities]
    action = crate.add_action(
        workflow,
        identifier=f"#run-{plan['plan']}",
        object=inputs + _datasets(crate, plan),
        result=results,
        properties={
            "name": f"Run of plan {plan['plan']}",
            "description": "snakemake with the configuration in run/plan.json",
            "startTime": began,
            "endTime": ended,
            "actionStatus": {
                "@id": f"http://schema.org/{'Failed' if incomplete else 'Completed'}ActionStatus"
            },
            **({"error": incomplete} if incomplete else {}),
        },
    )
    if run.agent:
        action["agent"] = _named(crate, "#agent", "Person", run.agent)
    _root(crate, plan, ended, action, incomplete)
    return (
        json.dumps(crate.metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    ).encode()


def _inside(member: Member, stores: list[str]) -> bool:
    return any(member.path.startswith(f"{store}/") for store in stores)


def _file(crate, root: Path, member: Member):
    if member.path == WORKFLOW:
        return None  # described as the workflow
    suffix = Path(member.path).suffix
    kind = _TYPES.get(suffix) or mimetypes.guess_type(member.path, strict=True)[0]
    properties: dict[str, str | list[str]] = {
        "name": member.path,
        "sha256": member.sha256,
        "contentSize": str(member.size),
    }
    if kind:
        properties["encodingFormat"] = kind
    if member.role == "code":
        properties["@type"] = ["File", "SoftwareSourceCode"]
    return crate.add_file(str(root / member.path), member.path, properties=properties)


def _workflow(crate, code: dict, versions: dict[str, str]):
    version = code.get("commit") or code["sources_sha256"]
    return crate.add_workflow(
        None,
        WORKFLOW,
        main=True,
        lang="snakemake",
        lang_version=versions.get("snakemake"),
        properties={
            "name": "Permafrost",
            "description": "Measures how good the features of frozen geospatial backbones are",
            "version": version + (" with uncommitted changes" if code.get("dirty") else ""),
            "license": {"@id": "https://spdx.org/licenses/Apache-2.0"},
        },
    )


def _datasets(crate, plan: dict) -> list:
    entities = []
    for name, entry in sorted(plan["datasets"].items()):
        properties = {
            "@type": "CreativeWork",
            "name": entry.get("title") or name,
            "identifier": name,
        }
        for ours, theirs in (("licence", "license"), ("citation", "citation")):
            if entry.get(ours):
                properties[theirs] = str(entry[ours])
        entities.append(_context(crate, f"#dataset-{name}", properties))
    return entities


def _root(crate, plan: dict, ended: str, action, incomplete: str | None) -> None:
    root = crate.root_dataset
    root["name"] = f"Permafrost results, plan {plan['plan']}"
    root["description"] = (
        f"Leaderboard, scores and per-sample predictions of {len(plan['backbones'])} frozen backbones "
        f"on {len(plan['datasets'])} datasets, with what is needed to check and to continue the run."
        + (f" {incomplete}" if incomplete else "")
    )
    root["datePublished"] = ended
    licences = "; ".join(
        f"{name}: {entry.get('licence') or 'not given'}"
        for name, entry in sorted(plan["datasets"].items())
    )
    root["license"] = _context(
        crate,
        "#licence",
        {
            "@type": "CreativeWork",
            "name": "Licences",
            "description": f"Workflow: Apache-2.0. Results derive from datasets under {licences}.",
        },
    )
    root["conformsTo"] = [
        _context(crate, url, {"@type": "CreativeWork", "name": name, "version": version})
        for url, (name, version) in _PROFILES.items()
    ]
    root["mentions"] = [action]
    _context(
        crate,
        "https://spdx.org/licenses/Apache-2.0",
        {"@type": "CreativeWork", "name": "Apache License 2.0", "identifier": "Apache-2.0"},
    )


def _named(crate, identifier: str, kind: str, name: str):
    return _context(crate, identifier, {"@type": kind, "name": name})


def _context(crate, identifier: str, properties: dict):
    from rocrate.model.contextentity import ContextEntity

    return crate.add(ContextEntity(crate, identifier, properties=properties))
