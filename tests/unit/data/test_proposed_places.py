"""Drafts keep one place in one split: by names of scenes, tiles of web maps, and distances on the ground."""

from __future__ import annotations

import re

import numpy as np
import pytest
from permafrost.data.labels.splits import KM_PER_DEGREE, joined_blocks
from permafrost.data.proposal.draft import Draft
from permafrost.data.proposal.places import blocks_of, keep_places_together

CUT = [(y, x) for y in (0, 256) for x in (0, 256)]


def drafted(names: list[str], task: str = "segmentation", kind: str = "folder") -> Draft:
    draft = Draft(task, {"kind": kind}, names)
    keep_places_together(draft)
    return draft


def groups_of(draft: Draft) -> set[str]:
    return {re.search(draft.source["group"], name)[1] for name in draft.images}


@pytest.mark.parametrize(
    ("name", "scenes", "task"),
    [
        ("t{0}_p2_x{2}_y{1}.png", {f"t{n}" for n in range(12)}, "segmentation"),
        ("t{0}_p2_r{1}c{2}_rgb.jpg", {f"t{n}" for n in range(12)}, "segmentation"),
        ("images/scene{0}_{1}_{2}.tif", {f"scene{n}" for n in range(12)}, "segmentation"),
        ("P{0}__1__{1}___{2}.png", {f"P{n}__1" for n in range(12)}, "detection"),
        ("scene{0}/x{2}_y{1}.png", {f"scene{n}" for n in range(12)}, "segmentation"),
        ("field/s{0}_patch{1}{2}.png", {f"s{n}" for n in range(12)}, "classification"),
        ("a.b{0}.x{2}.y{1}.png", {f"a.b{n}" for n in range(12)}, "classification"),
    ],
)
def test_images_that_are_cut_from_a_scene_are_one_group(name, scenes, task):
    names = [name.format(scene, y, x) for scene in range(12) for y, x in CUT]
    draft = drafted(names, task)
    assert groups_of(draft) == scenes and draft.splits == {"method": "group"}
    assert "cut from 12 scenes" in draft.notes["splits"][0]


def test_few_tiles_are_divided_by_their_parts_and_the_coarser_group_is_named():
    draft = drafted(
        [f"t{t}_p{p}_x{x}_y{y}.png" for t in range(8) for p in range(6) for y, x in CUT]
    )
    assert groups_of(draft) == {f"t{t}_p{p}" for t in range(8) for p in range(6)}
    said = draft.notes["splits"][1]
    assert "its 8 larger scenes" in said
    coarser = said.split("'")[1]
    assert {re.search(coarser, name)[1] for name in draft.images} == {f"t{t}" for t in range(8)}


def test_whole_scenes_beside_cut_ones_are_groups_of_their_own():
    names = [f"A_541000_{n}_x{x}_y{y}.png" for n in range(3) for y, x in CUT]
    draft = drafted([*names, "B_029.png", "C_477.png"], "detection", "coco")
    assert groups_of(draft) == {"A_541000_0", "A_541000_1", "A_541000_2", "B_029", "C_477"}


@pytest.mark.parametrize(
    "names",
    [
        [f"Forest/Forest_{n}.jpg" for n in range(40)],
        [f"claremont_2020_{n}.tif" for n in range(40)],
        [f"field/{n}.png" for n in range(40)],
        [f"one_x{x}_y{y}.png" for y, x in CUT],
    ],
)
def test_names_that_show_no_scene_give_no_group(names):
    draft = drafted(names)
    assert "group" not in draft.source and draft.splits is None


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("OAM-{x}-{y}-{z}.png", "OAM-<x>-<y>-<z>"), ("{z}_{x}_{y}.png", "<z>_<x>_<y>")],
)
def test_tiles_of_a_web_map_are_grouped_by_the_ground(name, pattern):
    names = [name.format(x=1238424 + n, y=1046544, z=21) for n in range(40)]
    names += [name.format(x=619213 + n, y=523272, z=20) for n in range(8)]
    draft = drafted(names, "detection", "coco")
    assert draft.source["web_tiles"]["pattern"] == pattern
    assert draft.source["web_tiles"]["group_zoom"] <= 20 and draft.splits == {"method": "group"}


def test_blocks_with_near_places_are_one():
    """Against brute force: near places share a block; blocks are no larger than chains of near ones make them."""
    random = np.random.default_rng(0)
    lonlat = np.stack([random.uniform(10, 10.4, 300), random.uniform(50, 50.3, 300)], 1)
    near, squares = 0.6, joined_blocks(lonlat, 3.0, None)
    found = joined_blocks(lonlat, 3.0, near)
    north = (lonlat[:, None, 1] - lonlat[None, :, 1]) * KM_PER_DEGREE
    middle = np.radians((lonlat[:, None, 1] + lonlat[None, :, 1]) / 2)
    east = (lonlat[:, None, 0] - lonlat[None, :, 0]) * KM_PER_DEGREE * np.cos(middle)
    linked = (np.hypot(north, east) < near) | (squares[:, None] == squares[None, :])
    for _ in range(10):
        linked = linked @ linked
    assert (linked == (found[:, None] == found[None, :])).all()
    assert len(set(found)) < len(set(squares))


def test_a_draft_of_places_never_tears_neighbours_apart():
    random = np.random.default_rng(1)
    towns = random.uniform((10, 50), (12, 51), (25, 2))
    places = (towns[:, None] + random.normal(0, 0.005, (25, 8, 2))).reshape(-1, 2)
    splits, words = blocks_of(places, 0.3)
    assert splits["method"] == "block" and "are one" in words
    found = joined_blocks(places, splits["block_km"], splits["join_km"])
    scaled = places * KM_PER_DEGREE * (np.cos(np.radians(50.5)), 1)
    distance = np.linalg.norm(scaled[:, None] - scaled[None, :], axis=2)
    assert not ((distance < 0.28) & (found[:, None] != found[None, :])).any()
    # a wall of images cannot be divided so, which is said
    wall = np.stack(np.meshgrid(np.arange(20) * 0.001, np.arange(20) * 0.001), -1).reshape(-1, 2)
    splits, words = blocks_of(wall, 0.3)
    assert "join_km" not in splits and "may touch" in words
