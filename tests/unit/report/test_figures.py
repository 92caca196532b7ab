"""Figures: the same numbers give the same bytes, and odd data is drawn rather than crashed on."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from helpers.results.charts import channel, column, names_of, rows_of, size_of, texts_of, views_of
from helpers.results.tables import (
    C_GRID,
    card_of,
    class_names,
    make_card,
    make_image_store,
    make_score_rows,
)
from permafrost.core.stores import Store
from permafrost.report.figures import (
    c_curve,
    dataset,
    detection_curves,
    dotplot,
    errors,
    matrices,
    numbers,
    per_class,
    setting_curves,
    strip,
    training,
)
from permafrost.report.figures.chart import log_ticks
from permafrost.report.figures.sheet import Grid, Sheet
from permafrost.report.figures.style import drawing, plain, save_figure, shorten
from permafrost.report.figures.vega import as_svg
from permafrost.report.material import pictures
from PIL import Image


def scores_of(backbones, probes=("knn", "linear"), **options) -> list[dict]:
    rows = []
    for i, name in enumerate(backbones):
        for probe in probes:
            rows += make_score_rows(backbone=name, probe=probe, value=0.5 + 0.01 * i, **options)
    return rows


def curve(best: int = 12) -> dict:
    return {
        "c": C_GRID,
        "score": [0.6 - 0.0005 * (i - best) ** 2 for i in range(40)],
        "best": C_GRID[best],
    }


def draw_all(card) -> dict:
    classes = card["classes"]
    counts = np.arange(len(classes) ** 2).reshape(len(classes), len(classes))
    return {
        "dotplot": dotplot.draw_dotplot(scores_of(["a", "b"]), dataset="eurosat", chance=0.1),
        "c_curve": c_curve.draw_c_curve({"a": curve()}, dataset="d", probe="linear"),
        "confusion": matrices.draw_confusion(counts, classes, title="t"),
        "per_class": per_class.draw_per_class(
            [r for r in make_score_rows(backbone="a", classes=classes) if r["class"]], title="t"
        ),
        "balance": dataset.draw_balance(card_of(card)),
        "bands": dataset.draw_bands(card_of(card)),
    }


def draw_strip():
    gray = np.linspace(0, 1, 64).reshape(8, 8)
    return strip.draw_strip(lambda i: gray, [0, 1], [2], str, title="t", bands="b")


def test_the_same_numbers_give_the_same_bytes_whatever_was_drawn_before(tmp_path):
    card = make_card(classes=4)
    first = {name: as_svg(figure) for name, figure in draw_all(card).items()}
    for name, figure in reversed(draw_all(card).items()):
        assert as_svg(figure) == first[name], name
    one, two = (save_figure(draw_strip(), tmp_path / name) for name in "ab")
    assert one.read_bytes() == two.read_bytes()


def test_pictures_name_neither_a_date_nor_a_program(tmp_path):
    content = save_figure(draw_strip(), tmp_path / "strip").read_bytes()
    assert b"atplotlib v" not in content and b"Software" not in content


@pytest.mark.parametrize("count", [1, 2, 45])
def test_any_number_of_classes_is_drawn(count):
    card = make_card(classes=count, counts=(100, 50, 90))
    for name, figure in draw_all(card).items():
        assert size_of(figure)[0] < 1000, name


@pytest.mark.parametrize(
    "backbones", [["one"], [f"b{i}" for i in range(14)], ["n" * 200, "$x_1$ <b> ä"]]
)
def test_any_number_and_length_of_backbone_names_is_drawn(backbones):
    figure = dotplot.draw_dotplot(
        scores_of(backbones, probes=("p1", "p2", "p3", "p4")), dataset="eurosat"
    )
    # the names are beside the first panel of both lines
    assert len(names_of(figure, [shorten(name) for name in backbones])) == 2 * len(backbones)
    curves = {name: curve(i % 40) for i, name in enumerate(backbones)}
    assert size_of(c_curve.draw_c_curve(curves, dataset="d", probe="linear"))[0] < 1000


def test_names_that_are_shortened_alike_keep_rows_of_their_own():
    backbones = ["a" * 30 + middle + "z" * 30 for middle in "bc"]
    figure = dotplot.draw_dotplot(scores_of(backbones, probes=("knn",)), dataset="eurosat")
    assert sorted(column(figure, "row")) == backbones
    assert len(names_of(figure, [shorten(backbones[0])])) == 2


def test_round_numbers_mark_logarithmic_axes():
    assert log_ticks(1e-6, 1e4) == pytest.approx([1e-6, 1e-4, 1e-2, 1, 100, 1e4])
    assert log_ticks(1, 10) == [1, 3, 10]
    assert log_ticks(10, 21) == pytest.approx([10, 15, 20])
    assert log_ticks(2.4, 2.5) == [2.4]


def test_undefined_values_and_intervals_are_said_and_not_drawn():
    rows = scores_of(["a"], half=math.nan) + scores_of(["b"])
    for row in rows:
        row["value"] = math.nan if row["backbone"] == "b" else row["value"]
    figure = dotplot.draw_dotplot(rows, dataset="eurosat")
    assert names_of(figure, ["a", "b", "no value"]) == ["a", "b", "no value", "no value"]


def test_backbones_are_sorted_best_first_and_the_names_match_their_dots():
    rows = make_score_rows(backbone="a-low", value=0.2) + make_score_rows(
        backbone="b-high", value=0.9
    )
    figure = dotplot.draw_dotplot(rows, dataset="eurosat", chance=0.1)
    assert names_of(figure, ["a-low", "b-high"]) == ["b-high", "a-low"]
    drawn = zip(column(figure, "row"), column(figure, "value"), strict=True)
    assert dict(drawn) == {"b-high": 0.9, "a-low": 0.2}
    assert channel(figure, "x")["datum"] == 0.1


def test_a_dataset_without_scores_is_an_error():
    with pytest.raises(ValueError, match="no scores of dataset 'other'"):
        dotplot.draw_dotplot(scores_of(["a"]), dataset="other")


def test_the_chosen_c_is_marked_on_its_curve_and_edges_are_named():
    for best in (39, 12):
        figure = c_curve.draw_c_curve({"a": curve(best)}, dataset="d", probe="linear")
        assert [row["x"] for row in rows_of(figure) if row["chosen"]] == [C_GRID[best]]
        assert names_of(figure, ["edge"]) == ["edge"] * (best == 39)


def test_of_many_backbones_every_line_of_the_heat_map_marks_its_own_choice():
    curves = {f"net-{i:02d}": curve(i) for i in range(40)}
    figure = c_curve.draw_c_curve(curves, dataset="d", probe="linear")
    rows = rows_of(figure)
    assert len(rows) == 40 * 40
    chosen = {row["row"]: row for row in rows if row["chosen"]}
    assert {name: row["x"] for name, row in chosen.items()} == {
        f"net-{i:02d}": C_GRID[i] for i in range(40)
    }
    assert all(row["value"] == 0 for row in chosen.values())
    assert len(as_svg(figure)) < 150_000


def test_of_errors_less_is_better_in_the_heat_map_too():
    curves = {
        f"net-{i}": {"c": [0.1, 1.0, 10.0], "score": [3.0, 1.0 + i, 2.5 + i], "best": 1.0}
        for i in range(7)
    }
    figure = c_curve.draw_c_curve(curves, dataset="d", probe="ridge", lower_is_better=True)
    assert column(figure, "value")[:3] == [2.0, 0.0, 1.5]
    assert "net-0: 1 (1.000)" in texts_of(figure)


LONG = [f"{letter * 19}_{letter.upper() * 20}" for letter in "abcdef"]


def figures_with_legends() -> dict:
    """Every kind of figure that names backbones in a legend, of six with names of 40 letters."""
    logs = {
        name: {
            "epochs": [{"epoch": 1, "train_loss": 1, "val_loss": 1, "val_mean_iou": 0.5}],
            "epoch": 1,
        }
        for name in LONG
    }
    per_class_rows = [
        row
        for name in LONG
        for row in make_score_rows(backbone=name, classes=class_names(4))
        if row["class"]
    ]
    kinds = {kind: 3 for kind in errors.WORDS}
    points = [setting_curves.Point(x, 0.5, 0.4, 0.6) for x in (1, 5, 20)]
    card = make_card(classes=3)
    card["classes"] = LONG[:3]
    return {
        "c_curve": c_curve.draw_c_curve(
            {name: curve() for name in LONG}, dataset="d", probe="linear"
        ),
        "dotplot": dotplot.draw_dotplot(scores_of(LONG, probes=LONG[:3]), dataset="eurosat"),
        "errors": errors.draw_errors(
            {name: {"gain": dict.fromkeys(kinds, 0.1), "counts": kinds} for name in LONG},
            title="t",
        ),
        "per_class": per_class.draw_per_class(per_class_rows, title="t"),
        "precision_recall": detection_curves.draw_precision_recall(
            {name: {"recall": [0, 0.5, 1], "precision": [1, 0.5, None]} for name in LONG},
            title="t",
            note="n",
        ),
        "settings": setting_curves.draw_setting_curves(
            {"panel": {name: points for name in LONG}},
            title="t",
            across="k",
            up="accuracy",
            note="n",
        ),
        "training": training.draw_training({"head": logs}, dataset="d"),
        "balance": dataset.draw_balance(card_of(card)),
    }


@pytest.mark.parametrize("name", figures_with_legends())
def test_legends_name_everything_and_leave_the_figure_its_width(name):
    figure = figures_with_legends()[name]
    starts = {text[:9] for text in texts_of(figure)}
    assert {one[:9] for one in (LONG[:3] if name in ("dotplot", "balance") else LONG)} <= starts
    assert size_of(figure)[0] < 900


def test_more_samples_than_an_svg_can_hold_are_counted_in_cells():
    draw = np.random.default_rng(0)
    for count in (200, 5000):
        target = draw.normal(size=count)
        figure = numbers.draw_numbers(target, target + 1, words="height", title="t")
        drawn = views_of(figure)[0]["layer"][-1] if count == 200 else views_of(figure)[0]
        rows = drawn["data"]["values"]
        assert sum(row.get("value", 1) for row in rows) == count
        assert len(as_svg(figure)) < 200_000
        assert "true height" in texts_of(figure) and "predicted height" in texts_of(figure)
    assert all(row["y"] <= row["x2"] + 1.2 and row["y2"] >= row["x"] + 0.8 for row in rows)


def test_confusion_counts_rows_are_true_classes():
    counts = matrices.confusion_counts([0, 0, 1, 2], [0, 1, 1, 0], 3)
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match="prediction holds ids outside"):
        matrices.confusion_counts([0], [3], 3)


def test_the_choice_of_pictures_is_fixed_and_right_means_right():
    correct = np.arange(100) % 3 > 0
    first = strip.choose_samples(correct, count=6, identity=("d", "b"))
    assert first == strip.choose_samples(correct, count=6, identity=("d", "b"))
    assert first != strip.choose_samples(correct, count=6, identity=("d", "other"))
    assert first != strip.choose_samples(correct, count=6, identity=("d", "b"), seed=1)
    right, wrong = first
    assert len(right) == len(wrong) == 6 and correct[right].all() and not correct[wrong].any()
    assert strip.choose_samples(np.ones(2, bool), count=6, identity=()) == ([0, 1], [])


def test_class_names_are_broken_where_they_may_be():
    assert strip.wrap_name("HerbaceousVegetation", 12) == ["Herbaceous", "Vegetation"]
    assert strip.wrap_name("dense_residential area", 12) == ["dense_", "residential", "area"]
    assert strip.wrap_name("x" * 30, 12) == ["x" * 12, "x" * 12, "x" * 6]


def test_long_names_keep_their_ends():
    assert shorten("a" * 40 + "z") == "a" * 16 + "…" + "a" * 16 + "z"
    assert shorten("short") == "short"


def test_pictures_are_red_green_blue_stretched_together_and_without_padding(tmp_path):
    card = make_card(counts=(10, 10, 20))
    store = Store(make_image_store(tmp_path / "test.zarr", card, size=16))
    bands, words = pictures.picture_bands(card_of(card))
    assert [card["bands"][band]["common_name"] for band in bands] == ["red", "green", "blue"]
    assert words.startswith("true colour (B04, B03, B02)")
    shown = pictures.read_pictures(store, [0, 1], bands)
    assert shown[0].shape == (16, 8, 3) and shown[1].shape == (16, 16, 3)
    assert 0 == shown[1].min() < shown[1].max() == 1


def test_pictures_of_few_bands_and_of_missing_pixels():
    assert pictures.picture_bands(card_of(make_card(bands=1)))[0] == [0]
    image = np.array([[[0.0, np.nan], [1.0, np.inf]]])
    limits = pictures.stretch_limits([image])
    shown = pictures.to_picture(image, limits)
    assert shown.shape == (2, 2) and np.isfinite(shown).all() and shown[0, 1] == 0
    flat = np.full((1, 2, 2), 7.0)
    assert np.isfinite(pictures.to_picture(flat, pictures.stretch_limits([flat]))).all()


@pytest.mark.parametrize("library", ["matplotlib", "vl_convert"])
def test_importing_a_figure_imports_no_drawing_library(library):
    code = f"import sys, permafrost.report.page; sys.exit({library!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_users_matplotlib_settings_do_not_change_a_picture(tmp_path):
    import matplotlib

    plain = save_figure(draw_strip(), tmp_path / "a")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        changed = save_figure(draw_strip(), tmp_path / "b")
        assert matplotlib.rcParams["font.size"] == 30
    assert plain.read_bytes() == changed.read_bytes()


def test_words_of_a_sheet_are_as_matplotlib_draws_them(tmp_path):
    words = ["Äpfel $5_gyp", "jab, ECE 0.112", "(Wy) – $x^2$"]
    place = (0.05, 0.5)

    def shown(draw) -> np.ndarray:
        with drawing() as Figure:
            sheet = Sheet(Figure, Grid(8, [0.05]), "", "")
            for line, text in enumerate(words):
                draw(sheet, place[0], place[1] + 0.3 * line, text)
            saved = save_figure(sheet.finished(), tmp_path / draw.__name__)
        return np.asarray(Image.open(saved), float)

    def ours(sheet, x, y, text):
        sheet._text(x, y, text, size=8.5, color="#D55E00", weight="bold")

    def theirs(sheet, x, y, text):
        at = x / sheet.width, 1 - y / sheet.height
        look = {"fontsize": 8.5, "color": "#D55E00", "weight": "bold"}
        sheet.figure.text(*at, plain(text), va="baseline", **look)

    own, other = shown(ours), shown(theirs)
    gap = np.abs(own - other).mean()
    assert (other < 255).any() and gap < 0.25 * (255 - other).mean()
    # a pixel up, down or aside would be seen
    for axis, by in ((0, 1), (0, -1), (1, 1), (1, -1)):
        assert gap < np.abs(np.roll(own, by, axis) - other).mean()


def test_classes_missing_from_a_split_are_named():
    card = make_card(classes=3)
    card["splits"]["train"]["class_counts"][1] = 0
    figure = dataset.draw_balance(card_of(card))
    shown = names_of(figure, [*class_names(3), "none in train", "none in val"])
    assert shown == [*class_names(3), "none in train"]


def test_statistics_of_bands_are_in_physical_units():
    card = make_card(bands=2)
    card["bands"][0] |= {"scale": 0.5, "offset": 1.0, "min": 0, "max": 10, "mean": 4, "std": 2}
    row = rows_of(dataset.draw_bands(card_of(card)))[0]
    assert {"min": 1.0, "max": 6.0, "mean": 3.0, "low": 2.0, "high": 4.0}.items() <= row.items()
