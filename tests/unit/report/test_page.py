"""The report page: whole, self-contained, and safe with any name that a user can choose."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.results.pages import build_report
from helpers.results.tables import (
    make_card,
    make_comparison_table,
    make_image_store,
    make_plan,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
    write_card,
)
from permafrost.core import versions
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table, write_table
from permafrost.probes.kinds import KINDS
from permafrost.report.material.dataset import slug
from permafrost.report.sections.run import compute_words
from permafrost.report.sections.scores import comparison_lines, leaderboard_lines, over_datasets
from permafrost.report.tables.leaderboard import write_leaderboard
from permafrost.report.tables.summary import write_summary
from permafrost.report.tables.terminal import format_leaderboard
from permafrost.report.values.notation import number

HOSTILE = "<script>alert('x')</script>"


class Links(HTMLParser):
    """Everything that a browser would load or follow, and all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "srcset", "poster", "data", "action"):
                self.loads.append(value)
            assert not name.startswith("on"), (tag, name)


def prepare(tmp_path: Path, *, datasets: dict, backbones: list[str], **options) -> dict:
    """Everything that a `Report` is made of, written below `tmp_path`."""
    cards, predictions, tables, comparisons = {}, {}, [], {}
    for place, (name, card) in enumerate(datasets.items()):
        cards[name] = write_card(tmp_path / str(place) / "card.json", card)
        for i, backbone in enumerate(backbones):
            for probe in ("knn", "linear"):
                made = make_predictions(
                    tmp_path / f"{place}/{i}/{probe}.parquet",
                    card,
                    backbone=backbone,
                    probe=probe,
                    accuracy=0.5 + 0.1 * i,
                )
                predictions[name, backbone, 0, probe] = made["path"]
                rows = make_score_rows(
                    dataset=name,
                    backbone=backbone,
                    probe=probe,
                    value=0.5 + 0.1 * i,
                    classes=card["classes"],
                    task=card["task"],
                    spatially_random=card["spatially_random"],
                    gates="below_chance" if i == 0 else "",
                )
                tables.append(score_table(rows))
        for probe in ("knn", "linear"):
            path = comparisons[name, probe] = tmp_path / f"{place}/compare-{probe}.parquet"
            write_table(path, make_comparison_table(name, probe, backbones), {"fingerprint": "c"})
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    return {
        "plan": make_plan(list(datasets), backbones),
        "leaderboard": tmp_path / "l.parquet",
        "cards": cards,
        "predictions": predictions,
        "images": {},
        "comparisons": comparisons,
        "output_dir": tmp_path / "report",
        "examples": 4,
        **options,
    }


def small(name: str = "eurosat", **options) -> dict:
    return make_card(name, **{"classes": 3, "bands": 3, "counts": (40, 20, 30), **options})


@pytest.fixture(scope="module", autouse=True)
def _no_versions_of_this_process():
    """Tables record what this process has imported, which depends on the tests that ran before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "COMPUTING", {})
        yield


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    datasets = {
        "eurosat": small(),
        "labels": small("labels", task="multilabel", spatially_random=True),
    }
    arguments = prepare(folder, datasets=datasets, backbones=["imagestats", "rcf", "mobilenetv2"])
    arguments["images"] = {
        ("eurosat", "test"): make_image_store(folder / "test.zarr", datasets["eurosat"], size=16)
    }
    build_report(**arguments, hardware={"processor": "one that counts"})
    return report_text(folder / "report"), folder


def links_of(path: Path) -> Links:
    parser = Links()
    parser.feed(path.read_text())
    return parser


def test_pages_load_nothing_but_files_beside_them(page):
    paths = sorted((page[1] / "report").rglob("*.html"))
    assert [path.name for path in paths] == ["eurosat.html", "labels.html", "index.html"]
    for path in paths:
        text, links = path.read_text(), links_of(path)
        assert links.loads
        assert not any(re.match(r"[a-z]+:|/", load) for load in links.loads)
        assert not re.search(r"@import|url\(|https?://", text)
        assert not {"link", "iframe", "object", "embed", "base", "form"} & set(links.tags)


def test_pages_allow_their_own_script_and_pictures_beside_them_only(page):
    for path in (page[1] / "report").rglob("*.html"):
        text = path.read_text()
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
        (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert "default-src 'none'" in policy and "img-src 'self' file:;" in policy
        assert f"script-src 'sha256-{digest}';" in policy


def test_every_link_leads_somewhere(page):
    targets = {
        path: set(re.findall(r'id="([^"]+)"', path.read_text()))
        for path in (page[1] / "report").rglob("*.html")
    }
    for path in targets:
        for load in links_of(path).loads:
            name, _, anchor = load.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), load
            assert not anchor or anchor in targets[target], load
    assert {"dataset-eurosat", "dataset-labels", "summary"} <= targets[
        page[1] / "report/index.html"
    ]


def test_ids_are_given_once(page):
    for path in (page[1] / "report").rglob("*.html"):
        ids = re.findall(r' id="([^"]+)"', path.read_text())
        assert len(ids) == len(set(ids))


def test_links_to_a_dataset_hold_when_another_is_added(tmp_path, page):
    datasets = {"aerial": small("aerial"), "eurosat": small()}
    build_report(**prepare(tmp_path, datasets=datasets, backbones=["a"]))
    for folder in (tmp_path, page[1]):
        index = (folder / "report/index.html").read_text()
        assert '<tr id="dataset-eurosat"><th scope="row"><a href="datasets/eurosat.html">' in index


def test_no_figure_is_loaded_before_it_is_seen_nor_moves_the_text(page):
    for path in (page[1] / "report/datasets").glob("*.html"):
        images = re.findall(r"<img [^>]+>", path.read_text())
        assert images
        for image in images:
            assert 'loading="lazy"' in image and re.search(r'width="\d+" height="\d+"', image)


def test_the_table_of_splits_has_a_column_for_each_split_and_no_more(page):
    for path in (page[1] / "report/datasets").glob("*.html"):
        head = re.search(r"<caption>Splits</caption><thead>(.*?)</thead>", path.read_text())[1]
        assert re.findall(r"<th scope=\"col\">(\w+)</th>", head) == ["train", "val", "test"]


def test_the_page_says_what_was_found_and_run(page):
    text = page[0]
    for words in (
        "mobilenetv2",
        "0.700",
        "[0.680, 0.720]",
        "near-duplicates across splits",
        "2.41 km",
        "not above chance",
        "Random split of spatial data",
        "Paired comparisons",
        "one that counts",
        "2.13.0",
        "Helber et al. 2019",
        "micro-AP",
    ):
        assert words in text, words


def test_results_of_several_versions_of_a_package_are_a_warning(tmp_path, page):
    assert "Mixed versions" not in page[0]
    card = small()
    arguments = prepare(tmp_path, datasets={"eurosat": card}, backbones=["a", "b"])
    make_predictions(
        tmp_path / "0/1/knn.parquet", card, backbone="b", probe="knn", accuracy=0.6, torch="2.14.0"
    )
    build_report(**arguments)
    text = (tmp_path / "report/index.html").read_text()
    assert "Mixed versions" in text and "torch 2.13.0 and 2.14.0" in text


def test_charts_are_written_as_svg_and_pictures_as_png(page):
    names = {path.name for path in (page[1] / "report/figures").iterdir()}
    for kind in (
        "dotplot__eurosat",
        "c_curve__eurosat__linear",
        "confusion__eurosat",
        "per_class__eurosat",
        "balance__eurosat",
        "bands__eurosat",
        "dotplot__labels",
    ):
        assert f"{kind}.svg" in names and f"{kind}.png" not in names
    assert "strip__eurosat.png" in names and "strip__eurosat.svg" not in names
    assert "confusion__labels.svg" not in names


def test_a_missing_image_store_is_replaced_by_a_sentence(page):
    assert "No test images are shown: the image store of labels is not here" in page[0]
    assert "strip__labels.png" not in {path.name for path in (page[1] / "report/figures").iterdir()}


def test_hostile_names_are_escaped_and_stay_in_their_folder(tmp_path):
    name = f"../../{HOSTILE}"
    card = small(name)
    card["title"], card["citation"] = HOSTILE, "{{ 7 * 7 }}"
    card["classes"] = [HOSTILE, "$\\frac$", "{{ 7 * 7 }}"]
    arguments = prepare(
        tmp_path, datasets={name: card}, backbones=[HOSTILE, '"><img src=x onerror=y>']
    )
    build_report(**arguments, title=HOSTILE)
    text = report_text(tmp_path / "report")
    assert "<img src=x" not in text and "&lt;script&gt;alert(" in text
    pages = list((tmp_path / "report").rglob("*.html"))
    assert len(pages) == 2
    for path in pages:
        assert path.read_text().count("<script>") == links_of(path).tags.count("script") == 1
    # a class that looks like a template is shown as it is written
    assert "{{ 7 * 7 }}" in next(tmp_path.rglob("per_class__*.svg")).read_text()
    assert {path.parent.name for path in tmp_path.rglob("*.svg")} == {"figures"}


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b"])
    build_report(**arguments)
    first = {
        path.name: path.read_bytes() for path in (tmp_path / "report").rglob("*") if path.is_file()
    }
    build_report(**arguments)
    second = {
        path.name: path.read_bytes() for path in (tmp_path / "report").rglob("*") if path.is_file()
    }
    assert first == second


def test_inputs_of_another_plan_are_refused_and_an_old_report_stays(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    build_report(**arguments)
    before = (tmp_path / "report/index.html").read_bytes()
    path = str(arguments["predictions"]["eurosat", "a", 0, "linear"])
    with pytest.raises(PermafrostError, match="made from another plan"):
        build_report(**arguments, expect={path: "0" * 32})
    assert (tmp_path / "report/index.html").read_bytes() == before
    assert not [entry for entry in tmp_path.iterdir() if "partial" in entry.name]


def test_a_dataset_without_card_is_an_error_that_names_it(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    with pytest.raises(PermafrostError, match="no card is given for the dataset 'eurosat'"):
        build_report(**{**arguments, "cards": {}})
    arguments["cards"]["eurosat"].write_text("{")
    with pytest.raises(PermafrostError, match=r"card\.json: not a readable card"):
        build_report(**arguments)


def test_undefined_scores_and_missing_results_are_shown_as_such(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b"])
    tables = [
        score_table(
            make_score_rows(backbone="a", value=math.nan, half=math.nan, classes=["AnnualCrop"])
        ),
        score_table(make_score_rows(backbone="b", value=0.5, classes=["AnnualCrop"])),
        score_table(make_score_rows(backbone="b", probe="knn", value=0.5)),
        score_table(make_score_rows(backbone="a", probe="knn", value=0.5)),
    ]
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    build_report(**arguments)
    text = report_text(tmp_path / "report")
    assert "Missing results" in text and "a under linear: eurosat, seed 0" in text
    assert "nan</td>" not in text and ">None<" not in text


def test_comparisons_are_turned_so_that_the_best_backbone_is_first():
    row = {
        "probe": "knn",
        "seed": 0,
        "difference": -0.2,
        "lower": -0.3,
        "upper": -0.1,
        "p_adjusted": 0.01,
        "resamples": 2000,
    }
    rows = [
        {**row, "backbone_a": "weak", "backbone_b": "best"},
        {**row, "backbone_a": "weak", "backbone_b": "other"},
    ]
    (line,) = comparison_lines(rows, "best")
    assert (line["other"], line["difference"], line["lower"], line["upper"]) == (
        "weak",
        0.2,
        0.1,
        0.3,
    )


def test_bars_share_one_scale_per_dataset():
    rows = make_score_rows(backbone="a", value=0.4, half=0.1) + make_score_rows(
        backbone="b", value=0.8, half=0.1
    )
    rows = [{**row, "rank": 1.0, "mean_rank": 1.0} for row in rows]
    bars = {line["backbone"]: line["bar"] for line in leaderboard_lines(rows)}
    assert bars["a"] == {"left": 0.0, "width": 33.33, "at": 16.67}
    assert bars["b"] == {"left": 66.67, "width": 33.33, "at": 83.33}


def test_file_names_of_different_names_never_collide():
    names = ["a/b", "a\\b", "a b", "a-b", "..", "", "x" * 100, "x" * 101]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]*", s) and not s.startswith(".") for s in slugs)


def test_the_recorded_plan_of_the_pipeline_is_understood(tmp_path):
    """A plan without probes of its own falls back on the configuration's."""
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    arguments["plan"] = json.loads(
        json.dumps({**arguments["plan"], "probes": {"only": {"kind": "knn", "k": 7}}})
    )
    build_report(**arguments)
    assert "&#34;k&#34;: 7" in report_text(tmp_path / "report")


def with_probes(tmp_path: Path, probes: dict[str, str]) -> str:
    """The page of a run with these probes (name -> kind)."""
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    plan = {**arguments["plan"], "probes": {name: {"kind": kind} for name, kind in probes.items()}}
    build_report(**{**arguments, "plan": plan})
    return html.unescape((tmp_path / "report/index.html").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_probe_is_explained_where_it_ran_and_only_there(tmp_path, kind):
    text = with_probes(tmp_path, {"mine": kind})
    for other, known in KINDS.items():
        sentence = known.summary[0].upper() + known.summary[1:]
        assert (sentence in text) == (other == kind), other
    assert f'<dt>{kind} <span class="names">(mine)</span></dt>' in text


def test_what_is_said_of_frozen_features_is_true_of_the_run(tmp_path):
    frozen = with_probes(tmp_path / "1", {"linear": "linear"})
    assert "No backbone was trained here" in frozen
    both = with_probes(tmp_path / "2", {"linear": "linear", "tune": "fine_tune"})
    assert "No backbone was trained here" not in both and "frozen and trained further" in both
    assert (
        "tune trained every backbone further" in both
        and "linear read the features of frozen" in both
    )
    trained = with_probes(tmp_path / "3", {"tune": "fine_tune"})
    assert "no score here is of frozen features" in trained and "frozen and trained" not in trained


def test_tied_backbones_share_a_rank_that_says_so(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b", "c"])
    values = {"a": 0.5, "b": 0.7, "c": 0.5}
    tables = [
        score_table(make_score_rows(backbone=name, value=value)) for name, value in values.items()
    ]
    board = write_leaderboard(
        tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"}
    )
    lines = leaderboard_lines(board.to_pylist())
    assert [(line["backbone"], line["place"]) for line in lines] == [
        ("b", "1"),
        ("a", "2="),
        ("c", "2="),
    ]
    build_report(**arguments)
    assert report_text(tmp_path / "report").count(">2=</td>") == 4
    shown = [line.split()[:2] for line in format_leaderboard(board).splitlines()[2:]]
    assert shown == [["1", "b"], ["2=", "a"], ["2=", "c"]]


def summarised(tmp_path: Path, datasets: list[str]) -> str:
    arguments = prepare(
        tmp_path, datasets={name: small(name) for name in datasets}, backbones=["a", "b"]
    )
    board, _ = read_table(arguments["leaderboard"])
    write_summary(board, tmp_path / "summary.csv", resamples=50, confidence=0.9, seed=0)
    build_report(**arguments, summary=tmp_path / "summary.csv")
    return (tmp_path / "report/index.html").read_text()


def test_the_interquartile_mean_is_shown_with_its_interval_where_there_are_several_datasets(
    tmp_path,
):
    text = summarised(tmp_path, ["eurosat", "second", "third"])
    with open(tmp_path / "summary.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert (
        len(rows) == 4
        and "interquartile mean" in text
        and "Its 90 % interval resamples datasets" in text
    )
    section = text.split("<h3>Over all datasets</h3>")[1].split("</table>")[0]
    for row in rows:
        value, lower, upper = (number(float(row[f"iqm{end}"])) for end in ("", "_lower", "_upper"))
        line = next(
            line
            for line in section.split("<tr>")
            if f">{row['backbone']}</th>" in line and f">{row['probe']}</td>" in line
        )
        assert f">{value}</td>" in line and f"[{lower}, {upper}]" in line


def test_no_mean_over_datasets_is_shown_where_there_is_one(tmp_path):
    assert "Over all datasets" not in summarised(tmp_path, ["eurosat"])


def test_metrics_that_a_mean_over_datasets_mixes_are_named():
    row = {
        "probe": "knn",
        "backbone": "a",
        "iqm": 0.5,
        "iqm_lower": 0.4,
        "iqm_upper": 0.6,
        "n_datasets": 2,
    }
    lines = [{"probe": "knn", "metric_name": name} for name in ("micro-AP", "accuracy", "accuracy")]
    (note,) = over_datasets([row], lines)[1]
    assert note.startswith("knn is scored by accuracy and micro-AP")
    assert over_datasets([row], lines[1:])[1] == []


def test_a_summary_of_another_leaderboard_is_refused(tmp_path):
    summarised(tmp_path, ["eurosat", "second"])
    arguments = prepare(tmp_path / "2", datasets={"eurosat": small()}, backbones=["a", "c"])
    with pytest.raises(
        PermafrostError, match=r"summary.csv: the summary over datasets is of another"
    ):
        build_report(**arguments, summary=tmp_path / "summary.csv")
    (tmp_path / "summary.csv").write_text("probe,backbone\nknn,a\n")
    with pytest.raises(
        PermafrostError, match=r"summary.csv: the summary over datasets cannot be read"
    ):
        build_report(**arguments, summary=tmp_path / "summary.csv")


def test_every_table_says_in_which_order_its_rows_are(page):
    for path in (page[1] / "report").rglob("*.html"):
        for section in re.findall(r"<section.*?</section>", path.read_text(), re.DOTALL):
            tables = section.count('<table class="sort')
            assert section.count("Rows: ") >= min(tables, 1)


def test_what_jobs_ran_on_is_said_where_it_is_recorded():
    plain = {"settings": {"k": 5}}
    assert compute_words([plain]) == ""
    trained = {"settings": {"precision": "bf16"}, "device": "cuda (a card)"}
    assert compute_words([plain, trained, {**plain, "device": "cpu"}]) == (
        "Features were computed on cpu and cuda (a card). Heads were trained in bf16."
    )
