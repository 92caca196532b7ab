"""``permafrost export``: tables for papers, files for other benchmarks, and citations."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_directory, whole_file
from permafrost.plan.recorded import current_plan, leaderboard_in, planned, read_plan, results_in
from permafrost.report.explanations.gates import leakage_said
from permafrost.report.tables.trackers import TRACKERS, runs_of

FORMATS = (
    "csv",
    "markdown",
    "latex",
    "torchgeo-bench",
    "geobench2",
    "neuco-bench",
    "model-index",
    "eval-results",
    "every-eval-ever",
    "mlflow",
    "wandb",
)
# formats without a place for warnings: leakage is reported on the terminal
_WITHOUT_WARNINGS = ("torchgeo-bench", "geobench2")
# options of single formats
_OPTIONS = {
    "backbone": ("neuco-bench",),
    "ids": ("neuco-bench",),
    "hub": ("eval-results",),
    "source": ("eval-results", "every-eval-ever"),
    "organization": ("every-eval-ever",),
    "first_party": ("every-eval-ever",),
}
# default folders of trackers
_FOLDERS = {"mlflow": Path("mlruns"), "wandb": Path(".")}


def add_arguments(parser) -> None:
    parser.add_argument(
        "leaderboard",
        nargs="?",
        type=Path,
        default=Path("results/leaderboard.parquet"),
        help="leaderboard.parquet in a folder of results",
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown")
    parser.add_argument("--group", help="only datasets of this group")
    parser.add_argument("--probe", help="only this probe")
    parser.add_argument("--dataset", help="only this dataset")
    parser.add_argument(
        "--backbone", action="append", help="only this backbone (neuco-bench); may be repeated"
    )
    parser.add_argument(
        "--ids",
        choices=("name", "stem"),
        help="ids of samples (neuco-bench): their names (default), or these without folder and ending",
    )
    parser.add_argument(
        "--hub",
        metavar="OWNER/NAME",
        help="dataset repository on the Hugging Face hub whose leaderboard shows the scores (eval-results)",
    )
    parser.add_argument(
        "--organization", help="who publishes the scores (every-eval-ever)", metavar="NAME"
    )
    parser.add_argument(
        "--source",
        metavar="URL",
        help="address of the results or of who publishes them (eval-results, every-eval-ever)",
    )
    parser.add_argument(
        "--first-party",
        action="store_true",
        help="the publisher made the backbones (every-eval-ever); third party by default",
    )
    parser.add_argument(
        "--no-intervals", action="store_true", help="only values, without intervals"
    )
    parser.add_argument(
        "--mark-tied", action="store_true", help="mark ties with the best (not significant)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="file to write; a folder for formats of several files; the terminal by default",
    )
    parser.add_argument("--bibtex", type=Path, help="also write citations")


def run(arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.report.explanations.leaderboard_state import policy_words, suite_words
    from permafrost.report.tables.export import export
    from permafrost.report.tables.methods import bibtex
    from permafrost.report.tables.shown import Shown

    for name, formats in _OPTIONS.items():
        if getattr(arguments, name) and arguments.format not in formats:
            raise PermafrostError(
                f"--{name.replace('_', '-')} does not exist for {arguments.format}",
                remedy=f"leave it out, or use --format {' or '.join(formats)}",
            )
    if arguments.format == "neuco-bench":
        _write_features(arguments)
        return
    path = leaderboard_in(arguments.leaderboard)
    table, metadata = read_table(path)
    results = path.parent
    shown = Shown.of(table, results, metadata)
    if arguments.format in _FOLDERS:
        _track(shown, read_plan(current_plan(results)), arguments)
        return
    if arguments.format in _WITHOUT_WARNINGS:
        chosen = None if arguments.dataset is None else [arguments.dataset]
        for said in leakage_said(shown.rows, chosen):
            print(f"{said} {arguments.format} has no place to say so.", file=sys.stderr)
    if arguments.format == "geobench2":
        _submit(shown, read_plan(current_plan(results)), arguments)
        return
    if arguments.format in _PER_BACKBONE:
        _write_cards(shown, read_plan(current_plan(results)), arguments, path)
        return
    text = export(
        shown,
        arguments.format,
        group=arguments.group,
        probe=arguments.probe,
        dataset=arguments.dataset,
        intervals=not arguments.no_intervals,
        mark_tied=arguments.mark_tied,
    )
    words = (suite_words(metadata.get("suite")), policy_words(metadata.get("fit")))
    for said in filter(None, words):
        if arguments.format in ("markdown", "latex"):
            text += f"\n% {said}\n" if arguments.format == "latex" else f"\n{said}\n"
        else:
            print(said, file=sys.stderr)
    outputs = [] if arguments.output is None else [(arguments.output, text)]
    if arguments.bibtex is not None:
        outputs.append((arguments.bibtex, bibtex(read_plan(current_plan(results)))))
    for path, content in outputs:
        with whole_file(path) as partial:
            partial.write_text(content, encoding="utf-8")
    if arguments.output is None:
        sys.stdout.write(text)


def _write_features(arguments) -> None:
    """Write a folder of files for NeuCo-Bench, completely or not at all."""
    from permafrost.report.tables.neuco_bench import write_embeddings

    if arguments.probe is not None or arguments.group is not None:
        raise PermafrostError(
            "features have no probe and no group", remedy="leave --probe and --group out"
        )
    wrong = {
        "--bibtex": arguments.bibtex is not None,
        "--mark-tied": arguments.mark_tied,
        "--no-intervals": arguments.no_intervals,
    }
    for name in wrong:
        if wrong[name]:
            raise PermafrostError(
                f"{name} does not exist for neuco-bench",
                remedy="leave it out: files have features, no scores",
            )
    if arguments.output is None:
        raise PermafrostError("files are in a folder", remedy="name it with --output")
    # features are there before the leaderboard
    path = arguments.leaderboard
    results = results_in(path if path.exists() else path.parent)
    rows = planned(read_plan(current_plan(results), results), "extract")
    with whole_directory(arguments.output) as partial:
        written = write_embeddings(
            rows,
            partial,
            dataset=arguments.dataset,
            backbones=arguments.backbone,
            stems=arguments.ids == "stem",
        )
    for one in written:
        print(f"{one.backbone}: {one.samples} samples of {one.width} numbers")
    print(f"{len(written)} files for NeuCo-Bench in {arguments.output}")


def _track(shown, plan: dict, arguments) -> None:
    """Write a tracker's run for each evaluation."""
    if arguments.group is not None:
        raise PermafrostError("runs have no group", remedy="leave --group out, or use --dataset")
    shown.check(probe=arguments.probe, dataset=arguments.dataset)
    where = {"probe": arguments.probe, "dataset": arguments.dataset}
    where = {name: value for name, value in where.items() if value is not None}
    runs = list(runs_of(shown.leaderboard.to_pylist(), plan, **where))
    folder = arguments.output or _FOLDERS[arguments.format]
    TRACKERS[arguments.format](runs, folder, plan["plan"])
    print(f"{arguments.format}: {len(runs)} runs in {folder}; nothing was sent")


def _write_cards(shown, plan: dict, arguments, leaderboard: Path) -> None:
    """Write the files of each backbone for a model hub, all or none."""
    if arguments.output is None:
        raise PermafrostError("files are in a folder", remedy="name it with --output")
    shown.check(probe=arguments.probe, dataset=arguments.dataset)
    where = {"probe": arguments.probe, "dataset": arguments.dataset}
    where = {name: value for name, value in where.items() if value is not None}
    files = _PER_BACKBONE[arguments.format](
        shown.leaderboard.to_pylist(), plan, arguments, leaderboard, where
    )
    with whole_directory(arguments.output) as partial:
        for name, text in files.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_text(text, encoding="utf-8")
    print(f"{arguments.format}: {len(files)} files in {arguments.output}")


def _cards(rows, plan, arguments, leaderboard, where) -> dict[str, str]:
    from permafrost.report.tables.model_index import model_cards

    return model_cards(rows, plan, **where)


def _eval_results(rows, plan, arguments, leaderboard, where) -> dict[str, str]:
    from permafrost.report.tables.model_index import eval_results

    if not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.hub or ""):
        raise PermafrostError(
            "the hub shows scores on the leaderboard of a dataset repository",
            remedy="name it: --hub OWNER/NAME",
        )
    return eval_results(rows, plan, benchmark=arguments.hub, source=arguments.source, **where)


def _every_eval_ever(rows, plan, arguments, leaderboard, where) -> dict[str, str]:
    from permafrost.report.tables.every_eval_ever import records

    if not arguments.organization:
        raise PermafrostError(
            "Every Eval Ever needs the publisher of the scores",
            remedy="name yourself: --organization NAME",
        )
    return records(
        rows,
        plan,
        made=int(leaderboard.stat().st_mtime),
        organization=arguments.organization,
        source=arguments.source,
        first_party=arguments.first_party,
        **where,
    )


# formats with files per backbone
_PER_BACKBONE = {
    "model-index": _cards,
    "eval-results": _eval_results,
    "every-eval-ever": _every_eval_ever,
}


def _submit(shown, plan: dict, arguments) -> None:
    """Write the folder of a submission to GEO-Bench-2, completely or not at all."""
    from permafrost.report.tables.geobench2 import submission

    if arguments.output is None:
        raise PermafrostError("a submission is a folder", remedy="name it with --output")
    files = submission(shown, plan, probe=arguments.probe)
    with whole_directory(arguments.output) as partial:
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8")
    print(
        f"submission: {arguments.output}; complete the links and the licence in additional_info.json"
    )
