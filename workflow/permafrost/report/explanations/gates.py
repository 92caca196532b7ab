"""Explanations of the warnings (gates) of scores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from permafrost.core.leakage import LEAKS, counted_gates
from permafrost.statistics.leaderboard.rows import gates_of

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

_LEAKAGE = [*LEAKS.values()]
# gate -> (short name for a table, meaning and remedy)
WORDS = {
    "incomplete_run": (
        "ranked among fewer",
        "Jobs of other backbones failed, so this rank is among fewer backbones than planned. Run again: only "
        "missing results are computed.",
    ),
    "best_c_on_edge": (
        "C on the grid's edge",
        "The regularisation strength that was best on validation is the smallest or largest one tried, "
        "so a better one may be outside the range. Widen the range of C of this probe.",
    ),
    "best_k_on_edge": (
        "k on the list's edge",
        "The number of neighbours that was best on validation is the largest one tried, so a better one may be "
        "outside the list. Extend the list of this probe.",
    ),
    "best_learning_rate_on_edge": (
        "learning rate on the list's edge",
        "The learning rate that was best on validation is the smallest or largest one tried, so a better one "
        "may be outside the list. Extend the list of this probe.",
    ),
    "best_alpha_on_edge": (
        "alpha on the grid's edge",
        "The strength of the penalty that was best on validation is the smallest or largest one tried, so a better "
        "one may be outside the range. Widen the range of alpha of this probe.",
    ),
    "fitted_on_parent_train": (
        "features know images of the folds",
        "The features depend on images of the dataset's train split (random filters made of them, or a normalisation "
        "by their statistics), and folds test these images, too, so scores may be too high. Choose a backbone with a "
        "fixed normalisation.",
    ),
    "normalised_by_own_statistics": (
        "each dataset normalised by itself",
        "Both datasets are normalised by the statistics of their own train split: train and test images are scaled by "
        "different numbers, which hides part of the shift. A fixed normalisation would show all of it.",
    ),
    "reads_no_changed_band": (
        "reads none of the changed bands",
        "The backbone gets the same input from the degraded images as from the clean ones, so its score is that of the "
        "clean images and does not measure robustness.",
    ),
    "constant_predictions": (
        "constant prediction",
        "Every test sample got the same predicted value: the features contain nothing useful for the probe.",
    ),
    "constant_target_in_test": (
        "all test targets equal",
        "All test samples have the same target, so R² is undefined; RMSE and MAE are not.",
    ),
    "one_class_predictions": (
        "one class only",
        "Every test sample (pixel, detection) was predicted as the same class: the features contain "
        "nothing useful for the probe, or the probe failed.",
    ),
    "no_detections": (
        "nothing detected",
        "No test image has a detection, although there are objects: the head was not trained long enough, "
        "or the features contain nothing useful for it.",
    ),
    "nothing_found_on_validation": (
        "nothing found on validation",
        "The head finds no object of validation at any score threshold, so the threshold is meaningless, like recall, "
        "precision and F1 at it. AP needs no threshold.",
    ),
    "objects_without_cell": (
        "maps too coarse for the objects",
        "Many training objects share a cell of the maps with others, because they are too small or too close to "
        "others, and could not be learned. Set a smaller finest_stride or a larger image size.",
    ),
    "windows_touch": (
        "windows do not overlap",
        "Images were cut into windows without overlap, so objects on a seam were split and had to be joined. "
        "Give the dataset's tiles an overlap.",
    ),
    "one_unit": (
        "one test unit",
        "The test set is one image, or one group of related images. The variation of the value with other images "
        "cannot be estimated, so the interval is the whole valid range. Split the data so that test has "
        "more than one unit.",
    ),
    "few_units": (
        "few test units",
        "The test set is only two to five images, or groups of related images. Intervals and p-values are "
        "computed, but their assumptions cannot be checked. Split the data so that test has more units.",
    ),
    "equal_in_all_units": (
        "all test units equal",
        "Every test image, or group of images, has the same value (an error, or a set size), so its variation cannot "
        "be estimated; the interval is that of a test set in which no unit has an error, with as many units.",
    ),
    "significance_out_of_reach": (
        "significance out of reach",
        "No difference between these backbones can be significant, whatever the data: the test set "
        "has too few units, or there are too few resamples (comparison.resamples).",
    ),
    "collapsed_features": (
        "collapsed features",
        "All images have (nearly) the same features. Check bands, units and normalisation of this backbone.",
    ),
    "one_class_in_train": (
        "one class in training",
        "The training split has only one class, or constant labels, so the probe could only repeat them.",
    ),
    "below_chance": (
        "not above chance",
        "The interval is at or below a score that needs no images, such as that of always predicting "
        "the largest class, or change everywhere.",
    ),
    "not_converged": (
        "not converged",
        "The solver stopped before it reached its tolerance. Raise the number of iterations.",
    ),
    "temperature_undefined": (
        "no temperature",
        "No temperature: correct classes have probability 0 (for example if none of a sample's neighbours "
        "has its class), which no temperature changes, or there is a single test "
        "unit. A floor (calibration.floor) makes it defined.",
    ),
    "temperature_at_bound": (
        "temperature at its bound",
        "The likelihood still rises at the smallest or largest temperature tried (0.01 or 100), as if all predictions "
        "are correct, or probabilities are uninformative.",
    ),
    "temperature_flat": (
        "temperature makes no difference",
        "All probabilities of a sample are equal (or 0 and 1), so no temperature changes them; 1 is reported.",
    ),
    "nothing_to_fine_tune": (
        "nothing to fine-tune",
        "The backbone has no trainable parameters: the score is that of the head on its frozen output.",
    ),
    "spatially_random": (
        "random split of spatial data",
        "Splits of data with locations or groups were drawn at random, or share groups, so neighbours of "
        "training samples are tested: the value is too optimistic for new locations.",
    ),
}
_WITH_CLASS = {
    "decided_by_ties": (
        "{} predictions decided by ties",
        "{} predictions depend on the order of training rows or classes: neighbours were equally far, or "
        "votes were equal. The lowest row and the lowest class were chosen.",
    ),
    "rescaled_features": (
        "features of scale {}",
        "The features have a standard deviation of about {}. The probe divided them by it, as penalties assume "
        "features around 1. Check the normalisation of this backbone.",
    ),
    "detections_cut": (
        "{} beyond max_detections",
        "{} exceed max_detections of an image and class, and average precision counts only those of the "
        "highest scores. Objects beyond that number cannot be found. Raise max_detections of the dataset.",
    ),
    "few_errors": (
        "{} wrong",
        "{} of the test items are wrong, and they are in fewer than five units (images or groups). The gap of "
        "probabilities and accuracy depends on them, so its interval may be too narrow.",
    ),
    "heavy_tail": (
        "{} of the error in one unit",
        "One test image, or group of images, has {} of all errors (of their squares, for R² and RMSE). Others like it "
        "may be missing from the test set, and the interval cannot account for them. See the hardest images and the "
        "median absolute error.",
    ),
    "few_to_calibrate": (
        "{} thresholds without enough images",
        "{} thresholds of prediction sets had too few images to be calibrated on (fewer than 1 / alpha - 1 of their "
        "class or group). They are infinite: such a class is in every set, such a group has sets of all classes.",
    ),
    "sparse_bins": (
        "{} bins nearly empty",
        "{} bins contain fewer than 100 predictions. Chance decides which has the largest gap, so no interval of "
        "the largest calibration error is reliable.",
    ),
    "test_duplicates_in_train": (
        "{} are duplicates of training images",
        "{} equal a training or validation image byte by byte, so images are not unseen. Use the score on "
        "the clean test images, if there are any, and split the data again.",
    ),
    "test_near_duplicates_in_train": (
        "{} are near-duplicates of training images",
        "{} resemble a training or validation image (by the dataset's card): the value is too optimistic for "
        "unseen images. Use the score on the clean test images, if there are any, and split the data again.",
    ),
    "test_groups_in_train": (
        "{} are of groups in training",
        "{} are of a group (scene, tile, flight) with images in training or validation: the value is too optimistic "
        "for unseen groups. Use the score on the clean test images, if there are any, and split the data by group.",
    ),
    "one_unit": (
        "{}",
        "This value rests on a single unit ({}). Its variation cannot be estimated, so the interval is "
        "the whole valid range. Split the data so that test has more of them.",
    ),
    "few_units": (
        "{}",
        "This value rests on few units ({}). The interval has as few degrees of freedom, but its assumptions "
        "cannot be checked. Split the data so that test has more of them.",
    ),
    "k_above_gallery": (
        "no k = {}",
        "The gallery has fewer than {} images, so recall and hits at that rank are omitted.",
    ),
    "queries_without_relevant": (
        "{} queries without relevant images",
        "{} queries have no relevant image in the gallery and are excluded.",
    ),
    "fewer_samples_than_asked": (
        "too few samples of class {}",
        "The training split has fewer samples of class {} than requested; the training subset contains all of them.",
    ),
    "k_above_train": (
        "no k = {}",
        "The training split has fewer than {} samples, so this number of neighbours is omitted.",
    ),
    "class_missing_in_train": (
        "class {} missing in train",
        "Class {} has no training sample (pixel, object), so it cannot be predicted; its test samples count as "
        "errors.",
    ),
    "label_always_present_in_train": (
        "label {} always present in train",
        "Every training sample has label {}, so nothing could be learned about it.",
    ),
    "learning_rate_diverged": (
        "learning rate {} diverged",
        "Training at the learning rate {} ended with weights that are not finite, so it was excluded from the choice.",
    ),
    "significance_out_of_reach": (
        "only differences above {} are detectable",
        "With this test set and so many backbones, only differences above {} are detected with 80 % power, "
        "which is more than the range from chance to the best possible score. Use more test units, or compare "
        "fewer backbones.",
    ),
    "class_missing_in_val": (
        "class {} missing in val",
        "Class {} has no validation sample (pixel, object): settings were chosen without it.",
    ),
    "class_missing_in_test": (
        "class {} missing in test",
        "Class {} has no test sample (pixel, object), so it has no score.",
    ),
    "projected_maps": (
        "maps projected to {} channels",
        "The probe read maps that were projected to {} channels (`extraction.maps_channels`). Compare the score only "
        "with others of the same number of channels: with all channels it is usually higher.",
    ),
    "unusual_input": (
        "unusual input: {}",
        "Normalised channels have a mean beyond ±1 or a deviation below 0.3 or above 10 over train ({}), unlike the "
        "data of pre-training. Check unit, scale and offset of these bands, and `input` of the backbone (`white` "
        "of weights for pictures). It may be correct: statistics that include clouds give clear land a small "
        "deviation. Try `input: {{normalization: dataset}}` to see whether it matters.",
    ),
    "sentinel2_offset": (
        "Sentinel-2's offset {}",
        "Sentinel-2's offset of 1000 (since baseline 04.00) is {}: their reflectance differs by 0.1 from that of "
        "pre-training. If all images have it, set `offset: -0.1` under `units` of the dataset's entry; if some have "
        "it, subtract 1000 from their files; if none has it, set no offset.",
    ),
}

# the plural, for several classes
_OF_CLASSES = {
    "class_missing_in_train": (
        "{} classes missing in train",
        "The classes {} have no training sample (pixel, object), so they cannot be predicted; their test samples "
        "count as errors.",
    ),
    "class_missing_in_val": (
        "{} classes missing in val",
        "The classes {} have no validation sample (pixel, object): settings were chosen without them.",
    ),
    "class_missing_in_test": (
        "{} classes missing in test",
        "The classes {} have no test sample (pixel, object), so they have no score.",
    ),
    "fewer_samples_than_asked": (
        "too few samples of {} classes",
        "The training split has fewer samples of the classes {} than requested; the training subset has all of them.",
    ),
    "label_always_present_in_train": (
        "{} labels always present in train",
        "Every training sample has the labels {}, so nothing could be learned about them.",
    ),
}
# up to this many classes are listed individually
_MANY = 3


def gather_classes(gates: list[str]) -> list[str]:
    """The warnings, merged over classes: ``class_missing_in_test:0, 4, 7``."""
    of_kind: dict[str, list[str]] = {}
    for gate in gates:
        kind, _, detail = gate.partition(":")
        if kind in _OF_CLASSES:
            of_kind.setdefault(kind, []).append(detail)
    many = {kind: found for kind, found in of_kind.items() if len(found) >= _MANY}
    rest = [gate for gate in gates if gate.partition(":")[0] not in many]
    # class ids are usually numbers, but not always
    listed = {kind: sorted(found, key=lambda one: (len(one), one)) for kind, found in many.items()}
    return sorted([*rest, *(f"{kind}:{', '.join(found)}" for kind, found in listed.items())])


def leakage_said(rows: Iterable[dict], datasets: Iterable[str] | None = None) -> list[str]:
    """One sentence per dataset with test images in training, from the warnings of its score rows.

    `datasets` limits the result; by default all datasets count.
    """
    wanted = None if datasets is None else set(datasets)
    found: dict[str, set[str]] = {}
    for row in rows:
        if wanted is None or row["dataset"] in wanted:
            met = {gate for gate in gates_of(row) if gate.partition(":")[0] in _LEAKAGE}
            found.setdefault(row["dataset"], set()).update(met)
    return [
        f"Leakage in {dataset}: {' and '.join(map(explain, sorted(met, key=_place)))}."
        for dataset, met in sorted(found.items())
        if met
    ]


def leakage_flags(card: Card) -> list[dict[str, str]]:
    """Warnings of a card's audit on the test images, which concern every score: short and long."""
    if "test_in_train" not in card.audit:
        return []
    audit, images = card.audit, card.splits["test"]["count"]
    gates = counted_gates(audit["test_in_train"], images)
    flags = [{"short": explain(gate), "long": explain_at_length(gate)} for gate in gates]
    copies = audit["copies_in_test"]
    if copies["exact"] or copies["near"]:
        long = (
            f"Of {images} test images, {copies['exact']} equal another one and {copies['near']} are near-duplicates of "
            f"another one. Copies and their groups are one sampling unit: intervals rest on "
            f"{copies['units']} units."
        )
        short = f"copies among the test images: {copies['units']} units of {images}"
        flags.append({"short": short, "long": long})
    return flags


def _place(gate: str) -> tuple[int, str]:
    return _LEAKAGE.index(gate.partition(":")[0]), gate


def explain(gate: str) -> str:
    """Short name of a gate; an unknown gate keeps its name."""
    return _look_up(gate)[0]


def explain_at_length(gate: str) -> str:
    """One or two sentences on a gate, with the remedy."""
    return _look_up(gate)[1]


def _look_up(gate: str) -> tuple[str, str]:
    if gate in WORDS:
        return WORDS[gate]
    kind, _, detail = gate.partition(":")
    detail = detail.strip()
    if kind in _OF_CLASSES and ", " in detail:
        short, long = _OF_CLASSES[kind]
        return short.format(detail.count(", ") + 1), long.format(detail)
    if kind in _WITH_CLASS and detail:
        short, long = _WITH_CLASS[kind]
        return short.format(detail), long.format(detail)
    words = kind.replace("_", " ") + (f" ({detail})" if detail else "")
    return words, f"The check “{words}” failed."
