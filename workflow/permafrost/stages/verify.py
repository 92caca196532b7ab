"""``permafrost verify``: check every byte of a results folder against what was recorded, or a submission's scores."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from permafrost.core.working import working
from permafrost.plan.recorded import results_in
from permafrost.stages.arguments import add_results_folder

_WRONG_USE = 2


def add_arguments(parser) -> None:
    add_results_folder(parser, "; also a restored one, or a submission")
    parser.add_argument(
        "--plan", type=Path, help="recorded plan (default: the newest in RESULTS/plans)"
    )
    parser.add_argument(
        "--stores", action="store_true", help="stores and predicted masks may not be absent"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments) -> int:
    from permafrost.core.progress import byte_progress
    from permafrost.operate.verify.verify import verify

    if (arguments.results / "submission.json").is_file():
        return _verify_submission(arguments)
    results = results_in(arguments.results)
    for path, is_there, what in (
        (results, Path.is_dir, "folder"),
        (arguments.plan, Path.is_file, "file"),
    ):
        if path is not None and not is_there(path):
            print(f"permafrost verify: error: {path}: there is no such {what}", file=sys.stderr)
            return _WRONG_USE
    with byte_progress(total=None, label="verify") as shown:
        found = verify(results, arguments.plan, complete=arguments.stores, tick=shown.update)
    if arguments.json:
        print(json.dumps(found.as_json(), indent=1, ensure_ascii=False))
    else:
        print("\n".join(found.lines()))
    return int(bool(found.damage))


def _verify_submission(arguments) -> int:
    from permafrost.operate.commons.commons import verify_submission
    from permafrost.operate.commons.said import as_json, lines
    from permafrost.stages.run import find_root

    with working(f"computing the scores of {arguments.results}"):
        submission, refused = verify_submission(arguments.results, find_root(Path.cwd()))
    print(
        "\n".join(
            [as_json(refused)] if arguments.json else lines(arguments.results, submission, refused)
        )
    )
    return int(bool(refused))
