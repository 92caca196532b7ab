"""Write a new project: a folder with configuration, backbone, dataset and profiles."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.core.outputs import whole_directory
from permafrost.data.sources import open_source, read_entry

_TEMPLATE = Path(__file__).with_name("first_project")
_PROFILES = ("default", "slurm")
# stored without the leading dot, because many tools skip hidden files
_HIDDEN = "gitignore"
_BACKBONE = "config/backbones/my_backbone.py"
_IMAGES = "data/my-scenes"
_CHIPS = {"train": 60, "val": 20, "test": 40}
_SCENES = {"train": 4, "val": 2, "test": 3}
_BRIGHTEST = 3000.0  # digital number shown as 255; higher values are clouds and bare roofs


def write_project(folder: Path, *, module: bool) -> None:
    """Write a project into a new or empty folder, completely or not at all.

    Parameters
    ----------
    module : its Snakefile uses the workflow as a module; else it includes it.

    Raises
    ------
    PermafrostError : the folder is not empty, or cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise PermafrostError(
            "this folder is not empty, and nothing is overwritten",
            where=folder,
            remedy="name a new or an empty folder",
        )
    # an existing empty folder is kept, because it may be a shell's working folder
    inside = folder / ".init" if folder.exists() else None
    with whole_directory(inside or folder) as partial:
        _write(partial, module)
    if inside is not None:
        for path in inside.iterdir():
            path.rename(folder / path.name)
        inside.rmdir()


def _write(folder: Path, module: bool) -> None:
    shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True)
    (folder / _HIDDEN).rename(folder / f".{_HIDDEN}")
    if module:
        (folder / "module.smk").replace(folder / "Snakefile")
    else:
        (folder / "module.smk").unlink()
    for name in _PROFILES:
        shutil.copytree(HOME / "profiles" / name, folder / "profiles" / name)
    shutil.copyfile(HOME / "config/backbones/template.py", folder / _BACKBONE)
    _write_images(folder / _IMAGES)


def _write_images(folder: Path) -> None:
    """Write chips of the generated world as PNG files, in a folder per split and class."""
    import numpy as np
    from PIL import Image

    from permafrost.plan.validation import validate

    world = {"kind": "demo", "bands": "rgb", "scene_size": 256, "chip_size": 32}
    entry = {"task": "classification", "source": {**world, "scenes": _SCENES, "chips": _CHIPS}}
    validate(entry, "dataset", where=folder)
    source = open_source(read_entry(entry, where=folder), where=folder)
    for index, record in enumerate(source.records()):
        place = (
            folder / record.split / source.classes[cast("int", record.label)] / f"{index:03d}.png"
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        shown = np.clip(source.decode(index).image / _BRIGHTEST * 255, 0, 255).astype(np.uint8)
        Image.fromarray(np.moveaxis(shown, 0, -1)).save(place)
