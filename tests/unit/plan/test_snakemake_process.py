"""What planning is spared: look-ups of parameters, and options of the run that no command has."""

import inspect
import re
from pathlib import Path

import pytest
from permafrost.plan.snakemake_process import asked_often
from snakemake.common import get_function_params, get_input_function_aux_params
from snakemake.resources import Resource

RULES = Path(__file__).resolve().parents[3] / "workflow/rules"
OPTIONS = {"plan", "results", "data", "device"}


def test_parameters_are_looked_up_once(monkeypatch):
    function = asked_often(lambda wildcards, attempt, *, input=None: (wildcards, attempt))
    assert list(get_function_params(function)) == ["wildcards", "attempt", "input"]
    given = {"attempt": 2, "threads": 1}
    monkeypatch.setattr(inspect, "signature", pytest.fail)
    assert get_input_function_aux_params(function, given) == {"attempt": 2}
    # a resource that grows with attempts gets all there is, and passes on what its function takes
    resource = Resource("mem_mb", function)
    assert get_input_function_aux_params(resource.evaluate, given) == given
    assert function("here", **get_input_function_aux_params(function, given)) == ("here", 2)


def _bodies() -> dict[str, str]:
    """Every rule that writes its own parameters, and its text."""
    found = {}
    for file in sorted(RULES.glob("*.smk")):
        for text in re.split(r"(?m)^(?=(?:use )?rule )", file.read_text())[1:]:
            if "of_run(" in text:
                found[text.partition(":")[0]] = text
    return found


@pytest.mark.parametrize("rule", _bodies())
def test_rules_name_the_options_of_the_run_that_their_commands_have(rule):
    bodies = _bodies()
    named = set(re.findall(r'"(\w+)"', re.search(r"of_run\(([^)]*)\)", bodies[rule])[1]))
    # a rule made of another one has its command
    origin = re.match(r"use rule (\w+)", rule)
    command = bodies[f"rule {origin[1]}"] if origin else bodies[rule]
    assert named == {option for option in OPTIONS if f"{{params.{option}" in command}


def test_there_are_rules_to_look_at():
    assert len(_bodies()) > 10
