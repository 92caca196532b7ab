"""``permafrost COMMAND …``: imports the one module that carries out the command, and no other."""

from __future__ import annotations

import argparse
import importlib
import os
import select
import sys

from permafrost.core.errors import PermafrostError, near_names

#: all but those of probes, which `permafrost.probes.kinds` lists
COMMANDS = {
    "prepare": "decode a dataset once into image stores and a card",
    "extract": "run a frozen backbone over a dataset's image stores",
    "views": "run a frozen backbone over augmented views of a dataset's images",
    "measure": "measure the features themselves, without a probe",
    "profile": "measure what a backbone costs on this machine: size, FLOPs, time, memory, energy",
    "similarity": "measure how alike the backbones see a dataset (CKA)",
    "bootstrap": "score predictions, with an interval for every metric",
    "compare": "paired differences between backbones",
    "aggregate": "gather all scores into the leaderboard",
    "report": "draw the figures and write the page",
    "incomplete": "name what failed of a run, and make leaderboard and page of what succeeded",
    "archive": "pack results, plan, code version and checksums into one file",
    "restore": "unpack an archive beside a clone of the same version",
    "stale": "list, or delete, results that do not belong to the current plan",
    "evaluate-detections": "score detections, masks or keypoints by the rules of COCO or LVIS",
    "evaluate-boxes": "score predicted crowns, boxes, polygons or points against a table of truth",
    "evaluate-raster": "score a classified raster, or logits, against a reference raster",
    "evaluate-panoptic": "score panoptic label maps: panoptic quality, of masks or of boundaries",
    "run": "run the pipeline on this machine, then print the leaderboard",
    "show": "print who is best, and the leaderboard",
    "export": "write tables for papers, rows of other benchmarks, and what to cite",
    "published": "check results that others published, and set them beside one's own",
    "list": "list the datasets, backbones or probes that can be named",
    "info": "say all that is known of a dataset, a backbone or a kind of probe",
    "check": "run one batch of a dataset through a backbone: shapes, statistics, time, memory",
    "convert-checkpoint": "make safetensors of a pickled checkpoint without running its code",
    "fetch": "download datasets and weights, with their size said first, resumed and checked",
}


_INTERRUPTED = 130  # as a shell reports a program that SIGINT ended
_CLOSED_PIPE = 141  # as a shell reports a program that SIGPIPE ended


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 after an error that the user can put right.

    Where the reader of the output is gone (``permafrost show | head``), it ends in silence with 141.
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
        # what is still buffered must go somewhere when the interpreter ends
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in closed:
            os.dup2(nowhere, descriptor)
        return _CLOSED_PIPE


def _is_closed_pipe(descriptor: int) -> bool:
    """Whether nobody reads what is written there any more."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _main(argv: list[str] | None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if argv[0] == "--version":
        from permafrost import __version__

        print(f"permafrost {__version__}")
        return 0
    command = argv.pop(0)
    kind = ()
    if command in COMMANDS:
        stage = importlib.import_module(
            f"permafrost.stages.{command.replace('-', '_')}", __package__
        )
        brief = COMMANDS[command]
    else:
        from permafrost.probes.kinds import KINDS

        if command not in KINDS:
            known = near_names(command, [*COMMANDS, *KINDS])
            print(f"permafrost: no command {command!r}, {known}", file=sys.stderr)
            return 2
        stage = importlib.import_module("permafrost.stages.probe")
        kind, brief = (KINDS[command],), KINDS[command].brief
    passes_on = getattr(stage, "PASSES_ON", False)
    parser = argparse.ArgumentParser(
        f"permafrost {command}", description=brief, allow_abbrev=not passes_on
    )
    stage.add_arguments(parser, *kind)
    try:
        if passes_on:
            arguments = _parse_and_pass_on(parser, argv)
        else:
            arguments = parser.parse_args(argv)
        _limit_threads(getattr(arguments, "threads", None))
        if "job" in arguments:
            _check_sources(command, arguments)
        return stage.run(arguments, *kind) or 0
    except PermafrostError as error:
        print(f"permafrost {command}: error: {error}", file=sys.stderr)
        return 1


def _parse_and_pass_on(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Our options, and under ``passed`` all others in their order."""
    place = argv.index("--") if "--" in argv else len(argv)
    arguments, passed = parser.parse_known_args(argv[:place])
    after = argv[place:]
    # `permafrost run -- -n` means the same as without the dashes
    if after[1:] and after[1].startswith("-"):
        del after[0]
    arguments.passed = passed + after
    return arguments


def _limit_threads(count: int | None) -> None:
    """Let the linear-algebra libraries use `count` threads; must come before NumPy is imported."""
    for library in ("OMP", "OPENBLAS", "MKL") if count else ():
        os.environ[f"{library}_NUM_THREADS"] = str(count)


def _check_sources(stage: str, arguments) -> None:
    """Refuse a job that was planned with other sources: its result must not bear that fingerprint."""
    from permafrost.plan.sources import code_hash
    from permafrost.stages.arguments import planned_job

    job = planned_job(arguments)
    if code_hash(stage, job.spec) != job.code:
        raise PermafrostError(
            f"the library's sources were edited since this {stage} job was planned",
            remedy="start snakemake again",
        )


def _usage() -> str:
    from permafrost.probes.kinds import KINDS

    probes = {name: kind.brief for name, kind in KINDS.items()}
    width = max(map(len, [*COMMANDS, *probes]))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    lines += ["", "Probes:", *(f"  {name:<{width}}  {text}" for name, text in probes.items())]
    return "\n".join(["usage: permafrost COMMAND [options]", "", *lines])


if __name__ == "__main__":
    sys.exit(main())
