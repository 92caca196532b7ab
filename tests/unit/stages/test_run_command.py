"""``permafrost run``: from any folder, with every option of snakemake."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import pytest
from helpers.project import REPOSITORY
from permafrost.core.errors import PermafrostError
from permafrost.stages import cli, run
from permafrost.stages.commands import OF_RESULTS


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder that looks like a project; the current folder is one inside it."""
    (tmp_path / "Snakefile").write_text("# Permafrost's workflow\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("results: made\n")
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    return tmp_path


@pytest.fixture
def started(monkeypatch) -> list:
    """The commands that were started, with their folders; none is run."""
    commands = []

    class Process:
        def __init__(self, command, cwd):
            commands.append((command[3:], Path(cwd)))

        def wait(self):
            return 0

    monkeypatch.setattr(run.subprocess, "Popen", Process)
    monkeypatch.setattr(run, "print_end", lambda results: commands.append(results))
    return commands


def test_a_small_machine_gets_a_cache_and_which(project, started, monkeypatch, capsys):
    programs, home_cache = project / "programs", project / "file"
    programs.mkdir()
    home_cache.write_text("no folder can be made below this")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home_cache / "below"))
    assert run.run(parse("-n")) == 0
    assert "cannot be written to, so the cache is in" in capsys.readouterr().err
    cache, which = Path(os.environ["XDG_CACHE_HOME"]), shutil.which("which")
    assert cache.is_relative_to(project) and Path(which).is_relative_to(project)
    (programs / "sacct").write_text("")
    (programs / "sacct").chmod(0o755)
    ended = [os.spawnv(os.P_WAIT, which, [which, name]) for name in ("sacct", "nothing")]
    assert ended[0] == 0 and ended[1] != 0
    # where nothing is lacking, nothing is changed
    before = dict(os.environ)
    assert run.run(parse("-n")) == 0
    assert dict(os.environ) == before and capsys.readouterr().err.count("cache") == 0


def parse(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    run.add_arguments(parser)
    run.add_here(parser)
    return cli._parse_and_pass_on(parser, list(argv))


@pytest.mark.parametrize(
    ("argv", "passed"),
    [
        ([], []),
        (["-n"], ["-n"]),
        (["features", "--cores", "1"], ["features", "--cores", "1"]),
        (["--", "-n"], ["-n"]),
        (
            ["--configfile", "a.yaml", "--", "features"],
            ["--configfile", "a.yaml", "--", "features"],
        ),
        (["--config", "results=r", "--profile", "slurm"], ["--config", "results=r"]),
        (["--prof", "x"], ["--prof", "x"]),
    ],
)
def test_what_is_not_ours_is_passed_on_in_its_order(argv, passed):
    assert parse(*argv).passed == passed


def test_snakemake_runs_in_the_projects_folder_which_is_named(project, started, capsys):
    assert cli.main(["run", "features", "--cores", "1"]) == 0
    command, folder = started[0]
    assert (command, folder) == (["features", "--cores", "1"], project)
    assert str(project) in capsys.readouterr().err
    assert started[1] == Path("made")


def test_a_profile_is_named_to_snakemake_only_where_one_was_asked_for(project, started):
    cli.main(["run", "--profile", "slurm", "--", "features"])
    assert started[0][0] == ["--profile", "slurm", "--", "features"]
    cli.main(["run", "--profile", "slurm", "features"])
    assert started[2][0] == ["features", "--profile", "slurm"]


def test_a_profile_of_the_projects_own_folder_of_profiles_is_found(project, started):
    (project / "profiles" / "slurm").mkdir(parents=True)
    cli.main(["run", "--profile", "slurm"])
    assert started[0][0] == ["--profile", "profiles/slurm"]
    # a link of that name, as a clone has, is what snakemake itself takes
    (project / "slurm").symlink_to("profiles/slurm")
    cli.main(["run", "--profile", "slurm"])
    assert started[2][0] == ["--profile", "slurm"]


def test_a_dry_run_ends_without_a_leaderboard(project, started):
    assert cli.main(["run", "-n"]) == 0
    assert len(started) == 1


def test_a_configuration_file_beside_the_user_is_found(project, started):
    (project / "inside" / "mine.yaml").write_text("results: elsewhere\n")
    cli.main(["run", "--configfile", "mine.yaml"])
    assert started[0][0] == ["--configfile", str(project / "inside" / "mine.yaml")]
    assert started[1] == Path("elsewhere")


def test_outside_of_a_project_that_of_the_library_is_taken(tmp_path):
    assert run.find_root(tmp_path) == Path(run.__file__).resolve().parents[3]
    # workflow holds a Snakefile too, but no configuration
    assert run.find_root(REPOSITORY / "workflow" / "rules") == REPOSITORY


@pytest.mark.parametrize("command", [["run"], ["run", "-n"], ["plan"]])
def test_outside_of_a_project_nothing_is_run_nor_planned(
    tmp_path, monkeypatch, capsys, started, command
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command) == 1 and started == []
    said = capsys.readouterr()
    assert said.out == "" and "no project was found" in said.err
    assert f"`permafrost init FOLDER`, or give --here to use the clone {REPOSITORY}" in said.err


@pytest.mark.parametrize(
    "command",
    [["check", "rcf", "--dataset", "demo-landcover"], ["fetch", "eurosat", "-n"],
     ["suite", "torchgeo", "--backbones", "rcf", "--plan"],
     ["agreement", "one", "other"],
     *([name] for name in ("run", "plan", *OF_RESULTS) if name != "agreement")],
)  # fmt: skip
def test_every_command_that_needs_a_project_names_what_to_do_outside_of_one(
    tmp_path, monkeypatch, capsys, started, command
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command) == 1 and started == [] and not list(tmp_path.iterdir())
    (line,) = capsys.readouterr().err.splitlines()
    assert "no project was found" in line and "permafrost init" in line and "--here" in line


def test_here_takes_the_clone_and_leaves_paths_where_the_user_is(
    tmp_path, monkeypatch, capsys, started
):
    clone = tmp_path / "clone"
    for name in ("config", "workflow/permafrost", "results/plans"):
        (clone / name).mkdir(parents=True)
    (clone / "config/config.yaml").write_text("")
    (clone / "Snakefile").write_text("# Permafrost\n")
    monkeypatch.setattr(run, "HOME", clone)
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    assert cli.main(["run", "--here", "-n"]) == 0 and started[0] == (["-n"], clone)
    assert cli.main(["stale", "--here"]) == 1 and Path.cwd() == clone
    assert "no plan was recorded" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path / "beside")
    _, parser, _ = cli.stage_of("export")
    arguments = parser.parse_args(["--here", "--output", "t.tex"])
    cli._enter_project(OF_RESULTS["export"], parser, arguments)
    assert arguments.output == tmp_path / "beside/t.tex"
    assert arguments.leaderboard == Path("results/leaderboard.parquet")


def test_results_are_found_from_a_folder_inside_the_project(project, capsys):
    (project / "results/plans").mkdir(parents=True)
    assert cli.main(["stale"]) == 1
    assert "no plan was recorded" in capsys.readouterr().err and Path.cwd() == project


def test_what_needs_no_project_works_outside_of_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in (["list", "probes"], ["list", "datasets"], ["info", "rcf"], ["suite"]):
        assert cli.main(command) == 0, command
    assert "rcf" in capsys.readouterr().out


def test_a_project_of_another_workflow_is_none_of_ours(project):
    (project / "Snakefile").write_text("rule all:\n")
    assert run.find_root(project / "inside") == REPOSITORY
    (project / "workflow").mkdir()
    (project / "workflow" / "Snakefile").write_text("module permafrost:\n")
    assert run.find_root(project / "inside") == project


def test_without_any_project_the_remedy_is_named(tmp_path, monkeypatch):
    # as in an environment into which a wheel was installed
    monkeypatch.setattr(run, "HOME", tmp_path)
    with pytest.raises(PermafrostError, match="permafrost init"):
        run.find_root(tmp_path)


def test_other_commands_refuse_options_they_do_not_know(capsys):
    with pytest.raises(SystemExit):
        cli.main(["show", "--cores", "1"])
    assert "unrecognized arguments" in capsys.readouterr().err
