"""What a job is told: a misspelt or missing key fails at the stage's door, in one sentence."""

from __future__ import annotations

import json

import pytest
from helpers.stages.specifications import extraction_of, specification
from permafrost.core.errors import PermafrostError
from permafrost.plan.sources import code_hash
from permafrost.stages.cli import main

BOOTSTRAP = {
    "stage": "bootstrap",
    "dataset": "d",
    "options": {"resamples": 20, "confidence": 0.95, "seed": 0},
    "inputs": {"predictions": "f"},
}
EXTRACT = {
    "stage": "extract",
    "dataset": "d",
    "backbone": "net",
    "entry": {"kind": "imagestats"},
    "extraction": extraction_of(),
    "inputs": {"images": "f"},
}


def test_a_specification_has_its_parts_as_dataclasses():
    told = specification(EXTRACT)
    assert (told.inputs.images, told.extraction.size, told.files) == ("f", 224, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**BOOTSTRAP, "datset": "d"}, "bootstrap: datset: unknown key, did you mean 'dataset'?"),
        ({**BOOTSTRAP, "inputs": {}}, "bootstrap: inputs: missing key 'predictions'"),
        (
            {**BOOTSTRAP, "inputs": "f"},
            "bootstrap: inputs: must be a mapping (key: value), not the text 'f'",
        ),
        (
            {**EXTRACT, "extraction": extraction_of(precison="fp32")},
            "extract: extraction.precison: unknown key, did you mean 'precision'?",
        ),
    ],
)
def test_a_misspelt_or_missing_key_is_named_with_its_place(content, message):
    with pytest.raises(PermafrostError) as caught:
        specification(content)
    assert message in str(caught.value)


def test_a_command_refuses_what_is_not_its_specification(capsys, tmp_path):
    told = {**BOOTSTRAP, "backbone": "b", "task": "classification"}
    options = ["--predictions", str(tmp_path), "--output", str(tmp_path / "o")]
    options += ["--code", code_hash("bootstrap", told)]
    for spec, message in (
        (json.dumps(told), "spec of the bootstrap job: missing keys 'probe', 'seed'"),
        ("{'stage': 'bootstrap'}", "--spec: is not valid JSON"),
    ):
        assert main(["bootstrap", "--spec", spec, *options]) == 1
        assert message in capsys.readouterr().err
