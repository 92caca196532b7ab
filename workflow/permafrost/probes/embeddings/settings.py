"""The table of probes that score the test split with more than one setting.

It is the table of `predictions`, for the setting that is ranked and compared, with one more column: for a
single label ``setting_predictions``, a class id for each setting; for multi-label data
``setting_scores``, setting by setting a score for each label; for numbers ``setting_numbers``. The metadata
list the settings in the order of that column. Scores of single-label settings are not stored: they
would be most of the table, and only top-5 accuracy needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.probes.embeddings.features import Features
from permafrost.probes.embeddings.predictions import (
    LabelPredictions,
    Prediction,
    answer_columns,
    write_rows,
)
from permafrost.probes.job import ProbeJob


class SettingPredictions(LabelPredictions):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a probe with several
    settings (knn_sweep, few_shot, fine_tune): one test sample. The columns of a table with one setting are those of
    the ranked setting, or of its first draw. The metadata of the file list the settings in scored_settings, in the
    order of the last column.

    Columns
    -------
    setting_predictions : Predicted class id for each setting; only for data with one label per image.
    setting_scores : Setting by setting, one score for each class; only for multi-label data.
    """

    columns = LabelPredictions.changed(
        Column("setting_predictions", "fixed_size_list<int32>", optional=True),
        Column("setting_scores", "fixed_size_list<float>", optional=True),
    )


@dataclass(frozen=True)
class Setting:
    """A probe's predictions of the test split with one setting.

    Attributes
    ----------
    name : name of the setting; settings with the same name are draws of one setting.
    answer : (N,) class ids or numbers; for multi-label (N, L) float32 scores.
    settings : values that distinguish it from the others, and chosen ones; JSON-able.
    n_train, n_val : number of samples that it learned from.
    gates : names of the failed sanity checks.
    draw : number of the draw, or None without draws.
    """

    name: str
    answer: np.ndarray
    settings: dict
    n_train: int
    n_val: int
    gates: list[str] = field(default_factory=list)
    draw: int | None = None

    @property
    def about(self) -> dict:
        """The entry of scored_settings in the metadata."""
        names = ("name", "settings", "n_train", "n_val", "gates", "draw")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class PredictionsBySetting:
    """The prediction that is ranked and compared, and those of all settings.

    Attributes
    ----------
    ranked : the ranked prediction; score rows show its ``settings``.
    settings : all scored settings, including that of `ranked`.
    headline : name of the ranked setting if its draws are ranked together; `ranked` is then
        the first draw. None if `ranked` alone is ranked.
    paired : names of two settings, the first of which is compared with the second.
    """

    ranked: Prediction
    settings: list[Setting]
    headline: str | None = None
    paired: tuple[str, str] | None = None

    def write(self, job: ProbeJob, splits: dict[str, Features]) -> None:
        """Write one row per test item with the predictions of all settings."""
        test, ranked = splits["test"], self.ranked
        name, kind = test.targets.setting_column
        answers = np.stack([one.answer.astype(kind, copy=False) for one in self.settings], axis=1)
        flat = pa.array(answers.reshape(-1))
        columns = answer_columns(test, ranked)
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, answers[0].size)
        write_rows(
            job,
            splits,
            columns,
            settings=ranked.settings,
            gates=ranked.gates,
            scored_settings=[one.about for one in self.settings],
            headline=self.headline,
            **({"paired": list(self.paired)} if self.paired else {}),
        )
