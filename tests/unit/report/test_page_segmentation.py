"""The report page of datasets of masks, and of probes that ran with several seeds."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
from helpers.results.masks import make_dense_card, make_dense_store, prepare_dense
from helpers.results.pages import build_report
from helpers.results.tables import (
    card_of,
    make_card,
    make_plan,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
    write_card,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import TASKS
from permafrost.report.material.dataset import (
    Material,
    best_evaluation,
    best_of_each,
    name_of,
    names_of,
)
from permafrost.report.tasks.dataset_figures import task_figures
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard

CAPTIONS = Path(__file__).parents[3] / "workflow" / "report"
BACKBONES = {"net": 0.1, "weak": 0.6, "middle": 0.3}
PROBES = {"fpn": [0, 1, 2], "dense-knn": [0]}


class Loads(HTMLParser):
    """Everything that a browser would load or follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        self.found += [value for name, value in attributes if name in ("src", "href", "srcset")]


def build(
    folder: Path, card: dict, *, backbones=BACKBONES, probes=PROBES, images=True, **options
) -> str:
    arguments, tables = prepare_dense(folder, card, backbones=backbones, probes=probes, **options)
    write_leaderboard(tables, folder / "l.parquet", folder / "l.csv", {"fingerprint": "l"})
    name = card["dataset"]
    build_report(
        plan=make_plan([name], list(backbones), tuple(probes)),
        leaderboard=folder / "l.parquet",
        images={(name, "test"): make_dense_store(folder / "test.zarr", card)} if images else {},
        comparisons={},
        output_dir=folder / "report",
        hardware={"GPUs": [], "cores": 2},
        **arguments,
    )
    return report_text(folder / "report")


def figures_of(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "report/figures").iterdir()}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    return build(folder, make_dense_card(), boundary=True), folder


def test_every_figure_of_masks_is_made(page):
    assert figures_of(page[1]) == {
        f"{kind}__town"
        for kind in (
            "dotplot",
            "pictures",
            "backbones",
            "hardest",
            "training",
            "confusion",
            "per_class",
            "per_class_boundary",
            "balance",
            "bands",
        )
    }


def test_pictures_are_png_and_charts_svg(page):
    files = [path.name for path in (page[1] / "report/figures").iterdir()]
    assert {name for name in files if name.endswith(".png")} == {
        "pictures__town.png",
        "backbones__town.png",
        "hardest__town.png",
    }
    assert sorted(set(re.findall(r'src="../figures/([^"]+)"', page[0]))) == sorted(files)


def test_metrics_and_the_card_of_masks_are_in_words(page):
    for words in (
        "mean IoU",
        "ignored mask value",
        "dead classes",
        "smallest class (pixels)",
        "1.23 M",
        "Mean IoU of every backbone",
        "Heads were trained in fp32.",
        "none found",
        "Boundary IoU of every class",
    ):
        assert words in page[0], words


def test_several_seeds_are_one_line_with_mean_and_spread(page):
    text, folder = page
    assert (
        text.count('<th scope="row">net</th><td class="text">mean IoU</td>') == 2
    )  # fpn and dense-knn
    assert "0, 1, 2</td>" in text and "± seeds" in text and "Several seeds.</strong>" in text
    assert len((folder / "l.csv").read_text().splitlines()) > 3 * 4 * 6  # every seed is in the file


def test_without_seeds_backbones_or_kept_masks_nothing_is_made_of_them(tmp_path):
    text = build(
        tmp_path, make_dense_card(), backbones={"net": 0.1}, probes={"fpn": [0]}, pictures=0
    )
    assert "±" not in text and "Several seeds" not in text
    assert "No masks are shown: fpn keeps no pictures." in text
    assert not {"pictures__town", "backbones__town"} & figures_of(tmp_path)


def test_without_the_image_store_a_sentence_replaces_pictures_only(tmp_path):
    text = build(
        tmp_path, make_dense_card(), backbones={"net": 0.1}, probes={"fpn": [0]}, images=False
    )
    assert "No test images are shown: the image store of town is not here" in text
    assert {"confusion__town", "training__town", "per_class__town"} <= figures_of(tmp_path)
    assert "pictures__town" not in figures_of(tmp_path)


def test_many_backbones_are_split_over_figures_and_the_rest_is_named(tmp_path):
    backbones = {f"net-{i:02d}": 0.05 * i for i in range(14)}
    text = build(
        tmp_path, make_dense_card(images=4), backbones=backbones, probes={"fpn": [0]}, pictures=1
    )
    stems = figures_of(tmp_path)
    assert {s for s in stems if s.startswith("backbones")} == {
        "backbones__town__1",
        "backbones__town__2",
    }
    assert {s for s in stems if s.startswith("training")} == {"training__town"}
    assert "Training of the heads, of the 6 best backbones of 14 in colour" in text
    assert "Masks of the 12 best backbones are compared; those of 2 others" in text


def test_hostile_class_names_are_drawn_as_text_and_shared_colours_are_said(tmp_path):
    names = [
        "<script>alert(1)</script>",
        "$\\frac$",
        "{{ 7 * 7 }}",
        *(f"class {i}" for i in range(22)),
    ]
    card = make_dense_card(classes=names, images=5)
    text = build(tmp_path, card, backbones={"net": 0.1}, probes={"fpn": [0]}, pictures=1)
    assert "<script>alert" not in text
    assert "There are more classes than colours: some share one." in text


# --- which evaluations are shown ----------------------------------------------------------------


def material(values: dict[tuple[str, str, int], float], lacking=()) -> Material:
    """Rows as the leaderboard has them; `lacking` evaluations have no table of predictions."""
    rows = []
    for (backbone, probe, seed), value in values.items():
        (row,) = [
            r
            for r in make_score_rows(backbone=backbone, probe=probe, seed=seed, value=value)
            if r["primary"]
        ]
        same = [v for (b, p, _), v in values.items() if (b, p) == (backbone, probe)]
        rows.append({**row, "rank": 1.0, "seed_mean": sum(same) / len(same), "seed_std": 0.1})
    predictions = {(b, s, p): Path("x") for b, p, s in values if (b, s, p) not in lacking}
    return Material("d", card_of(make_dense_card()), rows, predictions, {})


def test_the_best_mean_over_seeds_is_shown_and_not_the_luckiest_seed():
    made = material(
        {
            ("lucky", "fpn", 0): 0.2,
            ("lucky", "fpn", 1): 0.9,
            ("steady", "fpn", 0): 0.7,
            ("steady", "fpn", 1): 0.7,
        }
    )
    assert best_evaluation(made) == ("steady", 0, "fpn")
    assert best_of_each(made) == [("steady", 0, "fpn"), ("lucky", 0, "fpn")]
    assert name_of(("lucky", 0, "fpn"), made) == "lucky, fpn, seed 0"
    assert names_of(best_of_each(made), made) == "fpn, seed 0 for all of them"


def test_an_evaluation_without_a_table_is_not_shown():
    made = material(
        {("a", "fpn", 0): 0.9, ("a", "fpn", 1): 0.9, ("b", "knn", 0): 0.5},
        lacking=[("a", 0, "fpn")],
    )
    assert best_evaluation(made) == ("a", 1, "fpn")
    assert names_of([("a", 1, "fpn"), ("b", 0, "knn")], made) == "a, fpn; b, knn"
    assert best_evaluation(material({("a", "fpn", 0): 0.9}, lacking=[("a", 0, "fpn")])) is None


def test_every_task_with_metrics_has_its_figures_and_another_is_an_error():
    for name, task in TASKS.items():
        if task.of_datasets:
            assert callable(task_figures(name).chance) and callable(task_figures(name).draw)
    with pytest.raises(PermafrostError, match="no figures for the task 'retrieval'"):
        task_figures("retrieval")


def test_a_page_may_hold_datasets_of_different_tasks(tmp_path):
    dense = make_dense_card(images=6)
    arguments, tables = prepare_dense(tmp_path, dense, backbones={"net": 0.1}, probes={"fpn": [0]})
    card = make_card("eurosat", classes=3, bands=3, counts=(40, 20, 30))
    made = make_predictions(tmp_path / "c/linear.parquet", card, backbone="net")
    tables.append(score_table(make_score_rows(backbone="net", classes=card["classes"])))
    write_leaderboard(tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    arguments["cards"]["eurosat"] = write_card(tmp_path / "c/card.json", card)
    arguments["predictions"]["eurosat", "net", 0, "linear"] = made["path"]
    build_report(
        plan=make_plan(["eurosat", "town"], ["net"]),
        leaderboard=tmp_path / "l.parquet",
        images={},
        comparisons={},
        output_dir=tmp_path / "report",
        **arguments,
    )
    assert {"c_curve__eurosat__linear", "training__town"} <= figures_of(tmp_path)


# --- captions of Snakemake's report ---------------------------------------------------------------


def test_every_kind_of_figure_has_a_caption(page):
    template = jinja2.Template((CAPTIONS / "figures.rst").read_text())

    def caption(name: str) -> str:
        return template.render(
            snakemake=SimpleNamespace(wildcards=SimpleNamespace(name=name))
        ).strip()

    names = [*figures_of(page[1]), "c_curve__eurosat__linear", "strip__eurosat"]
    shown = [caption(name) for name in names]
    assert all(len(text.splitlines()) >= 3 for text in shown)
    assert (
        len({text.splitlines()[0] for text in shown}) == len(names) - 1
    )  # both per_class share one
    assert caption("training__town__2").endswith("town__2")


def test_every_caption_that_the_workflow_names_is_there():
    rules = (CAPTIONS.parent / "rules").glob("*.smk")
    named = {name for path in rules for name in re.findall(r"report/(\w+\.rst)", path.read_text())}
    assert named and named <= {path.name for path in CAPTIONS.iterdir()}
