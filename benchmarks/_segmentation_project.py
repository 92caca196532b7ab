"""What the segmentation benchmark runs: a subset of the chips, and our jobs and the peer's over it."""

from __future__ import annotations

import csv
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from permafrost.plan.catalogue import read_yaml
from permafrost.plan.plan import Plan
from permafrost.plan.record import record_plan

CONFIG = Path(__file__).parent.parent / "config"
DATASET = "dubai-segmentation"
SPLITS = ("train", "val", "test")
#: chips of the whole dataset
FULL = {"train": 580, "val": 145, "test": 145}
#: four stages of each backbone, coarse to fine: strides 32, 16, 8, 4
LAYERS = {
    "mobilenetv2": ["blocks.6", "blocks.4", "blocks.2", "blocks.1"],
    "resnet18": ["layer4", "layer3", "layer2", "layer1"],
}
MODELS = {"mobilenetv2": "mobilenetv2_100", "resnet18": "resnet18"}
#: what each of our commands imports, and its functions whose time grows with the chips, by phase
STAGES = {
    "prepare": (
        ["permafrost.data.store.prepare", "zarr", "PIL.Image"],
        {"permafrost.data.store.prepare:read_pixels": "prepare"},
    ),
    "extract": (
        ["permafrost.features.extract", "zarr", "timm"],
        {"permafrost.features.extract:extract_split": "extract"},
    ),
    "segmentation": (
        ["permafrost.probes.segmentation.probe", "zarr"],
        {
            "permafrost.probes.segmentation.probe:MaskTrainer.fit": "train",
            "permafrost.probes.segmentation.probe:score": "test",
        },
    ),
}


@dataclass(frozen=True)
class Size:
    """How much is run: chips of train (a quarter as many of val and of test), epochs, batch."""

    chips: int
    epochs: int
    batch: int

    @property
    def counts(self) -> dict[str, int]:
        if self.chips >= FULL["train"]:
            return dict(FULL)
        quarter = max(1, self.chips // 4)
        return {"train": self.chips, "val": quarter, "test": quarter}

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def write_weights(name: str, pretrained: Path, folder: Path) -> Path:
    """The weights file of a backbone that both sides load; of the untrained one, drawn here."""
    if name == "mobilenetv2":
        return pretrained.absolute()
    import timm
    import torch
    from safetensors.torch import save_file

    path = folder / f"{name}.safetensors"
    if not path.exists():
        torch.manual_seed(0)
        save_file(timm.create_model(MODELS[name], pretrained=False).state_dict(), path)
    return path


def write_chips(source: Path, folder: Path, counts: dict[str, int], copies: int = 1) -> None:
    """``chips.csv`` and ``chips.zip`` in `folder`: chips evenly spaced in each split, each `copies` times."""
    folder.mkdir(parents=True, exist_ok=True)
    with (source / "chips.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (
        zipfile.ZipFile(source / "dubai_chips256.zip") as archive,
        zipfile.ZipFile(folder / "chips.zip", "w") as target,
        (folder / "chips.csv").open("w", newline="") as table,
    ):
        writer = csv.DictWriter(table, rows[0].keys())
        writer.writeheader()
        for split, count in counts.items():
            of_split = [row for row in rows if row["split"] == split]
            for place in range(count):
                row = of_split[place * len(of_split) // count]
                for copy in range(copies):
                    name = f"{row['chip']}_{copy}"
                    writer.writerow({**row, "chip": name})
                    for member in ("images/{}.jpg", "masks/{}.png"):
                        content = archive.read(member.format(row["chip"]))
                        target.writestr(member.format(name), content)


def _named(head: str) -> str:
    """The probe of a head; names have no underscore."""
    return head.replace("_", "-")


class Project:
    """Our jobs and the peer's over one subset of the chips, with one backbone."""

    def __init__(
        self, folder: Path, size: Size, backbone: str, weights: Path, *, heads, seeds
    ) -> None:
        self.folder, self.size, self.backbone, self.weights = folder, size, backbone, weights
        self.results = folder / backbone
        dataset = read_yaml(CONFIG / "datasets" / "folders.yaml")[DATASET]
        dataset["source"] |= {
            "table": str(folder / "chips.csv"),
            "images": str(folder / "chips.zip"),
        }
        # a subset may miss a class in a split
        dataset["allow_missing_classes"] = True
        entry = {"kind": "timm", "model": MODELS[backbone], "layers": LAYERS[backbone]}
        entry |= {"weights": {"source": "file", "path": str(weights)}}
        entry |= {"input": {"mean": 0.5, "std": 0.5}}
        probe = {"kind": "segmentation", "epochs": size.epochs, "batch_size": size.batch}
        config = {
            "catalogues": [],
            "extra_datasets": {"chips": dataset},
            "extra_backbones": {backbone: entry},
            "datasets": ["chips"],
            "backbones": [backbone],
            "extraction": {"size": 256},
            "probes": {_named(head): {**probe, "head": head} for head in heads},
            "seeds": list(seeds),
        }
        self.plan = Plan(config, folder)
        # the jobs learn from it where the data lie
        self.recorded = record_plan(self.plan, str(self.results))
        self.classes = len(dataset["classes"])

    def prepare(self) -> dict:
        command = ["--card", self._images("card.json"), *self._stores("--output", self._images)]
        job = self.plan.prepare("chips")
        return self._request("prepare", job, [*command, "--workers", "1"])

    def extract(self) -> dict:
        command = ["--card", self._images("card.json"), *self._stores("--output", self._features)]
        command += ["--batch-size", str(self.size.batch), "--device", "cpu", "--threads", "1"]
        return self._request("extract", self.plan.extract("chips", self.backbone), command)

    def head(self, head: str, seed: int, *, stream: bool = False) -> dict:
        command = self._stores("--features", self._features)
        command += ["--output", str(self.predictions(head, seed))]
        command += ["--device", "cpu", "--threads", "1"]
        job = self.plan.probe("chips", self.backbone, _named(head), seed)
        return self._request("segmentation", job, command, stream=stream)

    def peer(self, head: str, seed: int) -> dict:
        return {
            "side": "peer",
            "archive": str(self.folder / "chips.zip"),
            "table": str(self.folder / "chips.csv"),
            "classes": self.classes,
            "model": MODELS[self.backbone],
            "weights": str(self.weights),
            "layers": LAYERS[self.backbone],
            "head": head,
            "seed": seed,
            "epochs": self.size.epochs,
            "batch_size": self.size.batch,
        }

    def predictions(self, head: str, seed: int) -> Path:
        return self.results / f"{head}-{seed}.parquet"

    def score(self, head: str, seed: int) -> dict:
        """Value and 95 % interval of the mean IoU of our predictions."""
        from permafrost.core.tables import read_table
        from permafrost.statistics.predictions.reading import predictions_from_table
        from permafrost.statistics.scores.bootstrap import bootstrap_scores

        found = predictions_from_table(*read_table(self.predictions(head, seed)))
        rows = bootstrap_scores(found, resamples=2000, seed=0)
        return next(row for row in rows if row["primary"])

    def _images(self, name: str) -> str:
        return str(self.results / "images" / name)

    def _features(self, name: str) -> str:
        return str(self.results / "features" / name)

    @staticmethod
    def _stores(option: str, place) -> list[str]:
        return [option, *(place(f"{split}.zarr") for split in SPLITS)]

    def _request(self, stage: str, job, command: list[str], *, stream: bool = False) -> dict:
        imports, phases = STAGES[stage]
        return {
            "side": "ours",
            "imports": imports,
            "phases": phases,
            "stream": stream,
            "command": [stage, "--job", job.fingerprint, "--plan", self.recorded, *command],
        }


def write_request(request: dict, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(request))
    return path
