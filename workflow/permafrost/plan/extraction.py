"""What extraction is told of an entry and of the configuration, by the task of the dataset."""

from __future__ import annotations

from permafrost.core.tasks import task_of

#: options that decide on what a backbone is fed, and that maps are made
FED = ("size", "interpolation", "antialias", "maps")


def extraction_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """Backbone entry and extraction options, without what does not matter for `task`.

    So a change of the layers, or of the type of maps, reruns no dataset that needs none.
    """
    if task_of(task).dense:
        return entry, {**extraction, "maps": True}
    return (
        {key: value for key, value in entry.items() if key != "layers"},
        {key: value for key, value in extraction.items() if key != "maps_dtype"},
    )


def views_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """The same for augmented views, of which no maps are made: whole images are fed where maps need them."""
    entry, extraction = extraction_of(task, entry, extraction)
    return (
        {key: value for key, value in entry.items() if key != "layers"},
        {key: value for key, value in extraction.items() if key != "maps_dtype"},
    )


def feeding_of(task: str, entry: dict, extraction: dict) -> tuple[dict, dict]:
    """`extraction_of` for probes that run the backbone themselves: only what decides on what it is fed."""
    entry, options = extraction_of(task, entry, extraction)
    return entry, {key: options[key] for key in FED if key in options}
