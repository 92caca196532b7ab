"""What is said where a library of an extra is missing."""

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.extras import absent, explained, need


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setattr("permafrost.core.extras.find_spec", lambda name: None)
    monkeypatch.setenv("PERMAFROST_ENV", "cpu")


def test_what_is_missing_is_named_with_its_extra(no_torch):
    with pytest.raises(PermafrostError, match=r"'torch' is not .*: pip install 'permafrost\[work"):
        need("torch")
    assert absent("rasters") == ["rasterio"]


def test_the_error_of_an_import_is_explained_and_keeps_its_cause():
    with pytest.raises(PermafrostError, match=r"permafrost\[workflow\]") as caught, explained():
        raise ModuleNotFoundError("No module named 'timm.data'", name="timm.data")
    assert caught.value.__cause__.name == "timm.data"


def test_a_module_of_somebody_else_stays_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="theirs"), explained():
        raise ModuleNotFoundError("No module named 'theirs'", name="theirs")


def test_in_an_environment_of_its_own_the_lock_is_what_lacks_it(no_torch, monkeypatch):
    monkeypatch.setenv("PERMAFROST_ENV", "terratorch")
    with pytest.raises(PermafrostError, match=r"add it to envs/terratorch\.in"):
        need("torchgeo")
