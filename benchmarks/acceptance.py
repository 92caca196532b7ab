"""Public test suites of other projects, run against our `COCOeval`.

    envs/run python benchmarks/acceptance.py --packages FOLDER [--torchmetrics CLONE] [--torchvision CLONE]
        [--detectron2 CLONE] [--faster-coco-eval CLONE] [--details]

CLONE is a checkout of the project; nothing of it is copied. FOLDER holds what the suites import beside our
environment, and is on their path only:

    pip install --no-deps --target FOLDER faster-coco-eval parameterized cachier fvcore iopath yacs \
        omegaconf antlr4-python3-runtime==4.9.3 tabulate termcolor cloudpickle portalocker plotly narwhals

Each suite runs twice: as it is, and with our evaluator in the place of the one that it calls
(`_acceptance_plugin.py`). Of torchvision and of detectron2's rotated boxes, which have no tests of their own,
the evaluators run on random data, with pycocotools and with ours (`_acceptance_evaluators.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from _timing import print_table

HERE = Path(__file__).parent
_LONGEST = 110


@dataclass(frozen=True)
class Suite:
    """A suite: folders of the clone on the path, where it is run, and what."""

    clone: str
    path: tuple[str, ...]
    folder: str
    tests: tuple[str, ...]
    # run as it is, too
    as_it_is: bool = True


SUITES = {
    "torchmetrics": Suite(
        "torchmetrics", ("src", "tests"), "tests", ("unittests/detection/test_map.py",)
    ),
    "torchvision": Suite(
        "torchvision",
        ("references/detection",),
        ".",
        (f"{HERE / '_acceptance_evaluators.py'}::test_torchvision",),
        as_it_is=False,
    ),
    "detectron2": Suite("detectron2", (".",), ".", ("tests/data/test_coco_evaluation.py",)),
    "detectron2, rotated": Suite(
        "detectron2",
        (".",),
        ".",
        (f"{HERE / '_acceptance_evaluators.py'}::test_detectron2_rotated",),
        as_it_is=False,
    ),
    "faster-coco-eval": Suite("faster_coco_eval", (), "tests", (".",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True, help="folder with further packages")
    for name in ("--torchmetrics", "--torchvision", "--detectron2", "--faster-coco-eval"):
        parser.add_argument(name, type=Path, metavar="CLONE")
    parser.add_argument("--details", action="store_true", help="say why each test fails")
    options = parser.parse_args()
    rows, reasons = [], []
    for name, suite in SUITES.items():
        clone = getattr(options, suite.clone)
        if clone is None:
            continue
        before = run(suite, clone, options.packages, "") if suite.as_it_is else {}
        after = run(suite, clone, options.packages, name)
        lost = {test: why for test, why in after.items() if why and not before.get(test)}
        rows.append([name, counts(before) or "–", counts(after), len(lost), reasons_of(lost)])
        reasons += [f"{name}: {test}: {why}" for test, why in lost.items()]
    print_table(["suite", "as it is", "with ours", "fail with ours alone", "why"], rows)
    if options.details:
        print("\n".join(["", *reasons]))


def run(suite: Suite, clone: Path, packages: Path, replaced: str) -> dict[str, str]:
    """Every test to why it failed, "" where it passed; `replaced` is the suite's name, or "" for as it is."""
    path = [HERE, *(clone / each for each in suite.path), packages]
    with tempfile.TemporaryDirectory() as folder:
        report, compared = Path(folder) / "report.xml", Path(folder) / "compared.json"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(each.resolve()) for each in path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "ACCEPTANCE": replaced,
            "ACCEPTANCE_COMPARED": str(compared),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(clone)]
        command += ["-p", "no:cacheprovider", "-p", "_acceptance_plugin", f"--junitxml={report}"]
        done = subprocess.run(
            [*command, *suite.tests],
            cwd=clone / suite.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        if not report.exists():
            sys.exit(f"{clone}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        found = outcomes(report)
        # one test of detectron2 compares many times
        found |= dict(json.loads(compared.read_text())) if compared.exists() else {}
        return found


def outcomes(report: Path) -> dict[str, str]:
    """From pytest's report; skipped tests are left out."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {each.tag: each for each in case}
        if "skipped" in kinds:
            continue
        problem = kinds.get("failure", kinds.get("error"))
        why = "" if problem is None else " ".join((problem.get("message") or "?").split())
        found[f"{case.get('classname')}.{case.get('name')}"] = why[:_LONGEST]
    return found


def counts(found: dict[str, str]) -> str:
    """How many passed and failed."""
    if not found:
        return ""
    kinds = Counter(bool(why) for why in found.values())
    return f"{kinds[False]} pass, {kinds[True]} fail"


def reasons_of(lost: dict[str, str]) -> str:
    """Why tests fail, alike ones together."""
    kinds: Counter[str] = Counter()
    for why in lost.values():
        absent = re.search(r"has no attribute '(\w+)'", why)
        refused = re.search(r"PermafrostError: (.*)", why)
        if absent:
            kinds[f"{absent[1]} is not here"] += 1
        elif refused:
            kinds[f"refused: {refused[1]}"] += 1
        else:
            kinds[why] += 1
    return "; ".join(f"{number} × {what}" for what, number in kinds.most_common())


if __name__ == "__main__":
    main()
