"""Profiles in the plan: off they change nothing, on they rerun what they must and nothing else."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.operate.stale import find_stale
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import archived, planned, read_plan
from permafrost.report.explanations.costs import DRAWN, WORDS
from permafrost.statistics.scores.profile_table import Profiles


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


def plan_of(root, profile=None, **changes):
    return make_plan(root, copy.deepcopy(CONFIG) | {"profile": profile} | changes)


def jobs(plan) -> dict[tuple, str]:
    found = fingerprints(plan)
    profiles = {("profile", *names): plan.profile(*names) for names in plan.profiled()}
    return found | {names: job.fingerprint for names, job in profiles.items()}


def differing(one, other) -> set[tuple]:
    """Names of the jobs that two plans do not share."""
    a, b = jobs(one), jobs(other)
    return {names for names in a.keys() | b.keys() if a.get(names) != b.get(names)}


def stages(names) -> set[str]:
    return {one[0] for one in names}


def test_nothing_is_profiled_unless_it_is_asked_for(root):
    plan = make_plan(root)
    assert plan.profiled() == [] and differing(plan, plan_of(root)) == set()
    assert "profiles" not in json.loads(plan.aggregate().spec)["inputs"]


def test_switching_on_changes_only_what_gathers(root):
    plan = plan_of(root, {})
    assert stages(differing(plan_of(root), plan)) == {"profile", "aggregate", "report"}
    assert len(plan.profiled()) == 6
    options = json.loads(plan.profile("world", "net").spec)["options"]
    assert options["batch_size"] == 64 and options["threads"] is None


@pytest.mark.parametrize("options", [{"batch_size": 8}, {"threads": 2}, {"most_seconds": 5}])
def test_an_option_reruns_profiles(root, options):
    found = stages(differing(plan_of(root, {}), plan_of(root, options)))
    assert found == {"profile", "aggregate", "report"}


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": {"device": "cuda:1", "batch_size": 3, "workers": 9}},
        {"extra_backbones": {**CONFIG["extra_backbones"],
                             "stats": {"kind": "imagestats", "title": "x", "runtime": {"batch_size": 2}}}},
    ],
    ids=["device", "title"],
)  # fmt: skip
def test_the_machine_and_how_to_run_rerun_nothing(root, changes):
    assert differing(plan_of(root, {}), plan_of(root, {}, **copy.deepcopy(changes))) == set()


def test_only_what_changes_the_forward_pass_reruns_profiles(root):
    base = plan_of(root, {})
    for extraction, rerun in (
        ({"dtype": "float16"}, False),
        ({"precision": "bf16"}, True),
        ({"precision": "tf32"}, True),
    ):
        found = stages(differing(base, plan_of(root, {}, extraction=extraction)))
        assert "extract" in found and ("profile" in found) == rerun
    assert "profile" not in stages(
        differing(base, plan_of(root, {}, probes={"knn": {"kind": "knn"}}))
    )
    backbones = copy.deepcopy(CONFIG["extra_backbones"])
    backbones["net"]["input"]["size"] = 32
    found = differing(base, plan_of(root, {}, extra_backbones=backbones))
    assert {one for one in found if one[0] == "profile"} == {
        ("profile", dataset, "net") for dataset in ("world", "pictures")
    }


def test_the_maps_of_dense_tasks_are_asked_for(root):
    dataset = {"task": "segmentation", "source": {"kind": "demo", "chip_size": 32}}
    plan = plan_of(
        root,
        {},
        datasets=["fields"],
        extra_datasets={"fields": dataset},
        probes={"knn": {"kind": "dense_knn"}},
    )
    assert json.loads(plan.profile("fields", "net").spec)["extraction"]["maps"] is True


def test_outputs_are_recorded_archived_and_found_when_stale(root, monkeypatch):
    monkeypatch.chdir(root)
    path = Path(record_plan(plan_of(root, {}), "results"))
    recorded = read_plan(path)
    assert len(planned(recorded, "profile")) == 6
    file = Path("results/profiles/world/net.parquet")
    assert file in archived(recorded, path)
    file.parent.mkdir(parents=True)
    file.write_text("nothing")
    assert [found for found, _ in find_stale(path, "results")] == [file]


def test_a_probe_of_the_same_name_is_refused_only_where_both_are_asked_for(root):
    probes = {**CONFIG["probes"], "profile": {"kind": "knn"}}
    plan_of(root, None, probes=probes)
    with pytest.raises(PermafrostError, match="the name 'profile' of a probe is reserved"):
        plan_of(root, {}, probes=probes)


def test_the_schema_and_the_report_know_every_quantity():
    assert list(WORDS) == re.findall(r"(\w+) \(", Profiles.descriptions()["metric"])
    assert set(DRAWN) < set(WORDS)
