"""What tests tell jobs: specifications of which a test writes only what it is about."""

from __future__ import annotations

from dataclasses import asdict

from permafrost.core.option_models import read
from permafrost.features.specification import ExtractionSettings

from helpers.backbones import validated

_REST = {
    "bootstrap": {"backbone": "net", "probe": "knn", "seed": 0, "task": "classification"},
    "compare": {"task": "classification"},
}


def specification(content: dict):
    """The dataclass of the stage that `content` names, with what no result of it depends on.

    The entry of a backbone gets its defaults.
    """
    stage = content["stage"]
    if stage in ("extract", "views", "profile") and content["entry"]:
        content = {**content, "entry": validated(content["entry"])}
    if stage == "compare":
        # of scores, which tests share with comparisons
        own = {key: one for key, one in content["options"].items() if key != "method"}
        content = {**content, "options": own}
    return read(_kind(stage), {**_REST.get(stage, {}), **content}, where=stage)


def extraction_of(**changes) -> dict:
    """Options of extraction as the configuration has them by default, with changes."""
    given = asdict(ExtractionSettings())
    # a configuration leaves them out, and has no null for them
    for name in ("depths", "maps_channels"):
        del given[name]
    return given | changes


def _kind(stage: str) -> type:
    if stage == "bootstrap":
        from permafrost.statistics.scores.score_table import BootstrapSpec as Kind
    elif stage == "compare":
        from permafrost.statistics.scores.comparison_table import CompareSpec as Kind
    elif stage == "measure":
        from permafrost.statistics.measures.feature_measures import MeasureSpec as Kind
    elif stage == "similarity":
        from permafrost.statistics.measures.similarities import SimilaritySpec as Kind
    elif stage == "prepare":
        from permafrost.data.store.prepare import PrepareSpec as Kind
    elif stage == "extract":
        from permafrost.features.specification import ExtractSpec as Kind
    elif stage == "views":
        from permafrost.features.specification import ViewsSpec as Kind
    else:
        from permafrost.features.specification import ProfileSpec as Kind
    return Kind
