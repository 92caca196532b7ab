"""``permafrost completion``: print a shell script that completes commands and options."""

from __future__ import annotations

import argparse
from pathlib import Path

from permafrost.stages.cli import COMMANDS, stage_of
from permafrost.stages.commands import ALIASES, STAGES


def add_arguments(parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments) -> None:
    import shtab

    print(shtab.complete(_whole(), shell=arguments.shell))


def _whole():
    """One parser with all commands for users, without Snakemake's."""
    whole = argparse.ArgumentParser("permafrost", description="measures frozen backbones")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers()
    other = {
        of: [name for name, meant in ALIASES.items() if meant == of] for of in ALIASES.values()
    }
    for name, command in COMMANDS.items():
        if name not in STAGES:
            _, parser, _ = stage_of(name)
            added = commands.add_parser(
                name,
                help=command.brief,
                aliases=other.get(name, []),
                parents=[parser],
                add_help=False,
                conflict_handler="resolve",
            )
            _complete_paths(added)
    return whole


def _complete_paths(parser) -> None:
    """Make the shell complete file names for options that take a path."""
    import shtab

    for action in parser._actions:
        if action.type is Path:
            action.complete = shtab.FILE
