"""Figures: the same numbers give the same bytes, and odd data is drawn rather than crashed on."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
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
    confusion,
    dataset,
    detection_curves,
    dotplot,
    errors,
    per_class,
    setting_curves,
    strip,
    training,
)
from permafrost.report.figures.style import lay_out, save_figure, shorten
from permafrost.report.material import pictures


def rows_of(backbones, probes=("knn", "linear"), **options) -> list[dict]:
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
    gray = np.linspace(0, 1, 64).reshape(8, 8)
    return {
        "dotplot": dotplot.draw_dotplot(rows_of(["a", "b"]), dataset="eurosat", chance=0.1),
        "c_curve": c_curve.draw_c_curve({"a": curve()}, dataset="d", probe="linear"),
        "confusion": confusion.draw_confusion(counts, classes, title="t"),
        "per_class": per_class.draw_per_class(
            [r for r in make_score_rows(backbone="a", classes=classes) if r["class"]], title="t"
        ),
        "strip": strip.draw_strip(lambda i: gray, [0, 1], [2], str, title="t", bands="b"),
        "balance": dataset.draw_balance(card_of(card)),
        "bands": dataset.draw_bands(card_of(card)),
    }


def test_the_same_numbers_give_the_same_bytes_in_png_and_svg(tmp_path):
    card = make_card(classes=4)
    first, second = draw_all(card), draw_all(card)
    for name, figure in first.items():
        for kind in ("png", "svg"):
            one = save_figure(figure, tmp_path / f"{name}-1", kind)
            two = save_figure(second[name], tmp_path / f"{name}-2", kind)
            assert one.read_bytes() == two.read_bytes(), one.name


def test_files_name_neither_a_date_nor_a_program(tmp_path):
    for kind in ("png", "svg"):
        content = save_figure(
            dataset.draw_bands(card_of(make_card())), tmp_path / "bands", kind
        ).read_bytes()
        assert (
            b"atplotlib v" not in content
            and b"<dc:date>" not in content
            and b"Software" not in content
        )


@pytest.mark.parametrize("count", [1, 2, 45])
def test_any_number_of_classes_is_drawn(tmp_path, count):
    card = make_card(classes=count, counts=(100, 50, 90))
    for name, figure in draw_all(card).items():
        save_figure(figure, tmp_path / name)


@pytest.mark.parametrize(
    "backbones", [["one"], [f"b{i}" for i in range(14)], ["n" * 200, "$x_1$ <b> ä"]]
)
def test_any_number_and_length_of_backbone_names_is_drawn(tmp_path, backbones):
    figure = dotplot.draw_dotplot(
        rows_of(backbones, probes=("p1", "p2", "p3", "p4")), dataset="eurosat"
    )
    save_figure(figure, tmp_path / "dots")
    curves = {name: curve(i % 40) for i, name in enumerate(backbones)}
    save_figure(c_curve.draw_c_curve(curves, dataset="d", probe="linear"), tmp_path / "curves")


def test_undefined_values_and_intervals_are_said_and_not_drawn():
    rows = rows_of(["a"], half=math.nan) + rows_of(["b"])
    for row in rows:
        row["value"] = math.nan if row["backbone"] == "b" else row["value"]
    figure = dotplot.draw_dotplot(rows, dataset="eurosat")
    assert [text.get_text() for text in figure.axes[0].texts] == ["no value", "no value"]
    ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert ticks == ["a", "b"]


def test_backbones_are_sorted_best_first_and_the_names_match_their_dots():
    rows = make_score_rows(backbone="a-low", value=0.2) + make_score_rows(
        backbone="b-high", value=0.9
    )
    axes = dotplot.draw_dotplot(rows, dataset="eurosat").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b-high", "a-low"]
    (dots,) = (line for line in axes.lines if line.get_marker() == "o")
    assert dict(zip(dots.get_ydata(), dots.get_xdata(), strict=True)) == {0: 0.9, 1: 0.2}


def test_a_dataset_without_scores_is_an_error():
    with pytest.raises(ValueError, match="no scores of dataset 'other'"):
        dotplot.draw_dotplot(rows_of(["a"]), dataset="other")


def test_the_chosen_c_is_marked_on_its_curve_and_edges_are_named():
    figure = c_curve.draw_c_curve({"a": curve(39)}, dataset="d", probe="linear")
    marked = figure.axes[0].lines[-1]
    assert marked.get_xdata()[0] == C_GRID[39]
    assert [text.get_text() for text in figure.axes[0].texts] == ["edge"]


def test_of_many_backbones_every_line_of_the_heat_map_marks_its_own_choice(tmp_path):
    curves = {f"net-{i:02d}": curve(i) for i in range(40)}
    figure = c_curve.draw_c_curve(curves, dataset="d", probe="linear")
    axes = figure.axes[0]
    behind = axes.images[0].get_array()
    assert behind.shape == (40, 40)
    names = [label.get_text().split(":")[0] for label in axes.get_yticklabels()]
    chosen = dict(zip(names, axes.lines[0].get_xdata(), strict=True))
    assert chosen == {f"net-{i:02d}": i for i in range(40)}
    assert all(behind[row, chosen[name]] == 0 for row, name in enumerate(names))
    assert save_figure(figure, tmp_path / "curves").stat().st_size < 100_000


def test_of_errors_less_is_better_in_the_heat_map_too():
    curves = {
        f"net-{i}": {"c": [0.1, 1.0, 10.0], "score": [3.0, 1.0 + i, 2.5 + i], "best": 1.0}
        for i in range(7)
    }
    axes = c_curve.draw_c_curve(curves, dataset="d", probe="ridge", lower_is_better=True).axes[0]
    assert axes.get_yticklabels()[0].get_text() == "net-0: 1 (1.000)"
    assert axes.images[0].get_array()[0].tolist() == [2.0, 0.0, 1.5]


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
        "dotplot": dotplot.draw_dotplot(rows_of(LONG, probes=LONG[:3]), dataset="eurosat"),
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
def test_no_legend_leaves_the_figure_or_covers_its_axes(name):
    figure = figures_with_legends()[name]
    lay_out(figure)
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    assert legends
    for legend in legends:
        box = legend.get_window_extent(renderer)
        assert box.x0 >= 0 and box.y0 >= 0, name
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, name
        for axes in figure.axes:
            drawn = axes.get_window_extent(renderer)
            assert drawn.width > 0.2 * figure.bbox.width
            overlap = (
                min(box.x1, drawn.x1) - max(box.x0, drawn.x0),
                min(box.y1, drawn.y1) - max(box.y0, drawn.y0),
            )
            assert min(overlap) < 1, name


@pytest.mark.parametrize(
    "names",
    [
        ["rock", "glacier", "ocean and ice melange"],
        ["no building", "building"],
        ["sea", "field", "town", "road"],
        [*"abcde"],
        class_names(9),
    ],
)
def test_names_under_a_confusion_matrix_do_not_overlap(names):
    figure = confusion.draw_confusion(np.eye(len(names), dtype=int), names, title="t")
    lay_out(figure)
    labels = figure.axes[0].get_xticklabels()
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    assert all(one.x1 <= other.x0 for one, other in zip(boxes, boxes[1:], strict=False))


def test_confusion_counts_rows_are_true_classes():
    counts = confusion.confusion_counts([0, 0, 1, 2], [0, 1, 1, 0], 3)
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    with pytest.raises(ValueError, match="prediction holds ids outside"):
        confusion.confusion_counts([0], [3], 3)


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


def test_importing_a_figure_does_not_import_matplotlib():
    code = "import sys, permafrost.report.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_users_matplotlib_settings_do_not_change_a_figure(tmp_path):
    import matplotlib

    plain = save_figure(dataset.draw_bands(card_of(make_card())), tmp_path / "a")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        changed = save_figure(dataset.draw_bands(card_of(make_card())), tmp_path / "b")
        assert matplotlib.rcParams["font.size"] == 30
    assert plain.read_bytes() == changed.read_bytes()


def test_classes_missing_from_a_split_are_named():
    card = make_card(classes=3)
    card["splits"]["train"]["class_counts"][1] = 0
    axes = dataset.draw_balance(card_of(card)).axes[0]
    assert [text.get_text() for text in axes.texts] == ["none in train"]
    assert [label.get_text() for label in axes.get_yticklabels()] == class_names(3)
