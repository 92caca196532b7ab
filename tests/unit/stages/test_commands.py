"""``permafrost`` itself: what ``--help`` lists, the examples of every command, and exit statuses."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from permafrost.probes.kinds import KINDS
from permafrost.stages import cli, commands

EVERY = [*commands.COMMANDS, *KINDS]


def said_by(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(list(arguments))
    except SystemExit as end:
        status = end.code
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def listed(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ")]


def test_help_lists_by_group_what_people_call_and_all_lists_everything(capsys):
    status, out, _ = said_by(capsys, "--help")
    people = [name for name in commands.COMMANDS if name not in commands.STAGES]
    assert status == 0 and listed(out) == people
    assert [line for line in out.splitlines() if line.endswith(":")] == [
        "Use:",
        "Score files:",
        "Maintain:",
    ]
    for arguments in (["--help", "--all"], ["--all"]):
        status, out, _ = said_by(capsys, *arguments)
        assert status == 0 and listed(out) == EVERY


def test_no_name_is_in_two_groups():
    assert sum(map(len, commands.GROUPS.values())) == len(commands.COMMANDS)
    assert not {*commands.COMMANDS} & {*commands.ALIASES, *KINDS}
    assert {*commands.ALIASES.values()} <= {*commands.COMMANDS}


@pytest.mark.parametrize("command", EVERY)
def test_help_of_every_command_shows_examples_that_its_parser_takes(command, capsys):
    status, out, _ = said_by(capsys, command, "--help")
    examples = [line.strip() for line in out.splitlines() if line.startswith("  permafrost ")]
    assert status == 0 and examples
    stage, parser, _ = cli.stage_of(command)
    for example in examples:
        program, name, *arguments = shlex.split(example)
        assert (program, name) == ("permafrost", command)
        cli.parse(stage, parser, arguments)
        assert capsys.readouterr().err == ""


def test_another_name_of_a_command_is_the_command(capsys):
    assert said_by(capsys, "table", "--help") == said_by(capsys, "export", "--help")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["sho"], 2, "no command 'sho', did you mean 'show'?"),
        (["--help", "show"], 2, "unknown argument 'show' after --help"),
        (["show", "--nosuch"], 2, "unrecognized arguments: --nosuch"),
        (["list", "planets"], 2, "invalid choice: 'planets'"),
        (["info"], 2, "the following arguments are required: name"),
        (["info", "nosuch"], 1, "no dataset, backbone or kind of probe has the name 'nosuch'"),
        (["show", "none/leaderboard.parquet"], 1, "does not exist. Remedy: "),
    ],
)
def test_wrong_use_ends_with_2_and_work_that_fails_with_1(capsys, arguments, status, words):
    ended, _, complained = said_by(capsys, *arguments)
    assert ended == status and words in complained and "Traceback" not in complained


def test_help_imports_neither_a_stage_nor_a_library():
    program = "import sys; from permafrost.stages.cli import main; main(['--help', '--all']);"
    program += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(done.stderr.split())
    own = {name for name in loaded if name.startswith("permafrost.stages.")}
    assert own == {"permafrost.stages.cli", "permafrost.stages.commands"}
    assert not loaded & {"numpy", "pyarrow", "yaml", "torch", "importlib.metadata"}
