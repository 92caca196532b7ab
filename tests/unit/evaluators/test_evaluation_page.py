"""The HTML page of every command that evaluates files."""

from __future__ import annotations

import importlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import shapely
from helpers.commands import run
from helpers.predictions.crowns import random_crowns
from helpers.predictions.detections import coco_case
from helpers.predictions.panoptic import panoptic_case, write_panoptic
from helpers.predictions.rasters import write as write_raster
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.output import page, score_files
from permafrost.evaluators.output.outcomes import LONELY, Outcomes, lonely
from permafrost.metrics.detection.analysis import detection_table
from PIL import Image

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "img", "br", "input"}


class Page(HTMLParser):
    """Texts, links, scripts and the exact values of cells; open and close tags must match."""

    def __init__(self, folder) -> None:
        super().__init__()
        self.open, self.links, self.values, self.words, self.scripts = [], [], [], [], 0
        self.feed((folder / "index.html").read_text(encoding="utf-8"))
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.open += [tag] * (tag not in VOID)
        self.scripts += tag == "script"
        given = dict(attributes)
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.values += [float(given["data-v"])] if given.get("data-v") else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def detections(folder):
    truth, found = coco_case(1, images=6, categories=2, detections=12)
    truth["categories"][0]["name"] = EVIL
    for image in truth["images"]:
        image["file_name"] = f"{image['id']}.png"
        pixels = np.zeros((image["height"], image["width"], 3), np.uint8)
        Image.fromarray(pixels).save(folder / image["file_name"])
    worse = [{**one, "score": 1 - one["score"]} for one in found]
    files = {"truth": truth, "predictions": found, "against": worse}
    options = []
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
        options += [f"--{name}", folder / f"{name}.json"]
    return [*options, "--iou-type", "bbox"]


def voc(folder):
    return [*detections(folder), "--protocol", "voc12"]


def drawn(folder):
    slices = {"image_id": range(1, 7), "sky": [EVIL, "clear"] * 3}
    pd.DataFrame(slices).to_csv(folder / "slices.csv", index=False)
    options = ["--image-folder", folder, "--slices", folder / "slices.csv"]
    return [*detections(folder), *options]


def boxes(folder):
    options = []
    cases = random_crowns(np.random.default_rng(1), "box", 6)
    for name, rows in zip(("truth", "predictions"), cases, strict=True):
        table = pd.DataFrame(rows)
        table["label"] = np.where(table.index % 2, table["label"], EVIL)
        table.to_csv(folder / f"{name}.csv", index=False)
        options += [f"--{name}", folder / f"{name}.csv"]
    for name in {row for table in cases for row in pd.DataFrame(table)["image_path"]}:
        Image.fromarray(np.zeros((99, 99, 3), np.uint8)).save(folder / name, format="png")
    return [*options, "--against", options[-1], "--images", folder, "--unlisted", "empty"]


def points(folder):
    truth = {"image_path": ["a", "a", "b"], "x": [1, 5, 2], "y": [1, 5, 2], "label": EVIL}
    found = {"image_path": ["a", "b"], "label": EVIL, "score": 0.5}
    found |= {"xmin": [0, 9], "ymin": [0, 9], "xmax": [3, 12], "ymax": [3, 12]}
    for name, table in (("truth", truth), ("predictions", found)):
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
    return ["--truth", folder / "truth.csv", "--predictions", folder / "predictions.csv"]


def rasters(folder):
    codes = np.random.default_rng(2).integers(0, 3, (2, 64, 64)).astype(np.uint8)
    options = ["--block", 16, "--class-names", f"{EVIL},b,c"]
    for name, values in zip(("reference", "prediction"), codes, strict=True):
        options += [f"--{name}", write_raster(folder / f"{name}.tif", values)]
    return options


def maps(folder):
    sides = np.random.default_rng(3).choice([EVIL, "b"], (3, 60))
    table = dict(zip(("reference", "map", "against"), sides, strict=True))
    pd.DataFrame(table).to_csv(folder / "points.csv", index=False)
    return ["--samples", folder / "points.csv", "--design", "simple"]


def panoptic(folder):
    truth, predictions = panoptic_case(4)
    truth[0]["categories"][0]["name"] = EVIL
    sides = (("truth", "truth", truth), ("predictions", "prediction", predictions))
    options = []
    for name, what, given in sides:
        document, masks = write_panoptic(folder, what, *given)
        options += [f"--{name}", document, f"--{what}-masks", masks]
    return options


# command, files, title, sections that its page must have
PAGES = {
    "detections": ("detections", detections, {"curves", "best", "errors", "confusion", "labels"}),
    "pictures": ("detections", drawn, {"images", "slices"}),
    "voc": ("detections", voc, {"curves", "errors"}),
    "boxes": ("boxes", boxes, {"curves", "best", "confusion", "images", "labels"}),
    "points": ("boxes", points, {"images"}),
    "rasters": ("raster", rasters, {"confusion"}),
    "map": ("map", maps, {"confusion", "areas"}),
    "panoptic": ("panoptic", panoptic, {"errors", "images"}),
}


@pytest.fixture(params=PAGES)
def case(request, tmp_path):
    command, files, sections = PAGES[request.param]
    module = importlib.import_module(f"permafrost.stages.evaluate_{command}")
    return module, files(tmp_path), sections, tmp_path / "page"


def test_a_page_shows_the_json_and_escapes_names(case, tmp_path):
    module, options, sections, folder = case
    run(module, *options, "--report", folder, "--output", tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert not {"report", "image_folder"} & set(written["options"])
    found = Page(folder)
    assert found.scripts == 1  # the page's own
    assert EVIL in found.text
    assert {f"#{anchor}" for anchor in sections | {"scores", "inputs"}} <= set(found.links)
    figures = {path.name for path in (folder / "figures").iterdir()}
    local = {link for link in found.links if not link.startswith("#")}
    assert local == {f"figures/{name}" for name in figures}
    for path in (folder / "figures").glob("*.svg"):
        assert "<script" not in path.read_text()
    shown = set(found.values)
    for row in (*written["scores"], *written.get("comparison", ())):
        for name in ("value", "against", "difference", "p_value"):
            assert row.get(name) is None or row[name] in shown
    assert f" has {page_score(written['scores'], found.text)}" in found.text
    if rows := written.get("comparison"):
        certain = " is better than " if "this is certain" in found.text else "is not certain"
        assert certain in found.text and rows


def page_score(rows, text) -> str:
    """The primary score as the sentence must have it."""
    metric = text.split(" has ", 1)[1].split()[0]
    (row,) = (one for one in rows if one["metric"] == metric and one["class"] is None)
    return f"{metric} {row['value']:.3f}".replace("-", "−")


def test_a_page_is_written_with_all_files_or_not_at_all(case, tmp_path, monkeypatch):
    module, options, _, folder = case

    def full(*_, **__):
        raise PermafrostError("the disk is full")

    monkeypatch.setattr(score_files, "write_scores", full)
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(PermafrostError, match="the disk is full"):
        run(module, *options, "--report", folder, "--output", tmp_path / "out.json")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_only_an_earlier_page_is_replaced(tmp_path):
    module, options = importlib.import_module("permafrost.stages.evaluate_map"), maps(tmp_path)
    folder = tmp_path / "page"
    for _ in range(2):
        run(module, *options, "--report", folder)
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(PermafrostError, match="holds other files.*thesis.txt"):
        run(module, *options, "--report", folder)
    for given in (
        ["--report", tmp_path],
        ["--report", tmp_path / "new", "--output", tmp_path / "new/s.json"],
    ):
        with pytest.raises(PermafrostError, match="--report would replace its folder"):
            run(module, *options, *given)
    assert (folder / "thesis.txt").read_text() == "mine" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", range(4))
def test_what_counts_at_the_best_score_and_which_boxes_are_alone(seed, tmp_path):
    truth, found = coco_case(seed, images=6, categories=2, detections=12, ignores=0.1)
    for name, content in (("t", truth), ("p", found)):
        (tmp_path / name).with_suffix(".json").write_text(json.dumps(content))
    evaluation = evaluate(tmp_path / "t.json", tmp_path / "p.json", iou_type="bbox")
    outcomes = Outcomes(evaluation, evaluation.truths.images.ids.tolist())
    table = detection_table(evaluation)
    reach = table["score"] >= outcomes.best
    count = {kind: len(rows) for kind, rows in outcomes.at_best.items()}
    for status, kind in (("tp", "hits"), ("fp", "alarms"), ("ignored", "excused")):
        assert count[kind] == np.count_nonzero(reach & (table["status"] == status))
    taken = {one for one in table["truth_id"][reach & (table["status"] == "tp")]}
    regular = set(evaluation.truths.ids[~evaluation.truths.ignored].tolist())
    missed = evaluation.truths.ids[outcomes.at_best["missed"]].tolist()
    assert set(missed) == regular - taken and count["found"] == len(taken)
    for kind, others in (("alarms", evaluation.truths), ("missed", evaluation.detections)):
        own = outcomes.table(kind)
        for row in outcomes.at_best[kind].tolist():
            near = others.boxes[others.image == own.image[row]]
            x, y, w, h = own.boxes[row]
            shape = shapely.box(x, y, x + w, y + h)
            boxes = shapely.box(*near[:, :2].T, *(near[:, :2] + near[:, 2:]).T)
            common = shapely.area(shapely.intersection(shape, boxes))
            alone = not (common / shapely.area(shapely.union(shape, boxes)) >= LONELY).any()
            assert alone == (row in lonely(outcomes, kind, others))


ROW = {"metric": "f1", "class": None, "value": 0.5, "lower": 0.4, "upper": 0.6, "gates": ""}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"difference": 0.1, "lower": 0.02, "upper": 0.2},
            "a is better than b, and this is certain",
        ),
        (
            {"difference": -0.1, "lower": -0.2, "upper": -0.02},
            "b is better than a, and this is certain",
        ),
        ({"difference": 0.1, "lower": -0.02, "upper": 0.2}, "not certain.*which includes 0"),
        ({"difference": 0.1, "lower": 0.0, "upper": 0.2}, "not certain.*which includes 0"),
        ({"difference": 0.1, "lower": None, "upper": None}, "not certain.*without an interval"),
        (
            {"difference": 0.1, "lower": 0.02, "upper": 0.2, "gates": "few_units"},
            "not certain.*few units",
        ),
        ({"difference": None, "lower": None, "upper": None}, "cannot be compared"),
    ],
)
def test_what_is_said_of_two_files(change, words):
    parts = page.Parts("t", "w", ("ap", "f1"), ("x/a", "y/b"))
    result = page.Result(
        [ROW], 0.95, comparison=[{**ROW, "against": 0.4, "p_value": 0.01, **change}]
    )
    first, second = page.sentences(parts, result)
    assert first == "a has f1 0.500 [0.400, 0.600]."
    assert re.search(words, second)
