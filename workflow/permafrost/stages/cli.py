"""``permafrost COMMAND …``: import and run only the module of the command."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import select
import sys
import time
from pathlib import Path
from types import ModuleType

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.extras import explained
from permafrost.core.limits import limits_named
from permafrost.stages.commands import (
    ALIASES,
    COMMANDS,
    GROUPS,
    IN_PROJECT,
    OF_RESULTS,
    probe_examples,
)

_WRONG_USE = 2  # argparse's exit status
_INTERRUPTED = 130  # a shell's status for SIGINT
_CLOSED_PIPE = 141  # a shell's status for SIGPIPE


def main(argv: list[str] | None = None) -> int:
    """Run one command, and return its exit status.

    0: success; 1: failure, with an error message; 2: invalid command line; 130: interrupted; 141,
    without a message: the reader of the output has closed the pipe (``permafrost show | head``).
    """
    try:
        try:
            return _main(argv)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("permafrost: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        closed = [descriptor for descriptor in (1, 2) if _is_closed_pipe(descriptor)]
        if not closed:
            raise
        _silence(closed)
        return _CLOSED_PIPE
    except OSError as error:
        from permafrost.core.outputs import NO_ROOM

        if error.errno not in NO_ROOM:
            raise
        named = PermafrostError(
            f"it cannot be written ({os.strerror(error.errno)})",
            where=error.filename or "standard output or a temporary file",
            remedy="make room there, then start the command again",
        )
        with contextlib.suppress(OSError):
            print(f"permafrost: error: {named}", file=sys.stderr)
        if error.filename is None:
            _silence([1])
        return 1


def _silence(descriptors: list[int]) -> None:
    """Let the interpreter flush its buffers at exit, which would fail on these descriptors."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)


def _is_closed_pipe(descriptor: int) -> bool:
    """Whether the reader of this descriptor has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _main(argv: list[str] | None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help", "--all"):
        return _help(argv)
    if argv[0] == "--version":
        from permafrost import __version__

        print(f"permafrost {__version__}")
        return 0
    if "--plan" in argv:
        from permafrost.core.opened import is_library, recording

        # find Python's folders before recording starts, since Python 3.13 reads a file for it
        is_library(sys.prefix)
        # before the job's plug-ins are loaded
        with recording():
            return _command(argv)
    return _command(argv)


def _command(argv: list[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    command = ALIASES.get(argv[0], argv[0])
    known = command in COMMANDS or command in _kinds()
    if not known and "--plan" in argv:
        known = _is_plugin(command, argv[1:])
    if not known:
        near = near_names(command, [*COMMANDS, *ALIASES, *_kinds()])
        print(f"permafrost: no command {command!r}, {near}", file=sys.stderr)
        return _WRONG_USE
    try:
        return _carry_out(command, argv[1:])
    except PermafrostError as error:
        print(f"permafrost {command}: error: {error}", file=sys.stderr)
        return 1


@explained()
@limits_named()
def _carry_out(command: str, argv: list[str]) -> int:
    """Run a known command, and return its exit status."""
    stage, parser, kind = stage_of(command)
    began = time.monotonic()
    arguments = parse(stage, parser, argv)
    if command in OF_RESULTS:
        _enter_project(OF_RESULTS[command], parser, arguments)
    # a job has one core unless it is given more, and no result may depend on the cores of its machine
    _limit_threads(getattr(arguments, "threads", 1 if "job" in arguments else None))
    if "job" in arguments:
        _check_sources(command, arguments)
    status = stage.run(arguments, *kind) or 0
    if not status and getattr(arguments, "benchmark", None) is not None:
        from permafrost.core.benchmark import write_benchmark

        write_benchmark(arguments.benchmark, time.monotonic() - began)
    return status


def _enter_project(places: tuple[str, ...], parser: argparse.ArgumentParser, arguments) -> None:
    """Change to the project's folder if the command names no results and the working directory has none.

    Parameters
    ----------
    places : arguments that name results.
    """
    named = any(getattr(arguments, name) != parser.get_default(name) for name in places)
    if not arguments.on_clone and (named or Path("results").exists()):
        return
    from permafrost.stages.run import project_here

    root = project_here(arguments.on_clone)
    for name, value in vars(arguments).items():
        if isinstance(value, Path) and value != parser.get_default(name):
            setattr(arguments, name, value.absolute())
    os.chdir(root)


def _is_plugin(command: str, argv: list[str]) -> bool:
    """Whether the command is a kind of probe from a plug-in of the recorded job."""
    from permafrost.stages.arguments import add_job, planned_job

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_job(parser)
    try:
        planned_job(parser.parse_known_args(argv)[0])
    except PermafrostError as error:
        print(f"permafrost {command}: error: {error}", file=sys.stderr)
    return command in _kinds()


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a command or of a kind of probe."""
    return stage_of(command)[1]


def stage_of(command: str) -> tuple[ModuleType, argparse.ArgumentParser, tuple]:
    """The module of a command, its parser, and its kind of probe, if any."""
    kind: tuple
    if command in COMMANDS:
        stage = importlib.import_module(f"permafrost.stages.{command.replace('-', '_')}")
        (brief, examples), kind = COMMANDS[command], ()
    else:
        stage, one = importlib.import_module("permafrost.stages.probe"), _kinds()[command]
        brief, kind = one.brief, (one,)
        examples = probe_examples(command, one.reads, one.leaves)
    parser = argparse.ArgumentParser(
        f"permafrost {command}",
        description=brief,
        allow_abbrev=not getattr(stage, "PASSES_ON", False),
        formatter_class=_Formatter,
    )
    stage.add_arguments(parser, *kind)
    if command in IN_PROJECT or command in OF_RESULTS:
        from permafrost.stages.run import add_here

        add_here(parser)
    shown = "\n".join(f"  {example}" for example in examples)
    said = "" if parser.epilog is None else f"{parser.epilog}\n\n"
    parser.epilog = f"{said}{'examples' if examples[1:] else 'example'}:\n{shown}"
    return stage, parser, kind


class _Formatter(argparse.HelpFormatter):
    """Wraps text like argparse, except blocks with indented lines, which are examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = text.split("\n\n")
        return "\n\n".join(
            block if "\n " in block else super(_Formatter, self)._fill_text(block, width, indent)
            for block in blocks
        )


def parse(
    stage: ModuleType, parser: argparse.ArgumentParser, argv: list[str]
) -> argparse.Namespace:
    """The arguments of a command; unknown ones are kept if the command passes options on."""
    if getattr(stage, "PASSES_ON", False):
        return _parse_and_pass_on(parser, argv)
    return parser.parse_args(argv)


def _parse_and_pass_on(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """The command's own options, with all others in their order under ``passed``."""
    place = argv.index("--") if "--" in argv else len(argv)
    arguments, passed = parser.parse_known_args(argv[:place])
    after = argv[place:]
    # `permafrost run -- -n` is the same as `permafrost run -n`
    if after[1:] and after[1].startswith("-"):
        del after[0]
    arguments.passed = passed + after
    return arguments


def _limit_threads(count: int | None) -> None:
    """Limit linear-algebra libraries to `count` threads; only works before NumPy is imported."""
    if count:
        from permafrost.operate.light_client import THREADS

        os.environ.update(dict.fromkeys(THREADS, str(count)))


def _check_sources(stage: str, arguments) -> None:
    """Refuse a job planned with other sources, because its fingerprint would be wrong."""
    from permafrost.plan.sources import code_hash
    from permafrost.stages.arguments import planned_job

    job = planned_job(arguments)
    if code_hash(stage, job.spec) != job.code:
        raise PermafrostError(
            f"the library's source code changed since this {stage} job was planned",
            remedy="start snakemake again",
        )


def _help(argv: list[str]) -> int:
    """Print ``--help``; with ``--all`` also the commands that only snakemake calls."""
    unknown = [option for option in argv if option not in ("-h", "--help", "--all")]
    if unknown:
        print(f"permafrost: unknown argument {unknown[0]!r} after {argv[0]}", file=sys.stderr)
        return _WRONG_USE
    briefs = {
        title: {name: command.brief for name, command in group.items()}
        for title, group in GROUPS.items()
    }
    stages = briefs.pop("Stages")
    hint = "permafrost --help --all also lists the commands that snakemake calls."
    if "--all" in argv:
        briefs["Stages, called by snakemake"] = stages
        probes = {name: kind.brief for name, kind in _kinds().items()}
        briefs["Probes, called by snakemake"] = probes
        hint = ""
    width = max(len(name) for group in briefs.values() for name in group)
    lines = ["usage: permafrost COMMAND [options]"]
    for title, group in briefs.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in group.items())]
    lines += ["", "permafrost COMMAND --help explains a command, with an example.", hint]
    print("\n".join(lines).rstrip())
    return 0


def _kinds() -> dict:
    """The kinds of probes, each of which is a command."""
    from permafrost.probes.kinds import KINDS

    return KINDS


if __name__ == "__main__":
    sys.exit(main())
