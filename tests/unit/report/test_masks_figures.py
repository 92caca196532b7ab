"""Figures of predicted masks: colours that are fixed, pixels that say what is in the tables."""

from __future__ import annotations

import io
import math

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.charts import column, names_of, rows_of, texts_of, views_of
from helpers.results.masks import (
    CLASSES,
    IGNORE,
    make_dense_card,
    make_dense_predictions,
    png,
    training_settings,
)
from helpers.results.tables import card_of, make_score_rows
from matplotlib.text import Text
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table, write_table
from permafrost.report.figures import dataset, masks, matrices, per_class, training
from permafrost.report.figures.class_colours import (
    BLANK,
    CLASS_COLOURS,
    CORRECT,
    class_colours,
    hatching,
    paint_errors,
    paint_mask,
    shared_colours,
)
from permafrost.report.figures.sheet import DPI, Sheet, cell_of
from permafrost.report.figures.style import save_figure
from permafrost.report.material.masks import decode_mask_png, read_dense
from permafrost.statistics.leaderboard.rows import brief_count
from PIL import Image

WATER, BUILT = "#0072B2", "#D55E00"


def rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def example(truth, image=None) -> masks.Example:
    truth = np.asarray(truth)
    return masks.Example("chip", np.zeros((*truth.shape, 3)) if image is None else image, truth)


# --- colours ------------------------------------------------------------------------------------


def test_every_class_has_a_colour_of_its_own_and_always_the_same():
    for count in (1, 2, 7, 24):
        names = [f"class {i}" for i in range(count)]
        assert len(set(class_colours(names))) == count
        assert class_colours(names) == class_colours(names)
        assert not shared_colours(names)
    many = class_colours([str(i) for i in range(30)])
    assert len(many) == 30 and set(many) == set(CLASS_COLOURS) and shared_colours(many)


def test_classes_with_a_common_name_have_the_colour_that_a_reader_expects():
    colours = class_colours(["Building", "bare_land", "road", "vegetation (green)", "open water"])
    assert colours == [BUILT, "#F0E442", "#CC79A7", "#009E73", WATER]
    # a name that merely holds the word is no such class; the first of two has the claim
    assert class_colours(["underwater", "river", "sea"])[1] == WATER
    assert class_colours(["underwater"]) == [CLASS_COLOURS[0]]


def test_no_two_colours_are_nearer_than_the_nearest_of_the_seven_by_okabe_and_ito():
    views = [_lab(matrix) for matrix in (np.eye(3), _PROTAN, _DEUTAN)]

    def nearest(count: int) -> float:
        apart = [np.linalg.norm(v[:count, None] - v[None, :count], axis=-1) for v in views]
        return min((d + 1e3 * np.eye(count)).min() for d in apart)

    assert nearest(len(CLASS_COLOURS)) > 0.95 * nearest(7) > 10


# Machado, Oliveira, Fernandes (2009), severity 1
_PROTAN = np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                    [-0.003882, -0.048116, 1.051998]])  # fmt: skip
_DEUTAN = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                    [-0.011820, 0.042940, 0.968881]])  # fmt: skip
_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                 [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip


def _lab(matrix: np.ndarray) -> np.ndarray:
    """CIELAB of the class colours as seen through a simulation of colour vision."""
    coded = np.array([rgb(colour) for colour in CLASS_COLOURS])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ matrix.T, 0, 1) @ _XYZ.T / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


def test_a_mask_is_painted_in_class_colours_and_what_is_ignored_is_hatched():
    painted = paint_mask(np.array([[0, 1], [2, IGNORE]]), [BUILT, WATER, "#000000"])
    assert painted[0, 0].tolist() == rgb(BUILT) and painted[0, 1].tolist() == rgb(WATER)
    assert painted[1, 1].tolist() == hatching((2, 2))[1, 1].tolist()
    assert len({tuple(pixel) for pixel in hatching((64, 64)).reshape(-1, 3)}) == 2


def test_errors_have_the_colour_of_the_wrong_answer_right_is_dark_and_ignored_blank():
    truth = np.array([[0, 1], [1, IGNORE]])
    answer = np.array([[0, 0], [1, 1]])
    painted = paint_errors(truth, answer, [BUILT, WATER])
    assert painted[0, 0].tolist() == painted[1, 0].tolist() == rgb(CORRECT)
    assert painted[0, 1].tolist() == rgb(BUILT)
    assert painted[1, 1].tolist() == rgb(BLANK)


# --- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_kept_masks_are_decoded_as_they_were_written(kind):
    mask = np.array([[0, 1, 2], [200, 255 if kind == np.uint8 else 40_000, 7]], kind)
    assert decode_mask_png(png(mask), "t.parquet").tolist() == mask.tolist()


def test_what_is_no_png_of_one_channel_is_refused_by_the_name_of_its_table():
    colours = io.BytesIO()
    Image.new("RGB", (2, 2)).save(colours, "PNG")
    jpeg = io.BytesIO()
    Image.new("L", (2, 2)).save(jpeg, "JPEG")
    whole = png(np.random.default_rng(0).integers(0, 9, (64, 64)).astype(np.uint8))
    for data in (b"", b"no picture", whole[: len(whole) // 2], colours.getvalue(), jpeg.getvalue()):
        with pytest.raises(PermafrostError, match=r"t\.parquet: a predicted mask in the table"):
            decode_mask_png(data, "t.parquet")


def test_a_table_gives_confusion_kept_masks_and_the_share_of_right_pixels(tmp_path):
    made = make_dense_predictions(
        tmp_path / "p.parquet", make_dense_card(), backbone="net", wrong=0.5
    )
    found = read_dense(made["path"], expect=made["fingerprint"])
    assert found.confusion.shape == (12, 3, 3)
    assert found.shown == {"drawn": [1, 2, 3], "best": [0], "worst": [11]}
    assert sorted(found.masks) == [0, 1, 2, 3, 11]
    assert found.masks[11].shape == (14, 14)
    # the ignored corner is in no matrix
    assert found.confusion[0].sum() == 16 * 16 - 16
    assert found.accuracy(11) == np.trace(found.confusion[11]) / found.confusion[11].sum()
    assert found.accuracy(11) < found.accuracy(0)
    with pytest.raises(PermafrostError, match="made from another plan"):
        read_dense(made["path"], expect="0" * 32)


def test_confusion_of_another_number_of_classes_is_refused(tmp_path):
    made = make_dense_predictions(tmp_path / "p.parquet", make_dense_card(), backbone="net")
    table, metadata = read_table(made["path"])
    write_table(made["path"], table, {**metadata, "classes": ["a", "b"]})
    with pytest.raises(PermafrostError, match="not lists of 4 numbers"):
        read_dense(made["path"])


# --- pictures -----------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch) -> list[tuple[int, int, np.ndarray]]:
    """Line, column and content of the pictures that are put on sheets."""
    found, put = [], Sheet.picture

    def picture(sheet, line, column, content, *rest, **look):
        found.append((line, column, content))
        put(sheet, line, column, content, *rest, **look)

    monkeypatch.setattr(Sheet, "picture", picture)
    return found


def test_pictures_show_image_truth_prediction_and_errors_of_every_example(shown):
    truth = np.array([[0, 1], [1, IGNORE]])
    answer = masks.Answer(np.array([[0, 0], [1, 1]]), 2 / 3)
    image = np.random.default_rng(0).random((2, 2, 3))
    groups = [
        ("drawn at random", [(example(truth, image), answer)] * 3),
        ("worst", []),
        ("best", [(example(truth, image), answer)]),
    ]
    colours = [BUILT, WATER]
    figure = masks.draw_pictures(groups, ["building", "water"], colours, title="t", note="how")
    assert len(shown) == 4 * 4
    for number, wanted in enumerate(
        (
            image,
            paint_mask(truth, colours),
            paint_mask(answer.mask, colours),
            paint_errors(truth, answer.mask, colours),
        )
    ):
        assert np.array_equal(shown[number][2], wanted)
    words = texts(figure)
    assert words.count("chip: 66.7 % right") == 4
    assert "drawn at random" in words and "best" in words and "worst" not in words
    assert words.count("errors") == 2 + 1  # above both examples of a group's first line
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["building", "water", "right (in errors)", "no true class"]


def test_an_image_without_a_scored_pixel_says_so():
    nothing = masks.Answer(np.zeros((2, 2), int), math.nan)
    truth = np.full((2, 2), IGNORE)
    figure = masks.draw_pictures(
        [("worst", [(example(truth), nothing)])], ["a"], [BUILT], title="t", note="n"
    )
    assert "chip: no scored pixel" in texts(figure)


def test_backbones_are_compared_on_the_same_images_and_a_missing_answer_is_left_empty(shown):
    examples = [example([[0, 1]]), example([[1, 1]])]
    right, wrong = masks.Answer(np.array([[0, 1]]), 1.0), masks.Answer(np.array([[0, 0]]), 0.5)
    columns = [("net", [right, wrong]), ("other", [wrong, None])]
    figure = masks.draw_comparison(
        examples, columns, ["building", "water"], [BUILT, WATER], title="t", note="n"
    )
    assert len(shown) == 2 * 2 + 3
    words = texts(figure)
    assert words.count("net") == words.count("other") == words.count("truth") == 1
    assert words.count("50.0 % right") == 2 and words.count("100.0 % right") == 1
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["building", "water"]
    with pytest.raises(ValueError, match="do not fit"):
        masks.draw_comparison(examples, columns * 4, ["a"], [BUILT], title="t", note="n")


def test_pairs_show_before_and_after(shown):
    truth = np.array([[0, 1]])
    pair = masks.Example("pair", np.ones((1, 2, 3)), truth, before=np.zeros((1, 2, 3)))
    answer = masks.Answer(truth, 1.0)
    look = {
        "classes": ["no change", "change"],
        "colours": [BUILT, WATER],
        "title": "t",
        "note": "n",
    }
    figure = masks.draw_pictures([("drawn", [(pair, answer)] * 3)], **look)
    words = texts(figure)
    assert [words.count(word) for word in ("before", "after", "truth", "prediction", "errors")] == [
        2
    ] * 5
    assert len(shown) == 15 and (shown[0][2] == 0).all() and (shown[1][2] == 1).all()
    shown.clear()
    columns = [(f"net {i}", [answer]) for i in range(7)]
    masks.draw_comparison([pair], columns, **look)
    # all lie side by side
    assert [(line, column) for line, column, _ in shown] == [(0, place) for place in range(3 + 7)]
    with pytest.raises(ValueError, match="do not fit"):
        masks.draw_comparison([pair], columns * 2, **look)


def test_of_many_classes_the_legend_names_those_that_are_seen():
    names = [f"c{i}" for i in range(40)]
    answer = masks.Answer(np.array([[3, 39]]), 0.0)
    figure = masks.draw_pictures(
        [("g", [(example([[7, 7]]), answer)])], names, class_colours(names), title="t", note="n"
    )
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["c3", "c7", "c39", "right (in errors)"]


def test_pictures_are_saved_as_the_same_bytes_whatever_their_shape_and_names(tmp_path):
    truth = np.zeros((5, 900), int)
    strange = masks.Example("$x_1$ " * 30, np.zeros((5, 900)), truth)
    for name in ("a", "b"):
        figure = masks.draw_pictures(
            [("g$", [(strange, masks.Answer(truth, 1.0))])],
            ["$\\frac$"],
            [BUILT],
            title="t" * 300,
            note="n",
        )
        save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_picture_is_shown_at_its_place_pixel_by_pixel(tmp_path):
    side = round(cell_of(masks.ACROSS) * DPI)
    image = np.random.default_rng(0).random((side, side // 2, 3))
    image[0, 0] = np.nan
    truth = np.zeros((1, 1), int)
    figure = masks.draw_comparison(
        [masks.Example("x", image, truth)], [], ["a"], [BUILT], title="", note=""
    )
    saved = np.asarray(Image.open(save_figure(figure, tmp_path / "x")))
    wanted = np.round(255 * np.nan_to_num(image, nan=1)).astype(np.uint8)
    line = wanted[side // 2]
    places = [
        (y, x)
        for y in range(len(saved))
        for x in range(side)
        if np.array_equal(saved[y, x : x + len(line)], line)
    ]
    ((y, x),) = places
    top = y - side // 2
    assert np.abs(saved[top : top + side, x : x + side // 2].astype(int) - wanted).max() <= 1
    # half as wide as high: centred between white
    assert (saved[y, x - 5 : x] == 255).all() and (
        saved[y, x + side // 2 : x + side // 2 + 5] == 255
    ).all()


# --- numbers ------------------------------------------------------------------------------------


def test_a_confusion_matrix_of_pixels_writes_per_cent_of_the_true_class():
    counts = np.array([[999_000, 1_000, 0], [500_000, 500_000, 0], [0, 0, 0]])
    figure = matrices.draw_confusion(counts, CLASSES, title="t", unit="pixels")
    assert names_of(figure, ["100", "<1", "50"]) == ["100", "<1", "50", "50"]
    ticks = ["building (1 M)", "road (1 M)", "water (0)"]
    assert names_of(figure, [*ticks, "true (number of pixels)"])[:3] == ticks
    assert "true (number of pixels)" in texts_of(figure)
    assert np.isnan(column(figure, "value")[6:]).all()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (9_999, "9999"),
        (12_345, "12.3 k"),
        (999_999, "1000 k"),
        (1_940_000, "1.94 M"),
        (3 * 10**9, "3 G"),
    ],
)
def test_counts_are_brief(count, words):
    assert brief_count(count) == words


def test_training_curves_hold_the_logged_numbers_and_mark_the_scored_epoch():
    settings = training_settings(0.1)
    log = {"epochs": settings["epochs_log"], "epoch": 3}
    figure = training.draw_training(
        {"fpn": {"net": log}, "linear": {"net": log, "other": log}}, dataset="d"
    )
    assert len(views_of(figure)) == 4
    train = [row for row in rows_of(figure) if "dashed" not in row]
    validation = [row for row in rows_of(figure) if row.get("dashed")]
    shown = {"train_loss": train, "val_loss": validation, "val_mean_iou": rows_of(figure, 1)}
    for key, drawn in shown.items():
        assert [row["x"] for row in drawn] == [1, 2, 3, 4]
        assert [row["y"] for row in drawn] == [one[key] for one in settings["epochs_log"]]
    (marked,) = (row for row in rows_of(figure, 1) if row["scored"])
    assert (marked["x"], marked["y"]) == (3, settings["epochs_log"][2]["val_mean_iou"])
    assert len(rows_of(figure, 3)) == 8
    assert names_of(figure, ["net", "other"]) == ["net", "other"]


def test_epochs_without_a_validation_are_left_out_of_its_curve():
    epochs = [{"epoch": 1, "train_loss": 1.0, "val_loss": None, "val_mean_iou": math.nan}]
    figure = training.draw_training({"fpn": {"net": {"epochs": epochs, "epoch": 1}}}, dataset="d")
    assert [row["y"] for row in rows_of(figure)] == [1.0] and rows_of(figure, 1) == []
    assert "fpn" in texts_of(figure)


def test_classes_of_several_backbones_share_the_first_ones_order():
    rows = []
    for backbone, values in (("best", (0.2, 0.9)), ("other", (0.8, 0.1))):
        for name, value in zip(("road", "water"), values, strict=True):
            (row,) = [r for r in make_score_rows(backbone=backbone, classes=[name]) if r["class"]]
            rows.append(
                {
                    **row,
                    "metric": "iou",
                    "value": value,
                    "lower": value - 0.05,
                    "upper": value + 0.05,
                }
            )
    figure = per_class.draw_per_class(rows, title="t", support={"water": "61 %"})
    assert names_of(figure, ["road", "water (61 %)"]) == ["water (61 %)", "road"]
    drawn = zip(*(column(figure, name) for name in ("row", "series", "value")), strict=True)
    assert set(drawn) == {("water", "best", 0.9), ("road", "best", 0.2)} | {
        ("water", "other", 0.1),
        ("road", "other", 0.8),
    }
    assert names_of(figure, ["best", "other"]) == ["best", "other"]
    assert "IoU with 95 % interval" in texts_of(figure)
    few = [{**row, "n_carriers": 3 if row["class"] == "water" else 40} for row in rows]
    figure = per_class.draw_per_class(few, title="t")
    assert names_of(figure, ["water*", "road"]) == ["water*", "road"]
    assert "IoU with 95 % interval   (* in fewer than 6 test units)" in texts_of(figure)


def test_the_balance_of_masks_is_of_their_pixels():
    figure = dataset.draw_balance(card_of(make_dense_card()))
    train = [row["value"] or 0 for row in rows_of(figure) if row["series"] == "train"]
    assert sum(train) == pytest.approx(1) and train[0] == 1_234_567 / 1_434_567
    assert "share of the split's pixels" in texts_of(figure)


def test_a_table_that_kept_no_picture_has_none(tmp_path):
    made = make_dense_predictions(
        tmp_path / "p.parquet", make_dense_card(), backbone="net", pictures=0
    )
    found = read_dense(made["path"])
    assert found.masks == {} and found.shown == {"drawn": [], "best": [], "worst": []}
    assert pa.types.is_binary(read_table(made["path"])[0]["mask"].type)
