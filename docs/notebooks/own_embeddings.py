# %% [markdown]
# # Your own embeddings
#
# You have a matrix of embeddings from any model, and labels. This notebook fits probes on it, computes scores with
# intervals, and tests whether one model is better than another. It needs no run and no configuration.
#
# The embeddings here are generated. Replace the first cell by yours: one row per image.

# %%
import numpy as np
import permafrost as pf

rng = np.random.default_rng(0)
classes = np.array(["crop", "forest", "urban", "water"])
scene = np.repeat(np.arange(90), 10)  # ten images are cut from each scene
y = classes[rng.permutation(np.arange(90) % 4)[scene]]
centres = rng.normal(size=(4, 64))
views = rng.normal(size=(90, 64))[scene]  # what images of a scene have in common


def embeddings(signal: float) -> np.ndarray:
    return signal * centres[np.searchsorted(classes, y)] + views + rng.normal(size=(900, 64))


models = {"large": embeddings(0.5), "small": embeddings(0.35)}

# %% [markdown]
# ## Divide by scene
#
# Images of one scene resemble each other, so a scene belongs to one split only. Otherwise a probe recognises the scene,
# not the class.

# %%
train, val, test = scene < 45, (scene >= 45) & (scene < 60), scene >= 60
print({name: int(part.sum()) for name, part in (("train", train), ("val", val), ("test", test))})

# %% [markdown]
# ## Fit probes
#
# `pf.KNN` measures which images are near each other; `pf.LinearSweep` fits a linear classifier and chooses its
# regularisation on the validation images. Both are scikit-learn estimators.

# %%
predicted = {}
for name, x in models.items():
    linear = pf.LinearSweep().fit(x[train], y[train], validation=(x[val], y[val]))
    predicted[name] = linear.predict(x[test])
    print(name, "C =", f"{linear.C_:.2g}", "warnings:", linear.gates_ or "none")

knn = pf.KNN(k=5).fit(models["large"][train], y[train])
predicted["large, kNN"] = knn.predict(models["large"][test])

# %% [markdown]
# ## Scores with intervals
#
# With `groups`, the sampling units are scenes: 30 of them, not 300 images. Without, the interval would be too short.

# %%
print(pf.evaluate(y[test], predicted["large"], ["accuracy", "macro_f1"], groups=scene[test]))

# %%
wide = pf.evaluate(y[test], predicted["large"], ["accuracy"], groups=scene[test]).iloc[0]
narrow = pf.evaluate(y[test], predicted["large"], ["accuracy"]).iloc[0]
for what, one in (("scenes", wide), ("images, too short here", narrow)):
    print(f"{one['upper'] - one['lower']:.3f} long: {one['n_units']} {what}")

# %% [markdown]
# ## Is one model better?
#
# Answers to the same images are paired. p-values are adjusted for the number of pairs.

# %%
print(pf.compare(y[test], predicted, groups=scene[test]))

# %% [markdown]
# ## The features themselves
#
# These numbers need no probe, and rank nothing.

# %%
measured = pf.measures(models["large"][train], y[train])
print(measured[["measure", "value", "lower", "upper"]].round(2).to_string(index=False))
