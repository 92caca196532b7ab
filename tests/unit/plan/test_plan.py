from __future__ import annotations

import copy
import json
import os
import shutil

import pytest
import yaml
from helpers.plans import CONFIG, changed, fill_root, fingerprints, make_plan
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.option_models import read
from permafrost.data.store.prepare import PrepareSpec
from permafrost.plan.record import outputs
from PIL import Image

#: options of extraction that matter to every task
CONFIG_EXTRACTION = ("size", "interpolation", "antialias", "dtype", "precision", "compile")


@pytest.fixture
def root(tmp_path):
    return fill_root(tmp_path / "root")


@pytest.fixture
def config():
    return copy.deepcopy(CONFIG)


def jobs_of_backbone(plan, name: str) -> set[tuple]:
    """All jobs that must run again when one backbone changes."""
    jobs = {("aggregate",), ("report",)} | {("compare", *pair) for pair in plan.compared()}
    jobs |= {("extract", dataset, name) for dataset in plan.datasets}
    for names in plan.evaluations():
        if names[1] == name:
            jobs |= {("probe", *names), ("bootstrap", *names)}
    return jobs


def jobs_of_dataset(plan, name: str) -> set[tuple]:
    jobs = {("aggregate",), ("report",)}
    return jobs | {job for job in fingerprints(plan) if len(job) > 1 and job[1] == name}


# --- what changes nothing -----------------------------------------------------------------------


def test_the_same_configuration_gives_the_same_plan(root):
    assert changed(make_plan(root), make_plan(root)) == set()


def test_key_order_and_comments_change_nothing(root):
    text = yaml.safe_dump(CONFIG, sort_keys=False)
    backwards = yaml.safe_dump(_reversed(CONFIG), sort_keys=False)
    assert text != backwards
    again = yaml.safe_load("# a comment\n" + backwards.replace("\n", "  # another\n", 3))
    assert changed(make_plan(root, yaml.safe_load(text)), make_plan(root, again)) == set()


def _reversed(value):
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return value


def test_number_notation_changes_nothing(root, config):
    config["probes"]["knn"]["k"] = 5.0
    config["probes"]["linear"] |= {"c_max": 10000, "c_min": 0.000001}
    config["extra_backbones"]["net"]["input"]["size"] = 64.0
    config["bootstrap"] = {"resamples": 200.0, "confidence": 0.9500}
    assert changed(make_plan(root), make_plan(root, config)) == set()


def test_writing_out_a_default_changes_nothing(root, config):
    config["probes"]["knn"] |= {"k": 5, "metric": "l2"}
    config["extraction"] = {"size": 224}
    config["extra_datasets"]["world"]["source"]["seed"] = 0
    assert changed(make_plan(root), make_plan(root, config)) == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(runtime={"device": "cuda", "batch_size": 7, "workers": 9}),
        lambda c: c["extra_backbones"]["net"].update(runtime={"batch_size": 3}),
        lambda c: c["extra_backbones"]["net"].update(title="A net", citation="Somebody 2020"),
        lambda c: c["extra_datasets"]["world"].update(title="A world", licence="CC0"),
        lambda c: c["extra_datasets"]["world"].update(
            size_bytes=7, url="http://a", download=[{"url": "http://a/b", "path": "c"}]
        ),
        lambda c: c.update(backbones=c["backbones"][::-1]),
        lambda c: c.update(datasets=c["datasets"][::-1]),
        lambda c: c.update(probes=dict(reversed(c["probes"].items()))),
        lambda c: c["probes"].update(off=None),
        lambda c: c.update(results="elsewhere"),
        lambda c: c.update(archive={"include_stores": True}),
        lambda c: c["extra_backbones"].update(unused={"kind": "rcf"}),
    ],
    ids=[
        "runtime",
        "own batch size",
        "title of a backbone",
        "title of a dataset",
        "download of a dataset",
        "order of backbones",
        "order of datasets",
        "order of probes",
        "probe switched off",
        "results folder",
        "archive",
        "unused entry",
    ],
)
def test_what_changes_no_number_changes_no_fingerprint(root, config, change):
    change(config)
    assert changed(make_plan(root), make_plan(root, config)) == set()


@pytest.mark.parametrize("absolute", [True, False])
def test_moving_the_data_folder_changes_nothing(root, config, absolute):
    before = make_plan(root)
    shutil.move(root / "data", root / "moved")
    config["data"] = str(root / "moved") if absolute else "moved"
    assert changed(before, make_plan(root, config)) == set()


def test_moving_the_whole_checkout_changes_nothing(root, tmp_path):
    before = make_plan(root)
    shutil.copytree(root, tmp_path / "clone")
    assert changed(before, make_plan(tmp_path / "clone")) == set()


@pytest.mark.parametrize("file", ["data/net.safetensors", "data/pictures.zip", "own.py"])
def test_touching_a_file_changes_nothing(root, file):
    before = make_plan(root)
    os.utime(root / file, ns=(10**18, 10**18))
    assert changed(before, make_plan(root)) == set()


def test_the_same_paths_written_differently_change_nothing(root, config):
    before = make_plan(root)
    config["extra_backbones"]["net"]["weights"]["path"] = "./{data}//net.safetensors"
    config["extra_backbones"]["own"]["entrypoint"] = f"{root}/data/../own.py:build"
    config["extra_datasets"]["pictures"]["source"]["path"] = "{data}/./pictures.zip"
    assert changed(before, make_plan(root, config)) == set()


def test_what_is_renamed_with_the_same_content_changes_nothing(root, config):
    folder = root / "data" / "classes"
    for number in range(4):
        path = folder / "az"[number // 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    config["extra_datasets"]["pictures"]["source"]["path"] = "{data}/classes"
    before = make_plan(root, copy.deepcopy(config))
    folder.rename(root / "data" / "renamed")
    (root / "data" / "net.safetensors").rename(root / "data" / "other.safetensors")
    (root / "own.py").rename(root / "mine.py")
    config["extra_datasets"]["pictures"]["source"]["path"] = "{data}/renamed"
    config["extra_backbones"]["net"]["weights"]["path"] = "{data}/other.safetensors"
    config["extra_backbones"]["own"]["entrypoint"] = "mine.py:build"
    after = make_plan(root, config)
    assert changed(before, after) == set()
    places = after.extract("world", "net").places
    assert places["entry"] == {"weights": {"path": "{data}/other.safetensors"}}
    assert after.prepare("pictures").places["entry"]["source"] == {"path": "{data}/renamed"}
    (root / "data" / "renamed" / "a").rename(root / "data" / "renamed" / "b")
    assert changed(before, make_plan(root, config)) == jobs_of_dataset(before, "pictures")


def test_files_that_change_places_count(root, config):
    for name, content in (("a.json", "1"), ("b.json", "2")):
        (root / name).write_text(content)
    config["extra_backbones"]["own"]["files"] = ["a.json", "b.json"]
    before = make_plan(root, copy.deepcopy(config))
    config["extra_backbones"]["own"]["files"] = [str(root / "b.json"), "./a.json"]
    assert changed(before, make_plan(root, copy.deepcopy(config))) == set()
    (root / "a.json").rename(root / "c.json")
    (root / "b.json").rename(root / "a.json")
    (root / "c.json").rename(root / "b.json")
    assert changed(before, make_plan(root, config)) == jobs_of_backbone(before, "own")


# --- what changes something, and how far ----------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry["input"].update(size=32),
        lambda entry: entry.update(seed=1),
        lambda entry: entry.update(pooling="mean"),
        lambda entry: entry.update(options={"depth": 3}),
    ],
)
def test_one_backbones_entry_changes_its_own_jobs_and_what_gathers_them(root, config, change):
    before = make_plan(root)
    change(config["extra_backbones"]["net"])
    assert changed(before, make_plan(root, config)) == jobs_of_backbone(before, "net")


@pytest.mark.parametrize(("file", "backbone"), [("data/net.safetensors", "net"), ("own.py", "own")])
def test_the_content_of_a_backbones_file_changes_its_own_jobs(root, file, backbone):
    before = make_plan(root)
    (root / file).write_bytes((root / file).read_bytes() + b"\nMORE = 1\n")
    assert changed(before, make_plan(root)) == jobs_of_backbone(before, backbone)


@pytest.mark.parametrize("name", ["helper.py", "shared/deep.py"])
def test_a_module_that_an_entry_point_imports_is_part_of_its_identity(root, name):
    (root / "own.py").write_text("import helper\ndef build(inputs): ...\n")
    (root / "helper.py").write_text("from shared import deep\n")
    (root / "shared").mkdir()
    (root / "shared" / "deep.py").write_text("")
    before = make_plan(root)
    (root / name).write_text((root / name).read_text() + "WIDTH = 3\n")
    assert changed(before, make_plan(root)) == jobs_of_backbone(before, "own")


def test_an_entry_point_that_is_no_python_is_named(root):
    (root / "own.py").write_text("def build(:\n")
    with pytest.raises(PermafrostError, match="cannot be parsed") as caught:
        make_plan(root)
    assert caught.value.where == "extra_backbones in the configuration: own"


def test_the_content_of_an_archive_changes_all_jobs_of_its_dataset_only(root):
    before = make_plan(root)
    (root / "data/pictures.zip").write_bytes(b"Pictures")
    assert changed(before, make_plan(root)) == jobs_of_dataset(before, "pictures")


def test_one_datasets_entry_changes_all_jobs_of_this_dataset_only(root, config):
    before = make_plan(root)
    config["extra_datasets"]["world"]["source"]["chip_size"] = 40
    assert changed(before, make_plan(root, config)) == jobs_of_dataset(before, "world")


def test_a_probes_option_changes_its_own_jobs_and_what_gathers_them(root, config):
    before = make_plan(root)
    config["probes"]["knn"]["k"] = 7
    expected = {job for job in fingerprints(before) if "knn" in job}
    assert changed(before, make_plan(root, config)) == expected | {("aggregate",), ("report",)}


def test_bootstrap_options_change_scores_and_no_predictions(root, config):
    before = make_plan(root)
    config["bootstrap"] = {"resamples": 500}
    stages = {job[0] for job in changed(before, make_plan(root, config))}
    assert stages == {"bootstrap", "aggregate", "report"}


def test_calibration_is_asked_of_probes_that_give_probabilities(root, config):
    before = make_plan(root)
    scoring = json.loads(before.bootstrap("pictures", "stats", "knn", 0).spec)["options"]
    assert scoring.pop("calibration") == {"bins": 15, "folds": 5, "floor": None, "like": None}
    options = json.loads(before.compare("pictures", "knn").spec)["options"]
    assert options["calibration"] == {"bins": 15, "like": None}
    config["calibration"] = None
    without = make_plan(root, config)
    assert json.loads(without.bootstrap("pictures", "stats", "knn", 0).spec)["options"] == scoring
    stages = {job[0] for job in changed(before, without)}
    assert stages == {"bootstrap", "compare", "aggregate", "report"}


def test_folds_of_temperatures_change_no_comparison(root, config):
    before = make_plan(root)
    config["calibration"] = {"folds": 4}
    stages = {job[0] for job in changed(before, make_plan(root, config))}
    assert stages == {"bootstrap", "aggregate", "report"}


def test_prediction_sets_rerun_scores_of_tasks_with_one_class(root, config):
    before = make_plan(root)
    config["calibration"] = {"sets": {"alpha": 0.2}}
    after = make_plan(root, config)
    scoring = json.loads(after.bootstrap("pictures", "stats", "knn", 0).spec)["options"]
    assert scoring["calibration"]["sets"] == {"alpha": 0.2, "score": "lac", "repeats": 10}
    rerun = changed(before, after)
    assert {job[0] for job in rerun} == {"bootstrap", "aggregate", "report"}
    assert {job[1] for job in rerun if job[0] == "bootstrap"} == {"pictures"}


def test_extraction_options_change_everything_but_the_images(root, config):
    before = make_plan(root)
    config["extraction"] = {"dtype": "float16"}
    kept = {job for job in fingerprints(before) if job[0] == "prepare"}
    assert changed(before, make_plan(root, config)) == set(fingerprints(before)) - kept


@pytest.fixture
def dense(config):
    """The configuration with a segmentation dataset and two probes for it."""
    config["datasets"].append("pixels")
    config["extra_datasets"]["pixels"] = {"task": "segmentation", "source": {"kind": "demo"}}
    config["probes"] |= {
        "seg-linear": {"kind": "segmentation", "head": "linear"},
        "seg-knn": {"kind": "dense_knn"},
    }
    return config


def test_maps_are_extracted_for_segmentation_only(root, dense):
    plan = make_plan(root, dense)
    told = {d: json.loads(plan.extract(d, "net").spec)["extraction"] for d in plan.datasets}
    assert told["pixels"]["maps"] is True and told["pixels"]["maps_dtype"] == "float16"
    # the entry sets the size
    expected = set(CONFIG_EXTRACTION) - {"size"}
    assert told["pictures"].keys() == told["world"].keys() == expected


def test_a_backbones_layers_change_its_jobs_on_segmentation_only(root, dense):
    before = make_plan(root, copy.deepcopy(dense))
    dense["extra_backbones"]["net"]["layers"] = ["layer4"]
    jobs = jobs_of_backbone(before, "net") & jobs_of_dataset(before, "pixels")
    assert changed(before, make_plan(root, dense)) == jobs


def test_the_type_of_maps_changes_segmentation_only(root, dense):
    before = make_plan(root, copy.deepcopy(dense))
    dense["extraction"] = {"maps_dtype": "float32"}
    jobs = jobs_of_dataset(before, "pixels") - {("prepare", "pixels")}
    assert changed(before, make_plan(root, dense)) == jobs


def test_heads_run_once_per_seed_and_dense_neighbours_once(root, dense):
    plan = make_plan(root, dense)
    assert plan.probes_of("pixels") == ["seg-linear", "seg-knn"]
    assert plan.seeds_of("seg-linear") == [0, 1] and plan.seeds_of("seg-knn") == [0]


def test_an_added_backbone_changes_no_evaluation_of_the_others(root, config):
    before = fingerprints(make_plan(root))
    config["extra_backbones"]["more"] = {"kind": "rcf"}
    config["backbones"].append("more")
    after = fingerprints(make_plan(root, config))
    assert {job[0] for job in before if before[job] != after[job]} == {
        "compare",
        "aggregate",
        "report",
    }


def test_no_two_jobs_share_a_fingerprint(root):
    found = fingerprints(make_plan(root))
    assert len(set(found.values())) == len(found)


# --- jobs -------------------------------------------------------------------------------------


def test_a_job_is_identified_by_its_spec_and_code_as_a_stage_is_told_them(root):
    job = make_plan(root).extract("world", "net")
    assert job.spec == canonical_json(json.loads(job.spec))
    assert job.fingerprint == fingerprint(job.spec, job.code)


def test_a_job_names_the_fingerprints_of_its_inputs(root):
    plan = make_plan(root)
    names = ("world", "net", "knn", 0)
    assert json.loads(plan.bootstrap(*names).spec)["inputs"] == {
        "predictions": plan.probe(*names).fingerprint
    }
    assert json.loads(plan.probe(*names).spec)["inputs"] == {
        "features": plan.extract("world", "net").fingerprint
    }
    assert json.loads(plan.extract("world", "net").spec)["inputs"] == {
        "images": plan.prepare("world").fingerprint
    }


def test_probes_without_chance_run_once_and_others_once_per_seed(root, config):
    config["probes"]["adam"] = {"kind": "linear", "solver": "adam"}
    plan = make_plan(root, config)
    assert [plan.seeds_of(name) for name in ("knn", "linear", "adam")] == [[0], [0], [0, 1]]
    assert len(list(plan.evaluations())) == 2 * 3 * 4


def test_looking_up_jobs_reads_no_file(root):
    plan = make_plan(root)
    expected = fingerprints(plan)
    fresh = make_plan(root)
    shutil.rmtree(root)
    assert fingerprints(fresh) == expected


def test_one_backbone_alone_is_compared_with_nothing(root, config):
    config["backbones"] = ["stats"]
    assert make_plan(root, config).compared() == []


# --- dates ------------------------------------------------------------------------------------


@pytest.fixture
def series(config) -> dict:
    """Beside datasets of single images one of series, and a backbone that is fed all dates at once."""
    source = {"kind": "demo", "chip_size": 32}
    config["extra_datasets"]["crops"] = {
        "task": "classification", "dates": "series", "source": source,
    }  # fmt: skip
    config["datasets"] += ["crops"]
    fed = {"dates": "all"}
    config["extra_backbones"]["whole"] = {**config["extra_backbones"]["own"], "input": fed}
    config["backbones"] = ["stats", "whole"]
    config["probes"]["when"] = {"kind": "ltae"}
    return config


def test_a_probe_of_series_is_planned_for_series_alone(root, series):
    plan = make_plan(root, series)
    assert plan.probes_of("crops") == ["knn", "linear", "when"]
    assert plan.probes_of("pictures") == ["knn", "linear"] and plan.seeds_of("when") == [0, 1]


def test_probes_of_a_backbone_that_is_fed_all_dates_do_not_know_of_dates(root, series):
    first = fingerprints(make_plan(root, series))
    for probe in ("knn", "linear"):
        series["probes"][probe] |= {"temporal": "max", "shuffle_dates": True}
    second = fingerprints(make_plan(root, series))
    changed = {job[1:4] for job in first if first[job] != second[job] and job[0] == "probe"}
    assert changed == {("crops", "stats", "knn"), ("crops", "stats", "linear")}


# --- errors -----------------------------------------------------------------------------------


def test_a_probe_set_to_null_is_switched_off(root, config):
    config["probes"]["linear"] = None
    plan = make_plan(root, config)
    assert plan.probes_of("world") == ["knn"]
    assert not any("linear" in job for job in fingerprints(plan))


@pytest.mark.parametrize("probes", [{}, {"knn": None, "linear": None}])
def test_a_dataset_that_no_probe_serves_is_an_error(root, config, probes):
    config |= {"probes": probes, "datasets": ["world"]}
    with pytest.raises(PermafrostError, match="serves the task 'multilabel'") as caught:
        make_plan(root, config)
    assert caught.value.where == "config.yaml: probes"
    remedy = caught.value.remedy
    assert remedy.startswith("add a probe of kind ") and " knn or " in remedy
    assert "segmentation" not in remedy and "ridge" not in remedy


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("data/net.safetensors", "extra_backbones in the configuration: net"),
        ("own.py", "extra_backbones in the configuration: own"),
        ("data/pictures.zip", "extra_datasets in the configuration: pictures"),
    ],
)
def test_a_missing_file_is_named_with_the_entry_that_needs_it(root, file, entry):
    (root / file).unlink()
    with pytest.raises(PermafrostError) as caught:
        make_plan(root)
    assert os.path.basename(file) in caught.value.problem
    assert caught.value.where == entry
    assert caught.value.remedy


def test_an_unknown_backbone_is_an_error(root, config):
    config["backbones"] = ["stat"]
    with pytest.raises(PermafrostError, match="did you mean 'stats'"):
        make_plan(root, config)


@pytest.fixture
def objects(config):
    """The configuration with a detection dataset and a probe for it."""
    config["datasets"].append("crowns")
    config["extra_datasets"]["crowns"] = {"task": "detection", "source": {"kind": "demo"}}
    config["probes"]["det-fcos"] = {"kind": "detection"}
    return config


def test_detection_has_maps_a_head_per_seed_and_a_second_output(root, objects):
    plan = make_plan(root, objects)
    assert json.loads(plan.extract("crowns", "net").spec)["extraction"]["maps"] is True
    assert plan.probes_of("crowns") == ["det-fcos"] and plan.seeds_of("det-fcos") == [0, 1]
    rows = [row for row in outputs(plan, "results") if row["stage"] == "detections"]
    assert {row["path"] for row in rows} == {
        f"results/detections/crowns/{backbone}/seed{seed}/det-fcos"
        for backbone in plan.backbones
        for seed in (0, 1)
    }
    made = {row["path"].split("/", 2)[2]: row["fingerprint"] for row in rows}
    for row in outputs(plan, "results"):
        if row["stage"] == "probe" and row["dataset"] == "crowns":
            name = row["path"].removeprefix("results/predictions/").removesuffix(".parquet")
            assert made[name] == row["fingerprint"]


def test_modalities_keep_their_order_on_the_way_to_their_job(tmp_path):
    """Masks and boxes lie on the first one, and canonical JSON sorts by name."""
    config = copy.deepcopy(CONFIG)
    both = {name: {"bands": [{"name": name}], "units": {"unit": "db"}} for name in ("vv", "hh")}
    config["extra_datasets"]["world"] = {
        "task": "detection",
        "modalities": both,
        "classes": ["ship"],
        "source": {
            "kind": "tortilla",
            "path": "{data}/pictures.zip",
            "image": {"hh": 0, "vv": 1},
            "boxes": "boxes",
        },
    }
    config["probes"] = {"det": {"kind": "detection"}}
    config |= {"datasets": ["world"], "backbones": ["bands"]}
    config["extra_backbones"]["bands"] = {"kind": "imagestats", "input": {"bands": "all"}}
    prints = set()
    for order in (["vv", "hh"], ["hh", "vv"]):
        world = config["extra_datasets"]["world"]
        world["modalities"] = {name: both[name] for name in order}
        job = make_plan(fill_root(tmp_path / order[0]), config).prepare("world")
        content = json.loads(job.spec)
        content["entry"]["source"]["path"] = "where places are put back"
        spec = read(PrepareSpec, content, where="prepare")
        assert list(spec.read_entry().modalities) == order
        prints.add(job.fingerprint)
    assert len(prints) == 2
