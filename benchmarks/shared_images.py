"""Which changed copies of images are found in another dataset, and how many images are found that are no copies.

Images of a zip archive are taken as a test set. The other dataset has the same images, changed: compressed again, made
larger, brighter, cut or mirrored; and the remaining images of the archive, none of which is a copy.

    envs/run python benchmarks/shared_images.py --archive FOLDER/eurosat_rgb/EuroSAT.zip [--images 1000]
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Callable

import numpy as np
from permafrost.data.store.between import shared_images, spread_of_all
from permafrost.data.store.image_hashes import ImageHashes, hash_images
from PIL import Image, ImageEnhance


def compressed(quality: int) -> Callable[[Image.Image], Image.Image]:
    def change(image: Image.Image) -> Image.Image:
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=quality)
        return Image.open(stream)

    return change


def cut(share: float) -> Callable[[Image.Image], Image.Image]:
    def change(image: Image.Image) -> Image.Image:
        edge = round(share * image.width / 2)
        return image.crop((edge, edge, image.width - edge, image.height - edge))

    return change


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "none": lambda image: image,
    "JPEG again, quality 75": compressed(75),
    "JPEG again, quality 30": compressed(30),
    "twice as large": lambda image: image.resize((2 * image.width, 2 * image.height)),
    "30 % brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "5 % cut off": cut(0.05),
    "20 % cut off": cut(0.2),
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
}


def hashed(images: list[Image.Image]) -> ImageHashes:
    return hash_images([[np.moveaxis(np.asarray(one), -1, 0)] for one in images])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--archive", required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with zipfile.ZipFile(options.archive) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith((".jpg", ".png")))
        every = np.random.default_rng(options.seed).permutation(len(names))[: 2 * options.images]
        read = [Image.open(io.BytesIO(archive.read(names[row]))).convert("RGB") for row in every]
    own, others = read[: options.images], read[options.images :]
    test = hashed(own)
    print(f"{len(own)} images of {options.archive}, and {len(others)} others\n")
    print(
        "| change of the copy | found, equal | found, similar | other images found |\n|---|---|---|---|"
    )
    for name, change in CHANGES.items():
        splits = {"train": hashed([change(one) for one in own]), "test": hashed(others)}
        spreads = spread_of_all({"test": test}), spread_of_all(splits)
        found = shared_images(test, splits, *spreads)
        kinds = [one.kind for one in found if one.split == "train" and one.row == one.other]
        wrong = len(found) - len(kinds)
        shares = (f"{100 * kinds.count(kind) / len(own):.1f} %" for kind in ("exact", "near"))
        print(f"| {name} | {' | '.join(shares)} | {wrong} |")


if __name__ == "__main__":
    main()
