"""The sanity gates in words: what each means for the number beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from permafrost.core.leakage import LEAKS, counted_gates
from permafrost.statistics.leaderboard.rows import gates_of

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

_LEAKAGE = [*LEAKS.values()]
# gate -> (short name for a table, what it means and what to do)
WORDS = {
    "incomplete_run": (
        "ranked among fewer",
        "Jobs of other backbones failed, so this rank is among fewer backbones than were planned. Run again; only "
        "what is missing is made.",
    ),
    "best_c_on_edge": (
        "C on the grid's edge",
        "The regularisation strength that was best on validation is the smallest or largest one tried, "
        "so a better one may lie beyond. Widen the range of C of this probe.",
    ),
    "best_k_on_edge": (
        "k on the list's edge",
        "The number of neighbours that was best on validation is the largest one tried, so a better one may lie "
        "beyond. Lengthen the list of this probe.",
    ),
    "best_learning_rate_on_edge": (
        "learning rate on the list's edge",
        "The learning rate that was best on validation is the smallest or largest one tried, so a better one "
        "may lie beyond. Lengthen the list of this probe.",
    ),
    "best_alpha_on_edge": (
        "alpha on the grid's edge",
        "The strength of the penalty that was best on validation is the smallest or largest one tried, so a better "
        "one may lie beyond. Widen the range of alpha of this probe.",
    ),
    "constant_predictions": (
        "one number only",
        "Every test sample was given the same number: the features hold nothing that the probe could use.",
    ),
    "constant_target_in_test": (
        "all test targets equal",
        "All test samples have the same target, so R² is undefined; RMSE and MAE are not.",
    ),
    "one_class_predictions": (
        "one class only",
        "Every test sample (every pixel or detection, where those are predicted) has the same class: the features hold "
        "nothing that the probe could use, or the probe failed.",
    ),
    "no_detections": (
        "nothing detected",
        "No test image has a detection, though there are objects: the head was not trained long enough to find "
        "any, or the features hold nothing that it could use.",
    ),
    "nothing_found_on_validation": (
        "nothing found on validation",
        "No score threshold makes the head find an object of validation, so the threshold means nothing: recall, "
        "precision and F1 at it do not either. AP needs no threshold.",
    ),
    "objects_without_cell": (
        "maps too coarse for the objects",
        "Many training objects have no place of their own on the maps, since they are too small or too close to "
        "others, and could not be learned. Ask for a smaller finest_stride, or for larger images.",
    ),
    "windows_touch": (
        "windows do not overlap",
        "Images were cut into windows that only touch, so objects on a seam were seen in parts and had to be joined. "
        "Give the dataset's tiles an overlap.",
    ),
    "one_unit": (
        "one test unit",
        "All of the test set is one image, or one group of images that belong together: how far the value would "
        "move with others cannot be said, and the interval is all that is possible. Divide the data so that test has "
        "more than one.",
    ),
    "few_units": (
        "few test units",
        "The test set is only two to five images, or groups of images that belong together: intervals and p-values are "
        "formed, but so few units cannot show what they assume. Divide the data so that test has more.",
    ),
    "equal_in_all_units": (
        "all test units equal",
        "Every test image, or group of images, has the same error, so how far the value would move with others cannot "
        "be said; the interval allows for units without error, and for as many more.",
    ),
    "significance_out_of_reach": (
        "significance out of reach",
        "No difference between these backbones could be significant, whatever the data: the test set "
        "has too few units, or there are too few resamples (comparison.resamples).",
    ),
    "collapsed_features": (
        "collapsed features",
        "All images have (nearly) the same features. Look at bands, units and normalisation of this backbone.",
    ),
    "one_class_in_train": (
        "nothing to learn",
        "Train has a single class, or labels that never change, so the probe could only repeat them.",
    ),
    "below_chance": (
        "not above chance",
        "The interval lies at or below what is reached without looking at the images, such as by always answering "
        "the largest class, or that everything changed.",
    ),
    "not_converged": (
        "not converged",
        "The solver stopped before its tolerance was reached. Raise the number of iterations.",
    ),
    "temperature_undefined": (
        "no temperature",
        "No temperature: right answers have probability 0 (as where none of a sample's neighbours "
        "votes for its class), which no temperature changes, or there is a single test "
        "unit. A floor (calibration.floor) would define one.",
    ),
    "temperature_at_bound": (
        "temperature at its bound",
        "The likelihood still rises at the smallest or largest temperature tried (0.01 or 100), as where all answers "
        "are right, or probabilities hold nothing.",
    ),
    "temperature_flat": (
        "temperature makes no difference",
        "All probabilities of a sample are equal (or 0 and 1), so no temperature changes them; 1 is given.",
    ),
    "nothing_to_fine_tune": (
        "nothing to fine-tune",
        "The backbone has no parameters that could be trained: what is scored is the head on what it gives.",
    ),
    "spatially_random": (
        "random split of spatial data",
        "Splits of data with places or groups were drawn at random, or share groups as given, so neighbours of "
        "training samples are tested: the value overstates what to expect at new places.",
    ),
}
_WITH_CLASS = {
    "decided_by_ties": (
        "{} answers decided by ties",
        "{} answers would be others if training rows or classes came in another order: neighbours were equally far, or "
        "votes were equal. They went to the lowest row and the lowest class.",
    ),
    "rescaled_features": (
        "features of scale {}",
        "The features vary by about {}. The probe divided them by this number first, since its penalties are meant for "
        "features around 1. Look at the normalisation of this backbone.",
    ),
    "detections_cut": (
        "{} beyond max_detections",
        "{} are more than max_detections of an image and class, of which average precision counts those of the "
        "highest scores: objects beyond that number cannot be found. Raise max_detections of the dataset.",
    ),
    "few_errors": (
        "{} wrong",
        "Of the test items {} are wrong, and they are in fewer than five units (images or groups). How far "
        "probabilities are from the share that is right depends on them, so its interval may be too narrow.",
    ),
    "heavy_tail": (
        "{} of the error in one unit",
        "One test image, or group of images, has {} of all errors (of their squares, for R² and RMSE). Others like it "
        "may be missing from the test set, and the interval does not know them. Look at the hardest images and at the "
        "median absolute error.",
    ),
    "sparse_bins": (
        "{} bins nearly empty",
        "{} bins hold fewer than 100 answers. Chance decides which of them has the largest gap, so no interval of "
        "the largest calibration error can be trusted.",
    ),
    "test_duplicates_in_train": (
        "{} are duplicates of training images",
        "{} are byte-equal to a training or validation image: the value is no score on unseen images. Read that on "
        "the clean test images, if there are any, and divide the data anew.",
    ),
    "test_near_duplicates_in_train": (
        "{} are near-duplicates of training images",
        "{} look like a training or validation image (by the dataset's card): the value overstates what to expect of "
        "unseen images. Read that on the clean test images, if there are any, and divide the data anew.",
    ),
    "test_groups_in_train": (
        "{} are of groups in training",
        "{} are of a group (scene, tile, flight) that training or validation has images of: the value overstates what "
        "to expect of unseen groups. Read that on the clean test images, if there are any, and divide it by group.",
    ),
    "one_unit": (
        "{}",
        "A single unit carries this value ({}): how far it would move with others cannot be said, and the interval is "
        "all that is possible. Divide the data so that test has more of them.",
    ),
    "few_units": (
        "{}",
        "Few units carry this value ({}): an interval is formed with as few degrees of freedom, but so few units "
        "cannot show what it assumes. Divide the data so that test has more of them.",
    ),
    "k_above_gallery": (
        "no k = {}",
        "The gallery has fewer than {} images, so recall and hits among that many nearest were left out.",
    ),
    "queries_without_relevant": (
        "{} queries without relevant images",
        "To {} test images nothing in the gallery is relevant; they are in no mean.",
    ),
    "fewer_samples_than_asked": (
        "too few samples of class {}",
        "Train has fewer samples of class {} than a draw asked for; the draw has all of them.",
    ),
    "k_above_train": (
        "no k = {}",
        "Train has fewer than {} samples, so this number of neighbours was left out.",
    ),
    "class_missing_in_train": (
        "class {} missing in train",
        "Class {} has no training sample (pixel, object), so it cannot be predicted; what is of it in test counts as "
        "errors.",
    ),
    "label_always_present_in_train": (
        "label {} always present in train",
        "Every training sample has label {}, so nothing could be learned about it.",
    ),
    "learning_rate_diverged": (
        "learning rate {} diverged",
        "Training at the learning rate {} left weights that are not finite; it took no part in the choice.",
    ),
    "significance_out_of_reach": (
        "only differences above {} can be found",
        "With this test set and so many backbones only differences above {} would be found with a chance of 80 %, "
        "which is more than lies between chance and the best possible score. Give it more test units, or compare "
        "fewer backbones.",
    ),
    "class_missing_in_val": (
        "class {} missing in val",
        "Class {} has no validation sample (pixel, object): settings were chosen without it.",
    ),
    "class_missing_in_test": (
        "class {} missing in test",
        "Class {} has no test sample (pixel, object): how well it is recognised cannot be said.",
    ),
    "unusual_input": (
        "unusual input: {}",
        "Channels are fed with a mean beyond ±1 or a deviation below 0.3 or above 10 over train ({}), unlike what the "
        "weights were trained with. Check unit, scale and offset of these bands, and `input` of the backbone (`white` "
        "of weights for pictures). It may be right: statistics that include clouds give clear land a small "
        "deviation. `input: {{normalization: dataset}}` shows whether it matters.",
    ),
    "sentinel2_offset": (
        "Sentinel-2's offset {}",
        "Sentinel-2's offset of 1000 (since baseline 04.00) is {}: their reflectance is 0.1 off what weights were "
        "trained with. If all images have it, give `offset: -0.1` under `units` of the dataset's entry; if some have "
        "it, subtract 1000 from their files; if none has it, give no offset.",
    ),
}

# the same of several classes
_OF_CLASSES = {
    "class_missing_in_train": (
        "{} classes missing in train",
        "The classes {} have no training sample (pixel, object), so they cannot be predicted; what is of them in test "
        "counts as errors.",
    ),
    "class_missing_in_val": (
        "{} classes missing in val",
        "The classes {} have no validation sample (pixel, object): settings were chosen without them.",
    ),
    "class_missing_in_test": (
        "{} classes missing in test",
        "The classes {} have no test sample (pixel, object): how well they are recognised cannot be said.",
    ),
    "fewer_samples_than_asked": (
        "too few samples of {} classes",
        "Train has fewer samples of the classes {} than a draw asked for; the draw has all of them.",
    ),
    "label_always_present_in_train": (
        "{} labels always present in train",
        "Every training sample has the labels {}, so nothing could be learned about them.",
    ),
}
# fewer are said one by one
_MANY = 3


def gather_classes(gates: list[str]) -> list[str]:
    """The gates, those that many classes have in common as one: ``class_missing_in_test:0, 4, 7``."""
    of_kind: dict[str, list[str]] = {}
    for gate in gates:
        kind, _, detail = gate.partition(":")
        if kind in _OF_CLASSES:
            of_kind.setdefault(kind, []).append(detail)
    many = {kind: found for kind, found in of_kind.items() if len(found) >= _MANY}
    rest = [gate for gate in gates if gate.partition(":")[0] not in many]
    # class ids are numbers, but nobody promises it
    listed = {kind: sorted(found, key=lambda one: (len(one), one)) for kind, found in many.items()}
    return sorted([*rest, *(f"{kind}:{', '.join(found)}" for kind, found in listed.items())])


def leakage_said(rows: Iterable[dict], datasets: Iterable[str] | None = None) -> list[str]:
    """A sentence for each dataset whose test images training has seen, by the gates of its score rows.

    `datasets` are those that count, all by default.
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
    """What a card's audit says of its test images that concerns every score, in short and at length."""
    if "test_in_train" not in card.audit:
        return []
    audit, images = card.audit, card.splits["test"]["count"]
    gates = counted_gates(audit["test_in_train"], images)
    flags = [{"short": explain(gate), "long": explain_at_length(gate)} for gate in gates]
    copies = audit["copies_in_test"]
    if copies["exact"] or copies["near"]:
        long = (
            f"Of {images} test images, {copies['exact']} equal another one and {copies['near']} are near-duplicates of "
            f"another one. Copies are one unit of resampling, joined with their groups: intervals rest on "
            f"{copies['units']} units."
        )
        short = f"copies among the test images: {copies['units']} units of {images}"
        flags.append({"short": short, "long": long})
    return flags


def _place(gate: str) -> tuple[int, str]:
    return _LEAKAGE.index(gate.partition(":")[0]), gate


def explain(gate: str) -> str:
    """A gate in a few words; one that is not known is shown by its name."""
    return _look_up(gate)[0]


def explain_at_length(gate: str) -> str:
    """A gate in a sentence or two, with what to do about it."""
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
    return words, f"The check “{words}” was not passed."
