"""What people expect around a project, held to the code: versions, forms, containers, the catalogue's rules."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import permafrost
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version_stands_everywhere():
    assert PROJECT["version"] == permafrost.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == permafrost.__version__
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", permafrost.__version__]


@pytest.mark.parametrize("form", FORMS, ids=[form.stem for form in FORMS])
def test_issue_forms_have_what_the_site_asks_for(form):
    content = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(content)
    kinds = {"textarea", "input", "dropdown", "checkboxes", "markdown"}
    for part in content["body"]:
        assert part["type"] in kinds and part["attributes"].get("label") and part["id"]
    ids = [part["id"] for part in content["body"]]
    assert len(ids) == len(set(ids))


def test_the_public_tests_run_the_same_script():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_hooks_run_programs_of_the_environment():
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            assert hook["entry"].startswith("envs/run ") and hook["language"] == "system"


def test_what_snakemakes_catalogue_of_workflows_asks_for_is_there():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) <= {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["software-stack-deployment"]) == {"conda", "apptainer"}
    for name in ("README.md", "LICENSE", "config/README.md", "Snakefile", "workflow/Snakefile"):
        assert (ROOT / name).is_file(), name


def test_containers_pin_their_base_and_install_from_the_lock():
    docker = (ROOT / "containers/Dockerfile").read_text()
    assert re.search(r"^FROM python:3\.12-[\w-]+$", docker, flags=re.MULTILINE)
    # what is installed runs without root
    assert docker.index("USER permafrost") < docker.index("envs/run true")
    apptainer = (ROOT / "containers/permafrost.def").read_text()
    assert re.search(r"^From: python:3\.12-[\w-]+$", apptainer, flags=re.MULTILINE)
    for text in (docker, apptainer):
        assert "envs/run true" in text and "pip install" not in text


def test_type_checkers_are_told_that_there_are_types():
    assert (Path(permafrost.__file__).parent / "py.typed").is_file()
