"""Estimates: sizes that are known before anything runs, work by hand, corrections, what is done, and the words."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.snakemake_internals import METADATA, Record, read_records
from permafrost.features.kept_layers import KeptLayers
from permafrost.operate.estimate import work as work_module
from permafrost.operate.estimate.estimate import Machines, estimate, uncorrected
from permafrost.operate.estimate.shown import (
    check_lines,
    disk,
    duration,
    lines,
    maps_at_once,
    rates_json,
)
from permafrost.operate.estimate.sizes import dataset_size, feature_size, store_bytes
from permafrost.operate.estimate.work import Context, default_rates, read_values, work_of
from permafrost.plan.configured import read_configuration
from permafrost.plan.grid import LABELS
from permafrost.probes.kinds import KINDS
from permafrost.stages.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "config/examples").glob("*.yaml"))
ONE = Machines(1, 0)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "Snakefile").write_text("# permafrost\n")
    (tmp_path / "config/config.yaml").write_text(
        f"catalogues: ['{ROOT}/config']\nbackbones: [imagestats, rcf]\ndatasets: [demo-landcover]\n"
        "probes: {knn: {kind: knn}, linear: {kind: linear, c_count: 5}}\nmeasures: {}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def estimated(project: Path, records=None, machines=ONE, **options):
    grid, why = read_configuration(project)
    assert why is None
    return estimate(
        grid, default_rates(), machines, results="results", records=records or {}, **options
    )


def made(project: Path, seconds: dict[str, float], *, of_other_plan=()) -> dict[str, Record]:
    """Records of all jobs of the stages and kinds that are named, one after the other."""
    grid, _ = read_configuration(project)
    records, clock = {}, 1000.0
    for job in estimated(project).jobs:
        if job.kind not in seconds:
            continue
        wanted = getattr(grid, job.stage)(*job.names).fingerprint
        known = "of another plan" if job.kind in of_other_plan else wanted
        for path in job.paths:
            records[path] = Record(frozenset({known}), clock, clock + seconds[job.kind])
            if path.endswith(".zarr"):
                (project / path).mkdir(parents=True, exist_ok=True)
        clock += seconds[job.kind]
    return records


def test_all_stages_and_kinds_have_rates_and_say_what_their_time_grows_with():
    known = default_rates().stages
    assert set(LABELS) - {"probe"} <= set(known)
    laws = {kind.work for kind in KINDS.values()}
    assert laws <= set(known) and laws == set(work_module._OF_PROBES) >= set(work_module._READ)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_estimated_without_its_data(example):
    """So that nobody starts a run, or a download, blind."""
    for config in (Path("config/config.yaml"), example):
        grid, _ = read_configuration(ROOT, [ROOT / config])
        found = estimate(grid, default_rates(), Machines(8, 1), results="nowhere", records={})
        assert all(job.seconds > 0 and not job.done for job in found.jobs)
        assert found.wall() > 0 and all(size > 0 for size in disk(found).values())


def write_shape(array: Path, shape: list[int]) -> None:
    array.mkdir(parents=True)
    (array / "zarr.json").write_text(json.dumps({"shape": shape}))


def test_stored_features_of_blocks_count_and_are_exact_where_a_store_has_them(tmp_path):
    entry = {"task": "classification", "dates": "one", "source": {"kind": "folder"}}
    size = dataset_size(entry, tmp_path / "none", 100)
    vit = {"kind": "timm", "input": {}, "parameters": 86_000_000}

    def stored(depths=None, entry=vit, *, maps=False, dtype="float32") -> float:
        options = {"size": 224, "dtype": dtype, "maps_dtype": "float16"}
        options |= {} if depths is None else {"depths": depths}
        features = feature_size(entry, size, options, maps, tmp_path / "store")
        return store_bytes(size, features, options)

    assert stored() == 100 * 768 * 4
    assert stored("all") == 13 * stored() and stored([0.5, 1]) == 3 * stored()
    assert stored("all", dtype="float16") == stored("all") / 2
    # not of tasks of pixels, nor of what has no blocks
    assert stored("all", maps=True) == stored(maps=True)
    for kind in ("imagestats", "coordinates"):
        assert stored("all", {**vit, "kind": kind}) == stored()
    # a store from before the option holds none
    write_shape(tmp_path / "store/embeddings", [60, 512])
    assert stored("all") == 13 * stored() == 13 * 100 * 4 * 512
    write_shape(tmp_path / "store/block1", [60, 64])
    write_shape(tmp_path / "store/block12", [60, 256])
    assert stored("all") == 100 * 4 * (512 + 64 + 256) and stored() == 100 * 4 * 512


@pytest.mark.parametrize(
    ("model", "most", "kept", "layers"),
    [
        # (channels, height) at 224 pixels: of a ViT of 86 M parameters, and of a pyramid as large
        ("vit_base", None, None, [(768, 14)] * 4),
        ("vit_base", 256, None, [(256, 14)] * 4),
        ("vit_base", None, KeptLayers(strides=(16,)), [(768, 14)]),
        ("resnet101", None, None, [(1536, 7), (768, 14), (384, 28), (192, 56)]),
        ("resnet101", 256, None, [(256, 7), (256, 14), (256, 28), (192, 56)]),
        ("resnet101", None, KeptLayers(strides=(16,)), [(768, 14)]),
        ("resnet101", None, KeptLayers(("a",), (16,)), [(768, 14), (192, 56)]),
    ],
)
def test_sizes_of_maps_know_layers_and_channels(tmp_path, model, most, kept, layers):
    size = dataset_size(
        {"task": "segmentation", "dates": "one", "source": {}}, tmp_path / "none", 100
    )
    entry = {"kind": "timm", "input": {}, "parameters": 86_000_000, "model": model}
    options = {"size": 224, **({"maps_channels": most} if most else {})}
    found = feature_size(entry, size, options, True, tmp_path / "store", kept)
    assert found.maps == sum(channels * height**2 for channels, height in layers)
    assert found.every_channel == sum(channels for channels, _ in layers)
    # of the patches of 16 pixels
    assert (found.channels, found.patches) == next(
        (channels, 14**2) for channels, height in layers if height == 14
    )
    for place, (channels, height) in enumerate(layers):
        write_shape(tmp_path / f"store/map{place}", [60, channels, height, height])
    assert feature_size(entry, size, options, True, tmp_path / "store") == found


def test_an_extraction_on_a_gpu_takes_the_cores_that_its_rule_asks_for(project):
    def cores(gpus: int) -> dict[str, int]:
        return {
            job.stage: job.threads for job in estimated(project, machines=Machines(12, gpus)).jobs
        }

    on_cpu, on_gpu = cores(0), cores(1)
    assert (on_cpu["prepare"], on_cpu["extract"]) == (2, 2)
    assert on_gpu == {**on_cpu, "extract": 6}


def test_the_number_of_images_comes_from_the_card_the_entry_or_an_assumption(tmp_path):
    entry = {"task": "classification", "dates": "one", "source": {"kind": "folder"}}
    nothing = tmp_path / "card.json"
    assumed = dataset_size(entry, nothing, 100)
    assert (assumed.known, assumed.images) == ("assumed", {"train": 60, "val": 20, "test": 20})
    published = {**entry, "published": "20000 / 1000 / 500 images of 120 px, 3 GB"}
    size = dataset_size({**published, "bands": ["a", "b"], "classes": ["x"] * 19}, nothing)
    assert size.images == {"train": 20000, "val": 1000, "test": 500}
    assert (size.side, size.channels, size.classes, size.known) == (120, 2, 19, "published")
    assert size.values == 21500 * 2 * 120**2
    several = {**published, "dates": "series", "most_dates": 7}
    assert dataset_size(several, nothing).values == 7 * 21500 * 3 * 120**2
    chips = {"kind": "demo", "chips": {"train": 6, "val": 2, "test": 3}, "chip_size": 32}
    size = dataset_size({**entry, "source": chips}, nothing)
    assert (size.count, size.side, size.known) == (11, 32, "generated")


def test_images_that_are_here_are_counted_where_nothing_else_says_how_many(project):
    from PIL import Image

    for name in ("field", "forest"):
        (project / "data/scenes" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (40, 24)).save(project / "data/scenes" / name / f"{number}.png")
    files = project / "mine.yaml"
    files.write_text(
        "datasets: [mine]\nextra_datasets:\n  mine:\n    task: classification\n    sensor: rgb\n"
        "    bands: [red, green, blue]\n    units: {unit: uint8}\n"
        "    source: {kind: folder, path: '{data}/scenes'}\n    splits: {method: random}\n"
    )
    grid, why = read_configuration(project, [files])
    assert why is None
    entry, card = grid.datasets["mine"], project / "none.json"
    found = dataset_size(entry, card, 500, project / "data")
    assert (found.known, found.count, found.side) == ("counted", 20, 40)
    assert (found.channels, found.classes, found.dates) == (3, 2, 1)
    # not without the folder of data, nor where something is wrong with them, which `prepare` says
    assert dataset_size(entry, card, 500).known == "assumed"
    assert dataset_size(entry, card, 500, project / "elsewhere").known == "assumed"
    for file in (project / "data/scenes").rglob("*.png"):
        file.write_bytes(b"no image")
    assert dataset_size(entry, card, 500, project / "data").known == "assumed"


def test_work_is_what_is_counted_by_hand(project):
    context = estimated(project).context
    size = context.datasets["demo-landcover"]
    train, asked = size.images["train"], size.images["val"] + size.images["test"]
    pair = ("demo-landcover", "rcf")
    assert work_of(context, "probe", (*pair, "knn", 0)) == train * asked * 512 / 1e9
    rows = train + size.images["val"]
    assert work_of(context, "probe", (*pair, "linear", 0)) == pytest.approx(
        rows * 512 * size.classes * 5 / 1e9
    )
    # 256 filters of 3 × 3 over red, green and blue, at every pixel of the size that is fed
    assert context.features[pair].macs == 256 * 27 * 224**2
    assert work_of(context, "prepare", pair[:1]) == size.count * size.channels * size.side**2 / 1e6


@pytest.mark.parametrize("most", [200_000, 50])
def test_a_search_of_patches_grows_with_those_of_train_that_are_kept_times_those_of_test(
    project, most
):
    mine = project / "mine.yaml"
    mine.write_text(
        "backbones: [rcf]\ndatasets: [demo-segmentation]\nmeasures: null\n"
        f"probes: {{seg: {{kind: dense_knn, max_patches: {most}}}}}\n"
    )
    grid, _ = read_configuration(project, [Path("config/config.yaml"), mine])
    context = estimate(grid, default_rates(), ONE, results="results", records={}).context
    pair = ("demo-segmentation", "rcf")
    size, features = context.datasets[pair[0]], context.features[pair]
    patches, width = (224 // 16) ** 2, 512
    assert (features.patches, features.width) == (patches, width)
    known, test = min(size.images["train"] * patches, most), size.images["test"]
    search, names = known * test * patches * width, (*pair, "seg", 0)
    pixels = size.count * size.side**2
    assert work_of(context, "probe", names) == (search + 3500 * pixels) / 1e9
    assert read_values(context, "probe", names) == size.count * patches * width / 1e6


@pytest.mark.parametrize(("gpus", "fitting"), [(0, True), (1, True), (1, False)])
def test_heads_of_several_rates_are_trained_for_each_and_read_their_maps_once(
    project, monkeypatch, gpus, fitting
):
    """On a GPU, too, where reading is no faster; what does not fit into memory is copied and read in every epoch."""
    mine = project / "mine.yaml"
    mine.write_text(
        "backbones: [rcf]\ndatasets: [demo-segmentation]\nmeasures: null\nprobes:\n"
        "  one: {kind: segmentation, head: linear, epochs: 4}\n"
        "  three: {kind: segmentation, head: linear, epochs: 4, learning_rate: [0.1, 0.01, 0.001]}\n"
    )
    if not fitting:
        monkeypatch.setattr(work_module, "_KEPT_BYTES", 0)
    grid, _ = read_configuration(project, [Path("config/config.yaml"), mine])
    rates, machines = default_rates(), Machines(1, gpus)
    found = estimate(grid, rates, machines, results="results", records={})
    jobs = {job.names[2]: job for job in found.jobs if job.stage == "probe" and job.names[3] == 0}
    size = found.context.datasets["demo-segmentation"]
    (features,) = found.context.features.values()
    train, val, test = (size.images[split] for split in ("train", "val", "test"))
    again = 0 if fitting else (train + val) * (0.65 + 0.08 * 4)
    reading = rates.reading * (size.count + again) * features.maps / 1e6
    start, each = rates.stages["heads"].start, rates.stages["heads"].each
    for name, number in (("one", 1), ("three", 3)):
        pixels = (train * 4 * number + val + test) * size.side**2 / 1e9
        trained = each * pixels / (rates.gpu_speed if gpus else 1)
        assert jobs[name].estimated == pytest.approx(start + reading + trained)


def test_finished_jobs_correct_those_of_their_backbone_then_those_of_their_stage(project):
    first = {job.names: job for job in estimated(project).jobs if job.stage == "extract"}
    one, other = first.values()
    grid, _ = read_configuration(project)
    wanted = grid.extract(*one.names).fingerprint
    took = 3 * one.estimated
    records = {path: Record(frozenset({wanted}), 5.0, 5.0 + took) for path in one.paths}
    for path in one.paths:
        (project / path).mkdir(parents=True)
    found = estimated(project, records)
    by_names = {job.names: job for job in found.jobs if job.stage == "extract"}
    assert by_names[one.names].seconds == pytest.approx(took) and by_names[one.names].done
    assert by_names[other.names].seconds == pytest.approx(3 * other.estimated)
    assert not by_names[other.names].done
    assert found.corrections == pytest.approx({"extract imagestats": 3, "extract": 3})
    assert uncorrected(found).wall(everything=True) == pytest.approx(estimated(project).wall())
    # what another run says holds only where nothing is known here
    given = {"extract": 100.0, "knn": 2.0, "knn rcf": 5.0}
    found = estimated(project, records, corrections=given)
    by_keys = {(job.kind, job.names[1:2]): job for job in found.jobs}
    assert by_keys["knn", ("imagestats",)].seconds == 2 * by_keys["knn", ("imagestats",)].estimated
    assert by_keys["knn", ("rcf",)].seconds == 5 * by_keys["knn", ("rcf",)].estimated
    assert found.corrections["extract"] == pytest.approx(3)


@pytest.mark.parametrize("stage", ["prepare", "extract"])
def test_parts_take_their_share_of_the_chain_and_correct_nothing(project, stage):
    whole = {job.names: job for job in estimated(project).jobs if job.stage == stage}
    path = project / "config/config.yaml"
    path.write_text(path.read_text() + "runtime: {parts: {demo-landcover: 4}}\n")
    records = made(project, {stage: 50.0})
    found = estimated(project, records, machines=Machines(1000, 0))
    start = default_rates().stages[stage].start
    for job in found.jobs:
        if job.stage == stage:
            assert job.parts == 4 and job.done and job.took is None
            assert job.seconds == pytest.approx(whole[job.names].seconds + 3 * start)
    assert found.corrections == {}
    chain = {}
    for job in (job for job in found.jobs if job.stage not in ("aggregate", "report")):
        chain[job.stage] = max(chain.get(job.stage, 0.0), job.seconds / job.parts)
    last = sum(job.seconds for job in found.jobs if job.stage in ("aggregate", "report"))
    assert found.wall(everything=True) == pytest.approx(sum(chain.values()) + last)


def test_jobs_of_another_plan_are_not_done_and_correct_nothing(project):
    records = made(project, {"extract": 50.0}, of_other_plan=("extract",))
    found = estimated(project, records)
    assert found.corrections == {} and not any(job.done for job in found.jobs)


def test_tables_that_were_deleted_are_to_do_and_stores_only_where_a_job_reads_them(project):
    every = {stage: 1.0 for stage in ("extract", "measure", "similarity", "knn", "linear")}
    records = made(project, every)
    found = estimated(project, records)
    assert {job.kind for job in found.jobs if job.done} == {"extract"}
    for job in found.jobs:
        if job.kind in every and job.kind != "extract":
            Path(job.paths[0]).parent.mkdir(parents=True, exist_ok=True)
            Path(job.paths[0]).touch()
    shutil.rmtree("results/features")
    found = estimated(project, records)
    assert {job.kind for job in found.jobs if job.done} == set(every)
    Path("results/predictions/demo-landcover/rcf/seed0/knn.parquet").unlink()
    left = {
        (job.kind, job.names[1])
        for job in estimated(project, records).jobs
        if not job.done and job.kind in every
    }
    assert left == {("extract", "rcf"), ("knn", "rcf")}


@pytest.mark.parametrize(
    ("keep", "at_once"), [("true", 5), ("false", 2), ("150 MB", 1), ("60 MB", 0.5), ("1 TB", 2)]
)
def test_maps_that_are_removed_count_as_many_as_jobs_can_read_or_up_to_the_bound(
    project, keep, at_once
):
    mine = project / "mine.yaml"
    mine.write_text(
        "backbones: [imagestats]\ndatasets: [demo-segmentation]\nprobes: {seg: {kind: dense_knn}}\n"
        f"measures: null\nruntime: {{keep_maps: {keep}}}\n"
    )
    grid, why = read_configuration(project, [Path("config/config.yaml"), mine])
    assert why is None
    machines = Machines(2, 0)
    found = estimate(grid, default_rates(), machines, results="results", records={})
    ((pair, size),) = found.context.features.items()
    # five backbones whose stores take 100 MB each, or one of them less
    one = dataclasses.replace(
        found.context.datasets[pair[0]], images={"train": 1, "test": 0}, side=0, dates=1
    )
    five = {
        (pair[0], str(number)): dataclasses.replace(size, width=0, maps=50_000_000)
        for number in range(5)
    }
    grid.mapped = grid.pairs = lambda: list(five)
    context = Context(grid, {pair[0]: one}, five)
    shown = dataclasses.replace(found, context=context)
    each = 100e6
    expected = {0.5: each, 1: 150e6}.get(at_once, at_once * each)
    assert maps_at_once(shown) == expected == disk(shown)["features"]


def test_time_is_shared_by_the_cores_but_no_less_than_the_longest_chain(project):
    one, many = (estimated(project, machines=Machines(count, 0)) for count in (1, 1000))
    chain = {"prepare": 0.0, "extract": 0.0, "measure": 0.0, "probe": 0.0, "bootstrap": 0.0}
    chain |= {"compare": 0.0, "similarity": 0.0}
    for job in many.jobs:
        if job.stage in chain:
            chain[job.stage] = max(chain[job.stage], job.seconds)
    last = sum(job.seconds for job in many.jobs if job.stage in ("aggregate", "report"))
    assert many.wall() == pytest.approx(sum(chain.values()) + last)
    early = sum(job.seconds for job in one.jobs) - last
    # of one core, all jobs take one thread
    assert one.wall() == pytest.approx(early / 0.85 + last)


def test_the_time_that_jobs_ran_counts_none_twice(project):
    jobs = [job for job in estimated(project).jobs if job.stage == "extract"]
    grid, _ = read_configuration(project)
    spans = [(10.0, 20.0), (15.0, 30.0)]
    records = {
        path: Record(frozenset({grid.extract(*job.names).fingerprint}), *span)
        for job, span in zip(jobs, spans, strict=True)
        for path in job.paths
    }
    assert estimated(project, records).lasted == 20.0


def test_records_are_read_as_snakemake_writes_them_and_broken_ones_are_left_out(tmp_path):
    folder = tmp_path / METADATA
    folder.mkdir(parents=True)
    content = {"params": ["'abc'", "''"], "starttime": 1.5, "endtime": 4.0}

    def write(output: str, text: str) -> None:
        name = base64.urlsafe_b64encode(output.encode()).decode()
        *folders, last = [name[i : i + 254] for i in range(0, len(name), 254)]
        path = folder.joinpath(*[f"@{one}" for one in folders], last)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    long = "results/" + "x" * 300 + ".parquet"
    write("results/a.parquet", json.dumps(content))
    write(long, json.dumps(content))
    write("results/broken", "{")
    write("results/none", json.dumps({**content, "starttime": None}))
    write("results/list", "[]")
    (folder / "no base64!").write_text(json.dumps(content))
    found = read_records(tmp_path)
    assert set(found) == {"results/a.parquet", long}
    assert "abc" in found[long].fingerprints
    assert (found[long].start, found[long].end) == (1.5, 4.0)
    assert read_records(tmp_path / "nowhere") == {}


def test_words_say_what_is_assumed_missing_and_left(project):
    text = "\n".join(
        lines(estimated(project), [("dataset", "big", 2e9), ("weights", "net", None)], None)
    )
    assert "Downloads: 2 GB (big 2 GB)" in text and "Not here:  net, of unknown size" in text
    assert "another machine" in text and "Assumed" not in text
    files = project / "mine.yaml"
    files.write_text(
        "datasets: [mine]\nextra_datasets:\n  mine:\n    task: classification\n    sensor: rgb\n"
        "    bands: [red, green, blue]\n    units: {unit: uint8}\n"
        "    source: {kind: folder, path: gone}\n    splits: {method: random}\n"
    )
    grid, why = read_configuration(project, [files])
    assert "gone" in why
    found = estimate(grid, default_rates(), ONE, results="results", records={}, assumed=500)
    text = "\n".join(lines(found, [], why))
    assert "Assumed:   500 images" in text and "Note:      as if nothing were done" in text


def test_a_check_sets_what_jobs_took_beside_the_estimate_without_them(project):
    assert list(check_lines(estimated(project))) == ["no finished job of this plan is on record"]
    records = made(project, {"knn": 4.0, "linear": 2.0})
    heading, knn, linear, total, *_ = check_lines(estimated(project, records))
    said = {job.kind: job.estimated for job in estimated(project).jobs}
    assert heading.split() == ["jobs", "finished", "estimated", "took", "ratio"]
    assert knn.split()[:2] == ["knn", "2"] and knn.split()[-3:-1] == ["8.0", "s"]
    ratio = sum(j.estimated for j in estimated(project).jobs if j.kind == "knn") / 8
    assert float(knn.split()[-1]) == pytest.approx(ratio, abs=0.006)
    assert total.split()[:2] == ["all", "4"] and said


def test_rates_of_one_place_are_read_in_another(project, capsys):
    path = project / "rates.json"
    content = rates_json(estimated(project, made(project, {"knn": 4.0})), "here")
    path.write_text(json.dumps(content))
    assert main(["plan", "--rates", "rates.json", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert main(["plan", "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    probe, before = (
        next(row for row in one["stages"] if row["stage"] == "probe") for one in (shown, without)
    )
    assert probe["core_seconds"] > before["core_seconds"]


@pytest.mark.parametrize("text", ["{", "[]", '{"corrections": {"knn": 0}}', '{"corrections": 3}'])
def test_wrong_rates_are_refused(project, capsys, text):
    (project / "rates.json").write_text(text)
    assert main(["plan", "--rates", "rates.json"]) == 1
    said = capsys.readouterr().err
    assert "rates.json" in said and said.count("Remedy") == 1


def test_a_wrong_configuration_is_an_error_not_a_note(project):
    files = project / "mine.yaml"
    files.write_text("backbones: [imagestatz]\n")
    with pytest.raises(PermafrostError, match="did you mean 'imagestats'"):
        read_configuration(project, [files])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (99, "99 s"),
        (100, "1.7 min"),
        (7200, "2.0 h"),
        (1e6, "11.6 days"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_what_can_be_found_is_said_before_the_run(project):
    from permafrost.operate.estimate.found import findable, findable_lines

    context = estimated(project).context
    size = context.datasets["demo-landcover"]
    found = findable(context)["demo-landcover"]
    assert (found.units, found.unit) == (size.images["test"], "image")
    (said,) = findable_lines(context)
    assert f"{found.difference:.2g} in demo-landcover" in said and "2 backbones" in said

    def of(groups: int, backbones: int):
        grid = copy.copy(context.grid)
        grid.backbones = {f"b{number}": {} for number in range(backbones)}
        grouped = dataclasses.replace(size, test_groups=groups)
        return Context(grid, {"demo-landcover": grouped}, {})

    # .95 against .50 is a difference of .45
    assert findable(of(8, 2))["demo-landcover"].difference < 0.45
    forty = findable(of(8, 40))["demo-landcover"].difference
    assert forty is None or forty > 0.45
    assert findable(of(5, 2))["demo-landcover"].difference is None
    (said,) = findable_lines(of(5, 2))
    assert "demo-landcover (5 groups)" in said and "significance_out_of_reach" in said
    assert findable(of(8, 1)) == {}
