"""The commands of ``permafrost``, grouped as in ``permafrost --help``.

Every start imports this module, so it has no slow imports.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """Summary of a command, and example command lines."""

    brief: str
    examples: tuple[str, ...]


_JOB = "--plan results/plans/PLAN.json --job FINGERPRINT"
_CARD = "--card results/images/eurosat/card.json"
_SPLITS = "train.zarr val.zarr test.zarr"

USE: dict[str, Command] = {
    "run": Command(
        "run the pipeline on this machine, then print the leaderboard",
        (
            "permafrost run",
            "permafrost run -n --configfile mine.yaml",
            "permafrost run --profile slurm",
        ),
    ),
    "suite": Command(
        "run a named set of datasets and probes with a version, so that runs can be compared",
        (
            "permafrost suite",
            "permafrost suite geobench-v1 --backbones rcf-all,imagestats-all --plan",
            "permafrost suite geobench-v1 --backbones rcf-all,imagestats-all --cores 4",
        ),
    ),
    "init": Command(
        "start your own project: configuration, a backbone, a dataset, profiles",
        ("permafrost init my-project", "permafrost init my-project --module"),
    ),
    "list": Command(
        "list the available datasets, backbones or probes",
        (
            "permafrost list backbones --fits eurosat --max-parameters 100M",
            "permafrost list datasets",
        ),
    ),
    "new": Command(
        "draft an entry for a folder of images or for a model, to review and complete",
        (
            "permafrost new dataset data/my-scenes --output mine.yaml",
            "permafrost new dataset data/scenes.zip --add --try",
            "permafrost new backbone resnet50.a1_in1k",
            "permafrost new backbone models/mine.py:build --name mine",
        ),
    ),
    "info": Command(
        "show everything known about a dataset, a backbone or a kind of probe",
        ("permafrost info eurosat", "permafrost info rcf --dataset demo-landcover"),
    ),
    "plan": Command(
        "estimate jobs, time, memory, disk and downloads of a run; compare with what it took",
        (
            "permafrost plan",
            "permafrost plan --config config/examples/geobench.yaml --cores 64 --gpus 8",
            "permafrost plan --check",
        ),
    ),
    "check": Command(
        "run one batch of a dataset through a backbone; print shapes, statistics, time, memory",
        ("permafrost check rcf --dataset demo-landcover",),
    ),
    "fetch": Command(
        "download datasets and weights: shows sizes first, resumes, verifies",
        ("permafrost fetch eurosat --dry-run", "permafrost fetch config/config.yaml --yes"),
    ),
    "show": Command(
        "print the ranking and the leaderboard",
        ("permafrost show --probe linear", "permafrost show --compare rcf imagestats"),
    ),
    "labels": Command(
        "list suspected wrong labels; scores and ranks without them; how difficult images are",
        (
            "permafrost labels --dataset eurosat-folds",
            "permafrost labels --dataset eurosat-folds --output labels.csv",
        ),
    ),
    "copies": Command(
        "count test images of one dataset that are images of another one of the run",
        (
            "permafrost copies",
            "permafrost copies --dataset eurosat --output copies.csv",
            "permafrost copies --features resnet50",
        ),
    ),
    "agreement": Command(
        "compare features of two sensors at the same places: retrieval and CKA",
        (
            "permafrost agreement eurosat-s2 eurosat-s1",
            "permafrost agreement sensors sensors --backbones galileo-s2 galileo-s1",
        ),
    ),
    "export": Command(
        "write tables for papers, files for other benchmarks, and citations",
        (
            "permafrost export --format latex --mark-tied --output table.tex",
            "permafrost export --bibtex used.bib",
            "permafrost export --format neuco-bench --dataset eurosat --output embeddings",
        ),
    ),
    "methods": Command(
        "write the methods of a paper, with tables of datasets and options, and citations",
        ("permafrost methods", "permafrost methods results --bibtex used.bib"),
    ),
    "rank": Command(
        "rank any leaderboard, and say which ranks its data can tell apart",
        (
            "permafrost rank leaderboard.csv --output standings.csv",
            "permafrost rank torchgeo-bench/results/models --where bands=rgb --probe linear --figure ranks.svg",
        ),
    ),
    "submit": Command(
        "write a folder with predictions and scores of a suite's run, for a commons of results",
        (
            "permafrost submit results/open-images --suite open-images --output my-model --author 'Ng, Ann'",
        ),
    ),
    "accept": Command(
        "check a submission: compute every score again; add it to a commons of results",
        (
            "permafrost accept my-model --into commons",
            "permafrost accept my-model --dry-run --json",
        ),
    ),
    "site": Command(
        "make a static site of a commons of results",
        ("permafrost site commons --output docs/results",),
    ),
    "published": Command(
        "check published results, and compare them with your own",
        ("permafrost published results.csv --leaderboard results/leaderboard.parquet",),
    ),
}

SCORE: dict[str, Command] = {
    "evaluate-detections": Command(
        "score detections, masks or keypoints by the rules of COCO or LVIS",
        ("permafrost evaluate-detections --truth truth.json --predictions predictions.json",),
    ),
    "evaluate-boxes": Command(
        "score predicted crowns, boxes, polygons or points against a reference table",
        ("permafrost evaluate-boxes --truth truth.csv --predictions predictions.csv",),
    ),
    "evaluate-raster": Command(
        "score a classified raster, or logits, against a reference raster",
        (
            "permafrost evaluate-raster --reference truth.tif --prediction predicted.tif --classes 10",
        ),
    ),
    "evaluate-map": Command(
        "assess a map with reference points: user's and producer's accuracy, areas of classes",
        (
            "permafrost evaluate-map --samples points.csv --map map.tif --design stratified",
            "permafrost evaluate-map --samples points.gpkg --map map.tif --design simple --against other.tif",
        ),
    ),
    "evaluate-panoptic": Command(
        "score panoptic label maps: panoptic quality, of masks or of boundaries",
        (
            "permafrost evaluate-panoptic --truth truth.json --truth-masks truth"
            " --predictions predicted.json --prediction-masks predicted",
        ),
    ),
}

MAINTAIN: dict[str, Command] = {
    "doctor": Command(
        "check that everything a run needs is there; print remedies",
        ("permafrost doctor", "permafrost doctor --config mine.yaml --json"),
    ),
    "incomplete": Command(
        "list failed jobs; write leaderboard and page of the successful ones",
        ("permafrost incomplete --list",),
    ),
    "verify": Command(
        "check every byte of a results folder; name what is damaged, missing or foreign",
        ("permafrost verify", "permafrost verify restored/results --json"),
    ),
    "stale": Command(
        "list or delete results that do not belong to the current plan",
        ("permafrost stale", "permafrost stale --deep --delete"),
    ),
    "archive": Command(
        "pack results, plan, code version and checksums into one file",
        ("permafrost archive --output run.zip",),
    ),
    "restore": Command(
        "unpack an archive into a clone of the same version",
        ("permafrost restore run.zip --into permafrost",),
    ),
    "completion": Command(
        "print completion of commands and options for bash, zsh or fish",
        ("permafrost completion bash", "permafrost completion fish"),
    ),
    "convert-checkpoint": Command(
        "convert a pickled checkpoint to safetensors without running its code",
        ("permafrost convert-checkpoint model.pth model.safetensors",),
    ),
}

#: commands that need a project: those that run, prepare or download
IN_PROJECT = frozenset({"run", "suite", "plan", "check", "fetch"})
#: and those that read its results: their arguments that name results elsewhere
OF_RESULTS: dict[str, tuple[str, ...]] = {
    "show": ("leaderboard",),
    "labels": ("results",),
    "copies": ("results",),
    "agreement": ("results",),
    "export": ("leaderboard",),
    "methods": ("results",),
    "incomplete": ("failures",),
    "verify": ("plan", "results"),
    "stale": ("plan", "results"),
    "archive": ("plan",),
}

#: commands for Snakemake, one process per job; those of probes are `permafrost.probes.kinds.KINDS`
STAGES: dict[str, Command] = {
    "prepare": Command(
        "decode a dataset once into image stores and a card",
        (f"permafrost prepare {_JOB} --output {_SPLITS} --card card.json",),
    ),
    "extract": Command(
        "run a frozen backbone over a dataset's image stores",
        (f"permafrost extract {_JOB} {_CARD} --output {_SPLITS}",),
    ),
    "extract_harder": Command(
        "run a frozen backbone over degraded test images of a dataset",
        (
            f"permafrost extract_harder {_JOB} {_CARD} --rows results/images/eurosat-noise-3"
            f" --features results/features --output {_SPLITS}",
        ),
    ),
    "resplit": Command(
        "divide the images of datasets anew: a derived dataset, as stores that read theirs",
        (
            f"permafrost resplit {_JOB} --cards results/images/eurosat/card.json --output {_SPLITS} --card card.json",
        ),
    ),
    "select": Command(
        "make feature stores of a derived dataset, from those of others",
        (f"permafrost select {_JOB} {_CARD} --features results/features --output {_SPLITS}",),
    ),
    "derive": Command(
        "make feature stores of a derived backbone, from those of others",
        (f"permafrost derive {_JOB} --features results/features/eurosat --output {_SPLITS}",),
    ),
    "views": Command(
        "run a frozen backbone over augmented views of a dataset's images",
        (f"permafrost views {_JOB} {_CARD} --output views.zarr",),
    ),
    "measure": Command(
        "compute feature metrics, without a probe",
        (f"permafrost measure {_JOB} --features test.zarr --output measures.parquet",),
    ),
    "profile": Command(
        "profile a backbone on this machine: size, FLOPs, time, memory, energy",
        (f"permafrost profile {_JOB} {_CARD} --output profile.parquet",),
    ),
    "similarity": Command(
        "compute the similarity of backbones on a dataset (CKA)",
        (f"permafrost similarity {_JOB} --results results --output similarity.parquet",),
    ),
    "bootstrap": Command(
        "score predictions, with an interval for every metric",
        (f"permafrost bootstrap {_JOB} --predictions knn.parquet --output scores.parquet",),
    ),
    "compare": Command(
        "paired differences between backbones",
        (f"permafrost compare {_JOB} --results results --output compared.parquet",),
    ),
    "serve": Command(
        "keep a preloaded worker, which forks for each short job",
        ("permafrost serve --folder warm",),
    ),
    "aggregate": Command(
        "gather all scores into the leaderboard",
        (
            f"permafrost aggregate {_JOB} --parquet leaderboard.parquet --csv leaderboard.csv"
            " --standings standings.parquet --standings-csv standings.csv --stamp made.done",
        ),
    ),
    "report": Command(
        "draw the figures and write the page",
        (
            f"permafrost report {_JOB} --standings results/standings.parquet"
            " --output report --stamp made.done",
        ),
    ),
}

GROUPS = {"Use": USE, "Score files": SCORE, "Maintain": MAINTAIN, "Stages": STAGES}
COMMANDS: dict[str, Command] = {**USE, **SCORE, **MAINTAIN, **STAGES}
#: other names of a command
ALIASES = {"table": "export"}


def probe_examples(name: str, reads: str, leaves: str | None) -> tuple[str, ...]:
    """Example command of a kind of probe, from its input and its second output."""
    given = _CARD if reads == "images" else f"--features {_SPLITS}"
    second = f" --second-output {name}" if leaves else ""
    return (f"permafrost {name} {_JOB} {given} --output {name}.parquet{second}",)
