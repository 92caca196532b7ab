"""The report page: whole, self-contained, and safe with any name that a user can choose."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import (
    make_image_store,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
)
from permafrost.core import versions
from permafrost.core.errors import PermafrostError
from permafrost.report.material.dataset import slug
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard

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
    assert [path.name for path in paths] == [
        "imagestats.html",
        "mobilenetv2.html",
        "rcf.html",
        "eurosat.html",
        "labels.html",
        "index.html",
    ]
    for path in paths:
        text, links = path.read_text(), links_of(path)
        assert links.loads
        assert not any(re.match(r"[a-z]+:|/", load) for load in links.loads)
        own = re.sub(r'<script type="text/plain" id="vega">.*?</script>', "", text, flags=re.DOTALL)
        assert not re.search(r"@import|url\(|https?://", own)
        assert not {"link", "iframe", "object", "embed", "base", "form"} & set(links.tags)


def test_pages_allow_their_own_script_and_pictures_beside_them_only(page):
    for path in (page[1] / "report").rglob("*.html"):
        text = path.read_text()
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
        # the second one runs when a figure is wanted
        scripts = re.findall(
            r'<script(?: type="text/plain" id="vega")?>(.*?)</script>', text, re.DOTALL
        )
        assert len(scripts) == 1 + (path.name == "index.html")
        digests = {
            f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
            for script in scripts
        }
        assert "default-src 'none'" in policy and "img-src 'self' file:;" in policy
        assert set(re.search(r"script-src ([^;]+);", policy)[1].split()) == digests


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
    assert {"dataset-eurosat", "dataset-labels", "explorer"} <= targets[
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
    assert len(pages) == 4
    for path in pages:
        # the entrance has its data in two more, which are not run, and the library of the figures
        held = len(re.findall(r'<script type="(?:application/json|text/plain)"', path.read_text()))
        assert held == 3 * (path.name == "index.html")
        assert path.read_text().count("<script>") == links_of(path).tags.count("script") - held == 1
    # a class that looks like a template is shown as it is written
    assert "{{ 7 * 7 }}" in next(tmp_path.rglob("per_class__*.svg")).read_text()
    assert {path.parent.name for path in tmp_path.rglob("*.svg")} == {"figures"}


def test_the_card_on_the_page_says_what_the_entry_says_to_people(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    said = {"licence": "CC BY 9.0", "citation": "Nobody 2026", "size_bytes": 2_070_000_000}
    arguments["plan"]["datasets"]["eurosat"] |= said
    build_report(**arguments)
    text = report_text(tmp_path / "report")
    assert all(words in text for words in ("CC BY 9.0", "Nobody 2026", "2.07 GB"))


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


def test_every_table_says_in_which_order_its_rows_are(page):
    for path in (page[1] / "report").rglob("*.html"):
        for section in re.findall(r"<section.*?</section>", path.read_text(), re.DOTALL):
            tables = section.count('<table class="sort')
            assert section.count("Sorted by ") >= min(tables, 1)
