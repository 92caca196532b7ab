"""How far tf32 and bf16 move features, and the scores of a network with real weights, from those of fp32.

    envs/run python benchmarks/precision.py --data FOLDER [--images 2000] [--moved 200] [--models resnet50 ...]

Images are of EuroSAT (RGB) at 224 px. Features of `--moved` images are compared for every network; all but
MobileNetV2 have random weights. With its weights of FOLDER, knn and linear are fitted on three quarters of `--images`
and compared on the rest. TF32 is emulated on the CPU: the operands of convolutions, linear layers and attention are
rounded to its 10 bits, and products are summed in float32. bf16 is what `precision: bf16` computes on a CPU.
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

import numpy as np
import permafrost as pf
import timm
import torch
from _timing import print_table
from PIL import Image
from safetensors.torch import load_file
from torch import nn

WEIGHTS = "weights/mobilenetv2_100.tf_coral_in1k.fp16.safetensors"
REAL = "mobilenetv2_100"
MODELS = (
    REAL,
    "resnet50",
    "convnext_tiny",
    "swin_tiny_patch4_window7_224",
    "vit_small_patch16_224",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--moved", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    options = parser.parse_args()
    images, labels = read_images(options.data / "eurosat_rgb", options.images)
    rows = []
    for name in options.models:
        real = name == REAL
        some = images if real else images[: options.moved]
        made = {
            precision: features(name, some, precision, options.data / WEIGHTS)
            for precision in ("fp32", "tf32", "bf16")
        }
        for precision in ("tf32", "bf16"):
            moved = [
                one[: options.moved].astype(np.float64) for one in (made["fp32"], made[precision])
            ]
            scored = differences(made["fp32"], made[precision], labels) if real else ["", ""]
            rows.append([name, precision, *movement(*moved), *scored])
    print_table(
        ["network", "precision", "change, median", "change, largest", "same nearest image"]
        + ["knn, difference", "linear, difference"],
        rows,
    )


def read_images(folder: Path, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 64, 64) uint8 and their classes, drawn at random."""
    with zipfile.ZipFile(folder / "EuroSAT.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        chosen = np.random.default_rng(0).permutation(names)[:count]
        pixels = [np.asarray(Image.open(archive.open(name)).convert("RGB")) for name in chosen]
    return np.stack(pixels).transpose(0, 3, 1, 2), np.array(
        [Path(one).parent.name for one in chosen]
    )


def features(name: str, images: np.ndarray, precision: str, weights: Path) -> np.ndarray:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=0)
    if name == REAL:
        held = {key: one.float() for key, one in load_file(weights).items()}
        model.load_state_dict(
            {key: held[key] for key in model.state_dict() if key in held}, strict=False
        )
    if precision == "tf32":
        round_operands(model)
    return pf.extract(
        model.eval(),
        images,
        input={"mean": 0.5, "std": 0.5},
        size=224,
        batch_size=32,
        precision="fp32" if precision == "tf32" else precision,
    )


def round_operands(model: nn.Module) -> None:
    """Round weights and inputs of all products of a network as TF32 does."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.weight.data = rounded(module.weight.data)
            module.register_forward_pre_hook(lambda _, inputs: tuple(map(rounded, inputs)))
    model.forward = with_rounded_attention(model.forward)


def with_rounded_attention(forward):
    def attention(q, k, v, attn_mask=None, **_):
        logits = rounded(q) @ rounded(k).transpose(-2, -1) * q.shape[-1] ** -0.5
        return rounded(
            torch.softmax(logits if attn_mask is None else logits + attn_mask, -1)
        ) @ rounded(v)

    def run(*inputs):
        own = nn.functional.scaled_dot_product_attention
        nn.functional.scaled_dot_product_attention = attention
        try:
            return forward(*inputs)
        finally:
            nn.functional.scaled_dot_product_attention = own

    return run


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Float32 rounded to a mantissa of 10 bits, ties away from zero."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def movement(exact: np.ndarray, moved: np.ndarray) -> list[str]:
    """Relative changes of features, and how often the nearest other image is the same."""
    change = np.linalg.norm(moved - exact, axis=1) / np.linalg.norm(exact, axis=1)
    nearest = [
        np.argmax(gram - 3 * np.eye(len(gram)), axis=1)
        for one in (exact, moved)
        for unit in [one / np.linalg.norm(one, axis=1, keepdims=True)]
        for gram in [unit @ unit.T]
    ]
    same = np.mean(nearest[0] == nearest[1])
    return [f"{np.median(change):.1e}", f"{change.max():.1e}", f"{100 * same:.1f} %"]


def differences(exact: np.ndarray, moved: np.ndarray, labels: np.ndarray) -> list[str]:
    """Accuracy minus that of fp32 in percentage points, with paired intervals, of knn and linear."""
    cut = 3 * len(labels) // 4
    shown = []
    for probe in (pf.KNN, pf.LinearSweep):
        said = {
            name: probe().fit(x[:cut], labels[:cut]).predict(x[cut:])
            for name, x in (("moved", moved), ("exact", exact))
        }
        row = pf.compare(labels[cut:], said).loc[0]
        shown.append(
            f"{100 * row['difference']:+.2f} [{100 * row['lower']:+.2f}, {100 * row['upper']:+.2f}]"
        )
    return shown


if __name__ == "__main__":
    main()
