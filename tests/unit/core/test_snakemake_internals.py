"""Contracts with Snakemake: a test for each thing that Permafrost uses beyond the documented interface.

If a new release breaks one of them, correct the function of that name in `permafrost.core.snakemake_internals`.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from permafrost.core import snakemake_internals as internals
from snakemake.common import get_function_params, get_input_function_aux_params

ROOT = Path(__file__).resolve().parents[3]

#: prints in its hooks what the functions return of the real workflow
SNAKEFILE = """
import json, sys
from pathlib import Path
from permafrost.core import snakemake_internals as internals

internals.compare_every_record()
seen = {"files": list(map(str, internals.configuration_files(workflow)))}
value = Path("value").read_text()
compared = Path("compared").read_text()

def show(name):
    with open(name, "w") as stream:
        json.dump(seen, stream)

onstart:
    seen["to_run"] = sorted(job.rule.name for job in internals.jobs_to_run(workflow))
    seen["rules_to_run"] = sorted(internals.rules_to_run(workflow))
    seen["rules"] = sorted(internals.rules_of_run(workflow))
    (first,) = [job for job in internals.jobs_to_run(workflow) if job.rule.name == "first"] or [None]
    seen["dependent"] = sorted(job.rule.name for job in internals.dependent_jobs(workflow, first))
    seen["groups"] = sorted(internals.submitted_groups(workflow))
    seen["resources"] = [list(one) for one in internals.resources_set(workflow)]
    seen["inputs"] = list(internals.recorded_inputs(workflow, "b") or ())
    seen["storage"] = internals.default_storage(workflow)
    seen["first"] = [job.rule.name for job in internals.jobs_of_rules(workflow, ("first",))]
    internals.redirect_jobs(open("printed", "w"))
    show("started")

onerror:
    seen["failed"] = [job.rule.name for job in internals.failed_jobs(workflow)]
    seen["running"] = internals.is_running(workflow)
    show("failed")

rule all:
    input: "c"
rule first:
    output: "a"
    params: compared=compared, **internals.without_rerun(value=value, of=lambda wildcards: value)
    shell: "echo {params.value} {params.of} printed; touch {output}"
rule second:
    input: "a"
    output: "b"
    shell: "touch {output}"
def of_second(wildcards):
    if Path("lost").exists():
        internals.run_again(workflow, "b")
    return "b"

rule growing:
    output: "d", *(["e"] if Path("more").exists() else [])
    params: more=Path("more").exists()
    shell: "touch {output}"
rule third:
    input: of_second
    output: "c"
    shell: "test ! -e broken && touch {output}"
"""


class Run:
    """A workflow of three rules in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(Snakefile=SNAKEFILE, value="1", compared="1")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def seen(self, name: str) -> dict:
        import json

        return json.loads((self.folder / name).read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """The workflow after a run that was interrupted by a failure of its last rule, and one that was not."""
    run = Run(tmp_path_factory.mktemp("workflow"))
    run.write(broken="", **{"one.yaml": "x1: 1", "two.yaml": "x1: 2"})
    done = run(
        *("--configfile", "one.yaml", "two.yaml", "--groups", "first=g"),
        *("--set-resources", "first:gpu=1"),
    )
    assert done.returncode == 1, done.stderr
    return run


def test_configuration_files_are_in_the_order_in_which_they_count(run):
    assert [Path(file).name for file in run.seen("started")["files"]] == ["one.yaml", "two.yaml"]


def test_the_jobs_of_a_run_and_what_depends_on_them_are_known_when_it_starts(run):
    seen = run.seen("started")
    assert seen["to_run"] == seen["rules_to_run"] == ["all", "first", "second", "third"]
    assert seen["rules"] == seen["to_run"] and seen["dependent"] == ["second"]
    assert seen["first"] == ["first"]


def test_groups_and_resources_of_the_command_line_and_the_profile_are_known(run):
    seen = run.seen("started")
    assert seen["groups"] == ["first"] and seen["resources"] == [["gpu"]]


def test_jobs_that_failed_are_known_when_a_run_ends(run):
    assert run.seen("failed")["failed"] == ["third"] and run.seen("failed")["running"] is False


def test_commands_of_jobs_print_where_they_are_redirected_to(run):
    assert (run.folder / "printed").read_text() == "1 1 printed\n"


def test_without_a_provider_there_is_no_storage(run):
    assert run.seen("started")["storage"] == [None, ""]


def test_records_are_where_they_are_expected_and_name_the_inputs(run):
    records, lacking = internals.find_records(run.folder, ["a", "b", "no"])
    assert set(records) == {"a", "b"} and lacking == ["no"]
    made = internals.read_records(run.folder)["a"]
    assert "1" in made.fingerprints and 0 < made.start <= made.end
    # of the first run there was none
    assert run.seen("started")["inputs"] == []


def test_parameters_that_depend_on_output_rerun_nothing_and_others_do(run):
    (run.folder / "broken").unlink(missing_ok=True)
    assert run().returncode == 0
    assert run.seen("started")["inputs"] == ["a"]
    run.write(value="2")
    assert "Nothing to be done" in (done := run("-n")).stdout + done.stderr
    run.write(compared="2")
    assert "Params have changed" in run("-n").stdout


def test_a_job_that_gets_another_output_runs_again_also_for_the_old_one(run):
    assert run("d").returncode == 0
    assert "Nothing to be done" in (done := run("-n", "d")).stdout + done.stderr
    run.write(more="")
    assert "Params have changed" in run("-n", "d").stdout


def test_an_output_can_be_made_again_where_snakemake_misses_nothing(run):
    run.write(value="1", compared="1")
    run()
    assert "Nothing to be done" in (done := run("-n")).stdout + done.stderr
    run.write(lost="")
    said = run("-n").stdout
    (run.folder / "lost").unlink()
    assert "rule second" in said and "Forced execution" in said and "rule first" not in said


STORES = """
from pathlib import Path
from permafrost.core import snakemake_internals as internals

internals.spare_finished_jobs()
from snakemake.dag import DAG
once = DAG.update_needrun
internals.spare_finished_jobs()
assert DAG.update_needrun is once
given = {name: Path(name).read_text() for name in ("store", "reader", "late")}
started = []

def one_after_the_other(ready):
    jobs = sorted(ready, key=lambda job: (job.rule.name != "reader", str(job.output)))[:1]
    if internals.running_jobs(workflow):
        return []
    made = internals.jobs_of_rules(workflow, ("store",))
    left = sum(len(internals.readers_left(workflow, job)) for job in made)
    started.extend((str(job.output), left) for job in jobs)
    Path("started").write_text(str(started))
    return jobs

onstart:
    if Path("few").exists():
        internals.remove_after_use(internals.jobs_of_rules(workflow, ("store",)))
        internals.choose_among(workflow, one_after_the_other)

def again(wildcards):
    if Path("lacks").exists():
        internals.make_again(workflow, f"{wildcards.n}.zarr")
    return []

rule all:
    input: "summary"
rule summary:
    input: [f"{n}.{kind}" for n in (1, 2) for kind in ("read", *(["late"] if given["late"] else []))]
    output: "summary"
    params: job=list(given.items())
    shell: "cat {input} > {output}"
rule store:
    input: again
    output: directory("{n}.zarr")
    params: job=given["store"]
    shell: "mkdir {output} && echo {params.job} > {output}/values"
rule reader:
    input: "{n}.zarr"
    output: "{n}.read", touch("{n}.mask")
    params: job=(given["store"], given["reader"])
    shell: "cp {input}/values {output[0]}"
rule late:
    input: "{n}.zarr"
    output: "{n}.late"
    params: job=given["store"]
    shell: "cp {input}/values {output}"
"""


def to_run(stores: Run, *arguments: str) -> dict[str, int]:
    import re

    said = stores("-n", "--quiet", "host", *arguments)
    counts = dict(re.findall(r"^(\w+)\s+(\d+)\s*$", said.stdout + said.stderr, flags=re.MULTILINE))
    return {rule: int(count) for rule, count in counts.items() if rule not in ("all", "total")}


@pytest.fixture
def stores(tmp_path) -> Run:
    """Two stores, which were read by a job each and deleted."""
    run = Run(tmp_path)
    run.write(Snakefile=STORES, store="1", reader="1", late="")
    assert run().returncode == 0
    for name in ("1.zarr", "2.zarr"):
        shutil.rmtree(tmp_path / name)
    assert to_run(run) == {}
    return run


NEW = {"store": 2, "late": 2, "summary": 1}


def test_what_has_read_a_deleted_store_does_not_run_again_when_the_store_is_made_for_another_job(
    stores,
):
    stores.write(late="yes")
    assert to_run(stores) == NEW
    (stores.folder / "1.mask").unlink()
    assert to_run(stores) == NEW, "nobody asks for it"
    assert stores().returncode == 0
    # the stores are newer than what was read of them
    later = time.time() + 100
    for name in ("1.zarr", "2.zarr"):
        os.utime(stores.folder / name / "values", (later, later))
        os.utime(stores.folder / name / ".snakemake_timestamp", (later, later))
        os.utime(stores.folder / name, (later, later))
    assert to_run(stores) == {}
    os.utime(stores.folder / "1.read", (later + 9, later + 9))
    (stores.folder / "1.read").write_text("edited")
    os.utime(stores.folder / "1.read", (later + 9, later + 9))
    assert to_run(stores) == {"summary": 1}, (
        "of other files Snakemake compares the times and the bytes"
    )


def test_a_store_that_lacks_something_is_made_again_for_those_who_still_read_it_alone(stores):
    stores.write(late="yes")
    assert stores().returncode == 0
    stores.write(lacks="")
    assert to_run(stores) == {}
    stores.write(reader="2")
    assert to_run(stores) == {"store": 2, "reader": 2, "summary": 1}
    (stores.folder / "lacks").unlink()
    assert to_run(stores) == {"reader": 2, "summary": 1}


@pytest.mark.parametrize(
    ("change", "asked", "readers"),
    [
        ({"reader": "2"}, (), 2),
        ({"store": "2"}, (), 2),
        ({}, ("--forcerun", "store"), 2),
        ({}, ("--forcerun", "reader"), 2),
        ({}, ("--", "1.mask", "summary"), 1),
    ],
)
def test_what_has_read_it_runs_again_if_it_changed_was_forced_or_lost_an_output(
    stores, change, asked, readers
):
    stores.write(late="yes", **change)
    (stores.folder / "1.mask").unlink()
    assert to_run(stores, *asked) == {**NEW, "reader": readers}


def test_a_result_without_a_record_is_made_again_with_its_store(stores):
    shutil.rmtree(stores.folder / ".snakemake")
    (stores.folder / "summary").unlink()
    stores.write(late="yes")
    assert to_run(stores) == {**NEW, "reader": 2}


def test_outputs_go_after_use_and_jobs_start_as_they_are_chosen(stores):
    stores.write(late="yes", reader="2", few="")
    done = stores("--cores", "2")
    assert done.returncode == 0, done.stderr
    assert not list(stores.folder.glob("*.zarr"))
    started = (stores.folder / "started").read_text()
    # of two readers of each store those are left that have not ended
    assert started == str(
        [
            ("1.zarr", 4),
            ("1.read 1.mask", 4),
            ("1.late", 3),
            ("2.zarr", 2),
            ("2.read 2.mask", 2),
            ("2.late", 1),
            ("summary", 0),
            ("", 0),
        ]
    )


def test_hooks_of_a_module_are_run_if_they_are_kept(tmp_path):
    module = Run(tmp_path)
    rules = "\nkeep(workflow, onerror.func)\nrule broken:\n    output: 'x'\n    shell: 'false'\n"
    hook = "from permafrost.core.snakemake_internals import keep_error_hook as keep\n"
    hook += "onerror:\n    print('kept')\n"
    module.write(**{"module.smk": hook + rules, "Snakefile": MODULE})
    done = module()
    assert done.returncode == 1 and "kept" in done.stdout


MODULE = """
module other:
    snakefile: "module.smk"
use rule * from other
rule all:
    default_target: True
    input: "x"
"""


def test_signatures_are_looked_up_once(monkeypatch):
    from snakemake.resources import Resource

    internals.fast_resources()
    function = internals.fast_params(lambda wildcards, attempt, *, input=None: attempt)
    assert list(get_function_params(function)) == ["wildcards", "attempt", "input"]
    given = {"attempt": 2, "threads": 1}
    monkeypatch.setattr(inspect, "signature", pytest.fail)
    assert get_input_function_aux_params(function, given) == {"attempt": 2}
    # a resource that grows with attempts takes all there is, and passes on what its function takes
    resource = Resource("mem_mb", function)
    assert get_input_function_aux_params(resource.evaluate, given) == given
    assert function("here", **get_input_function_aux_params(function, given)) == 2


def test_nothing_else_of_the_library_uses_what_is_private_to_snakemake():
    private = ("workflow._", "overwrite_function_params", ".persistence", ".needrun_jobs", ".dag.")
    files = [*(ROOT / "workflow").rglob("*.py"), *(ROOT / "workflow").rglob("*.smk")]
    for file in [*files, ROOT / "Snakefile"]:
        if file.name != "snakemake_internals.py":
            text = file.read_text()
            assert [name for name in private if name in text] == [], file
