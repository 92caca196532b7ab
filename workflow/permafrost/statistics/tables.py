"""Columns shared by the tables of scores, measures and profiles, and the leaderboard."""

from __future__ import annotations

from permafrost.core.columns import BETWEEN_0_AND_1, FINGERPRINT, Column, Table


class ScoreColumns(Table):
    """One metric of one backbone on one dataset.

    Columns
    -------
    dataset : Name of the dataset, as in the catalogue.
    backbone : Name of the backbone, as in the catalogue.
    probe : Name of the probe, as in the configuration.
    kind : Kind of the probe, as in the configuration (`permafrost.probes.kinds`).
    seed : Seed of the evaluation, not of the intervals; 0 if nothing is random.
    task : Task of the dataset.
    metric : Name of the metric.
    class : Name of the class that the value belongs to; null for a value over all classes.
    setting : The setting that the value belongs to, in words, if a probe scores several settings (k, metric and
        weighting of knn_sweep; classifier and size of the training set of few_shot; fine-tuned, frozen and their
        difference of fine_tune). "clean test images" are the scores of the probe itself on the test images that
        do not occur in training, if some do (docs/report.md). Null for the row that is ranked and compared.
    value : The metric on the whole test set. NaN if it is undefined (a class without a test sample, pixel or
        object).
    lower : Lower end of the interval, in the unit of the metric. NaN if it is undefined.
    upper : Upper end of the interval, in the unit of the metric. NaN if it is undefined.
    confidence : Confidence level of the interval.
    method : How the interval was computed (docs/intervals.md). With Student's t and the jackknife standard
        error, from leaving out blocks of the test set: wilson for metrics in [0, 1]; jackknife_t for
        differences, for the mean error of counts and for metrics from curves over a ranking, such as AP and AR
        of detection (minus their bias); jackknife_log for positive metrics and for 1 - r2. From resamples:
        percentile for medians; percentile and bca if the configuration requests them, with basic (reflected
        percentiles) for metrics from curves; basic_square (reflected squares) always for calibration errors, whose
        resamples are biased upward. Such an interval may be entirely below the value: then noise explains most of
        the error.
    resamples : Number of resamples that the interval comes from: bootstrap draws, or blocks of the jackknife.
    n_undefined : Number of resamples on which the metric is undefined; the interval excludes them.
    n_draws : Number of training sets that were drawn for this setting; the value is the mean over them. Null if
        none were drawn.
    draw_std : Standard deviation of the value over those draws (n - 1 in the denominator), on the same test set;
        null for fewer than two. The interval does not include it: it describes the choice of the test set.
    n_rows : Number of rows (samples) that a measure of features was computed on; null for a score.
    unit : What is drawn in a resample: groups (scene, tile, flight) if they are known, else images.
    n_units : Number of such units in the test set.
    n_carriers : Number of units that carry the value: those that hold the class or label; for a mean over
        classes, the number of units of a single class that would be as informative; n_units if all units carry
        the value. Null for measures and costs.
    largest_share : Largest share of a single unit (with more than 200 units, of a block) in the squared
        standard error; 1 if a single unit carries the value. For R², RMSE and MAE, the largest share of a unit in
        the errors. Null without a jackknife, or if leaving out units never changes the value.
    n_test : Number of test samples; for detection, of whole images.
    n_train : Number of training samples that the probe learned from.
    n_val : Number of validation samples.
    feature_dim : Number of features of the backbone; for segmentation and detection, of channels of all layers
        that were used.
    primary : Whether backbones are ranked by this metric.
    higher_is_better : Whether a higher value is better; null if neither direction is, so that nothing is ranked
        by it.
    split_method : How the dataset was split.
    spatially_random : Whether spatial data was split at random, so that neighbours of training samples are
        tested.
    gates : Warnings: sanity checks that were not passed, joined by semicolons; empty if there is none.
    settings : What the probe chose or fitted (best C, k, learning rate, epoch), as a JSON object.
    bootstrap_seed : Configured seed; with the dataset it gives the resamples, the same for all backbones.
    fingerprint : Fingerprint of the predictions that were scored.
    backbone_fingerprint : Fingerprint of the features that the probe read; for fine_tune, of the backbone and its
        input.
    """

    columns = (
        Column("dataset"),
        Column("backbone"),
        Column("probe"),
        Column("kind"),
        Column("seed", "int64", least=0),
        Column("task"),
        Column("metric"),
        Column("class", nullable=True),
        Column("setting", nullable=True),
        *(Column(name, "double", nullable=True) for name in ("value", "lower", "upper")),
        Column("confidence", "double", rules={"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        Column(
            "method",
            values=(
                "wilson",
                "jackknife_t",
                "jackknife_log",
                "percentile",
                "bca",
                "basic",
                "basic_square",
            ),
        ),
        Column("resamples", "int64", least=1),
        Column("n_undefined", "int64", least=0),
        Column("n_draws", "int64", nullable=True, least=1),
        Column("draw_std", "double", nullable=True),
        Column("n_rows", "int64", nullable=True, least=1),
        Column("unit", values=("group", "image")),
        Column("n_units", "int64", least=1),
        Column("n_carriers", "int64", nullable=True, least=0),
        Column("largest_share", "double", nullable=True, rules=BETWEEN_0_AND_1),
        Column("n_test", "int64", least=1),
        Column("n_train", "int64", least=1),
        Column("n_val", "int64", least=0),
        Column("feature_dim", "int64", least=1),
        Column("primary", "bool"),
        Column("higher_is_better", "bool", nullable=True),
        Column("split_method", values=("given", "random", "group", "block")),
        Column("spatially_random", "bool"),
        Column("gates"),
        Column("settings"),
        Column("bootstrap_seed", "int64", least=0),
        Column("fingerprint", rules=FINGERPRINT),
        Column("backbone_fingerprint", rules=FINGERPRINT),
    )
