"""Reports as tests ask for them."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.tables import write_table
from permafrost.report.page import Report
from permafrost.statistics.across_datasets.standings_table import write_standings
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard

from helpers.results.tables import (
    make_card,
    make_comparison_table,
    make_plan,
    make_predictions,
    make_score_rows,
    score_table,
    write_card,
)


def build_report(*, output_dir, **inputs) -> None:
    """Write the report of these inputs (`Report`) into a folder."""
    Report(**inputs).write(output_dir)


def prepare(
    tmp_path: Path, *, datasets: dict, backbones: list[str], probes: dict | None = None, **options
) -> dict:
    """Everything that a `Report` is made of, written below `tmp_path`; `probes` : of some datasets."""
    probes_of = {name: ("knn", "linear") for name in datasets} | (probes or {})
    cards, predictions, tables, comparisons = {}, {}, [], {}
    for place, (name, card) in enumerate(datasets.items()):
        cards[name] = write_card(tmp_path / str(place) / "card.json", card)
        for i, backbone in enumerate(backbones):
            for probe in probes_of[name]:
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
        for probe in probes_of[name]:
            path = comparisons[name, probe] = tmp_path / f"{place}/compare-{probe}.parquet"
            write_table(path, make_comparison_table(name, probe, backbones), {"fingerprint": "c"})
    about = {"fingerprint": "l"}
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", about)
    ranking = {
        "groups": [("all", list(datasets))],
        "ranking": {},
        "comparison": {"confidence": 0.95, "seed": 0},
    }
    write_standings(tables, tmp_path / "s.parquet", tmp_path / "s.csv", about, ranking)
    return {
        "standings": tmp_path / "s.parquet",
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


def open_page(browser, folder: Path, address: str = "") -> None:
    """Open the first page of a report anew, and wait until its script has shown the answer."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get("about:blank")
    browser.get((folder / "index.html").as_uri() + address)
    ready = (
        "return document.readyState === 'complete' && !document.getElementById('explorer').hidden"
    )
    WebDriverWait(browser, 60).until(lambda opened: opened.execute_script(ready))
