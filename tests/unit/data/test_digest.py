"""What a dataset stands on: content of files, listing of folders, and never the place."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.datasets.images import class_files, validated, write_folder, write_zip
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import merged
from permafrost.data.digest import source_digest, source_files, without_places
from permafrost.data.sources import KINDS
from permafrost.plan.validation import load_schema


def digest(entry: dict, *how) -> str:
    """`source_digest` of an entry as a job gets it."""
    return source_digest(validated(entry), *how)


def folder(path, **options):
    return {"task": "classification", "source": {"kind": "folder", "path": str(path), **options}}


def test_an_archive_counts_by_content_and_not_by_place_or_date(tmp_path):
    one = write_zip(tmp_path / "a.zip", class_files(count=2))
    before = digest(folder(one))
    moved = tmp_path / "elsewhere.zip"
    moved.write_bytes(one.read_bytes())
    assert digest(folder(moved)) == before
    data = bytearray(one.read_bytes())
    data[100] ^= 1
    one.write_bytes(data)
    assert digest(folder(one)) != before


def test_a_folder_counts_by_names_and_contents(tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=2))
    before = digest(folder(place))
    assert digest(folder(place)) == before
    (place / "field" / "new.png").write_bytes(b"x")
    added = digest(folder(place))
    (place / "field" / "new.png").rename(place / "field" / "other.png")
    renamed = digest(folder(place))
    (place / "field" / "other.png").write_bytes(b"y")
    assert len({before, added, renamed, digest(folder(place))}) == 4


@pytest.mark.parametrize("name", ["Thumbs.db", "field/.DS_Store", ".git/config", "__MACOSX/a.png"])
def test_files_that_no_reader_reads_do_not_count(tmp_path, name):
    place = write_folder(tmp_path / "set", class_files(count=2))
    before = digest(folder(place))
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_bytes(b"x")
    assert digest(folder(place)) == before


def test_files_that_are_no_images_count_unless_the_entry_ignores_them(tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=2))
    strict, lenient = folder(place), folder(place, other_files="ignore")
    before = digest(strict), digest(lenient)
    (place / "field" / "notes.txt").write_text("x")
    assert digest(strict) != before[0]
    assert digest(lenient) == before[1]
    (place / "field" / "more.PNG").write_bytes(b"x")
    assert digest(lenient) != before[1]


def test_what_lies_outside_of_the_root_does_not_count(tmp_path):
    place = write_folder(tmp_path / "set", {f"in/{k}": v for k, v in class_files(count=1).items()})
    before = digest(folder(place, root="in"))
    (place / "README.md").write_text("x")
    assert digest(folder(place, root="in")) == before


def test_places_leave_an_entry_and_can_be_put_back(tmp_path):
    source = {
        "kind": "coco",
        "path": "images",
        "annotations": {"train": "<path>/a.json", "val": "b.json"},
        "root": "<split>",
    }
    for entry in (
        {"task": "detection", "source": source},
        {"source": {"kind": "demo", "seed": 1}},
        {"source": {"kind": "torchgeo", "name": "X", "arguments": {"root": "r", "bands": [1]}}},
    ):
        known, places = without_places(entry)
        assert merged(known, places) == entry
    known, _ = without_places({"task": "detection", "source": source})
    assert known["source"]["annotations"] == {"train": "<path>/a.json", "val": None}
    assert "path" not in known["source"]


def test_options_of_the_source_count(tmp_path):
    place = write_folder(tmp_path / "set", class_files(count=1))
    assert digest(folder(place)) != digest(folder(place, root="field"))
    demo = [{"task": "classification", "source": {"kind": "demo", "seed": seed}} for seed in (0, 1)]
    assert digest(demo[0]) != digest(demo[1])


def test_a_table_counts_with_its_images_and_its_pattern(tmp_path):
    images = write_zip(tmp_path / "a.zip", class_files(count=1))
    index = tmp_path / "index.csv"
    index.write_text("file,kind\n000.png,field\n")
    source = {"kind": "table", "table": str(index), "images": str(images), "path": "<kind>/<file>"}
    entry = {"task": "classification", "source": source}
    assert source_files(entry) == [index, images]
    digests = {digest(entry), digest({**entry, "source": {**source, "path": "file"}})}
    index.write_text("file,kind\n000.png,town\n")
    digests.add(digest(entry))
    assert len(digests) == 3


def test_a_caller_may_remember_the_digest_of_a_file(tmp_path):
    entry = folder(write_zip(tmp_path / "a.zip", class_files(count=1)))
    asked = []
    digest(entry, lambda path, _: asked.append(path) or "known")
    assert asked == [tmp_path / "a.zip"]


def test_downloading_does_not_change_the_identity(tmp_path):
    arguments = {"root": str(tmp_path / "data"), "download": True}
    source = {"kind": "torchgeo", "name": "EuroSAT", "arguments": arguments}
    entry = {"task": "classification", "source": source}
    before = digest(entry)
    write_folder(tmp_path / "data", {"EuroSAT.zip": b"downloaded"})
    assert digest(entry) == before
    arguments["bands"] = ["B02"]
    assert digest(entry) != before


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist"):
        digest(folder(tmp_path / "nothing.zip"))


def test_every_kind_of_source_in_the_schema_declares_its_places():
    """Generated and downloaded data have none; a kind that reads the user's files has."""
    options = {
        case["if"]["properties"]["kind"]["const"]: load_schema("dataset")["$defs"][
            case["then"]["$ref"].rpartition("/")[2]
        ]["properties"]
        for case in load_schema("dataset")["properties"]["source"]["allOf"]
    }
    assert set(KINDS) == set(options)
    assert {kind for kind in KINDS if not KINDS[kind].places} == {"demo", "torchgeo"}
    for kind, places in ((name, known.places) for name, known in KINDS.items()):
        assert set(places) <= set(options[kind]), kind


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].places])
def test_the_content_of_every_place_counts(tmp_path, kind):
    places = {place: tmp_path / place for place in KINDS[kind].places}
    for path in places.values():
        path.write_bytes(b"one")
    source = {"kind": kind, **{place: str(path) for place, path in places.items()}}
    options = {
        "grid": {"size": 64},
        "tortilla": {"image": "s2"},
        "geobench": {"arrays": ["red"]},
    }
    needed = options.get(kind, {})
    entry = {"task": min(KINDS[kind].tasks), "source": {"path": "name", **needed, **source}}
    digests = [digest(entry)]
    for path in places.values():
        path.write_bytes(b"two")
        digests.append(digest(entry))
    assert len(set(digests)) == len(digests)


def test_an_unknown_kind_of_source_is_refused():
    with pytest.raises(PermafrostError, match="unknown kind of source 'folders'"):
        source_digest({"source": {"kind": "folders", "path": "data"}})


def test_it_is_light_to_import():
    code = (
        "import sys, permafrost.data.digest;"
        "print([m for m in ('numpy', 'pyarrow', 'zarr', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_catalogue_entry_follows_the_schema():
    import jsonschema
    import yaml

    repository = Path(__file__).parents[3]
    schema = yaml.safe_load((repository / "workflow/schemas/dataset.schema.yaml").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    names = []
    for file in sorted((repository / "config/datasets").glob("*.yaml")):
        for name, entry in yaml.safe_load(file.read_text()).items():
            assert not list(validator.iter_errors(entry)), name
            names.append(name)
    assert len(set(names)) == len(names) >= 21
    entry = {"task": "classification", "source": {"kind": "demo", "chip_sise": 64}}
    assert [e.message for e in validator.iter_errors(entry)]
