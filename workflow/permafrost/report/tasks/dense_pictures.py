"""What pictures of masks and of rasters share: which images are shown, of which evaluations, on which sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from permafrost.report.material.dataset import Evaluation, Material, best_of_each
from permafrost.report.material.masks import SHOWN

_HEADINGS = {
    "drawn": "drawn at random",
    "best": "best of the other test images",
    "worst": "worst of the other test images",
}


def grouped(examples: dict, answers_of: Callable[[str], dict]) -> list[tuple[str, list]]:
    """Heading and pairs (example, answer) of the images drawn at random, the best and the worst.

    Parameters
    ----------
    examples : sample id -> test image with its truth.
    answers_of : reason why images are shown -> {sample id: what was predicted}.
    """
    return [
        (_HEADINGS[why], [(examples[name], answer) for name, answer in answers_of(why).items()])
        for why in SHOWN
    ]


def by_backbone(
    material: Material, most: int, read: Callable, answers_of: Callable[[object, str], dict]
) -> tuple[dict[Evaluation, dict], int]:
    """Answers to the images drawn at random by the best evaluation of each backbone, and how many are left out.

    Nothing is compared where fewer than two backbones kept pictures.
    """
    best, shown = best_of_each(material), {}
    for key in best[:most]:
        path = material.predictions[key]
        answers = answers_of(read(path, expect=material.expected(path)), "drawn")
        shown |= {key: answers} if answers else {}
    return (shown, max(0, len(best) - most)) if len(shown) > 1 else ({}, 0)


def drawn_of(shown: dict[Evaluation, dict], examples: dict) -> list:
    """The examples that were drawn, which are the same for all evaluations."""
    return [examples[name] for name in next(iter(shown.values()), {}) if name in examples]


def sheets(
    shown: dict[Evaluation, dict], drawn: list, columns: int
) -> Iterator[tuple[list[Evaluation], list[tuple[str, list]], list[str]]]:
    """Yield evaluations, their columns (backbone, answers in the order of `drawn`) and the sheet's number.

    One that kept fewer images has empty places (None). The number is left out where one sheet has all.
    """
    keys = list(shown)
    parts = [keys[start : start + columns] for start in range(0, len(keys), columns)]
    for number, part in enumerate(parts, start=1):
        answers = [(key[0], [shown[key].get(one.name) for one in drawn]) for key in part]
        yield part, answers, [str(number)] if len(parts) > 1 else []
