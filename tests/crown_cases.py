"""Made-up crowns on made-up images, as records in DeepForest's format."""

from __future__ import annotations

import numpy as np
import shapely

CORNERS = ("xmin", "ymin", "xmax", "ymax")


def box(image: str, corners, label: str = "Tree", **more) -> dict:
    """One record of a box."""
    return {"image_path": image, "label": label, **dict(zip(CORNERS, corners, strict=True)), **more}


def point(image: str, x: float, y: float, label: str = "Tree", **more) -> dict:
    return {"image_path": image, "label": label, "x": x, "y": y, **more}


def polygon(image: str, shape, label: str = "Tree", **more) -> dict:
    return {"image_path": image, "label": label, "geometry": shape, **more}


def random_crowns(rng, kind: str, images: int, *, whole: bool = False, most: int = 25):
    """Records of truth and of predictions, on ``i0`` … ; some images may lack either."""
    both = []
    for predicted in (False, True):
        rows = []
        for image in range(images):
            for _ in range(rng.integers(0, most)):
                more = {"score": float(rng.random())} if predicted else {}
                label = str(rng.choice(["a", "b"]))
                rows.append(_crown(rng, kind, f"i{image}", label, whole, more))
        both.append(rows)
    return both


def _crown(rng, kind: str, image: str, label: str, whole: bool, more: dict) -> dict:
    corner, size = rng.uniform(0, 120, 2), rng.uniform(8, 40, 2)
    if whole:
        corner, size = np.floor(corner), np.floor(size)
    if kind == "box":
        return box(image, [*corner, *(corner + size)], label, **more)
    if kind == "point":
        return point(image, *corner.tolist(), label, **more)
    angles = np.sort(rng.uniform(0, 2 * np.pi, 7))
    ring = corner + np.stack([np.cos(angles), np.sin(angles)], axis=1) * size
    return polygon(image, shapely.convex_hull(shapely.multipoints(ring)), label, **more)
