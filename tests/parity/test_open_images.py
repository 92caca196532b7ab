"""Open Images' rules equal TensorFlow's evaluator, written out from its definition, and the cases of its tests."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from helpers.predictions.detection_command import command
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate_open_images
from permafrost.evaluators.intervals.voc import VocScores

HEAD = ["ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax"]
# "football" is under "ball" and "toy", so that "futsal" has it above itself at two places
FOOTBALL = {"LabelName": "football", "Subcategory": [{"LabelName": "futsal"}]}
TREE = {
    "LabelName": "/m/root",
    "Subcategory": [
        {
            "LabelName": "thing",
            "Subcategory": [
                {"LabelName": "ball", "Subcategory": [FOOTBALL]},
                {"LabelName": "toy", "Subcategory": [FOOTBALL]},
            ],
        },
        {"LabelName": "cat"},
    ],
}
ABOVE = {
    **{"ball": ["thing"], "toy": ["thing"], "football": ["ball", "toy", "thing"]},
    "futsal": ["football", "ball", "toy", "thing"],
}
BELOW = {
    **{"thing": ["ball", "toy", "football", "futsal"], "football": ["futsal"]},
    **{"ball": ["football", "futsal"], "toy": ["football", "futsal"]},
}


def shared(one, other) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)


def area(box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def image_outcomes(found, truths, threshold, weight):
    """(score, label) of one class on one image: 0 false, 1 right, `weight` at a group; absent if ignored."""
    found = [e for e in found if area(e["box"]) > 0]
    found = sorted(found, key=lambda e: (-e["score"], e["order"]))
    single = [t for t in truths if not t["group"]]
    groups = [t for t in truths if t["group"]]
    taken, right, met = [False] * len(single), [False] * len(found), [False] * len(found)
    for i, entry in enumerate(found if single else []):
        boxes = [t["box"] for t in single]
        iou = [
            shared(entry["box"], b) / (area(entry["box"]) + area(b) - shared(entry["box"], b))
            for b in boxes
        ]
        best = int(np.argmax(iou))
        if iou[best] >= threshold and not taken[best]:
            taken[best] = right[i] = True
    best_score = [None] * len(groups)
    for i, entry in enumerate(found if groups else []):
        ioa = [shared(entry["box"], t["box"]) / area(entry["box"]) for t in groups]
        best = int(np.argmax(ioa))
        if not right[i] and ioa[best] >= threshold:
            met[i] = True
            best_score[best] = max(best_score[best] or 0, entry["score"])
    rows = [(e["score"], float(r)) for e, r, m in zip(found, right, met, strict=True) if not m]
    return rows + [(score, weight) for score in best_score if score is not None and weight > 0]


def area_under(rows, positives) -> float:
    labels = np.array([label for _, label in sorted(rows, key=lambda row: -row[0])])
    if not len(labels):
        return 0.0
    right, wrong = np.cumsum(labels), np.cumsum(labels <= 0)
    recall = np.concatenate([[0], right / positives, [1]])
    precision = np.concatenate([[0], right / (right + wrong), [0]])
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    return float(np.sum(np.diff(recall) * precision[1:]))


def brute_force(truths, found, labels, threshold, weight) -> dict[str, float]:
    """Average precision by class, of expanded rows; `labels` None: every class is verified on every image."""
    verified = {(t["image"], t["label"]) for t in truths} | set(labels or ())
    out = {}
    for name in sorted({t["label"] for t in truths}):
        of_class = [t for t in truths if t["label"] == name]
        positives = sum(weight if t["group"] else 1 for t in of_class)
        rows = []
        for image in sorted({e["image"] for e in found}):
            if labels is None or (image, name) in verified:
                own = [e for e in found if (e["image"], e["label"]) == (image, name)]
                rows += image_outcomes(
                    own, [t for t in of_class if t["image"] == image], threshold, weight
                )
        out[name] = area_under(rows, positives) if positives else np.nan
    return out


def random_case(seed: int):
    """Boxes on a grid of powers of two, so that overlaps equal to the threshold are exact; scores are unlike."""
    random = np.random.default_rng(seed)
    names, images = [*ABOVE, "thing", "cat"], [f"i{n:02}" for n in range(12)]

    def box():
        x, y = random.integers(0, 6, 2)
        width, height = random.integers(1, 5, 2)
        return [x / 16, y / 16, (x + width) / 16, (y + height) / 16]

    truths = [
        {"image": str(random.choice(images[:10])), "label": str(random.choice(names)), "box": box()}
        | {"group": bool(random.random() < 0.35)}
        for _ in range(60)
    ]
    found = [
        {"image": str(random.choice(images)), "label": str(random.choice(names)), "order": n}
        | {"box": box(), "score": float(score)}
        for n, score in enumerate(random.permutation(400)[:300] / 400 + 1e-3)
    ]
    for entry, truth in zip(found[:80], truths * 2, strict=False):
        entry.update({key: truth[key] for key in ("image", "label", "box")})
    found[100]["box"] = [0.5, 0.5, 0.5, 0.75]
    labels = sorted({(str(random.choice(images)), str(random.choice(names))) for _ in range(60)})
    return truths, found, [(*pair, bool(random.random() < 0.5)) for pair in labels]


def write(folder, truths, found, labels):
    """The three CSV files and the hierarchy."""
    corners = (0, 2, 1, 3)
    tables = {
        "truth": [[*HEAD, "IsGroupOf"]]
        + [
            [t["image"], t["label"], *(t["box"][k] for k in corners), int(t["group"])]
            for t in truths
        ],
        "found": [[*HEAD, "Score"]]
        + [[e["image"], e["label"], *(e["box"][k] for k in corners), e["score"]] for e in found],
        "labels": [["ImageID", "Source", "LabelName", "Confidence"]]
        + [[image, "verification", label, int(seen)] for image, label, seen in labels],
    }
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(rows)
    (folder / "tree.json").write_text(json.dumps(TREE))
    return [folder / name for name in ("truth.csv", "found.csv", "labels.csv", "tree.json")]


def by_name(evaluation, place=0) -> dict[str, float]:
    names = evaluation.truths.categories.names
    return dict(zip(names, evaluation.average_precision[place].tolist(), strict=True))


def expanded(rows, table=ABOVE):
    return [
        {**row, "label": name}
        for row in rows
        for name in [row["label"], *table.get(row["label"], [])]
    ]


@pytest.mark.parametrize("weight", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_every_class_and_threshold(tmp_path, seed, labelled, weight):
    truths, found, labels = random_case(seed)
    truth_csv, found_csv, labels_csv, tree = write(tmp_path, truths, found, labels)
    options = (
        {"image_labels": labels_csv} if labelled else {"images": [f"i{n:02}" for n in range(12)]}
    )
    for both in (False, True):
        ours = evaluate_open_images(
            truth_csv,
            found_csv,
            hierarchy=tree,
            expand_detections=both,
            group_weight=weight,
            iou_thresholds=[0.25, 0.5],
            mode="strict",
            **options,
        )
        verified = [
            (image, name)
            for image, label, seen in labels
            for name in [label, *(ABOVE if seen else BELOW).get(label, [])]
        ]
        detections = expanded(found) if both else found
        for place, threshold in enumerate((0.25, 0.5)):
            expected = brute_force(
                expanded(truths), detections, verified if labelled else None, threshold, weight
            )
            assert len(expected) == 6 and max(expected.values()) > 0
            assert by_name(ours, place) == pytest.approx(expected, abs=1e-13, nan_ok=True)
        assert (ours.unverified > 0) == labelled


def as_json(truths, found, classes):
    """COCO's JSON of rows (image, class, box, ...): TensorFlow's boxes are y, x, y, x."""

    def box(corners):
        top, left, bottom, right = corners
        return [left, top, right - left, bottom - top]

    annotations = [
        {
            "id": n,
            "image_id": image,
            "category_id": label,
            "bbox": box(corners),
            "is_group_of": group,
        }
        for n, (image, label, corners, group) in enumerate(truths, 1)
    ]
    detections = [
        {"image_id": image, "category_id": label, "bbox": box(corners), "score": score}
        for image, label, corners, score in found
    ]
    images = [{"id": n} for n in range(1, 7)]
    categories = [{"id": n, "name": name} for n, name in enumerate(classes, 1)]
    return {"images": images, "categories": categories, "annotations": annotations}, detections


CLASSES = ("cat", "dog", "elephant")
TRUTHS = [
    *[(1, 1, [0, 0, 1, 1], 0), (1, 3, [0, 0, 2, 2], 0), (1, 1, [0, 0, 3, 3], 0)],
    *[(2, 1, [10, 10, 11, 11], 0), (2, 1, [500, 500, 510, 510], 1), (2, 3, [10, 10, 12, 12], 0)],
    (3, 2, [0, 0, 1, 1], 0),
]


def test_the_case_of_open_images_v2():
    found = [
        (2, 1, [10, 10, 11, 11], 0.7),
        (2, 1, [100, 100, 120, 120], 0.8),
        (2, 3, [100, 100, 220, 220], 0.9),
    ]
    ours = evaluate_open_images(*as_json(TRUTHS, found, CLASSES), group_weight=0.0)
    expected = {"cat": 0.16666666, "dog": 0, "elephant": 0}
    assert by_name(ours) == pytest.approx(expected, abs=1e-7)
    assert VocScores(ours).values["AP50", None] == pytest.approx(0.05555555, abs=1e-7)


def test_the_case_of_the_challenge(tmp_path):
    # the boxes of the test in TensorFlow's models, with classes verified on the first image only
    groups = {2, 5}
    truths = [(i, c, b, int(n in groups)) for n, (i, c, b, _) in enumerate(TRUTHS)]
    found = [
        *[(1, 2, [10, 10, 11, 11], 0.7), (1, 2, [100, 100, 120, 120], 0.8)],
        *[(2, 1, [10, 10, 11, 11], 0.7), (2, 1, [100, 100, 120, 120], 0.8)],
        *[
            (2, 2, [100, 100, 220, 220], 0.5),
            (2, 3, [10, 10, 11, 11], 0.9),
            (3, 2, [0, 0, 1, 1], 0.5),
        ],
    ]

    def row(image, label, box, **more):
        top, left, bottom, right = box
        return {
            "image": str(image),
            "label": CLASSES[label - 1],
            "box": [left, top, right, bottom],
            **more,
        }

    files = write(
        tmp_path,
        [row(i, c, b, group=g) for i, c, b, g in truths],
        [row(i, c, b, score=s) for i, c, b, s in found],
        [("1", name, True) for name in CLASSES],
    )
    ours = evaluate_open_images(*files[:2], image_labels=files[2], group_weight=0.5)
    expected = {"cat": 0.142857142857, "dog": 0.3333333333, "elephant": 0.333333333333}
    assert by_name(ours) == pytest.approx(expected, abs=1e-9)
    assert VocScores(ours).values["AP50", None] == pytest.approx(0.269841269, abs=1e-9)
    assert ours.unverified == 1


@pytest.mark.parametrize("weight", [1.0, 0.4])
def test_resamples_are_evaluations_of_copied_images(weight):
    random = np.random.default_rng(7)

    def box():
        top, left, *size = random.integers(0, 6, 2).tolist() + random.integers(1, 6, 2).tolist()
        return [top, left, top + size[0], left + size[1]]

    truths = [
        (i, c, box(), int(random.random() < 0.4)) for i in (1, 2, 3) for c in (1, 1, 1, 2, 2, 3)
    ]
    found = [(i, c, box(), float(random.random())) for i in (1, 2, 3) for c in (1, 2, 3) * 8]
    counts = np.array([[2, 0, 1], [1, 3, 0], [0, 1, 2], *[[0, 0, 0]] * 3])
    moved = VocScores(
        evaluate_open_images(*as_json(truths, found, CLASSES), group_weight=weight)
    ).replicates(counts)
    for column in range(3):
        copies = [(image, copy) for image in (1, 2, 3) for copy in range(counts[image - 1, column])]
        drawn = [
            [
                (number, *row[1:])
                for number, (image, _) in enumerate(copies, 1)
                for row in rows
                if row[0] == image
            ]
            for rows in (truths, found)
        ]
        alone = VocScores(
            evaluate_open_images(*as_json(*drawn, CLASSES), group_weight=weight)
        ).values
        for key, value in alone.items():
            assert moved[key][column] == pytest.approx(value, abs=1e-13, nan_ok=True), key


def test_a_group_met_by_scores_of_0_only():
    truths, found = [(1, 1, [0, 0, 8, 8], 1)], [(1, 1, [1, 1, 2, 2], 0.0)]
    case = as_json(truths, found, CLASSES)
    assert by_name(evaluate_open_images(*case))["cat"] == 1
    strict = evaluate_open_images(*case, mode="strict")
    assert by_name(strict)["cat"] == 0 and not strict.wrong.any()


def test_equal_scores_follow_the_file_or_the_box():
    truths = [(1, 1, [0, 0, 8, 8], 0)]
    hit, miss = (1, 1, [0, 0, 8, 8], 0.5), (1, 1, [20, 20, 28, 28], 0.5)
    figures = {
        mode: [
            by_name(evaluate_open_images(*as_json(truths, found, CLASSES), mode=mode))["cat"]
            for found in ([hit, miss], [miss, hit])
        ]
        for mode in ("strict", "corrected")
    }
    assert figures == {"strict": [1.0, 0.5], "corrected": [1.0, 1.0]}


@pytest.mark.parametrize("truths", [[], [(1, 1, [0, 0, 8, 8], 1)]])
def test_nothing_to_find_or_found(truths):
    nothing = evaluate_open_images(*as_json(truths, [], CLASSES), group_weight=0.0)
    assert np.isnan(nothing.average_precision).all()
    missed = evaluate_open_images(*as_json([*truths, (2, 1, [0, 0, 1, 1], 0)], [], CLASSES))
    assert by_name(missed) == pytest.approx(
        {"cat": 0, "dog": np.nan, "elephant": np.nan}, nan_ok=True
    )


def test_the_command_with_intervals_and_a_comparison(tmp_path, capsys):
    truths, found, labels = random_case(5)
    truth_csv, found_csv, labels_csv, tree = write(tmp_path, truths, found, labels)
    (tmp_path / "b").mkdir()
    other = write(tmp_path / "b", truths, found[::2], labels)[1]
    (tmp_path / "names.csv").write_text("LabelName,DisplayName\nfootball,Football\n\ncat,Cat\n")
    command(
        *("--truth", truth_csv, "--predictions", found_csv, "--protocol", "open_images"),
        *("--image-labels", labels_csv, "--hierarchy", tree, "--against", other),
        *("--class-names", tmp_path / "names.csv", "--output", tmp_path / "scores.json"),
        *("--group-weight", 0.5, "--report", tmp_path / "page"),
    )
    content = json.loads((tmp_path / "scores.json").read_text())
    ours = evaluate_open_images(
        truth_csv, found_csv, image_labels=labels_csv, hierarchy=tree, group_weight=0.5
    )
    mean = next(row for row in content["scores"] if (row["metric"], row["class"]) == ("AP50", None))
    assert mean["value"] == pytest.approx(VocScores(ours).values["AP50", None])
    assert mean["lower"] < mean["value"] < mean["upper"]
    assert content["comparison"] and content["groups"] == int(ours.truths.crowd.sum())
    assert "Football" in {row["class"] for row in content["scores"]}
    assert "nobody verified" in capsys.readouterr().out
    # a group is half a truth
    place = ours.truths.categories.ids.tolist().index("football")
    assert f"<td>{ours.positives[place].sum():g}</td>" in (tmp_path / "page/index.html").read_text()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("truth", "ImageID,LabelName\ni,cat\n", "no column XMin"),
        ("truth", ",".join([*HEAD, "IsGroupOf"]) + "\ni,cat,0.5,0.2,0,1,0\n", "negative size"),
        ("truth", ",".join([*HEAD, "IsGroupOf"]) + "\ni,cat,0,1,0,1,2\n", "IsGroupOf is '2'"),
        ("found", "ImageId,PredictionString\ni,cat 0.5 0 0 1 1\n", "no column ImageID"),
        ("found", ",".join([*HEAD, "Score"]) + "\ni,cat,0,x,0,1,0.5\n", "not all numbers"),
        (
            "found",
            ",".join([*HEAD, "Score"]) + "\ni,dog,0,1,0,1,0.5\n",
            "no detection is of an image",
        ),
        ("labels", "ImageID,LabelName,Confidence\ni,cat,0.7\n", "not 0 or 1"),
        ("tree", '{"LabelName": "root", "Subcategory": [{"name": "cat"}]}', "not a tree"),
        (
            "tree",
            '{"LabelName": "root", "Subcategory": [{"LabelName": "lion"}]}',
            "none of the truth",
        ),
    ],
)
def test_wrong_files_are_refused_with_file_and_line(tmp_path, file, text, message):
    box = {"image": "i", "label": "cat", "box": [0, 0, 0.5, 0.5]}
    files = write(tmp_path, [{**box, "group": 0}], [{**box, "score": 0.5}], [("i", "cat", True)])
    path = next(each for each in files if each.stem == file)
    path.write_text(text)
    with pytest.raises(PermafrostError, match=message) as error:
        evaluate_open_images(*files[:2], image_labels=files[2], hierarchy=files[3])
    assert str(path) in str(error.value)
