"""Published scores on the entrance of the report: marked, beside one's own, and never ranked with them."""

from __future__ import annotations

import csv
import json
import re

import pytest
from helpers.results.pages import build_report, open_page, prepare, small
from permafrost.data.files.folders import content_digest
from permafrost.report.sections.published import _cells
from permafrost.statistics.leaderboard.published import TORCHGEO_BENCH
from permafrost.statistics.leaderboard.published_table import write_published

EVIL = "<img src=x onerror=alert(1)>"
THEIRS, DATASETS = 51, 11


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two backbones on two datasets, and a published table of 51 backbones on 11 datasets in two protocols."""
    folder = tmp_path_factory.mktemp("published")
    given = prepare(
        folder,
        datasets={name: small(name) for name in ("eurosat", "aid")},
        backbones=["alpha", "beta"],
    )
    path = folder / "theirs.csv"
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, TORCHGEO_BENCH, restval="")
        writer.writeheader()
        for name in range(THEIRS):
            for dataset in range(DATASETS):
                for method in ("knn5", "linear"):
                    for bands in ("rgb", "all"):
                        writer.writerow(
                            {
                                "dataset": f"m-{dataset}",
                                "method": method,
                                # one dataset has another metric than here
                                "metric_name": "micro_mAP" if dataset == 1 else "accuracy",
                                "metric_value": (name + 1) / 100,
                                "name": EVIL if name == 50 else f"net{name}",
                                "bands": bands,
                                "image_size": "224",
                            }
                        )
    entry = {
        "digest": content_digest(path), "source": "them", "url": "", "date": "2026-01-02", "duplicates": "refuse",
        "backbones": {"net7": "beta"}, "datasets": {"m-0": "eurosat", "m-1": "aid"}, "methods": {"linear": "linear"},
    }  # fmt: skip
    written = folder / "published.parquet"
    table = write_published(
        [entry], [path], written, folder / "published.csv", {"fingerprint": "l"}
    )
    given["plan"]["probes"] = {"knn": {"kind": "knn"}, "linear": {"kind": "linear"}}
    given["plan"]["config"]["extraction"] = {"size": None}
    build_report(**given, published=written)
    return {**given, "published": table.to_pylist()}


@pytest.fixture
def page(browser, made):
    def open_at(address: str = ""):
        open_page(browser, made["output_dir"], address)
        return browser

    browser.get_log("browser")
    yield open_at
    assert browser.get_log("browser") == []


def texts(browser, selector: str) -> list[str]:
    return [
        one.get_attribute("textContent") for one in browser.find_elements("css selector", selector)
    ]


def test_the_data_hold_every_published_score(made):
    text = (made["output_dir"] / "index.html").read_text()
    assert "<img src=x" not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    cells = data["cells"]
    theirs = [place for place, said in enumerate(cells["published"]) if said is not None]
    assert len(theirs) == len(made["published"]) == THEIRS * DATASETS * 2 * 2
    assert len({len(column) for column in cells.values()}) == 1
    found = {
        (
            data["backbones"][cells["backbone"][place]]["name"],
            data["datasets"][cells["dataset"][place]]["name"],
            data["probes"][cells["probe"][place]],
        ): cells["value"][place]
        for place in theirs
    }
    assert len(found) == len(theirs)
    assert found["net7 · them · rgb", "eurosat", "linear"] == 0.08
    # another method, and another metric, are other columns
    assert found["net7 · them · rgb", "m-0 · them", "knn5 · them"] == 0.08
    assert found["net7 · them · all bands", "m-1 · them", "linear"] == 0.08
    assert all(cells[name][place] is None for place in theirs for name in ("rank", "alike"))
    # nothing that is ranked or compared knows of them
    assert "them" not in json.dumps([data["standings"], data["pairs"]])
    differing = [said for said in cells["differs"] if said]
    assert len(differing) == 4 and all("image size: 224 there" in said for said in differing)
    assert sum("metric: micro_mAP there, accuracy here" in said for said in differing) == 2


def test_published_scores_are_shown_on_request_only(page):
    browser = page()
    assert sorted(texts(browser, "#matrix .pick")) == ["alpha", "beta"]
    assert "Published" not in texts(browser, "#verdict")[0]
    assert "2 of 2 backbones, 2 of 2 datasets" in texts(browser, "#count")
    visible = [one.is_displayed() for one in browser.find_elements("css selector", "[data-probe]")]
    assert sorted(visible) == [False, True, True]
    browser.find_element("css selector", "#pick-who option[value=published]").click()
    assert "who=published" in browser.current_url
    names = texts(browser, "#matrix .pick")
    assert len(names) == 2 * THEIRS and f"{EVIL} · them · rgb" in names
    assert len(texts(browser, "#matrix .tag")) == 2 * THEIRS
    # all of theirs; eurosat is one of ours
    assert len(browser.find_elements("css selector", "#matrix th.turned")) == DATASETS
    assert "not ranked or tested" in texts(browser, "#verdict")[0]


def test_of_published_scores_only_probes_and_figures_that_they_have_are_shown(page):
    browser = page("#who=published&probe=knn")
    chips = browser.find_elements("css selector", "[data-probe]")
    shown = [one.get_attribute("data-probe") for one in chips if one.is_displayed()]
    assert sorted(shown) == ["knn5 · them", "linear"]
    assert len(texts(browser, "#matrix .pick")) == 2 * THEIRS
    assert not browser.find_element("id", "overview").is_displayed()
    heads = [head.strip() for head in texts(browser, "#matrix th[scope=col] button span")]
    assert "rank" not in heads and "letters" not in heads
    browser.find_element("css selector", "#pick-who option[value=own]").click()
    assert sorted(texts(browser, "#matrix .pick")) == ["alpha", "beta"]
    assert browser.find_element("id", "overview").is_displayed()


def test_names_say_of_the_protocol_what_differs_on_one_dataset():
    def row(dataset: str, bands: str, **options) -> dict:
        said = {"source": "s", "backbone": "net", "method": "knn", "metric": "accuracy"}
        said |= {"normalisation": "", "image_size": None, "grid": None, "dataset": dataset}
        return {**said, "dataset_here": None, "probe_here": None, "bands": bands, **options}

    def names(*rows) -> list[str]:
        return sorted({name for name, *_ in _cells(list(rows), {})})

    # one way on each dataset: one row, whatever it was
    assert names(row("a", "rgb"), row("b", "all"), row("c", "1,2,3,4")) == ["net · s"]
    two = [row("a", "rgb"), row("a", "all"), row("b", "1,2,3,4", image_size=128)]
    assert names(*two) == ["net · s · all bands", "net · s · rgb"]
    counted = [row("a", "1,2,3,4"), row("a", "1,2,3,4,5"), row("b", "rgb")]
    assert names(*counted) == ["net · s · 4 bands", "net · s · 5 bands", "net · s · rgb"]
    sizes = [row("a", "rgb", image_size=64), row("a", "rgb", image_size=128)]
    assert names(*sizes) == ["net · s · 128", "net · s · 64"]
    # seeds of one protocol are one cell
    assert len(_cells([row("a", "rgb", seed=0), row("a", "rgb", seed=1)], {})) == 1


def test_both_stand_together_and_the_best_ranked_is_ours(page):
    browser = page("#who=both&probe=linear")
    names = texts(browser, "#matrix .pick")
    assert len(names) == 2 * THEIRS + 2 and set(names[:2]) == {"alpha", "beta"}
    cell = browser.find_element("css selector", "#matrix td.published")
    assert ", published: accuracy" in cell.get_attribute("title")
    assert "image size 224" in cell.get_attribute("title")


def test_beside_a_pair_stands_what_differs_in_the_protocol(page):
    browser = page("#who=both&probe=linear&a=beta&b=net7+%C2%B7+them+%C2%B7+rgb")
    assert "No test compares published scores" in texts(browser, "#pair p")[0]
    (row,) = texts(browser, "#pair tbody tr")
    assert row.startswith("eurosat") and "image size: 224 there" in row
    browser = page("#who=both&probe=linear&a=alpha&b=net7+%C2%B7+them+%C2%B7+rgb")
    (row,) = texts(browser, "#pair tbody tr")
    assert "bands rgb; image size 224" in row


def test_own_and_nonsense_addresses_show_ones_own(page):
    assert sorted(texts(page("#who=everyone"), "#matrix .pick")) == ["alpha", "beta"]
