# %% [markdown]
# # Score given predictions
#
# You have predictions of your own model: detections, or maps. Permafrost scores them with intervals, without a
# backbone or a configuration.
#
# The files here are generated. Replace the first cell of each part by yours.

# %%
import json
import subprocess
from pathlib import Path

import numpy as np
import permafrost as pf
from PIL import Image

rng = np.random.default_rng(0)


def run(*command: object) -> None:
    print(subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout)


# %% [markdown]
# ## Detections
#
# 60 images with up to 12 trees each, in COCO's JSON. The first model finds nine trees of ten and has false alarms; the
# second one finds eight of ten and places its boxes less accurately.

# %%
images = [{"id": number, "width": 256, "height": 256} for number in range(1, 61)]
trees = []
for image in images:
    for x, y, side in rng.uniform([0, 0, 14], [220, 220, 36], (rng.integers(3, 13), 3)).tolist():
        number = len(trees) + 1
        box = [x, y, side, side]
        trees.append({"id": number, "image_id": image["id"], "category_id": 1, "bbox": box})
        trees[-1] |= {"area": side * side, "iscrowd": 0}
truth = {"images": images, "annotations": trees, "categories": [{"id": 1, "name": "tree"}]}
Path("truth.json").write_text(json.dumps(truth))


def detector(found: float, blur: float) -> list[dict]:
    made = []
    for tree in trees:
        lucky = rng.random() < found
        box = np.array(tree["bbox"]) + rng.normal(0, blur, 4) if lucky else rng.uniform(10, 200, 4)
        one = {
            "image_id": tree["image_id"],
            "category_id": 1,
            "bbox": np.abs(box).round(2).tolist(),
        }
        made.append(one | {"score": round(float(rng.beta(5, 2) if lucky else rng.beta(2, 4)), 3)})
    return made


for name, found, blur in (("first", 0.9, 1.5), ("second", 0.8, 2.5)):
    Path(f"{name}.json").write_text(json.dumps(detector(found, blur)))

# %% [markdown]
# `--against` compares two files on the same images.

# %%
inputs = ["--truth", "truth.json", "--predictions", "first.json", "--against", "second.json"]
run("permafrost", "evaluate-detections", *inputs, "--iou-type", "bbox", "--no-analysis")

# %% [markdown]
# The same numbers in Python, without intervals: the twelve of COCO's summary.

# %%
scored = pf.detection.evaluate("truth.json", "first.json", iou_type="bbox")
print(scored.stats.round(3).tolist())

# %% [markdown]
# ## Maps
#
# A reference map and a predicted one, as images of class numbers. Neighbouring pixels are alike, so the intervals
# resample blocks of the map and not pixels.

# %%
side = np.arange(512)
reference = (np.add.outer(side // 128, side // 96) % 3).astype(np.uint8)
patches = rng.random((64, 64)) < 0.12  # errors come in patches, not in single pixels
prediction = np.where(np.kron(patches, np.ones((8, 8), bool)), (reference + 1) % 3, reference)
Image.fromarray(reference).save("reference.png")
Image.fromarray(prediction.astype(np.uint8)).save("prediction.png")

# %%
run(
    "permafrost",
    "evaluate-raster",
    "--reference",
    "reference.png",
    "--prediction",
    "prediction.png",
)
