"""Fuzz the readers of detections and crowns, and the code of masks, for a bounded time.

    uv pip install --python .venv/bin/python atheris
    .venv/bin/python tests/fuzz/fuzz_detection.py --seconds 60

Every target of `detection_targets` runs for its share of the seconds in a process of its own. Inputs
that broke a promise, took ten seconds or two gigabytes are kept in FOLDER, and the exit status is 1;
`--replay FILE` runs one again without atheris. What was found so far is recorded in
`tests/reliability/test_detection_findings.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

NAMES = ("codec", "polygons", "truth", "predictions", "edits", "crowns")
WORDS = [
    "id",
    "image_id",
    "category_id",
    "bbox",
    "area",
    "iscrowd",
    "ignore",
    "segmentation",
    "keypoints",
    "num_keypoints",
    "score",
    "size",
    "counts",
    "images",
    "annotations",
    "categories",
    "width",
    "height",
    "name",
    "image_path",
    "xmin",
    "ymin",
    "xmax",
    "ymax",
    "label",
    "geometry",
    "POLYGON",
    "POINT",
    "MULTIPOLYGON",
    "EMPTY",
    "NaN",
    "Infinity",
    "1e999",
    "null",
    "true",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="of all targets together")
    parser.add_argument("--targets", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "permafrost-fuzz"
    )
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--replay", type=Path, help="one kept input, of the one target named")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        from helpers.fuzzing import TARGETS

        TARGETS[options.targets[0]](options.replay.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print(
            "atheris is not installed here: uv pip install --python"
            f" {sys.executable} atheris\n(without it, tests/reliability/test_detection_fuzz.py tries"
            " random inputs)",
            file=sys.stderr,
        )
        return 2
    if options.inside:
        fuzz(options.targets[0], options.folder, options.seconds, options.seed)
    share = max(1, options.seconds // len(options.targets))
    failed = [name for name in options.targets if not run(name, options, share)]
    print(f"broken: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed else 0


def run(name: str, options: argparse.Namespace, seconds: int) -> bool:
    """Fuzz one target in a process of its own; whether all went well."""
    folder = options.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--inside", "--targets", name, "--folder", str(folder)]
    command += ["--seconds", str(seconds), "--seed", str(options.seed)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    said = (done.stdout + done.stderr).strip().splitlines()
    ends = [line for line in said if line.startswith(("Done ", "stat::number_of_executed"))]
    print(f"{name}: {'ok' if done.returncode == 0 else 'BROKEN'}; {ends[-1] if ends else ''}")
    if done.returncode:
        begins = [place for place, line in enumerate(said) if "Uncaught Python exception" in line]
        print(
            "\n".join(
                [line for line in said[begins[0] if begins else -20 :] if "\tcov: " not in line]
            )
        )
    return done.returncode == 0


def fuzz(name: str, folder: Path, seconds: int, seed: int) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["permafrost"]):
        from helpers.fuzzing import TARGETS, seeds
    corpus, kept = folder / "corpus", folder / "found"
    for path in (corpus, kept):
        path.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(seeds(name)):
        (corpus / f"seed{number}").write_bytes(content)
    words = folder / "words"
    words.write_text("\n".join(json.dumps(word) for word in WORDS))
    # libFuzzer forks nothing, but threads of numeric libraries only cost here
    with contextlib.suppress(AttributeError):
        os.nice(5)
    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-dict={words}",
            f"-artifact_prefix={kept}/",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-max_len=4096",
            "-print_final_stats=1",
        ],
        TARGETS[name],
    )
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
