"""Size of the data of the report's entrance, and how soon a browser shows them, from generated scores.

Pairs of backbones are compared on every dataset. The entrance of a finished report (`results/report/index.html`, of the
demo, say) is given these data instead of its own. The browser is Debian's Chromium, driven by selenium; without them,
only the size is printed.

    python benchmarks/entrance.py [--size 100x40x4] [--page results/report/index.html]
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from permafrost.core.tables import read_table
from permafrost.report.sections.explorer import embedded, explorer
from permafrost.report.sections.overview import overview
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from standings import write_scores

SHOWN = (
    "const t = performance.getEntriesByType('navigation')[0];"
    "return [t.loadEventEnd, document.querySelectorAll('#matrix tbody tr').length]"
)
SWITCHED = (
    "const start = performance.now(); document.querySelectorAll('[data-probe]')[1].click();"
    "document.body.offsetHeight; return performance.now() - start"
)
DRAWN = (
    "const done = arguments[0], start = performance.now(), figure = document.querySelector('#overview figure');"
    "new MutationObserver(() => figure.classList.contains('drawn') && done(performance.now() - start))"
    ".observe(figure, { attributes: true }); figure.scrollIntoView({ behavior: 'instant' });"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="100x40x4", help="backbones x datasets x probes")
    parser.add_argument("--page", type=Path, default=Path("results/report/index.html"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        given = data(*map(int, arguments.size.split("x")), Path(folder))
        took = time.perf_counter() - start
        size = sum(len(text.encode()) for text in given.values()) / 1e6
        print(f"{arguments.size}: {size:.1f} MB, made in {took:.0f} s from scores")
        if not all(map(shutil.which, ("chromium", "chromedriver"))) or not find_spec("selenium"):
            print("not shown in a browser, which needs chromium, chromedriver and selenium")
            return
        page, text = Path(folder) / "index.html", arguments.page.read_text()
        for name, held in given.items():
            element = re.compile(
                rf'(<script type="application/json" id="{name}">).*?(</script>)', re.DOTALL
            )
            text = element.sub(lambda found, held=held: found[1] + held + found[2], text)
        page.write_text(text)
        loads, switch, rows, drawn = browse(page, Path(folder))
        print(
            f"shown after {statistics.median(loads):.0f} ms ({rows} backbones), another probe after {switch:.0f} ms,"
            f" the first figure {drawn:.0f} ms after one scrolls to it"
        )


def data(backbones: int, datasets: int, probes: int, folder: Path) -> dict[str, str]:
    """Element of the page to what it holds."""
    plan, groups = write_scores(folder, backbones, datasets, probes)
    tables = [read_table(row["path"])[0] for row in json.loads(plan.read_text())["outputs"]]
    rows = build_leaderboard(tables).to_pylist()
    tests: list[dict] = []
    standings = build_standings(tables, Ranking(groups=dict(groups), baseline="b000"), tests)
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["primary"]:
            scores.setdefault((row["dataset"], row["probe"]), {})[row["backbone"]] = row["value"]
    compared = {key: list(pairs(values)) for key, values in scores.items()}
    entries = {"backbones": {}, "datasets": {}}
    shown = explorer(entries, rows, compared, standings=standings.to_pylist(), tests=tests)
    figures = overview(shown, tests, folder)
    return {"data": embedded(shown), "overview-data": str(figures["data"])}


def pairs(values: dict[str, float]):
    for a, b in itertools.combinations(sorted(values), 2):
        gap = values[a] - values[b]
        yield {
            "metric": "accuracy", "backbone_a": a, "backbone_b": b, "seed": 0, "confidence": 0.95, "difference": gap,
            "lower": gap - 0.02, "upper": gap + 0.02, "p_adjusted": float(np.exp(-60 * abs(gap))),
            "detectable": 0.03,
        }  # fmt: skip


def browse(page: Path, folder: Path) -> tuple[list[float], float, int, float]:
    """Milliseconds until the page is shown (three times) and another probe is, rows of its table, and of a figure."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for one in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        f"user-data-dir={folder}/profile",
    ):
        options.add_argument(f"--{one}")
    browser = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    loads = []
    for _ in range(3):
        browser.get("about:blank")
        browser.get(page.as_uri())
        shown, rows = browser.execute_script(SHOWN)
        loads.append(shown)
    switch = browser.execute_script(SWITCHED)
    drawn = browser.execute_async_script(DRAWN)
    browser.quit()
    return loads, switch, rows, drawn


if __name__ == "__main__":
    main()
