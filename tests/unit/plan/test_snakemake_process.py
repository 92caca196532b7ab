"""What planning is spared: look-ups of parameters, and options of the run that no command has."""

import inspect
import logging
import re
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.plan.snakemake_process import Listed, asked_often, plain_errors
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


def test_an_error_ends_snakemake_with_its_sentence_alone(capsys):
    with pytest.raises(SystemExit) as ended, plain_errors():
        raise PermafrostError("no such size", where="config.yaml: size", remedy="give one")
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err == "permafrost: error: config.yaml: size: no such size. Remedy: give one\n"
    assert said.out == ""
    # every check that Snakemake's own files make stands inside of it
    for file in (RULES / "common.smk", RULES.parents[1] / "Snakefile"):
        text = file.read_text()
        assert "with plain_errors():" in text and "WorkflowError(" not in text


@pytest.mark.parametrize(("table_alone", "tables"), [(False, 1), (True, 2)])
def test_a_dry_run_says_its_table_of_jobs_once(table_alone, tables):
    listed, record = Listed(table_alone=table_alone), logging.makeLogRecord({"event": "run_info"})
    # Snakemake says it before and after the list, and before only where it is to be quiet
    assert [bool(listed.filter(record)) for _ in range(2)].count(True) == tables
    assert listed.filter(record)


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
