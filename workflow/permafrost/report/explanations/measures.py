"""Feature metrics next to the scores: the lines of a dataset, and remarks on their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from permafrost.report.notation import true_minus
from permafrost.statistics.leaderboard.rows import better_first, finite, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

KIND = "measures"
# measure -> (name, definition), in display order
WORDS = {
    "uniformity": ("uniformity", "log of the mean of exp(−2 × squared distance) of two unit-length rows, from 0 (all directions equal) to about −4 (evenly spread)"),
    "rankme": ("RankMe", "effective rank: exp of the entropy of the singular values"),
    "stable_rank": ("stable rank", "sum of the squared singular values over the largest of them"),
    "alpha_req": ("α-ReQ", "exponent by which the eigenvalues of the covariance decay"),
    "nesum": ("NESum", "sum of the eigenvalues of the covariance over the largest of them"),
    "participation_ratio": ("participation ratio", "squared sum of the eigenvalues of the covariance over the sum of their squares"),
    "dimension_lpca": ("dimension (PCA)", "number of eigenvalues of the covariance that are above a twentieth of the largest"),
    "dimension_two_nn": ("dimension (TwoNN)", "intrinsic dimension from the distances to the two nearest rows"),
    "dimension_mle": ("dimension (MLE)", "intrinsic dimension by maximum likelihood from the distances to the 20 nearest rows"),
    "alignment": ("alignment", "mean squared distance of two unit-length rows of a class; lower for compact classes"),
    "silhouette": ("silhouette", "how much nearer a row is to its own class than to the nearest other class, from −1 to 1"),
    "silhouette_normalised": ("silhouette (length 1)", "silhouette of unit-length rows"),
    "alignment_augmentations": ("alignment (views)", "mean squared distance of two augmented views of an image, at unit length; lower if features are robust to augmentations"),
    "lidar": ("LiDAR", "effective rank of the differences between images, relative to the variation of augmented views of one image"),
}  # fmt: skip
LABELLED = frozenset({"alignment", "silhouette", "silhouette_normalised"})
# measured on augmented views instead of the features that the probes read
OF_VIEWS = frozenset({"alignment_augmentations", "lidar"})
# texts of the counts in a measure's notes
_COUNTS = {
    "duplicates": "{} of {rows} rows equal an earlier one",
    "zero_rows": "{} of {rows} rows are zero and have no direction",
    "singletons": "classes with a single row: {}",
    "zero_distances": "rows omitted, because another row is at distance zero: {}",
    "zero_views": "{} of {rows} × {views} views are zero and have no direction",
    "lone_images": "images omitted, because fewer than two of their views have a direction: {}",
    "short_lists": "neighbour lists that are too short without a resampled unit: {}",
}


def measure_rows(rows: Iterable[dict], kind: str = KIND) -> list[dict]:
    """The rows of measures (or of another kind) among a leaderboard's."""
    return [row for row in rows if row["kind"] == kind]


def measured_names(rows: Iterable[dict]) -> list[str]:
    """The distinct measures of rows, in the order of `WORDS`; others follow by name."""
    known = list(WORDS)
    return sorted(
        {row["metric"] for row in rows},
        key=lambda name: (known.index(name) if name in WORDS else len(known), name),
    )


def words_of(name: str) -> tuple[str, str]:
    """A measure's display name and definition."""
    return WORDS.get(name, (name.replace("_", " "), ""))


def measured_lines(rows: list[dict], kind: str = KIND) -> list[dict]:
    """One line per backbone of a dataset: ``backbone``, ``best`` and ``measures``, which are rows of `kind`.

    ``best`` is the backbone's best primary score over probes of the dataset's own task (None if
    it has none); lines are sorted by it, best first. ``measures`` maps names to rows.
    """
    measures = measure_rows(rows, kind)
    # other tasks, such as retrieval, have separate metrics that are not comparable
    tasks = {row["task"] for row in measures}
    scores = [line for line in merge_seeds(overall(rows)) if line["task"] in tasks]
    lines = []
    for backbone in sorted({row["backbone"] for row in measures}):
        own = [line for line in scores if line["backbone"] == backbone and finite(line["value"])]
        lines.append(
            {
                "backbone": backbone,
                "best": min(
                    own, key=lambda line: (*better_first(line), line["probe"]), default=None
                ),
                "measures": {row["metric"]: row for row in measures if row["backbone"] == backbone},
            }
        )
    return sorted(lines, key=_best_first)


def _best_first(line: dict) -> tuple:
    return better_first(line["best"]) if line["best"] else (2, 0.0, line["backbone"])


def notes_of(row: dict) -> dict:
    """The notes recorded with a measure."""
    return json.loads(row["settings"])


def is_flagged(row: dict) -> bool:
    """Whether the value is flagged as doubtful."""
    return "flag" in notes_of(row)


def remarks(lines: list[dict]) -> list[str]:
    """One sentence per kind of undefined, doubtful or partial value."""
    statements: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        for name, row in line["measures"].items():
            for statement in _statements(notes_of(row)):
                statements.setdefault(statement, {}).setdefault(line["backbone"], []).append(name)
    sentences = []
    names: Sequence[str]
    for statement, by_backbone in statements.items():
        groups: dict[tuple, list[str]] = {}
        for backbone, names in by_backbone.items():
            groups.setdefault(tuple(names), []).append(backbone)
        for names, backbones in groups.items():
            sentences.append(f"{_which(names, backbones, lines)}: {statement}.")
    return sentences


def _statements(notes: dict) -> list[str]:
    statements = [f"undefined, {notes['undefined']}"] if "undefined" in notes else []
    statements += [notes[name] for name in ("flag", "interval") if name in notes]
    statements += [
        words.format(notes[name], **{key: notes.get(key) for key in ("rows", "views")})
        for name, words in _COUNTS.items()
        if name in notes
    ]
    return statements


def _which(names: Sequence[str], backbones: list[str], lines: list[dict]) -> str:
    """The measures and backbones that a sentence concerns."""
    measured = measured_names(row for line in lines for row in line["measures"].values())
    what = (
        "all measures"
        if len(names) == len(measured) > 1
        else ", ".join(words_of(name)[0] for name in measured if name in names)
    )
    whose = "all backbones" if len(backbones) == len(lines) > 1 else ", ".join(backbones)
    return f"{what} of {whose}"


def first_of(lines: list[dict], *, views: bool) -> dict | None:
    """A row of a measure of augmented views, or of the features themselves; None without one."""
    rows = (row for line in lines for row in line["measures"].values())
    return next((row for row in rows if (row["metric"] in OF_VIEWS) == views), None)


def sample_words(row: dict) -> str:
    """The measured samples, e.g. ``10000 of the 16200 samples of train, drawn at random``."""
    notes = notes_of(row)
    if "drawn_from" in notes:
        return (
            f"{notes['rows']} of the {notes['drawn_from']} samples of {notes['split']}, drawn at random, "
            "the same for all backbones"
        )
    return f"the {notes['rows']} samples of {notes['split']}"


def view_words(row: dict) -> str:
    """The augmentations of the views, e.g. ``windows of 20 to 100 % of the image, flips, quarter turns``."""
    options = notes_of(row)["augmentations"]
    low, high = (f"{100 * share:g}" for share in options["crop_scale"])
    said = [f"windows of {low} to {high} % of the image"] if low != "100" else []
    said += ["flips"] if options["flips"] else []
    said += ["quarter turns"] if options["rotations"] else []
    if (photometric := options["photometric"]) and (photometric["gain"] or photometric["offset"]):
        said.append(
            f"gain ±{photometric['gain']:g} and offset ±{photometric['offset']:g} standard deviations of a band"
        )
    return ", ".join(said) or "nothing changed"


def brief(value) -> str:
    """A measure's value in four digits; a dash for a missing value."""
    if not finite(value):
        return "–"
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return true_minus(text)
