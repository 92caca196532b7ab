"""Submissions: whatever was forged is refused by name; several together equal one study; the site is whole."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import yaml
from helpers.job_runs import SMALL, JobRuns
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import content_digest, file_digest
from permafrost.core.tables import read_table, write_table
from permafrost.operate.commons import check, submission
from permafrost.operate.commons.commons import Commons, accept
from permafrost.operate.commons.facts import suite_config
from permafrost.operate.commons.standing import (
    Column,
    ordinal,
    place_said,
    standing_of,
    write_comparison,
)
from permafrost.operate.commons.submission import Evaluation
from permafrost.plan.suites import note_suite
from permafrost.stages.cli import main

DEMO = {"chips": {"train": 24, "val": 12, "test": 30}, "scenes": {"train": 3, "val": 2, "test": 6}}
ROOT = Path(__file__).resolve().parents[3]
WORLD = {**SMALL, "source": {**SMALL["source"], **DEMO}}
SUITE = {
    "suite": {"name": "toy", "version": 1},
    "datasets": ["world"],
    "extraction": {"size": 16},
    "extra_datasets": {"world": WORLD},
    "probes": {"knn": {"kind": "knn"}, "near": {"kind": "nearest_centroid"}},
    "seeds": [0],
}
BACKBONES = {
    "stats": {"kind": "imagestats"},
    "rcf-a": {"kind": "rcf", "features": 16, "seed": 1},
    "rcf-b": {"kind": "rcf", "features": 16, "seed": 2, "trained_on": ["scenes"]},
}
KNN = "predictions/world/stats/seed0/knn.parquet"


def run_study(root: Path, backbones: list[str], suite: dict = SUITE) -> None:
    """Run a suite in `root`, which becomes a project."""
    (root / "config/suites").mkdir(parents=True)
    (root / "config/config.yaml").write_text("catalogues: [config]\n")
    (root / "Snakefile").write_text("# permafrost\n")
    (root / "config/suites/toy.yaml").write_text(yaml.safe_dump(suite))
    layers = [copy.deepcopy(suite), {"backbones": backbones, "extra_backbones": BACKBONES}]
    config = {**layers[0], **layers[1], "catalogues": []}
    note_suite(config, layers)
    here = os.getcwd()
    os.chdir(root)
    try:
        jobs = JobRuns(config)
        (dataset,) = suite["datasets"]
        jobs.prepare(dataset)
        plan = jobs.plan()
        for backbone in backbones:
            jobs.extract(dataset, backbone)
            stores = [
                f"results/features/{dataset}/{backbone}/{part}.zarr"
                for part in ("train", "val", "test")
            ]
            for probe, options in suite["probes"].items():
                names = (dataset, backbone, probe, 0)
                made = f"{dataset}/{backbone}/seed0/{probe}.parquet"
                out = ["--features", *stores, "--output", f"results/predictions/{made}"]
                jobs.run(options["kind"], plan, plan.probe(*names), out)
                scored = [
                    "--predictions",
                    f"results/predictions/{made}",
                    "--output",
                    f"results/scores/{made}",
                ]
                jobs.run("bootstrap", plan, plan.bootstrap(*names), scored)
        for probe in suite["probes"] if len(backbones) > 1 else ():
            out = [
                "--results",
                "results",
                "--output",
                f"results/comparisons/{dataset}/{probe}.parquet",
            ]
            jobs.run("compare", plan, plan.compare(dataset, probe), out)
    finally:
        os.chdir(here)


def submit(root: Path, name: str, *more: str) -> Path:
    named = ["--suite", "toy", "--author", "Ng, Ann", "--output", str(root / name)]
    assert main(["submit", str(root / "results"), *named, *more]) == 0
    return root / name


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """One study of all backbones; two studies of parts of them, with a submission each; the commons of both."""
    base = tmp_path_factory.mktemp("commons")
    for name, backbones in {
        "all": [*BACKBONES],
        "ann": ["stats", "rcf-a"],
        "bo": ["rcf-b"],
    }.items():
        run_study(base / name, backbones)
    submit(base / "ann", "ann", "--confirmed", "rcf-a=https://example.org/rcf")
    submit(base / "bo", "bo", "--overlap", "rcf-b=<b>half</b> of the test images")
    here = os.getcwd()
    os.chdir(base / "ann")
    try:
        assert main(["accept", "ann", "--into", "../pool", "--as-reference"]) == 0
        assert main(["accept", "../bo/bo", "--into", "../pool"]) == 0
    finally:
        os.chdir(here)
    return base


@pytest.fixture
def forged(studies, tmp_path, monkeypatch):
    """A copy of Bo's submission, and of a commons with Ann's, that a test forges; `refused` checks it."""
    monkeypatch.chdir(studies / "ann")
    shutil.copytree(studies / "pool", tmp_path / "pool")
    shutil.rmtree(tmp_path / "pool/submissions/bo")
    register = json.loads((tmp_path / "pool/accepted.json").read_text())
    (tmp_path / "pool/accepted.json").write_text(json.dumps({"ann": register["ann"]}))
    shutil.copytree(studies / "bo/bo", tmp_path / "bo")
    return tmp_path / "bo"


def refused(folder: Path, capsys) -> set[str]:
    """The kinds of what is refused; a refused folder leaves the commons as it was."""
    pool = folder.parent / "pool"
    before = sorted((path, path.stat().st_mtime_ns) for path in pool.rglob("*"))
    capsys.readouterr()
    status = main(["accept", str(folder), "--into", str(pool), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert status == int(bool(found["refused"])) and found["accepted"] == (not found["refused"])
    if found["refused"]:
        assert before == sorted((path, path.stat().st_mtime_ns) for path in pool.rglob("*"))
    return {one["kind"] for one in found["refused"]}


def seal(folder: Path, **changes) -> None:
    """Write the manifest anew, with the digests of the files as they are."""
    manifest = json.loads((folder / "submission.json").read_text())
    for key, value in changes.items():
        manifest[key] = value
    manifest["files"] = {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "submission.json"
    }
    (folder / "submission.json").write_text(json.dumps(manifest))


def rewrite(folder: Path, name: str, column: str, change, **about) -> None:
    """Write a table anew with another column, as a forger who seals everything again."""
    table, metadata = read_table(folder / name)
    values = change(table[column].to_pylist())
    field = table.schema.field(column)
    table = table.set_column(table.column_names.index(column), field, pa.array(values, field.type))
    metadata = {key: value for key, value in metadata.items() if key != "versions"} | about
    write_table(folder / name, table.replace_schema_metadata(None), metadata)
    seal(folder)


def change_card(folder: Path, change) -> None:
    path = folder / "cards/world.json"
    card = json.loads(path.read_text())
    change(card)
    card["sha256"] = content_digest(card, "sha256")
    path.write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
    seal(folder)


def swap_bands(card: dict) -> None:
    card["bands"][0], card["bands"][1] = card["bands"][1], card["bands"][0]


def swap_pixels(card: dict) -> None:
    for key in ("mean", "std"):
        one, other = card["bands"][:2]
        one[key], other[key] = other[key], one[key]


def other_split(folder: Path) -> None:
    seal(folder, datasets={"world": {"split": "0" * 64}})


BO_KNN = KNN.replace("stats", "rcf-b")
BO_SCORES = BO_KNN.replace("predictions", "scores")
FORGED = {
    # a byte, without another change
    "score byte": ("score", lambda folder: (folder / BO_SCORES).write_bytes(b"PAR1")),
    "prediction byte": ("prediction", lambda folder: (folder / BO_KNN).write_bytes(b"PAR1")),
    "card byte": ("card", lambda folder: (folder / "cards/world.json").write_bytes(b"{}")),
    # everything sealed again
    "value": (
        "score",
        lambda folder: rewrite(folder, BO_SCORES, "value", lambda old: [old[0] + 0.01, *old[1:]]),
    ),
    "interval": (
        "score",
        lambda folder: rewrite(folder, BO_SCORES, "upper", lambda old: [1.0, *old[1:]]),
    ),
    "gate": (
        "score",
        lambda folder: rewrite(
            folder, BO_SCORES, "gates", lambda old: ["", *["x"] * (len(old) - 1)]
        ),
    ),
    "prediction": (
        "score",
        lambda folder: rewrite(
            folder, BO_KNN, "prediction", lambda old: [(old[0] + 1) % 8, *old[1:]]
        ),
    ),
    "label": (
        "label",
        lambda folder: rewrite(folder, BO_KNN, "target", lambda old: [*old[1:], old[0]]),
    ),
    "test item": (
        "test set",
        lambda folder: rewrite(folder, BO_KNN, "sample_id", lambda old: ["new", *old[1:]]),
    ),
    "group": (
        "test set",
        lambda folder: rewrite(folder, BO_KNN, "group_id", lambda old: ["g0"] * len(old)),
    ),
    "class names": (
        "label",
        lambda folder: rewrite(folder, BO_KNN, "target", list, classes=[f"c{n}" for n in range(8)]),
    ),
    "another backbone's": (
        "prediction",
        lambda folder: rewrite(folder, BO_KNN, "target", list, backbone="rcf-a"),
    ),
    "probe options": (
        "options",
        lambda folder: rewrite(folder, BO_KNN, "target", list, options={"kind": "knn", "k": 1}),
    ),
    "nothing in metadata": (
        "prediction",
        lambda folder: rewrite(folder, BO_KNN, "target", list, task=None),
    ),
    "band order": ("band order", lambda folder: change_card(folder, swap_bands)),
    "bands by other names": ("band order", lambda folder: change_card(folder, swap_pixels)),
    "class order": (
        "label",
        lambda folder: change_card(folder, lambda card: card["classes"].reverse()),
    ),
    "split sizes": (
        "split",
        lambda folder: change_card(folder, lambda card: card["splits"]["train"].update(count=25)),
    ),
    "split": ("split", other_split),
    "suite": (
        "suite",
        lambda folder: seal(folder, suite={"name": "toy", "version": 1, "digest": "0" * 32}),
    ),
    "suite version": (
        "suite",
        lambda folder: seal(folder, suite={"name": "toy", "version": 2, "digest": "0" * 32}),
    ),
    "name": ("name", lambda folder: seal(folder, name="somebody")),
    # the folder
    "foreign file": ("file", lambda folder: ((folder / "run.py").write_text("1"), seal(folder))),
    "unlisted file": ("file", lambda folder: (folder / "cards/more.json").write_text("{}")),
    "missing file": ("file", lambda folder: (folder / BO_SCORES).unlink()),
    "no manifest": ("file", lambda folder: (folder / "submission.json").unlink()),
    "deep manifest": (
        "file",
        lambda folder: (folder / "submission.json").write_text("[" * 100_000),
    ),
    "unknown key": ("file", lambda folder: seal(folder, run="rm")),
    "backbone as path": ("file", lambda folder: seal(folder, backbones={"../x": {"title": "x"}})),
    "link": (
        "file",
        lambda folder: ((folder / BO_KNN).unlink(), (folder / BO_KNN).symlink_to("/etc/passwd")),
    ),
    "linked folder": (
        "file",
        lambda folder: (shutil.rmtree(folder / "cards"), (folder / "cards").symlink_to("/etc")),
    ),
    "link itself": (
        "file",
        lambda folder: folder.symlink_to(folder.rename(folder.parent / "elsewhere")),
    ),
    "name that is not text": (
        "file",
        lambda folder: (Path(os.fsdecode(bytes(folder) + b"/cards/\xff.json"))).write_text("{}"),
    ),
    "pipe": ("file", lambda folder: os.mkfifo(folder / "cards/pipe.json")),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_submission_is_refused_by_name(forged, capsys, what):
    kind, forge = FORGED[what]
    forge(forged)
    assert kind in refused(forged, capsys)


def test_an_honest_submission_is_accepted_once_and_never_changed(forged, capsys):
    assert refused(forged, capsys) == set()
    pool = forged.parent / "pool"
    assert list(Commons(pool).submissions) == ["ann", "bo"]
    assert refused(forged, capsys) == {"name"}
    seal(pool / "submissions/bo", author="Somebody Else")
    assert main(["site", str(pool), "--output", str(forged.parent / "site")]) == 1
    assert "was changed after it was accepted" in capsys.readouterr().err


def test_a_submission_is_not_lost_if_another_is_accepted_meanwhile(forged):
    register = forged.parent / "pool/accepted.json"
    other = json.dumps({**json.loads(register.read_text()), "cy": "0" * 64})
    with pytest.raises(PermafrostError, match="another submission was accepted meanwhile"):
        accept(forged, register.parent, Path.cwd(), tick=lambda _: register.write_text(other))
    assert register.read_text() == other and not (register.parent / "submissions/bo").exists()


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("_LARGEST", 100, "is larger than 100 bytes"),
        ("_MOST_FILES", 3, "has more than 3 files"),
        ("_MOST_BYTES", 100, "is larger than 100 bytes"),
        ("_LARGEST_MANIFEST", 100, "is larger than 100 bytes"),
    ],
)
def test_sizes_are_bounded_before_anything_is_read(forged, monkeypatch, limit, value, said):
    monkeypatch.setattr(submission, limit, value)
    with pytest.raises(PermafrostError, match=said):
        submission.read_submission(forged)


def test_a_dataset_needs_a_maintainer_and_a_retired_one_is_refused(forged, capsys):
    pool = forged.parent / "pool"
    path = pool / "suites/toy-v1.json"
    reference = json.loads(path.read_text())
    reference["datasets"]["world"]["retired"] = "labels are wrong"
    path.write_text(json.dumps(reference))
    assert refused(forged, capsys) == {"dataset"}
    path.write_text(json.dumps({**reference, "datasets": {}}))
    assert refused(forged, capsys) == {"dataset"}
    path.unlink()
    assert refused(forged, capsys) == {"suite"}


def test_verify_checks_a_submission_without_a_commons(forged, capsys):
    assert main(["verify", str(forged)]) == 0
    rewrite(forged, BO_SCORES, "value", lambda old: [0.0] * len(old))
    assert main(["verify", str(forged)]) == 1
    said = capsys.readouterr().out
    assert (
        f"score: {BO_SCORES}: value of accuracy is 0.0, but" in said
        and "follows from the predictions" in said
    )


def test_two_submitters_together_equal_one_study(studies, tmp_path):
    commons = Commons(studies / "pool")
    entries, again = commons.entries("toy-v1")
    assert {entry.label for entry in entries} == set(BACKBONES) and again == {}
    for probe in SUITE["probes"]:
        made = studies / f"all/results/comparisons/world/{probe}.parquet"
        of = read_table(made)[1]["fingerprint"]
        one = [entry for entry in entries if entry.of.probe == probe]
        config = suite_config(SUITE)
        write_comparison(
            one, tmp_path / "merged.parquet", config=config, task="classification", of=of
        )
        assert (tmp_path / "merged.parquet").read_bytes() == made.read_bytes()


def test_the_same_backbone_again_is_reproduced_or_has_a_row_of_its_own(
    studies, tmp_path, monkeypatch, capsys
):
    pool = tmp_path / "pool"
    shutil.copytree(studies / "pool", pool)
    monkeypatch.chdir(studies / "ann")
    shutil.copytree(studies / "ann/ann", tmp_path / "cy")
    for kind in ("predictions", "scores"):
        (tmp_path / f"cy/{kind}/world/rcf-a/seed0/near.parquet").unlink()
    seal(tmp_path / "cy", name="cy")
    assert main(["accept", str(tmp_path / "cy"), "--into", str(pool)]) == 0
    shutil.copytree(studies / "bo/bo", tmp_path / "di")
    forge_consistently(tmp_path / "di")
    seal(tmp_path / "di", name="di")
    assert main(["accept", str(tmp_path / "di"), "--into", str(pool)]) == 0
    entries, again = Commons(pool).entries("toy-v1")
    assert again == {"rcf-a": ["cy (1 of 2 results)"], "stats": ["cy"]}
    assert {entry.label for entry in entries} == {*BACKBONES, "rcf-b (di)"}


def forge_consistently(folder: Path) -> None:
    """Change an answer and compute the scores from it: what no program can find without the backbone."""
    rewrite(folder, BO_KNN, "prediction", lambda old: [(old[0] + 1) % 8, *old[1:]])
    sub = submission.read_submission(folder)
    for one in sub.evaluations():
        _, metadata = read_table(folder / one.file("predictions"))
        again = folder.parent / "again.parquet"
        check._score(one, folder, again, metadata, "classification", suite_config(SUITE))
        shutil.move(again, folder / one.file("scores"))


def test_where_a_run_stands_among_the_others(studies, capsys):
    assert (
        main(["show", str(studies / "bo/results"), "--against", str(studies / "pool")]) == 1
    )  # no leaderboard
    capsys.readouterr()
    same = standing_of(studies / "bo/results", Commons(studies / "pool"))
    assert len(same) == 2 and all(" of 3 (accuracy " in one for one in same)
    assert all(one.endswith("the same predictions as in the commons") for one in same)


def test_a_retired_dataset_is_not_compared(studies):
    commons = Commons(studies / "pool")
    commons.suites["toy-v1"]["datasets"]["world"]["retired"] = "labels are wrong"
    said = standing_of(studies / "bo/results", commons)
    assert len(said) == 2
    assert all("not compared, the dataset is retired: labels are wrong" in one for one in said)


def test_other_test_items_are_not_compared(studies, tmp_path):
    shutil.copytree(studies / "bo", tmp_path / "bo")
    name = tmp_path / "bo/results"
    rewrite_own(name / BO_KNN)
    said = standing_of(name, Commons(studies / "pool"))
    assert said[0] == "world · knn · rcf-b: not compared, its test items differ"
    assert len(said) == 2


def rewrite_own(path: Path) -> None:
    table, metadata = read_table(path)
    ids = pa.array(["new", *table["sample_id"].to_pylist()[1:]])
    metadata = {key: value for key, value in metadata.items() if key != "versions"}
    write_table(path, table.set_column(0, "sample_id", ids).replace_schema_metadata(None), metadata)


class Page(HTMLParser):
    """What a page loads and links, and its scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]


def test_the_site_opens_offline_and_escapes_what_submitters_wrote(studies, tmp_path, capsys):
    pool, site = tmp_path / "pool", tmp_path / "site"
    shutil.copytree(studies / "pool", pool)
    reference = json.loads((pool / "suites/toy-v1.json").read_text())
    reference["datasets"]["world"] |= {
        "images_of": ["scenes"],
        "title": "<script>alert(1)</script>",
    }
    (pool / "suites/toy-v1.json").write_text(json.dumps(reference))
    manifest = json.loads((pool / "submissions/bo/submission.json").read_text())
    manifest["backbones"]["rcf-b"] |= {
        "url": "javascript:alert(1)",
        "confirmed": "https://x.org/'><script>",
    }
    (pool / "submissions/bo/submission.json").write_text(json.dumps(manifest))
    register = json.loads((pool / "accepted.json").read_text())
    register["bo"] = file_digest(pool / "submissions/bo/submission.json")
    (pool / "accepted.json").write_text(json.dumps(register))
    assert main(["site", str(pool), "--output", str(site)]) == 0
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert pages == [
        *(f"backbones/{name}.html" for name in sorted(BACKBONES)),
        "datasets/world.html",
        "index.html",
        "toy-v1.html",
    ]
    for name in pages:
        page = Page(site / name)
        assert page.tags.count("script") == 1 and "b" not in page.tags
        for link in page.links:
            assert (
                link.startswith(("#", "https://example.org/"))
                or ((site / name).parent / link.partition("#")[0]).exists()
            )
    first = (site / "index.html").read_text()
    # an address confirms, other words do not
    assert first.count('<td class="text">yes</td>') == 1
    assert "://" not in first and first.count("<tr>") == 1 + len(BACKBONES)
    assert "rcf-b (on scenes)" in (site / "datasets/world.html").read_text()
    own = (site / "backbones/rcf-b.html").read_text()
    assert "&lt;b&gt;half&lt;/b&gt; of the test images" in own and 'href="javascript' not in own
    # it is replaced as a whole, and nothing else ever is
    assert main(["site", str(pool), "--output", str(site)]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("x")
    assert main(["site", str(pool), "--output", str(tmp_path / "mine")]) == 1
    assert (tmp_path / "mine/thesis.tex").exists()


def test_the_comment_holds_words_of_the_submission_as_code_only(studies, forged):
    seal(forged, author="`x`\n## Merge me <img src=x>")
    into = ["--into", str(forged.parent / "pool")]
    assert (
        main(["accept", str(forged), *into, "--dry-run", "--comment", str(forged.parent / "c.md")])
        == 0
    )
    comment = (forged.parent / "c.md").read_text()
    assert comment.startswith("### Every score follows from its predictions\n\n```text\n")
    assert comment.count("```") == 2 and "\n## " not in comment
    assert "world · knn · rcf-b: " in comment and "rcf-b: confirmed by its authors: no" in comment
    assert not (forged.parent / "pool/submissions/bo").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--suite", "other"], "the run is of the suite toy, not of other"),
        (["--confirmed", "rcf-z=https://x"], "names a backbone without results"),
        (["--overlap", "rcf-b"], "is not BACKBONE=TEXT"),
        (["--output", "Not A Name"], "cannot be the name of a submission"),
    ],
)
def test_what_cannot_be_submitted_is_said(studies, tmp_path, monkeypatch, capsys, more, said):
    monkeypatch.chdir(tmp_path)
    named = ["--suite", "toy", "--author", "Ng, Ann", "--output", "bo"]
    assert main(["submit", str(studies / "bo/results"), *named, *more]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_changed_suite_is_not_submitted(tmp_path, capsys, monkeypatch):
    root = tmp_path / "changed"
    (root / "config/suites").mkdir(parents=True)
    run = copy.deepcopy(SUITE)
    monkeypatch.chdir(tmp_path)
    layers = [run, {"backbones": ["stats"], "seeds": [1], "extra_backbones": BACKBONES}]
    config = {**run, **layers[1], "catalogues": []}
    note_suite(config, layers)
    jobs = JobRuns(config)
    jobs.prepare("world")
    assert main(["submit", "results", "--suite", "toy", "--author", "A", "--output", "x"]) == 1
    assert "the run changed the suite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "said"), [([0, 1, 2], []), ([1], ["it lacks the seeds 0, 2 of the suite"])]
)
def test_the_best_seed_alone_is_refused(seeds, said):
    found = [Evaluation("world", "stats", seed, "mlp") for seed in seeds]
    found.append(Evaluation("world", "stats", 0, "knn"))
    given = SimpleNamespace(evaluations=lambda: found)
    config = {
        "seeds": [0, 1, 2],
        "probes": {"knn": {"kind": "knn"}, "mlp": {"kind": "linear", "solver": "adam"}},
    }
    assert [one.reason for one in check._seeds(given, config)] == said


@pytest.mark.parametrize(
    ("better", "alike", "end"),
    [
        (["b", "c"], [], ", significantly different from all others"),
        (["b"], [], ", significantly different from all others but 1 that were not tested"),
        ([], [], ", not tested against any other"),
        (["b"], ["c"], ", not significantly different from 1 (c)"),
    ],
)
def test_what_was_not_tested_is_not_called_different(better, alike, end):
    line = {
        "backbone": "a",
        "rank": 1.0,
        "value": 0.9,
        "lower": 0.8,
        "upper": 1.0,
        "metric": "accuracy",
    }
    line |= {"better": better, "worse": [], "alike": alike}
    said = place_said(Column("d", "knn", [line, line, line]), line)
    assert said.startswith("d · knn · a: 1st of 3 (accuracy ") and said.endswith(f"){end}")


PLACES = {1: "1st", 2: "2nd", 3: "3rd", 11: "11th", 22: "22nd", 112: "112th", 2.5: "2.5th"}


@pytest.mark.parametrize(("rank", "text"), PLACES.items())
def test_ordinals(rank, text):
    assert ordinal(rank) == text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.5, 0.5 + 1e-12, True),
        (0.5, 0.5 + 1e-6, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 0.5, False),
        (True, 1, False),
        (1, 1.0, True),
        ([1.0, {"a": 2.0}], [1.0, {"a": 2.0 + 1e-13}], True),
        ([1.0], [1.0, 1.0], False),
        ({"a": 1}, {"b": 1}, False),
        (None, 0, False),
    ],
)
def test_numbers_are_alike_up_to_their_last_digits(one, other, same):
    assert check.alike(one, other) is same


def test_the_committed_results_follow_from_their_predictions_and_so_does_their_site(tmp_path):
    commons = Commons(ROOT / "commons")
    for name, one in commons.submissions.items():
        reference = copy.deepcopy(commons.suites[f"{one.suite.name}-v{one.suite.version}"])
        folder = ROOT / "commons/submissions" / name
        assert check.check_submission(folder, reference, add=False)[1] == []
    site = tmp_path / "site"
    assert main(["site", str(ROOT / "commons"), "--output", str(site)]) == 0
    # where a figure's marks lie depends on the fonts of a machine
    made, held = (
        {
            path.relative_to(folder): re.findall('aria-label="([^"]+)"', path.read_text())
            if path.suffix == ".svg"
            else path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (site, ROOT / "docs/results")
    )
    assert made == held, "make it anew: permafrost site commons --output docs/results"
