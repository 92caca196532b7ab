"""Derived datasets in a plan: which jobs there are, what stays as it is, what reruns, and what is refused."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.core.option_models import read
from permafrost.features.derived.derive import DeriveSpec
from permafrost.plan import sources
from permafrost.plan.derived_datasets import misfits_of_derived_datasets
from permafrost.plan.record import outputs
from permafrost.plan.sources import code_hash, stage_modules
from permafrost.probes.kinds import KINDS

FOLDS = {"of": "world", "folds": {"by": "image", "k": 3}}
SHARE = {"of": "pictures", "share": 0.1}
PAIR = {"train": "pictures", "test": "photos", "classes": {"a": "b", "c": ["d", "e"]}}
ALL = {"world-folds": FOLDS, "pictures-less": SHARE, "pictures-photos": PAIR}
PICTURES = CONFIG["extra_datasets"]["pictures"]


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    config = copy.deepcopy(CONFIG)
    config["extra_datasets"]["photos"] = copy.deepcopy(PICTURES)
    config["datasets"] = ["world", "pictures", "photos"]
    config |= {"profile": {}, "measures": {"augmentations": {}}}
    return config


def jobs(plan) -> dict[tuple, tuple]:
    return {
        (stage.name, *names): (job.spec, job.code, job.fingerprint)
        for stage in plan.stages()
        for names in stage.every
        for job in [stage.job(*names)]
    }


def derived(config, **entries) -> dict:
    return {**config, "derived_datasets": entries}


def changed(before, after) -> set[str]:
    return {names[0] for names in before if before[names] != after[names]}


def test_other_jobs_stay_as_they_are(root, config):
    before = jobs(make_plan(root, config))
    after = jobs(make_plan(root, derived(config, **ALL)))
    assert before.keys() < after.keys()
    assert changed(before, after) == {"aggregate", "report"}
    new = {names[1] for names in after.keys() - before.keys()}
    assert new == set(ALL)
    # without any, no job has a field of them
    specs = [json.loads(spec) for spec, _, _ in before.values()]
    assert not any("rows" in spec for spec in specs)


def test_one_more_changes_nothing_of_those_that_are_there(root, config):
    before = jobs(make_plan(root, derived(config, **{"world-folds": FOLDS})))
    after = jobs(make_plan(root, derived(config, **ALL)))
    assert changed(before, after) == {"aggregate", "report"}


def test_no_image_is_read_again_and_no_network_runs(root, config):
    plan = make_plan(root, derived(config, derive_none=FOLDS, **ALL))
    named = {stage.name: {names[0] for names in stage.every if names} for stage in plan.stages()}
    parents = {"world", "pictures", "photos"}
    for stage in ("prepare", "extract", "views", "measure", "profile", "similarity"):
        assert named[stage] <= parents, stage
    assert named["prepare"] == named["extract"] == named["measure"] == parents
    assert named["resplit"] == named["select"] == {"derive_none", *ALL}
    assert named["probe"] == named["bootstrap"] == named["compare"] == parents | named["resplit"]


def test_their_jobs_read_those_of_the_datasets_that_they_are_derived_from(root, config):
    plan = make_plan(root, derived(config, **ALL))
    resplit = json.loads(plan.resplit("pictures-photos").spec)
    assert resplit["inputs"]["images"] == {
        name: plan.prepare(name).fingerprint for name in ("pictures", "photos")
    }
    assert resplit["derived"] == PAIR and "source" not in resplit["entry"]
    select = json.loads(plan.select("pictures-photos", "stats").spec)
    assert select["inputs"] == {
        "rows": plan.resplit("pictures-photos").fingerprint,
        "features": {
            name: plan.extract(name, "stats").fingerprint for name in ("pictures", "photos")
        },
    }
    probe = json.loads(plan.probe("pictures-photos", "stats", "knn", 0).spec)
    assert probe["inputs"]["features"] == plan.select("pictures-photos", "stats").fingerprint
    assert probe["rows"] == ["pictures", "photos"]


def test_other_options_of_one_rerun_what_is_made_of_it_alone(root, config):
    before = jobs(make_plan(root, derived(config, **ALL)))
    other = {**ALL, "world-folds": {**FOLDS, "folds": {**FOLDS["folds"], "k": 4}}}
    after = jobs(make_plan(root, derived(config, **other)))
    found = {names for names in before if before[names] != after[names]}
    assert {names[1] for names in found if len(names) > 1} == {"world-folds"}
    assert {names[0] for names in found} == {
        *("resplit", "select", "probe", "bootstrap", "compare", "aggregate", "report"),
    }


def test_a_changed_dataset_reruns_what_is_derived_from_it(root, config):
    before = jobs(make_plan(root, derived(config, **ALL)))
    # of the parent: other splits, which prepare anew
    config["extra_datasets"]["photos"]["splits"]["seed"] = 5
    after = jobs(make_plan(root, derived(config, **ALL)))
    found = {names[1] for names in before if len(names) > 1 and before[names] != after[names]}
    assert found == {"photos", "pictures-photos"}


@pytest.mark.parametrize("name", list(ALL))
def test_a_title_reruns_nothing_but_what_shows_it(root, config, name):
    before = jobs(make_plan(root, derived(config, **ALL)))
    titled = {**ALL, name: {**ALL[name], "title": "Another"}}
    assert changed(before, jobs(make_plan(root, derived(config, **titled)))) <= {"report"}


def test_the_order_of_shared_classes_is_no_part_of_a_job(root, config):
    turned = {**PAIR, "classes": dict(reversed(PAIR["classes"].items()))}
    one = make_plan(root, derived(config, pair=PAIR)).resplit("pair")
    assert one == make_plan(root, derived(config, pair=turned)).resplit("pair")


def test_their_stores_are_recorded_as_images_and_features(root, config):
    rows = outputs(make_plan(root, derived(config, **ALL)), "results")
    paths = {row["path"] for row in rows}
    for name in ALL:
        for split in ("train", "val", "test"):
            assert f"results/images/{name}/{split}.zarr" in paths
            assert f"results/features/{name}/stats/{split}.zarr" in paths


def test_ranks_groups_and_names_of_suites_are_those_of_the_others(root, config):
    plain = json.loads(make_plan(root, config).aggregate().spec)
    made = json.loads(make_plan(root, derived(config, **ALL)).aggregate().spec)
    assert made["groups"] == plain["groups"] and made["ranking"] == plain["ranking"]


def test_a_table_of_folds_counts_by_its_content_and_not_by_its_path(root, config):
    def made(path, text):
        (root / path).write_text(text)
        folds = {"table": path, "column": "region"}
        return make_plan(root, derived(config, new={"of": "world", "folds": folds}, **ALL))

    one = made("a.csv", "sample_id,region\n0,north\n")
    job = one.resplit("new")
    assert "a.csv" not in job.spec and job.places == {"derived": {"folds": {"table": "a.csv"}}}
    assert jobs(made("b.csv", "sample_id,region\n0,north\n")) == jobs(one)
    other = jobs(made("a.csv", "sample_id,region\n0,south\n"))
    found = {names[1] for names, job in jobs(one).items() if names[1:] and job != other[names]}
    assert found == {"new"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sample_id,district\n0,a\n", "regions.csv: the table has no column 'region'.*district"),
        ("name,region\n0,a\n", "regions.csv: the table needs a column sample_id or group_id"),
        ("sample_id,region\n0,a\n0,b\n", "regions.csv: '0' .*has two values of region"),
        (None, "derived_datasets.new.folds: .*regions.csv cannot be read"),
    ],
)
def test_a_table_without_such_values_is_refused_before_the_run(root, config, text, said):
    if text is not None:
        (root / "regions.csv").write_text(text)
    folds = {"table": "regions.csv", "column": "region"}
    with pytest.raises(PermafrostError, match=said):
        make_plan(root, derived(config, new={"of": "world", "folds": folds}))


# --- several at once ---------------------------------------------------------------------------------


def test_each_of_several_shares_is_what_it_is_alone(root, config):
    several = {"of": "pictures", "share": [0.005, 0.1], "seed": 3}
    plan = make_plan(root, derived(config, few=several))
    assert set(plan.origins) == {"few-0_5", "few-10"}
    assert plan.datasets["few-10"]["title"] == "few: 10 %"
    alone = make_plan(root, derived(config, **{"few-10": {**several, "share": 0.1}}))
    assert jobs(alone)["resplit", "few-10"] == jobs(plan)["resplit", "few-10"]
    with pytest.raises(PermafrostError, match="few: two shares are 10 %"):
        make_plan(root, derived(config, few={**several, "share": [0.1, 0.10000001]}))


SHARED = {"one": {"pictures": "a", "photos": "b"}, "two": {"pictures": "c", "photos": ["d", "e"]}}


def test_a_transfer_is_every_pair_and_each_dataset_with_itself_on_the_same_classes(root, config):
    asked = {"transfer": {"of": ["pictures", "photos"], "classes": SHARED}}
    plan = make_plan(root, derived(config, m=asked))
    pairs = [(a, b) for a in ("pictures", "photos") for b in ("pictures", "photos")]
    assert set(plan.origins) == {f"m-{a}-to-{b}" for a, b in pairs}
    for a, b in pairs:
        spec = json.loads(plan.resplit(f"m-{a}-to-{b}").spec)
        assert spec["derived"] == {"train": a, "test": b, "classes": classes_of(a, b)}
        assert spec["inputs"]["images"].keys() == {a, b}
    # as the pair alone, whose classes are written in the other way
    alone = {"train": "pictures", "test": "photos", "classes": classes_of("pictures", "photos")}
    other = make_plan(root, derived(config, **{"m-pictures-to-photos": alone}))
    name = "m-pictures-to-photos"
    assert jobs(other)["resplit", name] == jobs(plan)["resplit", name]


def classes_of(a, b):
    return {name: {"train": o[a], "test": o[b]} for name, o in SHARED.items()}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"of": ["pictures", "x"]}, "derived from 'x', which is not a dataset of this run"),
        ({"of": ["pictures"]}, "derived_datasets.m.transfer.of"),
        (
            {"of": ["pictures", "photos"], "classes": {"one": {"pictures": "a"}}},
            "the class one names pictures, and the datasets are pictures, photos.*its classes of photos",
        ),
        (
            {"of": ["pictures", "photos"], "classes": {"one": {**SHARED["one"], "world": "a"}}},
            "the class one names .*Remedy: remove world",
        ),
        (
            {"of": ["pictures", "photos"]},
            "the entry of .* does not list its classes.*transfer.clas",
        ),
        ({"of": ["world", "photos"], "classes": {"a": {"world": "a", "photos": "b"}}}, "tasks"),
    ],
)
def test_a_transfer_that_cannot_be_meant_is_refused(root, config, asked, said):
    for name in ("pictures", "photos"):
        config["extra_datasets"][name].pop("classes", None)
    with pytest.raises(PermafrostError, match=said) as raised:
        make_plan(root, derived(config, m={"transfer": asked}))
    assert "derived_datasets.m" in str(raised.value)


@pytest.mark.parametrize("more", [{"of": "world"}, {"classes": {"a": "b"}}, {"share": 0.1}])
def test_a_transfer_goes_with_nothing_else(root, config, more):
    asked = {"transfer": {"of": ["pictures", "photos"], "classes": SHARED}, **more}
    with pytest.raises(PermafrostError, match="derived_datasets.m"):
        make_plan(root, derived(config, m=asked))


# --- pairs that are left out -----------------------------------------------------------------------


def test_a_backbone_that_is_fitted_to_train_has_no_features_of_two_datasets(root, config):
    config["extra_backbones"] |= {
        "filters": {"kind": "rcf", "mode": "empirical"},
        "random": {"kind": "rcf", "mode": "gaussian"},
    }
    config["backbones"] = ["stats", "filters", "random"]
    plan = make_plan(root, derived(config, **ALL))
    assert plan.misfits["pictures-photos", "filters"].startswith("it is fitted to train")
    assert "filters" not in plan.backbones_on("pictures-photos")
    assert plan.backbones_on("world-folds") == plan.backbones_on("world") == config["backbones"]
    assert plan.backbones_on("pictures-photos") == ["stats", "random"]
    # which is said beside its scores on folds
    assert json.loads(plan.select("world-folds", "filters").spec)["fitted"] is True
    assert "fitted" not in json.loads(plan.select("world-folds", "random").spec)


def test_derived_backbones_have_no_folds(root, config):
    config["derive"] = {"int8": [{"quantise": "int8"}]}
    plan = make_plan(root, derived(config, **ALL))
    assert plan.misfits["world-folds", "stats@int8"] == (
        "derived backbones have no folds: steps would learn from images that a fold tests"
    )
    for name in ("pictures-less", "pictures-photos"):
        assert "stats@int8" in plan.backbones_on(name)
        job = json.loads(plan.derive(name, "stats@int8").spec)
        assert job["inputs"]["features"] == {"stats": plan.select(name, "stats").fingerprint}
        read(DeriveSpec, job, where="the job can be read")
        assert job["rows"] == ALL[name].get("train", "pictures").split() + (
            ["photos"] if "train" in ALL[name] else []
        )
    probe = json.loads(plan.probe("pictures-less", "stats@int8", "knn", 0).spec)
    assert probe["rows"] == ["pictures"] and probe["derived"] == ["stats"]


def test_a_backbone_that_does_not_fit_a_parent_does_not_fit(root, config):
    config["extra_backbones"]["s1"] = {"kind": "imagestats", "input": {"bands": ["VV"]}}
    config["backbones"] = ["stats", "s1"]
    config["extra_datasets"]["photos"] |= {
        "bands": [{"name": "VV"}],
        "units": {"unit": "db"},
    }
    del config["extra_datasets"]["photos"]["sensor"]
    plan = make_plan(root, derived(config, **ALL))
    assert "it does not fit pictures" in plan.misfits["pictures-less", "s1"]
    assert ("pictures-photos", "s1") in plan.misfits
    assert all(("photos", name) not in plan.misfits for name in ("s1",))


def test_probes_that_do_not_pool_or_that_read_images_are_left_out(root, config):
    kinds = [name for name, kind in KINDS.items() if "multilabel" in kind.tasks and not kind.series]
    config["probes"] = {name.replace("_", "-"): {"kind": name} for name in kinds}
    config["extra_datasets"]["photos"] = {
        "task": "multilabel",
        "source": {"kind": "demo", "chip_size": 32, "seed": 4},
    }
    entries = {"folded": FOLDS, "less": {"of": "world", "share": 0.5}}
    entries["pair"] = {"train": "world", "test": "photos"}
    plan = make_plan(root, derived(config, **entries))
    on = {name: set(plan.probes_of(name)) for name in ("world", *entries)}
    images = {"fine-tune"}
    assert images <= on["world"]
    assert on["less"] == on["pair"] == on["world"] - images
    assert {"few-shot", "retrieval", "knn-sweep"} <= on["less"]
    assert on["folded"] == on["less"] - {"few-shot", "retrieval", "knn-sweep"}
    assert {"knn", "linear", "mlp", "random-forest"} <= on["folded"]


@pytest.mark.parametrize("entry", [{"share": 0.5}, {"folds": {"by": "image"}}])
def test_a_dense_dataset_divided_anew_has_maps(root, config, entry):
    config["extra_datasets"]["masks"] = {
        "task": "segmentation",
        "source": {"kind": "demo", "chip_size": 32},
    }
    config["datasets"].append("masks")
    config["probes"]["dense"] = {"kind": "dense_knn"}
    plan = make_plan(root, derived(config, less={"of": "masks", **entry}))
    assert plan.probes_of("less") == ["dense"]
    assert json.loads(plan.probe("less", "net", "dense", 0).spec)["rows"] == ["masks"]


@pytest.mark.parametrize(
    ("folds", "probe", "said"),
    [
        (
            {},
            {},
            "new has folds, and each of them would choose another score_threshold.*such as 0.3",
        ),
        ({"repeats": 2}, {"score_threshold": 0.3}, "folds of objects are not repeated"),
    ],
)
def test_folds_of_objects_need_what_is_the_same_in_each(root, config, folds, probe, said):
    config["extra_datasets"]["crowns"] = {"task": "detection", "source": {"kind": "demo"}}
    config["datasets"].append("crowns")
    config["probes"]["det"] = {"kind": "detection", **probe}
    with pytest.raises(PermafrostError, match=said):
        make_plan(root, derived(config, new={"of": "crowns", "folds": folds}))


# --- harder images ---------------------------------------------------------------------------------

HARDER = {"of": "pictures", "harder": {"noise": [0, 3], "only_rgb": "all", "haze": "all"}}
MADE = ["hard-noise-0", "hard-noise-3", *(f"hard-haze-{severity}" for severity in range(1, 6))]


def test_harder_images_extract_the_test_images_alone_and_change_no_other_job(root, config):
    config["derive"] = {"int8": [{"quantise": "int8"}]}
    before = jobs(make_plan(root, derived(config, less=SHARE)))
    plan = make_plan(root, derived(config, less=SHARE, hard=HARDER))
    after = jobs(plan)
    assert before.keys() < after.keys()
    assert changed(before, after) == {"aggregate", "report"}
    new = {names[:2] for names in after.keys() - before.keys()}
    stages = ("resplit", "extract_harder", "derive", "probe", "bootstrap", "compare")
    assert new == {(stage, name) for stage in stages for name in MADE}
    # three bands of three: nothing is left out for RGB alone, which is said
    assert "not red, green, blue and other bands" in plan.misfits["hard-only_rgb-1", "net"]
    job = json.loads(plan.extract_harder("hard-haze-2", "net").spec)
    assert job["inputs"] == {
        "images": plan.prepare("pictures").fingerprint,
        "rows": plan.resplit("hard-haze-2").fingerprint,
        "features": {"pictures": plan.extract("pictures", "net").fingerprint},
    }
    assert (
        job["harder"] == {"haze": 2}
        and job["extraction"] == json.loads(plan.extract("pictures", "net").spec)["extraction"]
    )
    # the probe draws the numbers of the parent's, and the loss is against its predictions
    assert json.loads(plan.probe("hard-haze-2", "net", "knn", 0).spec)["drawn_on"] == "pictures"
    scores = json.loads(plan.bootstrap("hard-haze-2", "net", "knn", 0).spec)
    assert scores["inputs"]["clean"] == plan.probe("pictures", "net", "knn", 0).fingerprint
    assert scores["harder"] == {"of": "pictures", "degradation": "haze", "severity": 2}


def test_other_bands_of_the_same_images_are_kept_and_compared_with_those_that_were_trained_on(
    root, config
):
    config["extra_backbones"]["every"] = {"kind": "imagestats", "input": {"bands": "all"}}
    config["extra_datasets"]["photos"] |= {"select": ["red"]}
    config["backbones"] = ["every"]
    asked = {"train": "pictures", "test": "photos"}
    refused = make_plan(root, derived(config, moved=asked))
    assert "reads other bands" in refused.misfits["moved", "every"]
    plan = make_plan(root, derived(config, moved={**asked, "other_bands": True}))
    assert plan.backbones_on("moved") == ["every"]
    scores = json.loads(plan.bootstrap("moved", "every", "knn", 0).spec)
    assert scores["inputs"]["clean"] == plan.probe("pictures", "every", "knn", 0).fingerprint
    assert scores["harder"] == {"of": "pictures", "degradation": "other_bands", "severity": 1}
    assert json.loads(plan.probe("moved", "every", "knn", 0).spec)["drawn_on"] == "pictures"


def test_a_seed_of_harder_images_reruns_them_alone(root, config):
    before = jobs(make_plan(root, derived(config, hard=HARDER, other=SHARE)))
    after = jobs(make_plan(root, derived(config, hard={**HARDER, "seed": 1}, other=SHARE)))
    found = {names[1] for names in before if len(names) > 1 and before[names] != after[names]}
    assert found == set(MADE)


def test_degradations_of_other_bands_and_backbones_without_images_are_left_out(root, config):
    config["extra_backbones"]["every"] = {"kind": "imagestats", "input": {"bands": "all"}}
    config["extra_backbones"]["place"] = {"kind": "coordinates", "encoder": "sines"}
    config["extra_datasets"]["photos"] |= {"bands": [{"name": "VV"}], "units": {"unit": "db"}}
    del config["extra_datasets"]["photos"]["sensor"]
    config["backbones"] = ["every", "place"]
    asked = {"of": "photos", "harder": {"haze": 1, "noise": 1, "bands_left_out": 1}}
    plan = make_plan(root, derived(config, hard=asked))
    found = {dataset: reason for (dataset, name), reason in plan.misfits.items() if name == "every"}
    assert found == {
        "hard-haze-1": "haze changes optical bands, and the dataset has none",
        "hard-bands_left_out-1": "the only band cannot be left out",
    }
    assert plan.backbones_on("hard-noise-1") == ["every"]
    assert "it reads no images" in plan.misfits["hard-noise-1", "place"]


# --- what is refused -------------------------------------------------------------------------------

MASKS = {"task": "segmentation", "source": {"kind": "demo", "chip_size": 32}}


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        (
            "new",
            {"of": "wolrd", "share": 0.1},
            "'wolrd', which is not a dataset of this run.*world",
        ),
        ("new", {"train": "world", "test": "x"}, "derived from 'x', which is not a dataset"),
        ("world", {"of": "pictures", "share": 0.1}, "there is a dataset 'world' in the catalogues"),
        ("new", {"train": "world", "test": "world"}, "it trains and tests on one dataset"),
        ("new", {"train": "world", "test": "pictures"}, "different tasks: multilabel and class"),
        (
            "new",
            {"of": "masks", "folds": {"by": "image"}},
            "new has folds, and predicted rasters of folds are not written",
        ),
        ("new", {"train": "masks", "test": "masks2"}, "need labels of images.*segmentation"),
        ("new", {**SHARE, "classes": {"a": "b"}}, "classes has no effect on images of one dataset"),
        ("new", {"of": "world", "folds": {"by": "block"}}, "folds by block need block_km"),
        ("new", {"of": "world", "folds": {"by": "year", "k": 2}}, "k has no effect by year"),
        ("new", {"of": "less", "share": 0.5}, "derived from 'less', which is derived itself"),
        ("new", {"of": "world"}, "derived_datasets.new"),
        ("new", {"of": "world", "share": 0.1, "folds": {}}, "derived_datasets.new"),
        ("new", {"of": "world", "share": 0.1, "train": "world", "test": "photos"}, "datasets.new"),
        ("new", {"train": "world", "share": 0.1}, "derived_datasets.new"),
        ("new", {"train": "world", "test": "photos", "share": 0.1}, "derived_datasets.new"),
        ("new", {}, "derived_datasets.new"),
        ("new", {**SHARE, "other_bands": True}, "other_bands has no effect without train and test"),
        ("new", {**PAIR, "other_bands": True}, "other_bands compares the same images, so classes"),
        ("new", {"of": "world", "share": 0}, r"share"),
        ("new", {"of": "world", "share": 1}, r"share"),
        ("new", {"of": "world", "folds": {"k": 1}}, r"folds.k"),
        ("new", {"of": "world", "folds": {"by": "country"}}, r"country"),
        ("new", {"of": "world", "folds": {"buffer": 3}}, "did you mean 'buffer_km'"),
        ("new", {"of": "world", "harder": {"nose": 3}}, "did you mean 'noise'"),
        ("new", {"of": "world", "harder": {"noise": 6}}, "new.harder.noise"),
        ("new", {"of": "world", "harder": {"noise": [1, 1]}}, "new.harder.noise"),
        ("new", {"of": "world", "harder": {"only_rgb": 2}}, "only_rgb has no severity 2"),
        ("new", {"of": "world", "harder": {"dates_dropped": 1}}, "world is not a series"),
        ("new", {"of": "masks", "harder": {"shift": 1}}, "shift moves what is labelled"),
        ("new", {"of": "x", "harder": {"noise": "all"}}, "new: .*'x', which is not a dataset"),
        ("new", {"of": "world", "harder": {}}, "new.harder: .*empty"),
        ("new", {"of": "less", "harder": {"noise": 1}}, "from 'less', which is derived itself"),
        ("new", {"of": "world", "harder": {"noise": 1}, "share": 0.5}, "derived_datasets.new"),
        (
            "hard",
            {"of": "world", "harder": {"noise": [1, 2]}},
            "two datasets are named 'hard-noise-2'",
        ),
        ("a/b", {"of": "world", "share": 0.5}, "derived_datasets"),
        ("..", {"of": "world", "share": 0.5}, "derived_datasets"),
        ("New", {"of": "world", "share": 0.5}, "derived_datasets"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_error(root, config, name, entry, said):
    config["extra_datasets"] |= {"masks": MASKS, "masks2": MASKS}
    config["datasets"] += ["masks", "masks2"]
    config["probes"]["dense"] = {"kind": "dense_knn", "masks": "zarr"}
    entries = {"less": {"of": "world", "share": 0.9}, name: entry}
    if name == "hard":
        entries["hard-noise-2"] = entries["less"]
    with pytest.raises(PermafrostError, match=said) as raised:
        make_plan(root, derived(config, **entries))
    text = str(raised.value)
    assert "Remedy" in text and text.count("Remedy") == 1, text


def test_several_mistakes_are_told_together(root, config):
    entries = {"one": {"of": "x", "share": 0.1}, "two": {"train": "world", "test": "world"}}
    with pytest.raises(PermafrostError) as raised:
        make_plan(root, derived(config, **entries))
    assert "'x'" in str(raised.value) and "trains and tests on one dataset" in str(raised.value)


def test_years_of_folds_may_be_written_as_numbers_or_are_refused_with_advice(root, config):
    """YAML reads 2019 as a number."""
    asked = {"of": "world", "folds": {"by": "year", "only": [2019]}}
    try:
        make_plan(root, derived(config, new=asked))
    except PermafrostError as error:
        assert "only" in str(error) and "text" in str(error)


# --- code ------------------------------------------------------------------------------------------


def forget() -> None:
    for kept in (sources._library, sources._read, stage_modules, sources._code_hash):
        getattr(kept, "cache_clear", lambda: None)()
    for name in ("stage_files", "_kept"):
        getattr(getattr(sources, name), "cache_clear", lambda: None)()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A copy of the library, whose hashes are computed."""
    ignored = shutil.ignore_patterns("__pycache__")
    folder = shutil.copytree(sources.ROOT, tmp_path / "permafrost", ignore=ignored)
    monkeypatch.setattr(sources, "ROOT", folder)
    forget()
    yield folder
    monkeypatch.undo()
    forget()


def test_code_that_reads_rows_of_others_is_a_part_of_jobs_that_do_so_alone(root, config, library):
    config["derive"] = {"int8": [{"quantise": "int8"}]}
    plan = make_plan(root, derived(config, **ALL, hard={"of": "world", "harder": {"noise": 1}}))
    specs = {
        (stage.name, *names): json.loads(stage.job(*names).spec)
        for stage in plan.stages()
        for names in stage.every
    }

    def hashes():
        forget()
        return {names: code_hash(spec["stage"], spec) for names, spec in specs.items()}

    before = hashes()
    rows = {"resplit", "select", "extract_harder", "derive", "probe"}
    every = {*ALL, "hard-noise-1"}
    readers = {
        "core/rows_store.py": (rows, every),
        "probes/embeddings/folds.py": ({"probe"}, every),
        "probes/dense/folds.py": ({"probe"}, every),
        "data/resplit/degradations.py": ({"resplit", "extract_harder"}, {"hard-noise-1"}),
    }
    for file, (stages, datasets) in readers.items():
        path = library / file
        text = path.read_text()
        path.write_text(text + "\nMORE = 1\n")
        after = hashes()
        path.write_text(text)
        found = {names for names in specs if before[names] != after[names]}
        expected = {names for names in specs if names[0] in stages and names[1] in datasets}
        assert found == expected, file
    assert hashes() == before


RGB = [
    {"name": name, "common_name": name, "unit": "uint8", "scale": 1 / 255, "offset": 0.0}
    for name in ("red", "green", "blue")
]
NIR = {"name": "B08", "common_name": "nir", "unit": "uint8", "scale": 1 / 255, "offset": 0.0}
COUNTS = [{**one, "unit": "digital_number", "scale": 1e-4} for one in RGB]


@pytest.mark.parametrize(
    ("own", "wants", "other", "fits"),
    [
        # weights that name their bands find them in any dataset that has them
        ({}, {"bands": ["red", "green", "blue"], "normalization": "weights"}, [*RGB, NIR], True),
        ({"bands": "all"}, {"normalization": "dataset"}, [*RGB, NIR], False),
        ({"bands": "all"}, {"normalization": "dataset"}, RGB[::-1], False),
        ({"bands": "all"}, {"normalization": "dataset"}, COUNTS, True),
        ({}, {"normalization": "none"}, COUNTS, False),
        ({}, {"normalization": "none"}, RGB[::-1], True),
        ({"normalization": "dataset"}, {"normalization": "none"}, COUNTS, True),
    ],
)
def test_a_pair_leaves_out_what_reads_other_numbers(own, wants, other, fits):
    offered = {
        name: (bands, [one["name"] for one in bands]) for name, bands in (("a", RGB), ("b", other))
    }
    found = misfits_of_derived_datasets(
        {"net": {"kind": "timm", "input": own}},
        {"a-b": {"derived": {"train": "a", "test": "b"}}},
        {},
        {},
        {"net": wants},
        offered,
        "here",
    )
    assert (found == {}) is fits


def test_of_a_derived_dataset_none_is_derived(root, config):
    with pytest.raises(PermafrostError, match="'world-folds', which is derived itself"):
        make_plan(
            root, derived(config, **{"world-folds": FOLDS, "x": {**SHARE, "of": "world-folds"}})
        )


@pytest.mark.parametrize(
    "entry",
    [
        {**PAIR, "share": 0.1},
        {**PAIR, "folds": {"k": 3}},
        {**SHARE, "train": "photos"},
        {**FOLDS, "test": "photos"},
    ],
)
def test_keys_that_do_not_go_together_are_refused(root, config, entry):
    with pytest.raises(PermafrostError) as raised:
        make_plan(root, derived(config, odd=entry))
    assert "derived_datasets" in str(raised.value)
