"""A pair that does not fit is left out of the plan, and the rest is as if it had never been named."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from pathlib import Path

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError
from permafrost.interface.results import Results
from permafrost.plan.catalogue import EVERY, Catalogue
from permafrost.plan.compatibility import check_feeding
from permafrost.plan.configuration import Configuration
from permafrost.plan.installed import installed
from permafrost.plan.misfits import FILE, misfit_lines, recorded_misfits
from permafrost.plan.mistakes import Mistakes
from permafrost.plan.record import outputs, record_plan

ROOT = Path(__file__).resolve().parents[3]
#: optical bands that `pictures` lacks
NET = {"kind": "imagestats", "input": {"bands": ["B02", "nir"]}}


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    config = copy.deepcopy(CONFIG)
    config["measures"] = {}
    config["extra_backbones"]["red-edge"] = NET
    config["backbones"] = ["stats", "net", "red-edge"]
    return config


def test_a_pair_that_does_not_fit_is_left_out_of_every_stage(root, config):
    plan = make_plan(root, config)
    assert set(plan.misfits) == {("pictures", "red-edge")}
    assert "no band 'nir'" in plan.misfits["pictures", "red-edge"]
    for stage, every in plan.every().items():
        assert not [names for names in every if {"pictures", "red-edge"} <= set(names)], stage
    assert ("world", "red-edge") in plan.every()["extract"]
    assert "red-edge" in plan.compare("world", "knn").spec
    assert "red-edge" not in plan.compare("pictures", "knn").spec
    assert not [row for row in outputs(plan, "r") if "pictures/red-edge" in row["path"]]


def test_what_fits_has_the_fingerprints_it_had_alone(root, config):
    """Of a plan without the misfit, all jobs up to the scores and the comparisons of the dataset are the same."""
    both = make_plan(root, config)
    alone = make_plan(root, {**config, "backbones": ["stats", "net"]})
    assert alone.misfits == {} and "left_out" not in alone.aggregate().spec
    for names in alone.pairs():
        assert alone.extract(*names) == both.extract(*names)
    for names in alone.evaluations():
        assert alone.bootstrap(*names) == both.bootstrap(*names)
    for probe in ("knn", "linear"):
        assert alone.compare("pictures", probe) == both.compare("pictures", probe)
    assert alone.hash != both.hash


def test_a_comparison_wants_two_backbones_on_its_dataset(root, config):
    plan = make_plan(root, {**config, "backbones": ["stats", "red-edge"]})
    assert {dataset for dataset, _ in plan.compared()} == {"world"}
    assert plan.paired() == ["world"]


def test_what_fits_nothing_is_in_no_list_of_the_plan_but_named(root, config):
    config["extra_backbones"]["radar"] = {"kind": "imagestats", "input": {"bands": ["vv"]}}
    config["backbones"].append("radar")
    plan = make_plan(root, config)
    assert "radar" not in plan.backbones and ("world", "radar") in plan.misfits
    assert sum(names[1] == "radar" for names in plan.misfits) == 2


def test_where_nothing_is_left_all_reasons_are_the_mistakes(root, config):
    config["extra_backbones"]["radar"] = {"kind": "imagestats", "input": {"bands": ["vv"]}}
    with pytest.raises(PermafrostError, match="2 mistakes"):
        make_plan(root, {**config, "backbones": ["radar"]})


def test_unfit_error_refuses_the_pair(root, config):
    with pytest.raises(PermafrostError, match="no band 'nir'") as caught:
        make_plan(root, {**config, "unfit": "error"})
    assert "red-edge on pictures" in caught.value.where


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        # known to no sensor and no dataset: a slip of the pen
        ({"kind": "imagestats", "input": {"bands": ["B02", "nirr"]}}, "no band 'nirr'"),
        ({"kind": "timm", "model": "resnet18", "weights": {"source": "pretrained"},
          "input": {"bands": ["B02", "B03"], "mean": [1, 1, 1], "std": [1, 1, 1]}}, "3 values"),
    ],
)  # fmt: skip
def test_what_no_dataset_could_feed_is_a_mistake_of_the_entry(root, config, entry, message):
    config["extra_backbones"]["wrong"] = entry
    config["backbones"].append("wrong")
    with pytest.raises(PermafrostError, match=message):
        make_plan(root, config)


def test_no_entry_of_the_catalogue_is_wrong_by_itself():
    """Whatever a dataset lacks (this one has a single, strange band), the entry is not to blame."""
    catalogue, mistakes = Catalogue("backbone", [ROOT / "config"], {}, ROOT), Mistakes()
    offered = functools.cache(lambda: installed(ROOT / ".snakemake" / "permafrost"))
    known = {}
    for name in catalogue.names([EVERY]):
        entry = catalogue.entry(name)
        if (found := kind_of(entry).known(entry, name, offered)) is not None:
            known[name] = (entry, name, found)
    band = {"name": "dust", "unit": "stored", "scale": 1.0, "offset": 0.0, "common_name": None}
    extraction = {"size": 224, "interpolation": "bilinear", "antialias": False}
    refused = check_feeding(known, {"odd": ([band], ["dust"])}, extraction, mistakes)
    mistakes.refuse("the catalogue")
    assert 100 < len(refused) <= len(known)


def test_the_worst_score_is_not_given_to_what_was_left_out(root, config):
    with pytest.raises(PermafrostError, match="rank red-edge last on pictures"):
        make_plan(root, {**config, "ranking": {"missing": "worst"}})


def test_a_baseline_that_fits_nothing_fills_no_gap(root, config):
    config["extra_backbones"]["radar"] = {"kind": "imagestats", "input": {"bands": ["vv"]}}
    config["backbones"].append("radar")
    config["ranking"] = {"missing": "baseline", "baseline": "radar"}
    with pytest.raises(PermafrostError, match="radar, which fits none of the datasets"):
        make_plan(root, config)
    config["ranking"]["baseline"] = "stats"
    make_plan(root, config)


def test_the_recorded_plan_says_what_is_left_out(root, config, monkeypatch):
    monkeypatch.chdir(root)
    recorded = json.loads(Path(record_plan(make_plan(root, config), "results")).read_text())
    (one,) = recorded["left_out"]
    assert (one["dataset"], one["backbone"], one["probe"]) == ("pictures", "red-edge", None)
    assert Results("results").left_out == [one]
    plan = make_plan(root, {**config, "backbones": ["stats", "net"]})
    assert "left_out" not in json.loads(Path(record_plan(plan, "results")).read_text())


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_job_that_plans_again_leaves_out_the_same(root, config, forgotten):
    plan = make_plan(root, config)
    plan.keep_misfits()
    if forgotten:
        (root / FILE).unlink()
    again = Configuration(copy.deepcopy(config), root, where="", checked=True)
    assert again.misfits == plan.misfits and again.backbones == plan.backbones
    # what was written down of another configuration is not believed
    other = {**copy.deepcopy(config), "backbones": ["stats", "net"]}
    assert Configuration(other, root, where="", checked=True).misfits == {}


def test_a_change_of_policy_changes_only_the_cells_that_need_one(root, config):
    strict, authors = make_plan(root, config), make_plan(root, {**config, "fit": "authors"})
    assert authors.misfits == {} and len(authors.pairs()) == len(strict.pairs()) + 1
    for names in strict.pairs():
        assert authors.extract(*names) == strict.extract(*names)
    for names in strict.evaluations():
        assert authors.bootstrap(*names) == strict.bootstrap(*names)
    assert '"fit":"authors"' in authors.extract("pictures", "red-edge").spec
    # the ranking is of one policy, which its table names
    assert json.loads(authors.aggregate().spec)["fit"] == "authors"
    assert "fit" not in json.loads(strict.aggregate().spec)
    # stored values, and z-scores of the train split, are what they were
    assert _changed(root, config, strict) == set()
    own = {"normalization": "weights", "mean": [0.5], "std": [0.25], "unit": "unit_interval"}
    config["extra_backbones"]["net"]["input"] = own
    changed = _changed(root, config, make_plan(root, config))
    assert changed == {("world", "net"), ("pictures", "net")}


def _changed(root, config, strict):
    other = make_plan(root, {**config, "fit": "geobench2"})
    return {names for names in strict.pairs() if other.extract(*names) != strict.extract(*names)}


@pytest.mark.parametrize("unfit", ["leave_out", "error"])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_job_that_plans_again_shares_the_same_cells(root, config, unfit, forgotten):
    config |= {"fit": "authors", "unfit": unfit}
    plan = make_plan(root, config)
    plan.keep_misfits()
    if forgotten:
        (root / FILE).unlink()
    again = Configuration(copy.deepcopy(config), root, where="", checked=True)
    assert again.cells == plan.cells and len(plan.cells) == 6


def test_what_could_not_be_written_down_leaves_nothing_older(root, config, monkeypatch):
    plan = make_plan(root, config)
    plan.keep_misfits()
    written = json.loads((root / FILE).read_text())
    (root / FILE).write_text(json.dumps([written[0], []]))  # as older code found it

    @contextlib.contextmanager
    def full_disk(path, **_):
        raise PermafrostError("the disk is full", where=path)
        yield

    monkeypatch.setattr("permafrost.plan.misfits.whole_file", full_disk)
    make_plan(root, config).keep_misfits()
    again = Configuration(copy.deepcopy(config), root, where="", checked=True)
    assert again.misfits == plan.misfits


def test_the_order_of_names_changes_no_record_of_what_is_left_out(root, config):
    config["extra_backbones"]["blue-nir"] = NET
    config["backbones"].append("blue-nir")
    plan, other = make_plan(root, config), {**config, "backbones": config["backbones"][::-1]}
    assert len(plan.misfits) == 2
    assert make_plan(root, other).aggregate() == plan.aggregate()


def test_the_data_of_a_suite_are_the_same_whichever_backbones_fit(root, config):
    config["suite"] = {"name": "mine", "version": 1}
    every = make_plan(root, config)
    some = make_plan(root, {**config, "backbones": ["red-edge"]})
    assert list(some.datasets) == ["world"]
    assert some.config["suite"]["data"] == every.config["suite"]["data"]


def test_lines_for_a_terminal(root, config):
    plan = make_plan(root, config)
    first, line = misfit_lines(recorded_misfits(plan.misfits), len(plan.pairs()))
    assert "1 of 6 pairs" in first
    assert line.startswith("  red-edge on pictures: the dataset 'pictures' has no band 'nir'")
    assert list(misfit_lines([], 4)) == []
    part = recorded_misfits({("world", "table", probe): "why" for probe in ("a", "b")})
    first, *lines = misfit_lines(part, 4)
    assert first == "Left out:  some probes of 1 pair do not fit"
    assert lines == ["  table on world, a: why", "  table on world, b: why"]
    first, *_ = misfit_lines([*part, *recorded_misfits(plan.misfits)], 4)
    assert "1 of 5 pairs of a backbone and a dataset and some probes of 1 pair" in first


def test_cells_that_are_fed_the_same_have_one_input_id(root, config):
    config["extra_backbones"] |= {
        "twin": {"kind": "imagestats", "title": "another name"},
        "every": {"kind": "imagestats", "input": {"bands": "all"}},
        "small": {"kind": "imagestats", "input": {"size": 64}},
        "other": {"kind": "rcf", "input": {"normalization": "none"}},
    }
    config["backbones"] = ["stats", "twin", "every", "small", "other", "net", "own"]
    plan = make_plan(root, config)
    ids = {names: plan.fed(*names)["input_id"] for names in plan.pairs()}
    pictures = {name for (dataset, name), made in ids.items() if made == ids["pictures", "stats"]}
    # these pictures have red, green and blue alone
    assert pictures == {"stats", "twin", "every"}
    world = {name for (dataset, name), made in ids.items() if made == ids["world", "stats"]}
    assert world == {"stats", "twin"}
    (cell,) = (
        one
        for one in json.loads(plan.aggregate().spec)["cells"]
        if (one["dataset"], one["backbone"]) == ("world", "stats")
    )
    assert (cell["fit"], cell["bands_real"], cell["bands_wanted"]) == ("exact", 3, 3)


def test_a_backbone_without_pixels_has_a_cell_without_a_fit(root, config):
    config["extra_backbones"]["where"] = {"kind": "coordinates", "encoder": "harmonics"}
    config["backbones"] = ["where", "stats"]
    plan = make_plan(root, {**config, "fit": "authors"})
    assert plan.fed("world", "where")["fit"] is None
    assert plan.extract("world", "where") == make_plan(root, config).extract("world", "where")


def test_a_dataset_that_fits_no_backbone_stays_in_its_groups(root, config):
    config["backbones"] = ["red-edge"]
    groups = dict(json.loads(make_plan(root, config).aggregate().spec)["groups"])
    assert groups["all"] == ["pictures", "world"]
