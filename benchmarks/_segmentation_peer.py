"""The benchmark's chips and backbones in torchgeo-bench's terms; imported in its environment only."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from PIL import Image
from safetensors.torch import load_file
from torchgeo_bench import main as bench
from torchgeo_bench.datasets import base, loading
from torchgeo_bench.models import TimmPatchBenchModel

IGNORE = 255


class Chips(torch.utils.data.Dataset):
    """Chips of one split, decoded from the archive when asked for, as the peer's own datasets are."""

    def __init__(self, archive: Path, table: Path, split: str) -> None:
        self._file = zipfile.ZipFile(archive)
        with table.open(newline="") as file:
            self._names = [row["chip"] for row in csv.DictReader(file) if row["split"] == split]

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        name = self._names[index]
        mask = self._decode(f"masks/{name}.png").astype(np.int64)
        mask[mask != IGNORE] -= 1  # stored as 1 to 5
        image = np.ascontiguousarray(self._decode(f"images/{name}.jpg").transpose(2, 0, 1))
        return {"image": torch.from_numpy(image).float(), "mask": torch.from_numpy(mask)}

    def _decode(self, member: str) -> np.ndarray:
        return np.array(Image.open(io.BytesIO(self._file.read(member))))


def register(request: dict) -> type[base.BenchDataset]:
    """The chips as a dataset in the peer's registry."""
    archive, table = Path(request["archive"]), Path(request["table"])

    class Dubai(base.BenchDataset):
        name, task, num_classes = "dubai", "segmentation", request["classes"]
        rgb_bands = ("red", "green", "blue")
        # z-scores with these are (x / 255 - 0.5) / 0.5, which our side feeds too
        bands = tuple(base.BandSpec("aerial", b, b, 127.5, 127.5, 0.0, 255.0) for b in rgb_bands)
        split_sizes = {}

        @classmethod
        def data_root(cls) -> Path:
            return archive.parent

        def get_dataset(self, split, *, partition="default", bands=None, transform=None):
            return Chips(archive, table, split)

    loading._REGISTRY[Dubai.name] = Dubai
    return Dubai


def build_backbone(request: dict, bands) -> TimmPatchBenchModel:
    """The timm model, with the weights that our side loads from the same file."""
    wrapped = TimmPatchBenchModel(
        list(bands), model_name=request["model"], pretrained=False, global_pool="avg"
    )
    stored = load_file(request["weights"])
    wanted = {name: stored[name] for name in wrapped.backbone.state_dict()}
    wrapped.backbone.load_state_dict(wanted)
    return wrapped.to("cpu").eval()


def configuration(request: dict):
    """The peer's own configuration file, with the head, layers and sizes of this run."""
    config = OmegaConf.load(Path(bench.__file__).parent / "conf" / "config.yaml")
    changes = {key: request[key] for key in ("layers", "epochs", "batch_size")}
    changes["head_type"] = request["head"]
    return OmegaConf.merge(config, {"model": {}, "eval": {"segmentation": changes}})
