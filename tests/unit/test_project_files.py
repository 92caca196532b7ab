"""What people expect around a project, held to the code: versions, forms, containers, the catalogue's rules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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


def test_codemeta_says_what_the_project_and_its_citation_say():
    about = json.loads((ROOT / "codemeta.json").read_text())
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert about["version"] == PROJECT["version"] and about["description"] == PROJECT["description"]
    assert about["license"].rpartition("/")[2] == PROJECT["license"] == cited["license"]
    assert [one["name"] for one in about["author"]] == [one["name"] for one in cited["authors"]]
    assert about["keywords"] == cited["keywords"]
    assert about["programmingLanguage"][0]["version"] == PROJECT["requires-python"]
    assert f"Topic :: {about['applicationCategory']}" in PROJECT["classifiers"]


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


def test_a_release_needs_no_password_and_runs_the_script_that_anybody_can_run():
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in build
    # the job that may publish executes nothing of the repository
    assert publish["permissions"] == {"id-token": "write"}
    assert all("uses" in step and "run" not in step for step in publish["steps"])
    (run,) = [step for step in build["steps"] if "run" in step]
    script, *folders = run["run"].split()
    assert folders == ["dist", "sbom"] and os.access(ROOT / script, os.X_OK)
    assert "secrets" not in str(workflow) and "${{" not in run["run"]
    wrong = subprocess.run(
        [ROOT / script, "dist", "sbom"],
        env={**os.environ, "TAG": "v0"},
        capture_output=True,
        text=True,
    )
    assert wrong.returncode == 1 and "the tag v0 is not v" in wrong.stderr


def test_what_checks_a_pull_request_may_not_write_and_runs_nothing_of_it():
    workflow = yaml.safe_load((ROOT / ".github/workflows/submission.yml").read_text())
    check, comment = workflow["jobs"]["check"], workflow["jobs"]["comment"]
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in check
    heads = [step for step in check["steps"] if "head" in str(step.get("with", ""))]
    assert [step["with"]["path"] for step in heads] == ["proposed"]
    assert all(
        not step["with"]["persist-credentials"]
        for step in check["steps"]
        if "checkout" in str(step)
    )
    runs = [step["run"] for step in check["steps"] if "run" in step]
    assert runs == [
        "envs/run python .ci/submissions.py proposed/commons/submissions commons comments",
        "exit 1",
    ]
    # texts of others reach a shell as variables or files only
    assert "${{" not in "".join(
        step.get("run", "") for job in (check, comment) for step in job["steps"]
    )
    assert not any("checkout" in str(step) for step in comment["steps"])


def test_new_submissions_are_checked_and_refusals_fail(tmp_path):
    commons = tmp_path / "commons"
    shutil.copytree(ROOT / "commons", commons)
    shutil.copytree(commons / "submissions", tmp_path / "proposed")
    shutil.copytree(tmp_path / "proposed/first-results", tmp_path / "proposed/again")
    command = [sys.executable, str(ROOT / ".ci/submissions.py"), "proposed", "commons", "comments"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=False)
    assert done.returncode == 1
    said = (tmp_path / "comments/all.md").read_text()
    assert (
        said.count("### Refused") == 1
        and "name: again: submission.json has the name first-results" in said
    )


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
