"""Figures of the first page: the same marks as SVG and in a browser, and numbers against independent ones."""

from __future__ import annotations

import itertools
import json
import re
import shutil

import numpy as np
import pytest
import vl_convert
from helpers.results.pages import build_report, open_page, prepare, small
from permafrost.report.figures.interactive.costs import draw_costs
from permafrost.report.figures.interactive.ranked import draw_ranked
from permafrost.report.sections import overview as overview_module
from permafrost.report.sections.explorer import embedded
from permafrost.report.sections.overview import _agreement, _diagram
from permafrost.statistics.across_datasets.ranks import pareto_front

BACKBONES = ["alpha", "beta", "gamma", "imagestats"]
DATASETS = ["aid", "eurosat", "ucmerced"]
FIGURES = ["ranked", "cost_parameters", "critical", "probes"]
# of axes, legends and whole figures
_LABEL = re.compile(r'aria-label="([^"]+)" role="graphics-symbol"')


def marks(text: str) -> list[str]:
    """What the marks of an SVG say."""
    return sorted(said for said in _LABEL.findall(text) if "axis" not in said and ": " in said)


def svg_of(spec: dict, points: list[dict], **parameters) -> str:
    values = {"probe": "knn", "measure": "accuracy", "higher": True, "how": "how", **parameters}
    params = [{**one, "value": values[one["name"]]} for one in spec["params"]]
    return vl_convert.vegalite_to_svg(
        json.dumps({**spec, "width": 500, "params": params, "datasets": {"points": points}})
    )


@pytest.mark.parametrize("higher", [True, False])
def test_the_front_is_the_one_of_the_tables(higher):
    draw = np.random.default_rng(0)
    # ties in both, who has no score or no cost, and one that costs nothing
    known = draw.integers(1, 9, 60).astype(float)
    scores = [*known, np.nan, 5.0, 2.0 if higher else 8.0]
    costs = [*(draw.integers(1, 5, 60) + (known if higher else 9 - known)), 3.0, np.nan, 0.0]
    points = [
        {
            "backbone": f"b{at}",
            "probe": "knn",
            "score": None if np.isnan(score) else score,
            "lower": None,
            "upper": None,
            "ms": None if np.isnan(cost) else cost,
        }
        for at, (score, cost) in enumerate(zip(scores, costs, strict=True))
    ]
    said = marks(svg_of(draw_costs("ms"), points, higher=higher))
    drawn = {one.partition(",")[0] for one in said}
    whole = [*range(60), 62]
    assert drawn == {f"b{at}" for at in whole}
    expected = pareto_front(
        [costs[at] for at in whole], [scores[at] for at in whole], higher_is_better=higher
    )
    found = {one.partition(",")[0] for one in said if "on the Pareto front" in one}
    assert found == {f"b{at}" for at, front in zip(whole, expected, strict=True) if front}
    assert "b62" in found and 6 < len(found) < 30


def test_a_mark_says_how_its_number_was_made():
    point = {
        "backbone": "<b>", "probe": "knn", "score": 0.5, "lower": 0.25, "upper": 0.75, "rank": 1, "letters": "ab",
        "alike": True,
    }  # fmt: skip
    text = svg_of(draw_ranked(), [point, {**point, "backbone": "other", "probe": "linear"}])
    assert marks(text) == ["&lt;b&gt;, knn: accuracy 0.5 [0.25, 0.75], rank 1, letters ab. how"]


def test_kendalls_tau_counts_pairs():
    draw = np.random.default_rng(1)
    ranks = {probe: draw.integers(1, 6, 9).tolist() for probe in ("a", "b")}
    ranks["b"][4] = None
    data = {
        "backbones": [{"name": f"b{at}"} for at in range(9)],
        "datasets": [{"name": "d"}],
        "probes": ["a", "b"],
        "standings": {},
        "cells": {
            "dataset": [0] * 18,
            "backbone": [*range(9)] * 2,
            "probe": [0] * 9 + [1] * 9,
            "rank": ranks["a"] + ranks["b"],
        },
    }
    both = [pair for pair in zip(ranks["a"], ranks["b"], strict=True) if None not in pair]
    signs = np.array(
        [(np.sign(x[0] - y[0]), np.sign(x[1] - y[1])) for x, y in itertools.combinations(both, 2)]
    )
    tau = signs.prod(1).sum() / np.sqrt((signs[:, 0] != 0).sum() * (signs[:, 1] != 0).sum())
    assert _agreement(data) == {"d": [{"a": "a", "b": "b", "label": f": τ {tau:.2f} (n = 8)"}]}
    # all level: nothing can agree
    data["cells"]["rank"] = [1] * 18
    assert _agreement(data)["d"][0]["label"] == ": τ undefined (n = 9)"


def test_the_better_half_stands_left_and_bars_span_their_backbones():
    points = [
        {"backbone": name, "score": score}
        for name, score in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("none", None))
    ]
    tests = {"difference": "1.50", "cliques": [["a", "b"], ["b", "c"], ["c"]]}
    found = _diagram(points, tests)
    assert [(one["backbone"], one["left"], one["row"]) for one in found["leaders"]] == [
        ("a", True, 1),
        ("b", True, 2),
        ("c", False, 1),
    ]
    assert [(one["row"], one["low"], one["high"]) for one in found["bars"]] == [
        (-2, 1.0, 2.0),
        (-1, 2.0, 3.0),
    ]
    assert _diagram(points, None) == {"leaders": [], "bars": []}


def test_the_bundled_libraries_are_made_once_and_read_where_they_are_kept(tmp_path, monkeypatch):
    import vl_convert

    made = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda ready: made.append(ready) or "µ")
    monkeypatch.setattr(overview_module, "__file__", str(tmp_path / "overview.py"))
    assert [overview_module._bundle() for _ in range(3)] == ["µ"] * 3
    assert len(made) == 1 and len(list((tmp_path / "__pycache__").iterdir())) == 1
    # nothing can be kept below a file
    (tmp_path / "file").touch()
    monkeypatch.setattr(overview_module, "__file__", str(tmp_path / "file" / "overview.py"))
    assert overview_module._bundle() == "µ" and len(made) == 2


def test_one_backbone_has_nothing_to_compare_and_no_library(tmp_path):
    given = prepare(tmp_path, datasets={"aid": small("aid")}, backbones=["alpha"])
    build_report(**given)
    text = (tmp_path / "report/index.html").read_text()
    assert "vegaEmbed" not in text.replace("await vegaEmbed", "") and 'id="overview"' not in text
    assert len(text) < 200_000


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview")
    given = prepare(folder, datasets={name: small(name) for name in DATASETS}, backbones=BACKBONES)
    for name, count in (("beta", 25_000_000), ("gamma", 5_000_000), ("alpha", 300_000_000)):
        given["plan"]["backbones"][name] = {**given["plan"]["backbones"][name], "parameters": count}
    build_report(**given)
    return given["output_dir"]


@pytest.fixture
def page(browser, made):
    """Open the first page; afterwards nothing may stand in the console, so that its policy held."""

    def open_at(address: str = "", width: int = 1400):
        size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        open_page(browser, made, address)
        return browser

    browser.get_log("browser")
    yield open_at
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert browser.get_log("browser") == []


def drawn(browser, name: str) -> str:
    """Scroll to a figure; what is drawn there once it shows the present view."""
    from selenium.webdriver.support.wait import WebDriverWait

    find = f"document.querySelector('[data-figure={name}]')"
    browser.execute_script(f"{find}.scrollIntoView({{behavior: 'instant'}})")
    WebDriverWait(browser, 20).until(
        lambda _: browser.execute_script(f"return {find}.classList.contains('drawn')")
    )
    return browser.execute_script(f"return {find}.querySelector('svg').outerHTML")


def shows(browser, name: str, words: str) -> str:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 20).until(lambda _: words in drawn(browser, name))
    return drawn(browser, name)


@pytest.mark.parametrize("name", FIGURES)
def test_a_browser_draws_what_the_svg_holds(page, made, name):
    browser = page("#probe=linear")
    found = marks(drawn(browser, name))
    assert found == marks((made / f"figures/{name}__linear.svg").read_text()) and found
    assert browser.execute_script(
        "return performance.getEntriesByType('resource').every(e => e.name.startsWith('file:'))"
    )


def test_the_library_runs_when_a_figure_is_wanted(page):
    browser = page()
    browser.execute_script("window.scrollTo(0, 0)")
    assert browser.execute_script("return typeof vegaEmbed") == "undefined"
    drawn(browser, "ranked")
    assert browser.execute_script("return typeof vegaEmbed") == "function"


def test_figures_follow_the_filters(page):
    browser = page("#probe=linear")
    assert len(marks(drawn(browser, "ranked"))) == 4
    browser.execute_script("location.hash = 'probe=knn&q=mma'")
    (said,) = marks(shows(browser, "ranked", "gamma, knn"))
    assert said.startswith("gamma, knn: mean rank over 3 datasets 2 [") and "rank 2" in said
    browser.execute_script("location.hash = 'probe=knn&dataset=aid'")
    text = shows(browser, "ranked", "accuracy on aid")
    assert marks(text)[0].startswith("alpha, knn: accuracy on aid 0.5 [0.48, 0.52], rank 4")
    # Nemenyi's test is over datasets
    assert browser.execute_script("return document.querySelector('[data-figure=critical]').hidden")
    browser.execute_script("location.hash = 'probe=knn'")
    shows(browser, "critical", "mean rank over 3 datasets")


def test_letters_after_z_are_not_those_before(browser, made, tmp_path):
    shutil.copytree(made / "figures", tmp_path / "figures")
    text = (made / "index.html").read_text()
    held = re.search(r'(id="data">)(.*?)(</script>)', text, re.S)
    data = json.loads(held[2])
    rows = data["standings"]["all"]["knn"]["rows"]
    for row, letters in zip(rows, ["a", "a'", "ab", "a''b'"], strict=True):
        row["letters"] = letters
    (tmp_path / "index.html").write_text(text.replace(held[2], embedded(data)))
    open_page(browser, tmp_path, "#probe=knn")
    colours = re.findall(
        r'aria-label="(\w+), knn: [^"]*"[^>]*fill="([^"]+)"', drawn(browser, "ranked")
    )
    of = dict(colours)
    first, other, alike, far = (of[row["backbone"]] for row in rows)
    assert first == alike and other == far and first != other
    assert "or others" in browser.find_element("css selector", "[data-probe=knn]").text
    rows[2]["letters"] = "b"
    (tmp_path / "index.html").write_text(text.replace(held[2], embedded(data)))
    open_page(browser, tmp_path, "#probe=knn")
    assert "or others" not in browser.find_element("css selector", "[data-probe=knn]").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_figures_fit_the_window_and_take_the_colour_of_its_text(page, width, scheme):
    browser = page("", width)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    for name in FIGURES:
        drawn(browser, name)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    inks = browser.execute_script(
        "return ['#overview .marks text', 'body'].map((of, at) =>"
        " getComputedStyle(document.querySelector(of))[at ? 'color' : 'fill'])"
    )
    assert inks[0] == inks[1]
    label = browser.execute_script(
        "return document.querySelector('#overview [role=graphics-document]').ariaLabel"
    )
    assert label.startswith("Ranked backbones, ") and "mean rank over 3 datasets" in label


def test_what_was_not_drawn_is_printed_as_a_still(page):
    browser = page()
    style = "return getComputedStyle(document.querySelector('[data-figure=probes] .still')).display"
    assert browser.execute_script(style) == "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(style) == "block"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    drawn(browser, "probes")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(style) == "none"


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", FIGURES)
def test_no_two_labels_intersect(page, name, width):
    browser = page("#probe=linear", width)
    drawn(browser, name)
    crossing = browser.execute_script(
        """
        const seen = [...document.querySelectorAll(`[data-figure=${arguments[0]}] svg text`)]
            .filter((one) => one.textContent.trim() && one.getAttribute("opacity") !== "0");
        const boxes = seen.map((one) => [one.textContent, one.getBoundingClientRect()]), found = [];
        const shared = (x, y, low, high) => Math.min(x[high], y[high]) - Math.max(x[low], y[low]);
        for (const [i, [a, x]] of boxes.entries()) for (const [b, y] of boxes.slice(i + 1))
            if (shared(x, y, "left", "right") > 1 && shared(x, y, "top", "bottom") > 2) found.push([a, b]);
        return found;
        """,
        name,
    )
    assert crossing == []
