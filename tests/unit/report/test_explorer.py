"""The entrance of the report: its data, and what a browser shows of it."""

from __future__ import annotations

import base64
import csv
import json
import os
import re
import time

import numpy as np
import pytest
from helpers.results.pages import build_report, open_page, prepare, small
from permafrost.core.tables import read_table
from permafrost.report.sections.dataset import dataset_line
from permafrost.report.sections.explorer import _packed, explorer, not_told_apart

BACKBONES = ["alpha", "beta", "gamma", "imagestats"]
DATASETS = ["eurosat", "ucmerced", "aid"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The report of four backbones on three datasets, with a title that holds HTML."""
    folder = tmp_path_factory.mktemp("explorer")
    given = prepare(folder, datasets={name: small(name) for name in DATASETS}, backbones=BACKBONES)
    entries = given["plan"]["datasets"]
    entries["aid"] = {**entries["aid"], "title": "</script><img src=x onerror=alert(1)>"}
    given["plan"]["backbones"]["beta"] = {
        **given["plan"]["backbones"]["beta"],
        "parameters": 25_000_000,
    }
    build_report(**given)
    return given


def data_of(given: dict) -> dict:
    text = (given["output_dir"] / "index.html").read_text()
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    )


def test_the_data_hold_the_reason_of_what_does_not_fit():
    left_out = [
        {"dataset": "aid", "backbone": "beta", "probe": None, "reason": "no band 'nir'"},
        {"dataset": "aid", "backbone": "alpha", "probe": "tuned", "reason": "no pixels"},
    ]
    plan = {"backbones": {}, "datasets": {}, "config": {}, "left_out": left_out}
    found = explorer(plan, [], {})["unfit"]
    assert found == {"aid|beta": "no band 'nir'", "aid|alpha|tuned": "no pixels"}


def test_the_data_hold_every_score_and_every_pair(made):
    data = data_of(made)
    names = [one["name"] for one in data["backbones"]]
    rows = {
        (row["dataset"], row["probe"], row["backbone"]): row
        for row in read_table(made["leaderboard"])[0].to_pylist()
        if row["primary"]
    }
    cells = data["cells"]
    assert len(cells["value"]) == len(rows) == 24
    for dataset, backbone, probe, value, lower, rank in zip(
        *(cells[key] for key in ("dataset", "backbone", "probe", "value", "lower", "rank")),
        strict=True,
    ):
        row = rows[data["datasets"][dataset]["name"], data["probes"][probe], names[backbone]]
        assert (value, lower, rank) == (
            row["value"],
            pytest.approx(row["lower"], abs=1e-6),
            row["rank"],
        )
    for (dataset, probe), path in made["comparisons"].items():
        pairs = data["pairs"][f"{dataset}|{probe}"]
        found = {}
        half, chance = (
            np.frombuffer(base64.b64decode(pairs[key]), "<u2") / 65534 for key in ("half", "p")
        )
        ordered = [names[place] for place in pairs["backbones"]]
        for number, pair in enumerate(
            (a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 :]
        ):
            found[pair] = (half[number] * pairs["scale"], chance[number])
        for row in read_table(path)[0].to_pylist():
            size = (row["upper"] - row["lower"]) / 2
            assert found[row["backbone_a"], row["backbone_b"]] == pytest.approx(
                (size, row["p_adjusted"]), abs=1e-4
            )


def test_the_best_of_a_dataset_is_bold_only_where_it_is_told_apart_from_all_others(made):
    page = (made["output_dir"] / "index.html").read_text()
    alike = not_told_apart(data_of(made))
    said = []
    for dataset in DATASETS:
        (row,) = re.findall(f'<tr id="dataset-{dataset}">.*?</tr>', page, re.S)
        for probe in ("knn", "linear"):
            (cell,) = re.findall(f"{probe}: (.*?)<br>", row)
            others = alike[dataset, probe][1:]
            assert ("<strong>" in cell) == (not others)
            assert ("not significant" in cell) == bool(others)
            assert all(name in cell for name in others) or f"{len(others)} others" in cell
            said.append(bool(others))
    assert any(said)


def test_who_is_best_is_said_with_those_that_may_be():
    section = {"name": "d", "title": "", "anchor": "", "task": "classification", "counts": []}
    section |= {"flags": [], "calibration": None, "measures": None, "costs": None}
    section["lines"] = [
        {"probe": "knn", "place": place, "backbone": name}
        for place, name in (("1", "a"), ("2", "b"), ("3", "c"), ("4", "d"))
    ]
    for alike, others, certain in (
        (["a"], "", True),
        (["a", "b"], "b", False),
        (["a", "c", "b"], "b or c", False),
        (["a", "b", "c", "d"], "3 others", False),
        ([], "", False),
    ):
        (best,) = dataset_line(section, "", {("d", "knn"): alike})["values"]["bests"]
        assert (best["backbone"], best["others"], best["certain"]) == ("a", others, certain)


def test_numbers_are_packed_to_sixteen_bits():
    assert np.frombuffer(
        base64.b64decode(_packed(np.array([0, 0.5, 1, np.nan]))), "<u2"
    ).tolist() == [0, 32767, 65534, 65535]


def test_nothing_breaks_out_of_the_element_that_holds_the_data(made):
    text = (made["output_dir"] / "index.html").read_text()
    assert "<img src=x" not in text
    assert data_of(made)["datasets"][0]["title"].startswith("</script>")


def test_a_run_without_standings_has_no_answer(made):
    rows = read_table(made["leaderboard"])[0].to_pylist()
    data = explorer(made["plan"], rows, {})
    assert data["standings"] == {} == data["pairs"] and set(data["cells"]["alike"]) == {None}


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture
def page(browser, made):
    """Open the report at an address, wide; afterwards nothing may stand in the console."""

    def open_at(address: str = "", width: int = 1400):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
        )
        open_page(browser, made["output_dir"], address)
        return browser

    browser.get_log("browser")
    yield open_at
    assert browser.get_log("browser") == []


def find(browser, selector: str):
    return browser.find_elements("css selector", selector)


def texts(browser, selector: str) -> list[str]:
    return [one.text for one in find(browser, selector)]


def ranked(browser) -> list[str]:
    return texts(browser, "#matrix tbody .pick")


def test_the_answer_is_in_words_and_in_a_table(page):
    browser = page()
    assert "imagestats is first by mean rank" in texts(browser, "#verdict")[0]
    assert "over 3 datasets" in texts(browser, "#verdict")[0]
    assert "imagestats against gamma on a new dataset" in texts(browser, "#verdict")[0]
    assert ranked(browser) == ["imagestats", "gamma", "beta", "alpha"]
    heads = texts(browser, "#matrix thead button")
    assert heads[:3] == ["backbone", "rank", "letters"] and heads[-3:] == sorted(DATASETS)
    cell = find(browser, "#matrix tbody tr:first-child td")[-1]
    assert cell.get_attribute("title").startswith(
        "imagestats on ucmerced: accuracy 0.800 [0.780, 0.820], rank 1"
    )
    # what it loads lies in its own folder
    assert (
        browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        == []
    )


def test_a_view_is_in_the_address(page):
    browser = page()
    find(browser, "[data-probe=knn]")[0].click()
    find(browser, "#tools summary")[0].click()
    find(browser, "#pick-q")[0].send_keys("a")
    find(browser, "#pick-cells option[value=rank]")[0].click()
    find(browser, "#pick-dataset option[value=aid]")[0].click()
    assert ranked(browser) == ["imagestats", "gamma", "beta", "alpha"]
    find(browser, "#pick-q")[0].send_keys("l")
    assert ranked(browser) == ["alpha"]
    address = browser.current_url.partition("#")[2]
    assert set(address.split("&")) == {"probe=knn", "q=al", "cells=rank", "dataset=aid"}
    assert texts(browser, "#count") == ["1 of 4 backbones, 1 of 3 datasets"]
    again = page("#" + address)
    assert ranked(again) == ["alpha"]
    assert find(again, "[data-probe=knn]")[0].get_attribute("aria-pressed") == "true"
    assert find(again, "#matrix tbody td")[-1].text == "4"
    find(again, "#reset")[0].click()
    assert ranked(again) == ["imagestats", "gamma", "beta", "alpha"]
    assert again.current_url.partition("#")[2] == "probe=knn"


def test_an_address_that_means_nothing_is_the_first_view(page):
    browser = page("#probe=nothing&group=&cells=%3Cimg%3E&sort=__proto__&a=x&b=y")
    assert sorted(ranked(browser)) == sorted(BACKBONES)


def test_headings_sort(page):
    browser = page()
    button = find(browser, "[data-sort='d:eurosat']")[0]
    button.click()
    assert ranked(browser) == ["imagestats", "gamma", "beta", "alpha"]
    find(browser, "[data-sort='d:eurosat']")[0].click()
    assert ranked(browser) == ["alpha", "beta", "gamma", "imagestats"]
    assert find(browser, "th[aria-sort=descending]")
    # what has no number comes last, whichever way
    for _ in range(2):
        find(browser, "[data-sort=parameters]")[0].click()
        assert ranked(browser)[0] == "beta"


def test_two_are_compared(page, made):
    browser = page()
    for name in ("gamma", "alpha"):
        next(one for one in find(browser, "#matrix .pick") if one.text == name).click()
    rows = {row.text.split()[0]: row.text for row in find(browser, "#pair tbody tr")}
    assert list(rows) == sorted(DATASETS)
    # the differences of the scores, the intervals and p-values of the comparisons
    compared = read_table(made["comparisons"]["aid", "linear"])[0].to_pylist()
    (row,) = (
        row for row in compared if (row["backbone_a"], row["backbone_b"]) == ("alpha", "gamma")
    )
    assert f"0.700 0.500 +0.200 [+0.170, +0.230] {row['p_adjusted']:.3f}" in rows["aid"]
    assert "a=gamma&b=alpha" in browser.current_url
    assert "do not differ significantly" in texts(browser, "#pair p")[0]
    find(browser, "#pick-b option[value=gamma]")[0].click()
    assert "Choose two" in texts(browser, "#pair")[0]


def test_a_view_is_downloaded(page, made):
    browser = page("#q=mma&probe=knn")
    find(browser, "#csv")[0].click()
    path = browser.downloads / "permafrost-all-knn.csv"
    for _ in range(100):
        if path.exists():
            break
        time.sleep(0.1)
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert row["backbone"] == "gamma" and row["rank"] == "2"
    assert (float(row["aid"]), float(row["aid lower"])) == (0.7, pytest.approx(0.68))
    os.remove(path)


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_no_wider_than_the_window(page, width):
    browser = page("", width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_everything(page):
    browser = page()
    from selenium.webdriver.common.keys import Keys

    find(browser, "[data-probe=knn]")[0].send_keys(Keys.ENTER)
    assert "probe=knn" in browser.current_url
    find(browser, "[data-sort=name]")[0].send_keys(Keys.SPACE)
    assert ranked(browser) == sorted(BACKBONES)
    find(browser, "#matrix .pick")[0].send_keys(Keys.ENTER)
    assert "a=alpha" in browser.current_url


def test_a_backbone_leads_to_its_page(page):
    browser = page("#q=gamma")
    find(browser, "#matrix tbody th a")[0].click()
    assert browser.current_url.endswith("/backbones/gamma.html")
    assert texts(browser, "h1") == ["gamma The gamma"]
    find(browser, "[data-kind=number] button")[0].click()
    assert find(browser, "[aria-sort=ascending]")
    browser.back()
    assert ranked(browser) == ["gamma"]


@pytest.fixture
def two_tasks(browser, tmp_path):
    """Open a report of two tasks, each with a probe of its own."""
    datasets = {"aid": small("aid"), "eurosat": small(), "many": small("many", task="multilabel")}
    given = prepare(
        tmp_path,
        datasets=datasets,
        backbones=BACKBONES,
        probes={"many": ("knn",)},
        title="My study",
    )
    given["plan"]["datasets"]["many"]["task"] = "multilabel"
    build_report(**given)

    def open_at(address: str = "", width: int = 1400):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False},
        )
        open_page(browser, given["output_dir"], address)
        return browser

    browser.get_log("browser")
    yield open_at
    assert browser.get_log("browser") == []


def test_the_first_screen_is_the_study(two_tasks):
    browser = two_tasks()
    assert texts(browser, "h1") == ["My study"]
    assert texts(browser, "#verdict") == [
        "Of 4 backbones, imagestats has the best mean rank over 3 datasets: best on all of them (not tested on 1)."
    ]
    assert "classification by linear, multilabel by knn" in texts(browser, "#basis")[0]
    assert ranked(browser) == ["imagestats", "gamma", "beta", "alpha"]
    heads = texts(browser, "#matrix thead button")
    assert heads[:3] == ["backbone", "mean rank", "best"] and heads[-3:] == [
        "aid",
        "eurosat",
        "many",
    ]
    assert texts(browser, "#matrix .over th") == ["classification · linear", "multilabel · knn"]
    assert [one.text for one in find(browser, "#matrix tbody tr:first-child td")][:2] == [
        "1.00",
        "3 of 3",
    ]
    assert not find(browser, "#pick-q")[0].is_displayed()
    # figures of the same ranks; none of what one probe alone has
    shown = [
        one.get_attribute("data-figure") for one in find(browser, "figure") if one.is_displayed()
    ]
    assert shown == ["ranked"]
    find(browser, "[data-probe=linear]")[0].click()
    assert (
        "probe=linear" in browser.current_url
        and "linear, over 2 datasets" in texts(browser, "#verdict")[0]
    )
    again = two_tasks("#probe=*&a=alpha&b=beta")
    assert (
        "beta on 2; on 0 of 3 datasets they do not differ significantly; 1 not tested."
        in texts(again, "#pair p")[0]
        and len(find(again, "#pair tbody tr")) == 3
    )


def test_on_a_phone_the_sentence_and_the_table_come_first(two_tasks):
    browser = two_tasks("", 390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    top = {
        name: browser.execute_script(
            f"return document.querySelector('{name}').getBoundingClientRect().top"
        )
        for name in ("#verdict", "#matrix tbody td.heat", "#tools")
    }
    assert top["#verdict"] < top["#matrix tbody td.heat"] < min(top["#tools"], 844)
    left = "return document.querySelector('#matrix tbody td.heat').getBoundingClientRect().left"
    assert browser.execute_script(left) < 390
