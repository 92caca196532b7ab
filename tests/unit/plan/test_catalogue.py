from __future__ import annotations

from copy import deepcopy

import pytest
from helpers.project import REPOSITORY
from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.plan.catalogue import Catalogue, catalogue_folders, read_yaml, result_fields
from permafrost.plan.validation import validate
from permafrost.report.material.dataset import slug

PLACE = "permafrost.plan.catalogue"


@pytest.fixture
def folder(tmp_path):
    """A function that writes files of a catalogue and returns its folder."""

    def write(**files: str):
        (tmp_path / "backbones").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / "backbones" / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def catalogue(folder, **extra) -> Catalogue:
    return Catalogue("backbone", [folder], extra)


def test_entries_come_from_all_files_and_from_the_configuration(folder):
    known = catalogue(
        folder(a="rcf: {kind: rcf}", b="stats: {kind: imagestats}"), own={"kind": "rcf"}
    )
    assert list(known.choose(["all"])) == ["own", "rcf", "stats"]
    assert list(known.choose(["stats", "own"])) == ["stats", "own"]


def test_a_valid_entry_is_checked_once_and_a_wrong_one_is_refused_each_time(folder, monkeypatch):
    known = catalogue(folder(a="rcf: {kind: rcf}\nwrong: {kind: rcf, sise: 3}"))
    checked = []
    monkeypatch.setattr(
        "permafrost.plan.catalogue.validate",
        lambda entry, kind, where: checked.append(where) or validate(entry, kind, where=where),
    )
    assert known.entry("rcf") is known.entry("rcf")
    assert len(checked) == 1
    for _ in range(2):
        with pytest.raises(PermafrostError, match="sise: unknown key"):
            known.entry("wrong")


@pytest.mark.parametrize("kind", ["backbone", "dataset"])
def test_entries_of_the_workflow_are_the_same_from_its_kept_ones(kind, monkeypatch, tmp_path):
    def read(root) -> dict:
        known = Catalogue(kind, [HOME / "config"], {}, root)
        names = known.names(["all"])
        return {name: (deepcopy(known.written(name)), known.entry(name)) for name in names}

    Catalogue(kind, [HOME / "config"], {})
    roots = (HOME, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(f"{PLACE}.validate", None)
        kept = [read(root) for root in roots]
    monkeypatch.setattr(f"{PLACE}._kept", lambda *_: None)
    assert kept == [read(root) for root in roots]


def test_own_entries_are_checked_again_when_they_change(monkeypatch, tmp_path):
    (tmp_path / "catalogue.py").touch()
    (tmp_path / "__pycache__").mkdir()
    file = tmp_path / "config" / "backbones" / "a.yaml"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(f"{PLACE}.HOME", tmp_path)
    monkeypatch.setattr(f"{PLACE}.__file__", str(tmp_path / "catalogue.py"))

    def entry(text: str) -> dict:
        file.write_text(text)
        return catalogue(tmp_path / "config").entry("a")

    assert entry("a: {kind: rcf}")["features"] == 512
    assert entry("a: {kind: rcf, features: 8}")["features"] == 8
    # an invalid entry is refused when it is asked for, and alone
    for _ in range(2):
        with pytest.raises(PermafrostError, match="sise: unknown key"):
            entry("a: {kind: rcf, sise: 3}")
        assert catalogue(tmp_path / "config", b={"kind": "rcf"}).entry("b")["features"] == 512
    (kept,) = (tmp_path / "__pycache__").iterdir()
    for damage in (b"", b"?", kept.read_bytes()[:-9]):
        entry("a: {kind: rcf, features: 8}")
        kept.write_bytes(damage)
        assert entry("a: {kind: rcf, features: 8}")["features"] == 8


def test_a_catalogue_that_is_named_twice_is_read_once(tmp_path):
    (tmp_path / "own").mkdir()
    named = ["{permafrost}/config", "own", "./own", str(tmp_path / "own")]
    folders = catalogue_folders({"catalogues": named}, tmp_path)
    assert folders == [HOME / "config", tmp_path / "own"]
    both = catalogue_folders({"catalogues": ["{permafrost}/config", "config"]}, HOME)
    assert both == [HOME / "config"]
    assert catalogue_folders({}, tmp_path) == [tmp_path / "config"]


def test_places_beside_the_workflow_are_found_from_any_project(folder, tmp_path):
    text = (
        'own: {kind: entrypoint, entrypoint: "{permafrost}/a.py:build", files: ["{permafrost}/b"]}'
    )
    folders = [folder(a=text)]
    entry = Catalogue("backbone", folders, {}, tmp_path).entry("own")
    assert (entry["entrypoint"], entry["files"]) == (f"{HOME}/a.py:build", [f"{HOME}/b"])
    # in a clone that is the project, the place does not change when it is moved
    assert Catalogue("backbone", folders, {}, HOME).entry("own")["entrypoint"] == "./a.py:build"


def test_files_may_end_in_yml(folder):
    (folder() / "backbones" / "more.yml").write_text("rcf: {kind: rcf}")
    assert list(catalogue(folder()).choose(["all"])) == ["rcf"]


def test_an_entry_is_completed_with_defaults(folder):
    assert catalogue(folder(a="rcf: {kind: rcf}")).entry("rcf")["features"] == 512


def test_an_empty_file_holds_no_entries(folder):
    assert catalogue(folder(a="# nothing yet\n")).choose(["all"]) == {}


def test_an_unknown_name_is_answered_with_near_ones(folder):
    known = catalogue(folder(a="imagestats: {kind: imagestats}"))
    with pytest.raises(PermafrostError, match="did you mean 'imagestats'") as caught:
        known.choose(["imagestat"])
    assert "extra_backbones" in caught.value.remedy


def test_all_cannot_be_mixed_with_names_nor_be_a_name(folder):
    known = catalogue(folder(a="rcf: {kind: rcf}"))
    with pytest.raises(PermafrostError, match="no backbone 'all'"):
        known.choose(["all", "rcf"])
    with pytest.raises(PermafrostError, match="'all' is not a valid name for a backbone"):
        catalogue(folder(), all={"kind": "rcf"})


def test_a_name_defined_twice_names_both_places(folder):
    with pytest.raises(PermafrostError, match=r"also defined in .*one\.yaml") as caught:
        catalogue(folder(one="rcf: {kind: rcf}", two="rcf: {kind: rcf}"))
    assert caught.value.where.endswith("two.yaml")
    with pytest.raises(PermafrostError, match=r"also defined in .*one\.yaml") as caught:
        catalogue(folder(two=""), rcf={"kind": "rcf"})
    assert "extra_backbones" in caught.value.where


@pytest.mark.parametrize(
    "name", ["ResNet50", "a__b", "_a", "a_", "-a", "a b", "a/b", "1.5", "'a.b'", "''"]
)
def test_a_name_must_be_fit_for_file_names_and_wildcards(folder, name):
    with pytest.raises(PermafrostError, match="is not a valid name for a backbone") as caught:
        catalogue(folder(a=f"{name}: {{kind: rcf}}"))
    assert caught.value.where.endswith("a.yaml")


@pytest.mark.parametrize("name", ["a_b", "resnet50_s2_v1", "a-_b", "0_1-2"])
def test_names_may_hold_single_underscores(folder, name):
    assert list(catalogue(folder(a=f"{name}: {{kind: rcf}}")).choose(["all"])) == [name]
    # names of figures are joined by '__', so that this must stand in no name and at no end of one
    drawn = "__".join(["dotplot", slug(name), slug(name)])
    assert drawn.split("__") == ["dotplot", name, name]


def test_a_wrong_entry_names_its_file_and_itself(folder):
    known = catalogue(folder(a="rcf: {kind: rcf, featurs: 3}"))
    with pytest.raises(PermafrostError, match="did you mean 'features'") as caught:
        known.entry("rcf")
    assert caught.value.where.endswith("a.yaml: rcf")


def test_a_wrong_entry_does_not_stop_the_work_on_others(folder):
    known = catalogue(folder(a="bad: {kind: nothing}\nrcf: {kind: rcf}"))
    assert list(known.choose(["rcf"])) == ["rcf"]


@pytest.mark.parametrize("entry", ["", "[1, 2]", "text"])
def test_an_entry_must_be_a_mapping(folder, entry):
    with pytest.raises(PermafrostError, match="must be a mapping"):
        catalogue(folder(a=f"rcf: {entry}")).entry("rcf")


@pytest.mark.parametrize(
    "value", ["2020-01-31", ".nan", ".inf", "!!binary aGk=", "!!set {a, b}", "{1: a, '1': b}"]
)
def test_values_that_cannot_identify_a_result_are_refused_by_entry(folder, value):
    text = f"net: {{kind: timm, model: m, weights: {{source: random}}, options: {{a: {value}}}}}"
    with pytest.raises(PermafrostError) as caught:
        catalogue(folder(a=text)).entry("net")
    assert caught.value.where.endswith("a.yaml: net")
    assert caught.value.remedy


def test_a_catalogue_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist") as caught:
        catalogue(tmp_path / "confg")
    assert caught.value.where.endswith("confg")


# --- YAML -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["a: 1\nb: 2\na: 3", "x: {a: 1, a: 1}", "x: [{a: 1, 'a': 2}]", "x: {1: a, 0x1: b}"],
    ids=["top level", "nested", "in a list", "another notation"],
)
def test_a_key_written_twice_is_refused(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(PermafrostError, match=r"is written twice.*line \d") as caught:
        read_yaml(tmp_path / "a.yaml")
    assert caught.value.where == str(tmp_path / "a.yaml")


def test_merged_mappings_may_be_overridden(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "base: &base {kind: rcf, seed: 0}\n"
        "one: &one {<<: *base, seed: 1}\n"
        "deep: {inner: {<<: *one, seed: 2}, copy: *one}\n"
    )
    assert read_yaml(tmp_path / "a.yaml") == {
        "base": {"kind": "rcf", "seed": 0},
        "one": {"kind": "rcf", "seed": 1},
        "deep": {"inner": {"kind": "rcf", "seed": 2}, "copy": {"kind": "rcf", "seed": 1}},
    }


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['touch {place}']",
        "a: !!python/name:os.system",
        "!!python/object/apply:os.system ['touch {place}']: 1",
    ],
)
def test_yaml_never_runs_code(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text.format(place=tmp_path / "touched"))
    with pytest.raises(PermafrostError, match="cannot be read as YAML"):
        read_yaml(tmp_path / "a.yaml")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("content", [b"a: [1", b"a: b: c", b"a: \xff\xfe", b"a: 1\n--- \nb: 2"])
def test_text_that_is_no_yaml_names_the_file(tmp_path, content):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(PermafrostError, match="cannot be read as YAML") as caught:
        read_yaml(tmp_path / "a.yaml")
    assert caught.value.where == str(tmp_path / "a.yaml")


def test_a_list_is_no_catalogue(tmp_path):
    (tmp_path / "a.yaml").write_text("- rcf")
    with pytest.raises(PermafrostError, match="mapping of names"):
        read_yaml(tmp_path / "a.yaml")


def test_descriptions_and_runtime_are_no_part_of_the_identity():
    entry = {"kind": "rcf", "seed": 1}
    about = {"year": 2021, "parameters": 5, "trained_on": ["dota"], "images_of": ["dota"]}
    described = {**entry, **about, "title": "T", "citation": "C", "runtime": {"batch_size": 3}}
    assert result_fields(described) == entry


def test_images_of_datasets_are_of_collections_that_a_backbone_was_trained_on():
    """Else no backbone is marked, for example because two entries spell one name differently."""
    known = {kind: Catalogue(kind, [REPOSITORY / "config"], {}) for kind in ("dataset", "backbone")}
    trained, named = (
        {
            name
            for entry in known[kind].names(["all"])
            for name in known[kind].entry(entry).get(key, [])
        }
        for kind, key in (("backbone", "trained_on"), ("dataset", "images_of"))
    )
    assert named and named - trained == set()
