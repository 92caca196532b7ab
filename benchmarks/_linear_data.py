"""Feature arrays for the linear probe's benchmark, made once and kept as .npz files."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np

PARTS = ("train", "val", "test")


def make(case: str, data: Path, weights: Path, cache: Path) -> Path:
    """The .npz of one case: x_train, y_train, x_val, ... ; extracted where it is not there yet."""
    path = cache / f"{case}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        features, labels, parts = CASES[case](data, weights)
        arrays = {}
        for part in PARTS:
            arrays[f"x_{part}"] = features[parts == part]
            arrays[f"y_{part}"] = labels[parts == part]
        np.savez(path, **arrays)
    return path


def _read(archive: Path, names: list[str], size: int) -> np.ndarray:
    from PIL import Image

    images = np.empty((len(names), size, size, 3), np.uint8)
    with zipfile.ZipFile(archive) as file:
        for i, name in enumerate(names):
            image = Image.open(io.BytesIO(file.read(name))).convert("RGB")
            if image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            images[i] = np.asarray(image)
    return images


def _rows(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _embed(model, images: np.ndarray, prepare) -> np.ndarray:
    import torch

    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), 64):
            batch = torch.from_numpy(images[start : start + 64]).permute(0, 3, 1, 2).float() / 255
            parts.append(model(prepare(batch)).numpy().reshape(len(batch), -1))
    return np.concatenate(parts).astype(np.float32)


def _mobilenet(weights: Path, images: np.ndarray, size: int) -> np.ndarray:
    import timm
    import torch
    from safetensors.torch import load_file

    model = timm.create_model("mobilenetv2_100")
    model.load_state_dict(load_file(weights))
    model.reset_classifier(0)

    def prepare(batch):
        if batch.shape[-1] != size:
            batch = torch.nn.functional.interpolate(batch, size=(size, size), mode="bilinear")
        return (batch - 0.5) / 0.5

    return _embed(model.eval(), images, prepare)


def _eurosat(data: Path):
    rows = _rows(data / "eurosat_rgb" / "index.csv")
    names = sorted({row["class"] for row in rows})
    labels = np.array([names.index(row["class"]) for row in rows])
    members = [f"2750/{row['class']}/{row['filename']}" for row in rows]
    parts, rng = np.empty(len(rows), "U5"), np.random.default_rng(0)
    for label in range(len(names)):  # 60/20/20 within every class
        ids = rng.permutation(np.flatnonzero(labels == label))
        first, second = round(0.6 * len(ids)), round(0.8 * len(ids))
        parts[ids[:first]], parts[ids[first:second]], parts[ids[second:]] = PARTS
    return _read(data / "eurosat_rgb" / "EuroSAT.zip", members, 64), labels, parts


def _eurosat_mobilenet(data: Path, weights: Path):
    images, labels, parts = _eurosat(data)
    return _mobilenet(weights, images, 96), labels, parts


def _eurosat_rcf(data: Path, weights: Path):
    from torchgeo.models import RCF

    images, labels, parts = _eurosat(data)
    model = RCF(in_channels=3, features=512, kernel_size=4, bias=-1.0, seed=0, mode="gaussian")
    return _embed(model.eval(), images, lambda batch: batch), labels, parts


def _eurosat_imagestats(data: Path, weights: Path):
    images, labels, parts = _eurosat(data)
    pixels = images.reshape(len(images), -1, 3).astype(np.float32) * 40  # like raw 12-bit numbers
    stats = [pixels.mean(1), pixels.std(1), pixels.min(1), pixels.max(1)]
    return np.concatenate(stats, axis=1).astype(np.float32), labels, parts


def _ucmerced_mobilenet(data: Path, weights: Path):
    folder = data / "uc_merced"
    archive, rows = folder / "UCMerced_LandUse_jpg.zip", _rows(folder / "index.csv")
    names = sorted({row["class"] for row in rows})
    labels = np.array([names.index(row["class"]) for row in rows])
    with zipfile.ZipFile(archive) as file:
        member = {name.rsplit("/", 1)[-1]: name for name in file.namelist()}
    images = _read(archive, [member[row["filename"]] for row in rows], 160)
    return _mobilenet(weights, images, 160), labels, np.array([row["split"] for row in rows])


def _dubai_mobilenet(data: Path, weights: Path):
    folder = data / "dubai_seg"
    rows = _rows(folder / "chips.csv")
    names = [name for name in rows[0] if name.startswith("has_")]
    labels = np.array([[int(row[name]) for name in names] for row in rows], np.uint8)
    images = _read(folder / "dubai_chips256.zip", [f"images/{r['chip']}.jpg" for r in rows], 128)
    return _mobilenet(weights, images, 128), labels, np.array([row["split"] for row in rows])


def _synthetic(data: Path, weights: Path):
    """d = 2048, K = 45: class means and noise with a spectrum that decays like features'."""
    rng = np.random.default_rng(0)
    n, d, classes = 5400, 2048, 45
    labels = np.arange(n) % classes
    scale = (1.0 + np.arange(d)) ** -0.6
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    latent = rng.normal(size=(classes, d))[labels] * 0.6 + rng.normal(size=(n, d))
    features = np.maximum((latent * scale) @ turn * 8.0 + 0.3, 0).astype(np.float32)
    parts = np.array(PARTS)[np.digitize((np.arange(n) // classes) % 5, [3, 4])]
    return features, labels, parts


CASES = {
    "eurosat-mobilenetv2": _eurosat_mobilenet,
    "eurosat-rcf": _eurosat_rcf,
    "ucmerced-mobilenetv2": _ucmerced_mobilenet,
    "dubai-mobilenetv2-multilabel": _dubai_mobilenet,
    "synthetic-2048x45": _synthetic,
    "eurosat-imagestats": _eurosat_imagestats,
}
