"""Costs of backbones with their scores: the lines of a dataset, and remarks on their values."""

from __future__ import annotations

import json

from permafrost.report.explanations.measures import measured_lines, notes_of
from permafrost.statistics.leaderboard.rows import finite

KIND = "profile"
# quantity -> (name, definition), in display order
WORDS = {
    "parameters": ("parameters", "trainable parameters"),
    "buffers": ("buffers", "other values stored in the network, such as running means or random filters"),
    "weights_mb": ("weights (MB)", "parameters and buffers in memory, in 10⁶ bytes"),
    "flops": ("FLOPs", "floating-point operations per image (a multiply-add counts as two) of matrix products, convolutions and attention"),
    "throughput": ("images/s", "images per second in batches, already resized and normalised"),
    "cpu_time_ms": ("CPU time (ms)", "CPU time of all threads, per image in batches"),
    "prepare_ms": ("preparing (ms)", "time to bring an image to the device (as float32), normalise and resize it, per image in batches"),
    "latency_ms": ("latency (ms)", "time of a single image, already resized and normalised"),
    "latency_p95_ms": ("latency, 95 % (ms)", "95th percentile of the time of a single image"),
    "peak_memory_mb": ("peak memory (MB)", "weights plus the peak that preparing and running a batch adds, in 10⁶ bytes, without libraries"),
    "energy_j": ("energy (J)", "joules per image in batches, of the whole device including other work"),
}  # fmt: skip
# quantities of the figure
DRAWN = ("parameters", "flops", "latency_ms", "peak_memory_mb")
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
#: must be equal for times of two profiles to be comparable
_RUN = ("batch_size", "precision", "compile", "hardware")


def cost_lines(rows: list[dict]) -> list[dict]:
    """One line per profiled backbone, best score first: ``backbone``, ``best`` and ``costs`` (name to row)."""
    return [
        {"backbone": line["backbone"], "best": line["best"], "costs": line["measures"]}
        for line in measured_lines(rows, KIND)
    ]


def brief_cost(value) -> str:
    """Three digits with a letter for thousands, millions …: ``2.22 M``; a dash for a missing value."""
    if not finite(value):
        return "–"
    for letter, size in _LARGE:
        # a value that rounds up to the next unit gets its letter
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)} {letter}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e+" in text else text


def machines(lines: list[dict]) -> list[str]:
    """One sentence per machine on the profiles run there, and a warning if there are two or more."""
    by_machine: dict[str, tuple[dict, list[str]]] = {}
    for line in lines:
        notes = notes_of(next(iter(line["costs"].values())))
        key = json.dumps({name: notes[name] for name in _RUN}, sort_keys=True)
        by_machine.setdefault(key, (notes, []))[1].append(line["backbone"])
    sentences = [
        f"{_machine(notes)}{f' ({", ".join(names)})' if len(by_machine) > 1 else ''}."
        for notes, names in by_machine.values()
    ]
    if len(by_machine) > 1:
        sentences.append(
            "These profiles were run differently: do not compare times, memory and energy across them."
        )
    return sentences


def _machine(notes: dict) -> str:
    hardware = notes["hardware"]
    where = (
        f"{hardware['processor']}, {hardware['threads']} thread{'s' * (hardware['threads'] != 1)}"
    )
    where += f" on {hardware['cores_usable']} usable of {hardware['cores']} cores"
    if "gpu" in hardware:
        where = f"{hardware['gpu']} (GPU) with {where}"
    compiled = ", compiled" if notes["compile"] else ""
    return (
        f"Measured on {where}; batches of {notes['batch_size']}, {notes['precision']}{compiled}, "
        f"torch {hardware['torch']}"
    )


def remarks(lines: list[dict]) -> list[str]:
    """One sentence per kind of unknown or doubtful cost."""
    backbones_by_remark: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for name, row in line["costs"].items():
            notes = notes_of(row)
            said = [f"unknown, {notes['undefined']}"] if "undefined" in notes else []
            said += [notes["flag"]] if "flag" in notes else []
            for statement in said:
                backbones_by_remark.setdefault((name, statement), []).append(line["backbone"])
    sentences = [
        f"{WORDS[name][0]} of {'all backbones' if len(names) == len(lines) > 1 else ', '.join(names)}: "
        f"{statement}."
        for (name, statement), names in backbones_by_remark.items()
    ]
    of_lines = [notes_of(next(iter(line["costs"].values()))) for line in lines]
    if any("several_sizes" in one for one in of_lines):
        height, width = of_lines[0]["native"]
        sentences.append(
            f"The images of this dataset differ in size; costs are for the largest, {height} × {width} pixels."
        )
    return sentences


def uncounted(lines: list[dict]) -> list[str]:
    """Operators excluded from the FLOPs of some backbone, sorted."""
    names = set()
    for line in lines:
        if "flops" in line["costs"]:
            names |= set(notes_of(line["costs"]["flops"]).get("uncounted", ()))
    return sorted(names)
