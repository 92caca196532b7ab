"""Rasters against rasters: blocks, nodata, logits, classes, georeference, the command."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from helpers.predictions.rasters import block, command, crossed, two, write
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.raster import evaluate, evaluate_blocks
from permafrost.evaluators.raster.blocks import BlockReading, raster_blocks
from rasterio.transform import from_origin

SITE = 'LOCAL_CS["site",UNIT["metre",1]]'


@pytest.mark.parametrize("size", [1000, 64, 17])
def test_counts_do_not_depend_on_the_blocks(tmp_path, size):
    reference, prediction = two()
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "p.tif", prediction)
    found = evaluate(*paths, block=size)
    np.testing.assert_array_equal(found.counts, crossed(reference, prediction, 4))
    assert found.n_blocks == -(-70 // size) * -(-90 // size)
    assert found.values["overall_accuracy", None] == (reference == prediction).mean()
    assert found.mapped.tolist() == np.bincount(prediction.ravel()).tolist()


def test_a_raster_passes_through_memory_block_by_block(tmp_path):
    reference, prediction = two()
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "p.tif", prediction)
    shapes = [part.reference.shape for part in raster_blocks(*paths, BlockReading(block=32))]
    assert max(shapes) == (32, 32) and len(shapes) == 9

    # blocks that are only ever made one at a time, as many as a huge raster has
    def endless():
        for number in range(3000):
            yield block(np.full((8, 8), number % 3), np.full((8, 8), number % 2))

    assert evaluate_blocks(endless()).counts.sum() == 3000 * 64


def test_replicates_are_the_values_of_resampled_blocks():
    rng = np.random.default_rng(1)
    blocks = [block(*two(seed, (9, 9), classes=3)) for seed in range(5)]
    whole = evaluate_blocks(blocks, classes=3)
    draws = rng.integers(0, 5, (4, 5))
    counts = np.stack([np.bincount(draw, minlength=5) for draw in draws], axis=1)
    found = whole.replicates(counts)
    for column, draw in enumerate(draws):
        expected = evaluate_blocks([blocks[number] for number in draw], classes=3).values
        for name, value in expected.items():
            assert found[name][column] == pytest.approx(value, nan_ok=True), name


def test_pixels_without_a_reference_are_counted_apart(tmp_path):
    reference, prediction = two()
    reference[:10] = 255
    reference[10:12] = 9
    paths = write(tmp_path / "r.tif", reference, nodata=255), write(tmp_path / "p.tif", prediction)
    found = evaluate(*paths, ignore=[9])
    np.testing.assert_array_equal(found.counts, crossed(reference[12:], prediction[12:], 4))
    assert found.ignored == 12 * 90 and found.pixels == reference.size
    assert found.mapped.sum() == reference.size and not found.complete
    assert f"{12 * 90} pixels have no reference class" in found.notes()[0]
    with pytest.raises(PermafrostError, match=r"codes \[9, 255\].*--ignore"):
        evaluate(*paths, keep_nodata=True, classes=4)


def test_missing_predictions_are_an_error_unless_named(tmp_path):
    reference, prediction = two()
    prediction[:, :5] = 200
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "p.tif", prediction, nodata=200)
    with pytest.raises(PermafrostError, match=r"p.tif: .*350 pixels have a reference but no pred"):
        evaluate(*paths)
    found = evaluate(*paths, missing="ignore")
    assert found.unpredicted == 350 and found.counts.sum() == reference.size - 350
    assert "350 pixels with a reference were not predicted" in found.notes()[0]


def test_classes_may_count_from_one_and_have_names():
    reference, prediction = two(classes=3)
    zero = evaluate_blocks([block(reference, prediction)], classes=["a", "b", "c"])
    one = evaluate_blocks(
        [block(reference + 1, prediction + 1)], classes=["a", "b", "c"], zero_based=False
    )
    assert zero.values == one.values and one.codes == (1, 2, 3)
    assert {label for _, label in zero.values} == {None, "a", "b", "c"}
    with pytest.raises(PermafrostError, match="below the first class"):
        evaluate_blocks([block(reference, prediction)], zero_based=False)


def test_classes_that_occur_are_found_however_large_their_codes():
    reference, prediction = two(classes=3)
    codes = np.array([10, 40_000, 3_000_000])
    found = evaluate_blocks([block(codes[reference], codes[prediction])])
    assert found.codes == tuple(codes.tolist())
    np.testing.assert_array_equal(found.counts, crossed(reference, prediction, 3))


def test_a_declared_class_that_is_absent_is_left_out_and_said():
    reference, prediction = two(classes=3)
    found = evaluate_blocks([block(reference, prediction)], classes=5)
    assert "The classes 3, 4 occur in neither raster" in found.notes()[0]
    plain = evaluate_blocks([block(reference, prediction)], classes=3)
    for name in ("recall", "precision", "f1", "macro_f1", "mean_iou"):
        assert found.values[name, None] == plain.values[name, None]
    geodl = evaluate_blocks([block(reference, prediction)], classes=5, like="geodl")
    assert geodl.values["recall", None] > plain.values["recall", None]
    assert "raises the means" in geodl.notes()[0]


@pytest.mark.parametrize(
    ("prediction", "recall", "precision", "geodl", "words"),
    [
        ([[1, 1, 2, 2], [1, 2, 4, 4]], 3 / 4, 7 / 12, 5 / 6, "Never predicted: 3"),
        ([[1, 1, 9, 9], [1, 9, 4, 4]], 2 / 5, 1 / 3, 11 / 15, "Not in the reference: 9"),
    ],
)
def test_an_undefined_class_counts_0_as_scikit_learn_says(
    tmp_path, capsys, prediction, recall, precision, geodl, words
):
    import sklearn.metrics

    reference = np.array([[1, 1, 2, 2], [3, 3, 4, 4]])
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "p.tif", np.array(prediction))
    flat = reference.ravel(), np.ravel(prediction)
    output = tmp_path / "s.json"
    command("--reference", paths[0], "--prediction", paths[1], "--output", output)
    rows = json.loads(output.read_text())["scores"]
    found = {row["metric"]: row["value"] for row in rows if row["class"] is None}
    options = {"average": "macro", "zero_division": 0}
    assert found["recall"] == pytest.approx(recall)
    assert recall == pytest.approx(sklearn.metrics.recall_score(*flat, **options))
    assert found["precision"] == pytest.approx(precision)
    assert precision == pytest.approx(sklearn.metrics.precision_score(*flat, **options))
    assert found["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(*flat, **options))
    assert found["f1"] == pytest.approx(2 * recall * precision / (recall + precision))
    printed = capsys.readouterr().out
    assert words in printed and "counts 0 in the mean" in printed
    command(
        "--reference", paths[0], "--prediction", paths[1], "--like", "geodl", "--output", output
    )
    rows = json.loads(output.read_text())["scores"]
    found = {row["metric"]: row["value"] for row in rows if row["class"] is None}
    assert found["precision"] == pytest.approx(geodl)
    assert "raises the means" in capsys.readouterr().out


def test_logits_of_several_classes_are_the_greatest_band(tmp_path):
    reference, _ = two(classes=3)
    logits = np.random.default_rng(2).normal(0, 1, (3, *reference.shape)).astype(np.float32)
    logits[1, :2] = logits[0, :2] = 9  # of equals the first
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "l.tif", logits)
    found = evaluate(paths[0], logits=paths[1], block=50)
    np.testing.assert_array_equal(found.counts, crossed(reference, logits.argmax(0), 3))
    shifted = write(tmp_path / "r1.tif", reference + 1)
    one = evaluate(shifted, logits=paths[1], zero_based=False)
    assert [*one.values.values()] == pytest.approx([*found.values.values()])


def test_one_logit_is_thresholded_strictly():
    reference = np.array([[1, 1, 0, 0]])
    logits = np.array([[[2.0, 0.0, -900.0, 0.1]]])
    found = evaluate_blocks([block(reference, logits)], scores=True)
    assert found.counts.tolist() == [[1, 1], [1, 1]]  # a logit of 0 is negative
    assert found.values["recall", None] == pytest.approx(0.5)
    higher = evaluate_blocks([block(reference, logits)], scores=True, threshold=0.6)
    assert higher.counts.tolist() == [[2, 0], [1, 1]]


def test_the_binary_mode_scores_the_second_class_alone():
    reference, prediction = two(classes=2)
    binary = evaluate_blocks([block(reference, prediction)], mode="binary")
    weighted = evaluate_blocks([block(reference, prediction)], class_weights=(0, 1))
    assert binary.values == weighted.values
    assert binary.values["recall", None] == pytest.approx(binary.values["recall", "1"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (70, 80)}, "80 x 70 pixels, but the reference has 90 x 70"),
        ({"crs": "EPSG:32634"}, "coordinate system is EPSG:32634, the reference's EPSG:32633"),
        ({"crs": None}, "the prediction has no coordinate system"),
        ({"transform": from_origin(500_010, 4_000_000, 10, 10)}, "the pixels lie elsewhere"),
        ({"transform": from_origin(500_000, 4_000_000, 20, 20)}, "the pixels lie elsewhere"),
    ],
)
def test_rasters_on_other_pixels_are_refused(tmp_path, change, words):
    reference, prediction = two()
    shape = change.pop("shape", prediction.shape)
    paths = (
        write(tmp_path / "r.tif", reference),
        write(tmp_path / "p.tif", prediction[: shape[0], : shape[1]], **change),
    )
    with pytest.raises(PermafrostError, match=words) as error:
        evaluate(*paths)
    assert "p.tif" in str(error.value)
    if shape == reference.shape:
        assert evaluate(*paths, by_pixel=True).counts.sum() == reference.size


@pytest.mark.parametrize("crs", [SITE, "EPSG:32633", None])
def test_of_a_local_system_the_place_counts_and_the_name_does_not(tmp_path, crs):
    reference, prediction = two()
    expected = evaluate_blocks([block(reference, prediction)]).values
    truth = write(tmp_path / "r.tif", reference, crs=SITE.replace("site", "other"))
    found = evaluate(truth, write(tmp_path / "p.tif", prediction, crs=crs))
    assert found.values == expected
    moved = write(
        tmp_path / "m.tif", prediction, crs=crs, transform=from_origin(500_010, 4_000_000, 10, 10)
    )
    with pytest.raises(PermafrostError, match="the pixels lie elsewhere"):
        evaluate(truth, moved)


def test_a_transform_written_with_fewer_digits_is_the_same_place(tmp_path):
    reference, prediction = two()
    near = from_origin(500_000.000001, 4_000_000, 10, 10)
    paths = (
        write(tmp_path / "r.tif", reference),
        write(tmp_path / "p.tif", prediction, transform=near),
    )
    assert evaluate(*paths).counts.sum() == reference.size


@pytest.mark.parametrize(
    ("blocks", "options", "words"),
    [
        ([], {}, "no pixel has a reference class"),
        ([([[1]], [[-1]])], {}, "code -1, below the first class"),
        ([([[1.5]], [[1]])], {}, "1.5 is not a class code"),
        ([([[np.nan]], [[1]])], {}, "nan is not a class code"),
        ([([[1]], [[[np.nan]]])], {"scores": True}, "a logit is NaN"),
        ([([[1]], [[1]])], {"scores": True}, "are not .classes, height, width"),
        ([([[1]], [[[0.0]]]), ([[1]], [[[0.0]], [[1.0]]])], {"scores": True}, "are not"),
        ([([[1]], [[[0.0]], [[1.0]]])], {"scores": True, "classes": 3}, "the logits have 2 bands"),
        ([([[5]], [[1]])], {"classes": 3}, r"codes \[5\], but the classes are 0 to 2"),
        ([([[1]], [[1]])], {"classes": ["a", "a"]}, "two classes have one name"),
        ([([[1]], [[1]])], {"class_weights": [1, 2]}, "2 class weights for 1 classes"),
        ([([[1]], [[1]])], {"mode": "binary", "class_weights": [1, 2]}, "fixed weights"),
        ([([[2]], [[2]])], {"mode": "binary"}, r"codes \[2\]"),
        ([([[1]], [[1]])], {"mode": "multi"}, "did you mean 'multiclass'"),
        ([([[1]], [[1]])], {"missing": "skip"}, "no missing is 'skip'"),
        ([([[1]], [[1]])], {"smooth": -1}, "smoothing"),
        ([([[1]], [[[0.0]]])], {"scores": True, "threshold": 1.0}, "not a probability"),
    ],
)  # fmt: skip
def test_what_cannot_be_scored_is_refused(blocks, options, words):
    with pytest.raises(PermafrostError, match=words):
        evaluate_blocks([block(*pair) for pair in blocks], **options)


def test_files_that_cannot_be_read(tmp_path):
    good = write(tmp_path / "r.tif", two()[0])
    (tmp_path / "bad.tif").write_bytes(good.read_bytes()[:300])
    (tmp_path / "text.tif").write_text("no raster")
    for name in ("none.tif", "text.tif", "bad.tif"):
        with pytest.raises(PermafrostError, match=name):
            evaluate(good, tmp_path / name)
    many = write(tmp_path / "many.tif", np.stack(two()))
    with pytest.raises(PermafrostError, match="2 bands where one"):
        evaluate(many, good)
    assert evaluate(many, good, reference_band=1).values["overall_accuracy", None] == 1
    with pytest.raises(PermafrostError, match="no band 3"):
        evaluate(many, good, reference_band=3)
    for arguments in ({}, {"prediction": good, "logits": good}):
        with pytest.raises(PermafrostError, match="either a prediction or logits"):
            evaluate(good, **arguments)


def test_the_command_prints_and_writes_the_figures(tmp_path, capsys):
    reference, prediction = two(classes=3)
    truth = write(tmp_path / "r.tif", reference + 1)
    path = write(tmp_path / "p.tif", prediction + 1)
    command(
        "--reference",
        truth,
        "--prediction",
        path,
        "--one-based",
        "--class-names",
        "a,b,c",
        "--class-weights",
        "0,1,1",
        "--smooth",
        "1",
        "--block",
        "32",
        "--resamples",
        "50",
        "--output",
        tmp_path / "s.json",
        "--tables",
        tmp_path,
    )
    expected = evaluate(
        truth, path, zero_based=False, classes=["a", "b", "c"], class_weights=[0, 1, 1], smooth=1
    ).values
    written = json.loads((tmp_path / "s.json").read_text())
    assert {(row["metric"], row["class"]): row["value"] for row in written["scores"]} == expected
    assert all(row["lower"] < row["value"] < row["upper"] for row in written["scores"])
    assert (
        written["confusion_reference_by_prediction"] == crossed(reference, prediction, 3).tolist()
    )
    printed = capsys.readouterr().out
    assert "each of 9 blocks of 32 px" in printed and "a census" in printed
    assert (tmp_path / "scores.parquet").is_file()


def test_a_sampled_reference_gives_area_weighted_estimates(tmp_path, capsys):
    reference, prediction = two(classes=3, shape=(200, 200))
    sampled = np.where(np.random.default_rng(3).random(reference.shape) < 0.02, reference, 255)
    truth = write(tmp_path / "r.tif", sampled.astype(np.uint8), nodata=255)
    command(
        "--reference",
        truth,
        "--prediction",
        write(tmp_path / "p.tif", prediction),
        "--output",
        tmp_path / "s.json",
    )
    rows = json.loads((tmp_path / "s.json").read_text())["scores"]
    share = {row["class"]: row for row in rows if row["metric"] == "area_share"}
    for code in range(3):
        row = share[str(code)]
        assert row["lower"] < (reference == code).mean() < row["upper"]
    assert sum(row["value"] for row in share.values()) == pytest.approx(1)
    printed = capsys.readouterr().out
    assert "weighted_overall_accuracy" in printed and "a single block cannot" in printed


def test_estimates_without_a_seen_error_have_no_interval(tmp_path, capsys):
    reference, _ = two(classes=3)
    sampled = np.where(np.random.default_rng(3).random(reference.shape) < 0.1, reference, 255)
    truth = write(tmp_path / "r.tif", sampled.astype(np.uint8), nodata=255)
    command(
        "--reference",
        truth,
        "--prediction",
        write(tmp_path / "p.tif", reference),
        "--output",
        tmp_path / "s.json",
    )
    rows = json.loads((tmp_path / "s.json").read_text())["scores"]
    shares = [row for row in rows if row["metric"] == "area_share"]
    assert len(shares) == 3 and {(row["lower"], row["upper"]) for row in shares} == {(None, None)}
    assert "the sample does not show how wrong they are" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [0, 1])
def test_nan_is_reported_under_the_name_of_its_file(tmp_path, broken):
    pair = [values.astype(np.float32) for values in two()]
    pair[broken][3, 4] = np.nan
    paths = [
        write(tmp_path / f"{name}.tif", values) for name, values in zip("rp", pair, strict=True)
    ]
    with pytest.raises(PermafrostError, match=f"{'rp'[broken]}.tif: .*nan is not a class code"):
        evaluate(*paths)
    logits = write(tmp_path / "l.tif", np.full((2, 70, 90), np.nan, np.float32))
    with pytest.raises(PermafrostError, match=r"l.tif: pixels from .*a logit is NaN"):
        evaluate(write(tmp_path / "r.tif", two()[0]), logits=logits, classes=2, ignore=(2, 3))


def test_a_class_that_was_not_sampled_leaves_the_area_estimates_out(tmp_path, capsys):
    reference, prediction = two(classes=3)
    sampled = np.where(prediction == 2, 255, reference).astype(np.uint8)
    command(
        "--reference",
        write(tmp_path / "r.tif", sampled, nodata=255),
        "--prediction",
        write(tmp_path / "p.tif", prediction),
    )
    assert "No area-weighted estimates: the classes [2]" in capsys.readouterr().out


def test_lists_that_are_none_are_refused(tmp_path):
    path = write(tmp_path / "r.tif", two()[0])
    with pytest.raises(PermafrostError, match="'1;2' is not a list of numbers"):
        command("--reference", path, "--prediction", path, "--class-weights", "1;2")


def test_rasters_of_measurements_are_refused_before_they_fill_the_memory(tmp_path, monkeypatch):
    module = importlib.import_module("permafrost.evaluators.raster.evaluate")
    many = np.arange(70 * 90).reshape(70, 90).astype(np.int32)
    paths = write(tmp_path / "r.tif", many), write(tmp_path / "p.tif", two()[0])
    for pair, name in ((paths, "r.tif"), (paths[::-1], "r.tif")):
        with pytest.raises(PermafrostError, match=f"{name}.*more than 2000 different codes"):
            evaluate(*pair)
    with pytest.raises(PermafrostError, match="1000000000 classes are declared, at most 2000"):
        evaluate(paths[1], paths[1], classes=10**9)
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    with pytest.raises(PermafrostError, match="pairs of classes in 1 blocks would take .*--block"):
        evaluate(paths[1], paths[1])


def test_resamples_are_measured_in_parts_that_fit_into_memory(monkeypatch):
    from permafrost.evaluators.raster import result

    blocks = [block(*two(seed)) for seed in range(5)]
    whole = evaluate_blocks(blocks)
    counts = np.random.default_rng(0).integers(0, 3, (5, 20))
    expected = whole.replicates(counts)
    monkeypatch.setattr(result, "_MOST_BYTES", 8 * 16 * 3)
    for name, values in whole.replicates(counts).items():
        assert values.tobytes() == expected[name].tobytes()
    assert all(len(values) == 0 for values in whole.replicates(counts[:, :0]).values())
