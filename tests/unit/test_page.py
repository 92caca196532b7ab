"""The report page: whole, self-contained, and safe with any name that a user can choose."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from _tables import (
    make_card,
    make_comparison_table,
    make_image_store,
    make_plan,
    make_predictions,
    make_score_rows,
    score_table,
    write_card,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import write_table
from permafrost.report.leaderboard import write_leaderboard
from permafrost.report.material import slug
from permafrost.report.page import build_report
from permafrost.report.sections.dataset import comparison_lines
from permafrost.report.sections.run import compute_words
from permafrost.report.sections.scores import leaderboard_lines

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
    """Everything that `build_report` asks for, written below `tmp_path`."""
    cards, predictions, tables, comparisons = {}, {}, [], {}
    for number, (name, card) in enumerate(datasets.items()):
        cards[name] = write_card(tmp_path / str(number) / "card.json", card)
        for i, backbone in enumerate(backbones):
            for probe in ("knn", "linear"):
                made = make_predictions(tmp_path / f"{number}/{i}/{probe}.parquet", card, backbone=backbone,
                                        probe=probe, accuracy=0.5 + 0.1 * i)  # fmt: skip
                predictions[name, backbone, 0, probe] = made["path"]
                rows = make_score_rows(dataset=name, backbone=backbone, probe=probe, value=0.5 + 0.1 * i,
                                       classes=card["classes"], task=card["task"],
                                       spatially_random=card["spatially_random"],
                                       gates="below_chance" if i == 0 else "")  # fmt: skip
                tables.append(score_table(rows))
        for probe in ("knn", "linear"):
            path = comparisons[name, probe] = tmp_path / f"{number}/compare-{probe}.parquet"
            write_table(path, make_comparison_table(name, probe, backbones), {"fingerprint": "c"})
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    return {
        "plan": make_plan(list(datasets), backbones), "leaderboard_path": tmp_path / "l.parquet",
        "cards": cards, "predictions": predictions, "images": {}, "comparisons": comparisons,
        "output_dir": tmp_path / "report", "examples": 4, **options,
    }  # fmt: skip


def small(name: str = "eurosat", **options) -> dict:
    return make_card(name, **{"classes": 3, "bands": 3, "counts": (40, 20, 30), **options})


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
    return (folder / "report/index.html").read_text(), folder


def test_the_page_loads_nothing_from_anywhere(page):
    parser = Links()
    parser.feed(page[0])
    assert parser.loads
    assert all(load.startswith(("data:image/", "#")) for load in parser.loads)
    assert not re.search(r"@import|url\(|https?://", re.sub(r"data:image/[^\"]+", "", page[0]))
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(parser.tags)
    assert "default-src 'none'" in page[0]


def test_every_anchor_leads_somewhere(page):
    anchors = set(re.findall(r'href="#([^"]+)"', page[0]))
    assert anchors <= set(re.findall(r'id="([^"]+)"', page[0]))
    assert len(anchors) == 7


def test_the_page_says_what_was_found_and_run(page):
    text = page[0]
    for words in ("mobilenetv2", "0.700", "0.680 – 0.720", "near-duplicates across splits", "2.41 km",
                  "not above chance", "Random split of spatial data", "Paired comparisons",
                  "one that counts", "2.13.0", "Helber et al. 2019", "micro-AP"):  # fmt: skip
        assert words in text, words


def test_results_of_several_versions_of_a_package_are_a_warning(tmp_path, page):
    assert "Mixed versions" not in page[0]
    card = small()
    arguments = prepare(tmp_path, datasets={"eurosat": card}, backbones=["a", "b"])
    make_predictions(tmp_path / "0/1/knn.parquet", card, backbone="b", probe="knn", accuracy=0.6,
                     torch="2.14.0")  # fmt: skip
    build_report(**arguments)
    text = (tmp_path / "report/index.html").read_text()
    assert "Mixed versions" in text and "torch 2.13.0 and 2.14.0" in text


def test_figures_are_written_as_png_and_svg(page):
    names = {path.name for path in (page[1] / "report/figures").iterdir()}
    for kind in ("dotplot__eurosat", "c_curve__eurosat__linear", "confusion__eurosat", "strip__eurosat",
                 "per_class__eurosat", "balance__eurosat", "bands__eurosat", "dotplot__labels"):  # fmt: skip
        assert {f"{kind}.png", f"{kind}.svg"} <= names
    assert "confusion__labels.png" not in names


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
    text = (tmp_path / "report/index.html").read_text()
    assert text.count("<script>") == 1
    assert "<img src=x" not in text and "&lt;script&gt;alert(" in text
    # texts are shown as they were written: they are no templates
    assert "{{ 7 * 7 }}" in text
    parser = Links()
    parser.feed(text)
    assert parser.tags.count("script") == 1
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
    text = (tmp_path / "report/index.html").read_text()
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
    assert "&#34;k&#34;: 7" in (tmp_path / "report/index.html").read_text()


def test_what_jobs_ran_on_is_said_where_it_is_recorded():
    plain = {"settings": {"k": 5}}
    assert compute_words([plain]) == ""
    trained = {"settings": {"precision": "bf16"}, "device": "cuda (a card)"}
    assert compute_words([plain, trained, {**plain, "device": "cpu"}]) == (
        "Features were computed on cpu and cuda (a card). Heads were trained in bf16."
    )
