"""A Snakefile that names a hosted workflow: what Snakemake's catalogue and snakedeploy write, and module statements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers import forked
from helpers.file_server import Served, file_server
from helpers.project import BASE, REPOSITORY, TINY

#: what `github(…)` reads of a repository
HOSTED = [
    Path("Snakefile"),
    Path("workflow/Snakefile"),
    *(p.relative_to(REPOSITORY) for p in sorted((REPOSITORY / "workflow/rules").glob("*.smk"))),
    Path("workflow/report/workflow.rst"),
]
OWN = {
    **BASE,
    "catalogues": ["{permafrost}/config"],
    "backbones": ["imagestats"],
    **{key: TINY[key] for key in ("datasets", "extra_datasets", "runtime")},
    "probes": {"knn": {"kind": "knn"}},
}
PLAIN = ("-m", "snakemake")
CONFIGFILE = 'configfile: "config/config.yaml"\n'
# as `snakedeploy deploy-workflow` 0.17 writes it
MODULE = """
module permafrost:
    snakefile:
        {snakefile}
    config:
        {config}
{more}

use rule * from permafrost{renamed}
"""
# hides the package, as an environment that has Snakemake only
WITHOUT_PACKAGE = """
import sys
from pathlib import Path
sys.path = [p for p in sys.path if not (Path(p or ".") / "permafrost").is_dir()]
sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f)]
from snakemake.cli import main
main()
"""


@pytest.fixture(scope="module")
def served():
    with file_server() as server:
        for name in HOSTED:
            server.files[f"/permafrost/{name}"] = Served((REPOSITORY / name).read_bytes())
        yield server


def _project(folder, snakefile: str, *, head=CONFIGFILE, config="config", more="", renamed=""):
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.yaml").write_text(yaml.safe_dump(OWN))
    text = head + MODULE.format(snakefile=snakefile, config=config, more=more, renamed=renamed)
    (folder / "Snakefile").write_text(text)
    return folder


def _url(served) -> str:
    return f'"{served.url}/permafrost/Snakefile"'


def _snakemake(folder, *options: str, python=PLAIN, **environment: str):
    command = [sys.executable, *python, "--cores", "2", *options]
    environment = {**os.environ, **environment}
    environment.pop("SNAKEMAKE_PROFILE", None)
    if "-n" in options and python == PLAIN:
        environment["PYTHONPATH"] = str(REPOSITORY / "workflow")
        return forked.snakemake(["--cores", "2", *options], folder, environment, timeout=900)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


def _refused(done) -> str:
    """The one line of the error."""
    assert done.returncode, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and ", line " not in done.stderr, done.stderr
    (line,) = [one for one in done.stderr.splitlines() if "permafrost: error" in one]
    return line


@pytest.mark.slow
def test_a_hosted_module_runs_with_the_installed_package(tmp_path, served):
    folder = _project(tmp_path / "own", _url(served))
    done = _snakemake(folder, "all", "archive")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "imagestats" in (folder / "results/leaderboard.csv").read_text()
    assert list((folder / "results/archive").glob("*.zip"))
    again = _snakemake(folder, "-n")
    assert "Nothing to be done" in again.stdout + again.stderr
    command = [sys.executable, "-m", "permafrost.stages.cli", "stale"]
    stale = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "everything" in stale.stdout, stale.stdout + stale.stderr


def test_what_snakedeploy_writes_is_planned_through_github(tmp_path):
    """`github(…)` as Snakemake resolves it, whose copy of the repository is in its cache already."""
    folder, cache = tmp_path / "deployed", tmp_path / "cache"
    for name in ("config", "profiles"):
        shutil.copytree(REPOSITORY / name, folder / name)
    (folder / "workflow").mkdir()
    source = 'github("some/permafrost", path="workflow/Snakefile", tag="v0")'
    text = CONFIGFILE + MODULE.format(snakefile=source, config="config", more="", renamed="")
    (folder / "workflow/Snakefile").write_text(text)
    copy = cache / "snakemake/snakemake/source-cache/snakemake-git-cache/github.com/some/permafrost"
    _bare_repository(tmp_path / "origin", copy)
    done = _snakemake(folder, "-n", XDG_CACHE_HOME=str(cache))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo-landcover" in done.stdout + done.stderr


def _bare_repository(origin: Path, copy: Path) -> None:
    for name in HOSTED:
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, origin / name)
    me = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for command in (("init",), ("add", "-A"), (*me, "commit", "-m", "x"), ("tag", "v0")):
        subprocess.run(["git", *command], cwd=origin, check=True, capture_output=True)
    copy.parent.mkdir(parents=True)
    clone = ["git", "clone", "--bare", str(origin), str(copy)]
    subprocess.run(clone, check=True, capture_output=True)


def test_without_the_package_one_sentence_says_what_to_install(tmp_path, served):
    folder = _project(tmp_path / "own", _url(served))
    line = _refused(_snakemake(folder, "-n", python=("-c", WITHOUT_PACKAGE)))
    assert 'pip install "permafrost[workflow]"' in line and "permafrost init" in line
    assert served.url in line


@pytest.mark.parametrize("name", ["Snakefile", "workflow/rules/report.smk"])
def test_a_hosted_workflow_of_another_version_is_refused(tmp_path, served, name):
    path = f"/permafrost/{name}"
    before = served.files[path]
    served.files[path] = Served(before.content + b"\n# of another version\n")
    try:
        line = _refused(_snakemake(_project(tmp_path / "own", _url(served)), "-n"))
    finally:
        served.files[path] = before
    assert "another version" in line and f"{name} differs" in line and "tag" in line


@pytest.mark.parametrize(
    ("hosted", "more", "renamed", "said"),
    [
        (True, '    prefix:\n        "sub"', "", "`results: sub/results`"),
        (False, '    prefix:\n        "sub"', "", "`results: sub/results`"),
        (False, '    replace_prefix:\n        {"results/": "out/"}', "", "`results: out`"),
        (True, "", " as pf_*", "use rule * from permafrost"),
    ],
)
def test_a_module_statement_that_moves_or_renames_is_refused(
    tmp_path, served, hosted, more, renamed, said
):
    source = _url(served) if hosted else f'"{REPOSITORY}/Snakefile"'
    folder = _project(tmp_path / "own", source, more=more, renamed=renamed)
    assert said in _refused(_snakemake(folder, "-n"))
    assert not (folder / "results").exists()


def test_the_configuration_of_the_module_statement_counts(tmp_path, served):
    """Keys of the file beside it belong to the Snakefile of the user."""
    own = {key: value for key, value in OWN.items() if key != "backbones"}
    folder = _project(tmp_path / "own", _url(served), config='config["features"]')
    other = {"backbones": ["of another workflow"], "features": {**own, "backbones": ["rcf"]}}
    (folder / "config/config.yaml").write_text(yaml.safe_dump(other))
    done = _snakemake(folder, "-n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "results/features/tiny-landcover/rcf" in done.stdout + done.stderr
