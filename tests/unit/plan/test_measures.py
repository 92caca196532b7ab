"""Measures in the plan: off they change nothing, on they rerun what they must and nothing else."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.metrics.representation import LABELLED, MEASURES, VIEW_MEASURES
from permafrost.operate.stale import find_stale
from permafrost.plan.options import OF_VIEWS
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import archived, planned, read_plan
from permafrost.report.explanations import measures as shown

SCHEMA = Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml"


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


def plan_of(root, measures=None, **changes):
    return make_plan(root, copy.deepcopy(CONFIG) | {"measures": measures} | changes)


def jobs(plan) -> dict[tuple, str]:
    found = fingerprints(plan)
    found |= {("measure", *names): plan.measure(*names).fingerprint for names in plan.measured()}
    found |= {("similarity", name): plan.similarity(name).fingerprint for name in plan.paired()}
    return found


def differing(one, other) -> set[str]:
    """Stages of the jobs that two plans do not share."""
    a, b = jobs(one), jobs(other)
    return {names[0] for names in a.keys() | b.keys() if a.get(names) != b.get(names)}


def test_nothing_is_measured_unless_it_is_asked_for(root):
    plan, null = make_plan(root), plan_of(root)
    assert plan.measured() == plan.paired() == []
    assert differing(plan, null) == set()
    for job in (plan.aggregate(), plan.report()):
        assert not {"measures", "similarities"} & json.loads(job.spec)["inputs"].keys()


def test_switching_on_changes_only_what_gathers(root):
    plan = plan_of(root, {})
    assert differing(plan_of(root), plan) == {"measure", "similarity", "aggregate", "report"}
    assert len(plan.measured()) == 6 and plan.paired() == ["world", "pictures"]


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ({"max_rows": 500}, {"measure", "similarity", "aggregate", "report"}),
        ({"split": "test"}, {"measure", "similarity", "aggregate", "report"}),
        ({"seed": 1}, {"measure", "similarity", "aggregate", "report"}),
        ({"names": ["rankme"]}, {"measure", "aggregate", "report"}),
        ({"similarity": False}, {"similarity", "report"}),
        ({"similarity": True, "max_rows": 10_000}, set()),
    ],
)
def test_an_option_reruns_what_it_changes(root, options, stages):
    assert differing(plan_of(root, {}), plan_of(root, options)) == stages


def test_the_order_of_names_changes_nothing(root):
    one, other = (
        plan_of(root, {"names": names}) for names in (["nesum", "rankme"], ["rankme", "nesum"])
    )
    assert differing(one, other) == set()


def test_the_method_of_the_scores_intervals_is_none_of_theirs(root):
    one = plan_of(root, {}, bootstrap={"method": "bca"})
    other = plan_of(root, {}, bootstrap={"method": "percentile"})
    assert differing(one, other) == {"bootstrap", "aggregate", "report"}
    assert "measure" in differing(one, plan_of(root, {}, bootstrap={"resamples": 300}))


def test_one_backbone_is_like_no_other(root):
    plan = plan_of(root, {}, backbones=["stats"])
    assert plan.paired() == [] and len(plan.measured()) == 2


def test_outputs_are_recorded_archived_and_found_when_stale(root, monkeypatch):
    monkeypatch.chdir(root)
    path = Path(record_plan(plan_of(root, {}), "results"))
    recorded = read_plan(path)
    assert len(planned(recorded, "measure")) == 6 and len(planned(recorded, "similarity")) == 2
    names = {str(path) for path in archived(recorded, path)}
    assert {"results/measures/world/net.parquet", "results/similarity/pictures.parquet"} <= names
    file = Path("results/measures/world/net.parquet")
    file.parent.mkdir(parents=True)
    file.write_text("nothing")
    assert [found for found, _ in find_stale(path, "results")] == [file]


def test_a_probe_of_the_same_name_is_refused_only_where_both_are_asked_for(root):
    probes = {**CONFIG["probes"], "measures": {"kind": "knn"}}
    plan_of(root, None, probes=probes)
    with pytest.raises(PermafrostError, match="the name 'measures' of a probe is reserved"):
        plan_of(root, {}, probes=probes)


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({"names": ["rankmi"]}, "'rankmi' is not one of 'uniformity', 'rankme'"),
        ({"names": []}, "measures.names"),
        ({"max_row": 5}, "measures.max_row: unknown key, did you mean 'max_rows'"),
        ({"max_rows": 1}, "measures.max_rows"),
        (True, "measures: must be "),
    ],
)
def test_a_wrong_option_is_explained(root, measures, message):
    with pytest.raises(PermafrostError, match=message):
        plan_of(root, measures)


def test_the_schema_and_the_report_know_every_measure():
    names = yaml.safe_load(SCHEMA.read_text())["$defs"]["Measures"]["properties"]["names"]
    assert (
        tuple(names["anyOf"][0]["items"]["enum"]) == MEASURES + VIEW_MEASURES == tuple(shown.WORDS)
    )
    assert frozenset(LABELLED) == shown.LABELLED
    assert frozenset(VIEW_MEASURES) == shown.OF_VIEWS == frozenset(OF_VIEWS)
