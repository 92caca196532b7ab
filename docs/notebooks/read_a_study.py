# %% [markdown]
# # Read a finished study
#
# `permafrost run` leaves a folder of results. This notebook reads it as data frames: scores, the overall ranking,
# paired comparisons, predictions and features. It was executed on the demo, which `permafrost run` computes in an empty
# project in about two minutes on two cores.

# %%
import permafrost as pf

results = pf.Results("results")
print(results)

# %% [markdown]
# ## Scores
#
# One row per dataset, probe, backbone and seed, with the interval and the warnings of each score.

# %%
board = results.leaderboard
first = board.query("metric == 'accuracy'").iloc[0]  # a dataset of classes
dataset, probe = first["dataset"], first["probe"]
own = board.query("dataset == @dataset and probe == @probe")
print(
    own[["backbone", "metric", "value", "lower", "upper", "rank"]].round(3).to_string(index=False)
)

# %%
print(board.pivot_table(index="backbone", columns=["dataset", "probe"], values="value").round(3).T)

# %% [markdown]
# ## Is the first one better than the others?
#
# Read the paired comparisons, not overlapping intervals: both backbones predict the same images.

# %%
pairs = results.comparisons.query(
    "dataset == @dataset and probe == @probe and metric == 'accuracy'"
)
shown = ["backbone_a", "backbone_b", "difference", "lower", "upper", "p_adjusted"]
print(pairs[shown].round(3).to_string(index=False))

# %% [markdown]
# ## The overall ranking
#
# `standings` has one row per statistic, backbone, probe and group of datasets.

# %%
standings = results.standings
ranks = standings[standings["statistic"] == "mean_rank"]
print(
    ranks[["group", "probe", "backbone", "value", "rank", "letters"]]
    .head(6)
    .round(2)
    .to_string(index=False)
)

# %% [markdown]
# ## Figures
#
# A figure is displayed in a notebook; `save` writes it as SVG, PNG, PDF or Vega-Lite.

# %%
results.plot_ranked(probe=probe)

# %% [markdown]
# ## Predictions and features
#
# Everything behind a score can be read: the answer to each test image, and the stored features.

# %%
answers = results.predictions(dataset, own["backbone"].iloc[0], probe)
wrong = answers[answers["target"] != answers["prediction"]]
print(
    f"{len(wrong)} of {len(answers)} test images are wrong, for example {wrong['sample_id'].iloc[0]}"
)

# %%
train = results.features(dataset, own["backbone"].iloc[0], "train")
print(train.x.shape, train.classes)
