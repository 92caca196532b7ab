"""``permafrost new dataset`` on several dates of a place: pairs, and series."""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.proposal.entry import draft_of
from permafrost.data.sources import open_source, read_entry
from permafrost.plan.validation import validate
from permafrost.stages.cli import main
from PIL import Image

DATES = ("2019-05-01", "20190611", "2019_07_21")


def files(folder: Path, names) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        flat = "mask" in name or "label" in name or "gt" in name.lower()
        shape = (16, 16) if flat else (16, 16, 3)
        values = np.random.default_rng(number).integers(0, 2 if flat else 256, shape, np.uint8)
        Image.fromarray(values).save(path)
    return folder


def many(pattern: str, *words: str, count: int = 8) -> list[str]:
    return [pattern.format(word, number) for word, number in product(words, range(count))]


def opened(draft):
    """The source of a draft, as a job opens it, and its first sample."""
    fields = {"task": draft.task, "source": draft.source, **draft.fields, "splits": draft.splits}
    entry = copy.deepcopy(fields)
    validate(entry, "dataset", where="here")
    source = open_source(read_entry(entry, where="here"), where="here")
    return source, source.records()[0]


# files -> where the draft finds the images before and after, and the masks
PAIRS = {
    "LEVIR": (many("{}/{}.png", "A", "B", "label"), "A/<stem>.png", "B/<stem>.png", "label/<stem>.png"),
    "with splits": (
        many("train/{}/{}.png", "A", "B", "label") + many("test/{}/{}.png", "A", "B", "label"),
        "<split>/A/<stem>.png", "<split>/B/<stem>.png", "<split>/label/<stem>.png",
    ),
    "splits inside": (
        many("{}/train/a_{}.png", "A", "B", "label") + many("{}/test/a_{}.png", "A", "B", "label"),
        "A/<split>/a_<stem>.png", "B/<split>/a_<stem>.png", "label/<split>/a_<stem>.png",
    ),
    **{
        f"{before}, {after}": (
            many("{}/{}.png", before, after, label),
            f"{before}/<stem>.png", f"{after}/<stem>.png", f"{label}/<stem>.png",
        )
        for before, after, label in (
            ("before", "after", "mask"), ("t1", "t2", "change_label"), ("T1", "T2", "GT"),
            ("imgs_1", "imgs_2", "labels"), ("2006", "2012", "labels"),
        )
    },
    "twice": (
        [f"{w}/{n}_{w}.png" for n in range(8) for w in ("before", "after")] + many("{}/{}.png", "label"),
        "before/<stem>_before.png", "after/<stem>_after.png", "label/<stem>.png",
    ),
    "endings": (
        [f"{n}_{word}.png" for n in range(8) for word in ("A", "B", "mask")],
        "<stem>_A.png", "<stem>_B.png", "<stem>_mask.png",
    ),
    "years before": (
        [f"{word}_{n}.png" for n in range(8) for word in ("2019", "2020", "label")],
        "2019_<stem>.png", "2020_<stem>.png", "label_<stem>.png",
    ),
    "years after": (
        [f"p{n}_{word}.png" for n in range(8) for word in ("2019", "2020", "label")],
        "<stem>_2019.png", "<stem>_2020.png", "<stem>_label.png",
    ),
    "numbers": (
        [f"{word}_p{n}.png" for n in range(8) for word in ("1", "2", "label")],
        "1_<stem>.png", "2_<stem>.png", "label_<stem>.png",
    ),
    "classes": (
        [f"{c}/{n}/{d}.png" for c in ("burnt", "same") for n in range(4) for d in ("before", "after")],
        "<class>/<place>/before.png", "<class>/<place>/after.png", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("names", "before", "after", "masks"), PAIRS.values(), ids=PAIRS)
def test_two_dates_of_places_are_pairs(names, before, after, masks, tmp_path):
    draft = draft_of(files(tmp_path, names), where="here")
    assert draft.task == ("change" if masks else "classification")
    assert draft.fields["dates"] == "pair" and draft.fields["classes"][1] != "B"
    assert draft.source["images"] == [before, after] and draft.source.get("masks") == masks
    source, record = opened(draft)
    assert len(source.records()) == len(names) // (3 if masks else 2)
    # the one before is the first of the two
    (place,) = [name for name in names if name.endswith(record.sample_id)]
    pixels = np.asarray(Image.open(tmp_path / place)).transpose(2, 0, 1)
    np.testing.assert_array_equal(source.decode(0).image[0], pixels)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (many("{}/{}.png", "im1", "im2", "label1", "label2"), "several masks of each, such as"),
        (many("{}/{}.png", "pre-event", "post-event"), "no label of the change for 8"),
        (
            [f"images/x_{n}_{w}_disaster.png" for n in range(8) for w in ("pre", "post")],
            "no label of the change for 8",
        ),
    ],
)
def test_pairs_that_no_entry_reads_are_named(names, words, tmp_path):
    with pytest.raises(PermafrostError, match=f"8 pairs of two dates, such as .* {words}"):
        draft_of(files(tmp_path, names), where="here")


def test_a_table_of_two_dates_is_none_of_single_images(tmp_path):
    files(tmp_path, many("{}/{}.png", "x", "y"))
    rows = "".join(f"x/{n}.png,y/{n}.png,{'ab'[n % 2]}\n" for n in range(8))
    (tmp_path / "all.csv").write_text(f"image_1,image_2,label\n{rows}")
    draft = draft_of(tmp_path, where="here")
    assert draft.source["path"] == ["image_1", "image_2"] and draft.fields["dates"] == "pair"
    assert opened(draft)[0].decode(0).image.shape == (2, 3, 16, 16)
    # a second column of files that is no date
    (tmp_path / "all.csv").write_text(f"image,preview,label\n{rows}")
    assert draft_of(tmp_path, where="here").source["path"] == "image"


@pytest.mark.parametrize(
    "names",
    [
        many("{}/{}.png", "A", "B", "C"),
        many("{}/{}.png", "1", "2"),
        many("old/{}_{}.png", "a") + many("new/{}_{}.png", "b"),
        [f"{c}/{w}_p{n}.png" for c in ("water", "field") for w in ("t1", "t2") for n in range(8)],
    ],
)
def test_classes_that_are_called_as_dates_stay_classes(names, tmp_path):
    draft = draft_of(files(tmp_path, names), where="here")
    assert draft.task == "classification" and "group" not in draft.source


SERIES = {
    "{c}/{p}/{d}.png": "<class>/<place>/<date>.png",
    "{c}/{d}/{p}.png": "<class>/<date>/<place>.png",
    "{c}/S2_{d}_{p}.png": "<class>/S2_<date>_<place>.png",
    "top/{c}/{p}/img_{d}.png": "<class>/<place>/img_<date>.png",
    # one of the dates has the character that ends the place
    "{c}/{p}_{d}.png": "<class>/<place>_<date>.png",
    # nothing is between a date and the place after it
    "{c}/{d}{p}.png": None,
}


@pytest.mark.parametrize(("pattern", "images"), SERIES.items())
def test_dates_of_a_place_are_one_sample_or_one_group(pattern, images, tmp_path):
    classes = ("field", "water")
    names = {
        pattern.format(c=c, p=f"p{n}{c[0]}", d=d): f"p{n}{c[0]}"
        for c in classes for n in range(8) for d in DATES
    }  # fmt: skip
    draft = draft_of(files(tmp_path, names), where="here")
    assert draft.task == "classification" and draft.fields["classes"] == [*classes]
    assert draft.source.get("images") == images
    source, _ = opened(draft)
    if images is not None:
        assert draft.fields["dates"] == "series" and len(source.records()) == 16
        assert source.decode(0).image.shape == (3, 3, 16, 16)
        assert source.decode(0).dates == (("2019-05-01", "2019-06-11", "2019-07-21"),)
        return
    assert draft.splits == {"method": "group"}
    groups = {record.sample_id: record.group_id for record in source.records()}
    # dates of a place share a group, and no two places do
    both = {*zip(groups.values(), (names[name] for name in groups), strict=True)}
    assert len({*groups.values()}) == len(both) == 16


def test_check_takes_series(tmp_path, monkeypatch):
    files(
        tmp_path / "files", [f"{c}/p{n}{c}/{d}.png" for c in "ab" for n in range(8) for d in DATES]
    )
    output = tmp_path / "mine.yaml"
    assert (
        main(["new", "dataset", str(tmp_path / "files"), "--name", "mine", "--output", str(output)])
        == 0
    )
    assert "# several dates of a location are one sample, a series" in output.read_text()
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    assert (
        main(["check", "rcf", "--dataset", "mine", "--config", str(output), "--images", "2"]) == 0
    )


def test_places_are_no_classes(tmp_path):
    names = [f"p{n}/{d}.png" for n in range(8) for d in DATES]
    with pytest.raises(
        PermafrostError, match="holds series: each folder, such as p0.*the locations have no labels"
    ):
        draft_of(files(tmp_path, names), where="here")


def test_masks_of_several_dates(tmp_path):
    names = [f"{k}/p{n}_{d}.png" for k in ("images", "masks") for n in range(8) for d in DATES]
    draft = draft_of(files(tmp_path, names), where="here")
    assert draft.task == "segmentation" and draft.splits == {"method": "group"}


@pytest.mark.parametrize(
    ("header", "row", "group"),
    [
        ("file,label,plot", "{file},{label},{place}", "plot"),
        ("file,label,lon,lat", "{file},{label},{place}.5,47.5", "<lon>/<lat>"),
        ("file,label,date", "{file},{label},{date}", None),
    ],
)
def test_a_table_of_several_dates_names_the_place(header, row, group, tmp_path):
    rows = [
        row.format(file=f"{p}/{d}.png", label="ab"[p % 2], place=p, date="2019-05-01")
        for p in range(8) for d in DATES
    ]  # fmt: skip
    files(tmp_path, [one.partition(",")[0] for one in rows])
    (tmp_path / "all.csv").write_text("\n".join([header, *rows]))
    if group is None:
        with pytest.raises(PermafrostError, match="several dates of a place.*no column names"):
            draft_of(tmp_path, where="here")
        return
    draft = draft_of(tmp_path, where="here")
    assert draft.source["group"] == group and draft.splits == {"method": "group"}


def test_images_of_one_date_each_have_no_group(tmp_path):
    names = [f"{c}/{n}_20190501.png" for c in ("field", "water") for n in range(8)]
    names += [f"{c}/{n}_20190611.png" for c in ("field", "water") for n in range(8, 16)]
    draft = draft_of(files(tmp_path, names), where="here")
    assert "group" not in draft.source and draft.splits == {"method": "random"}


def test_pairs_of_which_some_are_in_sub_folders(tmp_path):
    names = [
        f"{w}/{sub}{n}.png" for w in ("A", "B", "label") for sub in ("", "more/") for n in range(4)
    ]
    draft = draft_of(files(tmp_path, names), where="here")
    assert draft.source["images"] == ["A/<stem>.png", "B/<stem>.png"]
    assert len(opened(draft)[0].records()) == 8


def test_a_row_without_a_file_is_no_date(tmp_path):
    names = [f"a_2019050{n + 1}.png" for n in range(6)]
    rows = [f"{'ab'[n % 2]},{name}" for n, name in enumerate(names)]
    (files(tmp_path, names) / "t.csv").write_text("\n".join(["label,file", *rows, "a"]))
    with pytest.raises(PermafrostError, match="no column names the location"):
        draft_of(tmp_path, where="here")


def test_pairs_without_a_pattern_for_each_date_are_refused(tmp_path):
    names = [f"{n}.{word}.{n}.png" for n in range(8) for word in ("2019", "2020")]
    names += [f"label/{n}.{n}.png" for n in range(8)]
    with pytest.raises(PermafrostError, match="fits only one of the two dates"):
        draft_of(files(tmp_path, names), where="here")
