"""Small draws of the training set: nesting, what they hold, what the probes make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from helpers.stages.probing import make_splits, write_and_score
from permafrost.core.errors import PermafrostError
from permafrost.probes.few_shot.draws import Size, nested_draws, sizes_of
from permafrost.probes.few_shot.probe import SubsetNeighbours, run_few_shot
from permafrost.probes.knn.search import knn_predict, neighbours
from permafrost.probes.linear.probe import run_linear

OPTIONS = {
    "shares": [0.05, 0.2, 1.0],
    "per_class": [1, 5],
    "draws": 3,
    "classifiers": ["linear", "knn"],
    "ranked": {"classifier": "linear", "share": 0.2, "per_class": None},
    "c_min": 1e-3,
    "c_max": 1e2,
    "c_count": 4,
    "merge_val": True,
    "standardize": False,
    "ties": "smallest",
    "k": [1, 5],
    "metric": "l2",
}
LINEAR = options_of(
    "linear",
    {
        **{name: OPTIONS[name] for name in ("c_min", "c_max", "c_count")},
        **{name: OPTIONS[name] for name in ("merge_val", "standardize", "ties")},
        "solver": "lbfgs",
    },
)
TASKS = ("classification", "multilabel")
SIZES = sizes_of([0.05, 0.2, 1.0], [1, 5])


def few_shot(splits, seed=7, **changes):
    return run_few_shot(splits, options_of("few_shot", OPTIONS, **changes), device="cpu", seed=seed)


def draws_of(splits, sizes=SIZES, draws=3, seed=7, classes=4):
    train, val = splits["train"].labels, splits["val"].labels
    return list(nested_draws(train, val, sizes, draws=draws, n_classes=classes, seed=seed))


# --- draws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_smaller_draws_lie_inside_larger_ones_of_their_kind(task):
    shares = [0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
    found = draws_of(make_splits(counts=(200, 80, 10), task=task), sizes_of(shares, [1, 5, 10, 20]))
    chains: dict[tuple, list] = {}
    for draw in found:
        chains.setdefault((draw.size.per_class is None, draw.number), []).append(draw)
    assert len(chains) == 6
    for chain in chains.values():
        for smaller, larger in zip(chain, chain[1:], strict=False):
            assert set(smaller.train) <= set(larger.train) and set(smaller.val) <= set(larger.val)


def test_shares_have_their_number_of_rows_in_train_and_validation():
    splits = make_splits(counts=(200, 90, 10))
    counts = {
        (d.size.name, d.number): (len(d.train), len(d.val))
        for d in draws_of(splits)
        if d.size.share
    }
    assert counts == {
        ("5 %", 0): (10, 5),
        ("5 %", 1): (10, 5),
        ("5 %", 2): (10, 5),
        ("20 %", 0): (40, 18),
        ("20 %", 1): (40, 18),
        ("20 %", 2): (40, 18),
        ("100 %", 0): (200, 90),
    }


def test_no_share_is_empty():
    for draw in draws_of(make_splits(counts=(10, 3, 10)), [Size(share=0.001)]):
        assert len(draw.train) == len(draw.val) == 1


def test_classes_have_their_number_of_rows_and_validation_in_proportion():
    splits = make_splits(counts=(400, 200, 10))
    for draw in draws_of(splits, sizes_of([], [1, 6])):
        train = np.bincount(splits["train"].labels[draw.train], minlength=4)
        val = np.bincount(splits["val"].labels[draw.val], minlength=4)
        assert set(train) == {draw.size.per_class}
        assert set(val) == {max(1, draw.size.per_class // 2)}


def test_a_class_with_fewer_rows_gives_all_it_has():
    splits = make_splits(counts=(60, 30, 20))
    labels = splits["train"].labels.copy()
    labels[labels == 0] = 1
    labels[17] = 0
    splits["train"] = dataclasses.replace(splits["train"], labels=labels)
    for draw in draws_of(splits, [Size(per_class=5)]):
        assert 17 in draw.train
        assert np.bincount(labels[draw.train], minlength=4).tolist() == [1, 5, 5, 5]
    result = few_shot(splits, shares=[0.2])
    gates = {
        gate for one in result.settings for gate in one.gates if one.settings["per_class"] == 5
    }
    assert "fewer_samples_than_asked:0" in gates and "fewer_samples_than_asked:1" not in gates


def test_labels_of_several_per_image_each_have_their_number():
    splits = make_splits(counts=(300, 100, 10), task="multilabel")
    for draw in draws_of(splits, [Size(per_class=5)]):
        assert (splits["train"].labels[draw.train].sum(axis=0) >= 5).all()
        assert len(draw.train) <= 20


def test_draws_differ_and_more_of_them_keep_the_first():
    splits = make_splits(counts=(200, 80, 10))
    three, five = draws_of(splits), draws_of(splits, draws=5)
    one_of = {(d.size, d.number): d.train.tolist() for d in five}
    for draw in three:
        assert one_of[draw.size, draw.number] == draw.train.tolist()
    for rows in ("train", "val"):
        assert len({tuple(getattr(d, rows)) for d in five if d.size == Size(share=0.2)}) == 5
    assert draws_of(splits, seed=8)[0].train.tolist() != three[0].train.tolist()


def test_rows_ascend():
    for draw in draws_of(make_splits()):
        assert (np.diff(draw.train) > 0).all() and (np.diff(draw.val) > 0).all()


def test_validation_of_several_labels_is_never_without_any():
    splits = make_splits(counts=(100, 50, 10), task="multilabel")
    labels = np.zeros_like(splits["val"].labels)
    labels[33, 2] = 1
    splits["val"] = dataclasses.replace(splits["val"], labels=labels)
    for draw in draws_of(splits):
        assert 33 in draw.val
    few_shot(splits)


# --- neighbours in subsets --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("kind", ["points", "duplicates"])
def test_neighbours_in_a_subset_are_those_of_a_search_of_its_own(metric, kind):
    rng = np.random.default_rng(0)
    train, queries = rng.normal(size=(500, 5)), rng.normal(size=(40, 5))
    if kind == "duplicates":
        train, queries = np.round(train[:, :2]), np.round(queries[:, :2])
    search = SubsetNeighbours(train, queries, 6, metric=metric)
    # from far less than the list covers to everything; 70 of 500 leaves some queries short
    for size in (3, 20, 63, 70, 120, 250, 500):
        rows = np.sort(rng.permutation(500)[:size])
        k = min(6, size)
        expected = rows[neighbours(train[rows], queries, k, metric=metric)]
        np.testing.assert_array_equal(search.find(rows), expected)
        some = np.array([5, 1, 30])
        np.testing.assert_array_equal(search.find(rows, some), expected[some])


def test_queries_that_the_list_leaves_short_are_searched_for():
    # all of the subset is far from the query, behind everything that the list holds
    train = np.arange(400.0)[:, None]
    search = SubsetNeighbours(train, np.zeros((1, 1)), 4, metric="l2")
    rows = np.arange(300, 400)
    assert search.find(rows).tolist() == [[300, 301, 302, 303]]
    assert search._listed.shape == (1, 64)


# --- the probe --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_whole_training_set_gives_what_the_probes_give(task):
    splits = make_splits(task=task)
    found = {
        one.name: one for one in few_shot(splits, k=[5]).settings if one.settings["share"] == 1
    }
    linear = run_linear(splits, LINEAR, device="cpu", seed=0)
    expected = linear.scores if task == "multilabel" else linear.prediction
    np.testing.assert_array_equal(found["linear, 100 %"].answer, expected)
    assert found["linear, 100 %"].settings["best_c"] == linear.settings["best_c"]
    scores, prediction = knn_predict(
        splits["train"].embeddings,
        splits["train"].labels,
        splits["test"].embeddings,
        k=5,
        metric="l2",
        n_classes=4,
        task=task,
    )
    expected = scores if task == "multilabel" else prediction
    np.testing.assert_array_equal(found["knn, 100 %"].answer, expected)


@pytest.mark.parametrize("task", TASKS)
def test_every_draw_gives_what_the_probe_gives_on_its_rows_alone(task):
    splits = make_splits(counts=(120, 60, 30), task=task)
    result = few_shot(splits)
    found = {(one.name, one.draw): one for one in result.settings}
    for draw in draws_of(splits):
        own = {
            name: dataclasses.replace(
                splits[name],
                embeddings=splits[name].embeddings[rows],
                labels=splits[name].labels[rows],
            )
            for name, rows in (("train", draw.train), ("val", draw.val))
        } | {"test": splits["test"]}
        one = found[f"linear, {draw.size.name}", draw.number]
        linear = run_linear(own, LINEAR, device="cpu", seed=0)
        expected = linear.scores if task == "multilabel" else linear.prediction
        np.testing.assert_array_equal(one.answer, expected)
        assert (one.n_train, one.n_val) == (len(draw.train), len(draw.val))
        one = found[f"knn, {draw.size.name}", draw.number]
        scores, prediction = knn_predict(
            own["train"].embeddings,
            own["train"].labels,
            own["test"].embeddings,
            k=one.settings["k"],
            metric="l2",
            n_classes=4,
            task=task,
        )
        expected = scores if task == "multilabel" else prediction
        np.testing.assert_array_equal(one.answer, expected)


def test_the_number_of_neighbours_is_chosen_on_the_draws_validation_rows():
    splits = make_splits(counts=(120, 60, 30))
    found = {(one.name, one.draw): one for one in few_shot(splits, k=[1, 5]).settings}
    chosen = set()
    for draw in draws_of(splits):
        right = []
        for k in (1, 5):
            if k <= len(draw.train):
                _, prediction = knn_predict(
                    splits["train"].embeddings[draw.train],
                    splits["train"].labels[draw.train],
                    splits["val"].embeddings[draw.val],
                    k=k,
                    n_classes=4,
                    metric="l2",
                    task="classification",
                )
                right.append((prediction == splits["val"].labels[draw.val]).mean())
        k = (1, 5)[int(np.argmax(right))]
        assert found[f"knn, {draw.size.name}", draw.number].settings["k"] == k
        chosen.add(k)
    assert chosen == {1, 5}


def test_classes_absent_from_a_draw_keep_their_ids():
    splits = make_splits(counts=(200, 80, 60), classes=4, skill=3.0)
    labels = splits["train"].labels.copy()
    labels[labels == 1] = 0  # only three classes are left, 0, 2 and 3
    splits["train"] = dataclasses.replace(splits["train"], labels=labels)
    result = few_shot(splits, ranked={"classifier": "knn", "share": None, "per_class": 5})
    assert result.ranked.scores.shape == (60, 4) and not result.ranked.scores[:, 1].any()
    for one in result.settings:
        assert "class_missing_in_train:1" in one.gates
    whole = next(one for one in result.settings if one.name == "knn, 100 %")
    others = splits["test"].labels > 1
    assert (whole.answer[others] == splits["test"].labels[others]).mean() > 0.9


def test_a_draw_with_fewer_rows_than_k_takes_them_all_and_says_so():
    splits = make_splits(counts=(40, 20, 20))
    result = few_shot(splits, k=[5], shares=[0.05, 0.2])
    small = [one for one in result.settings if one.name == "knn, 5 %"]
    assert {one.settings["k"] for one in small} == {2}
    assert all("k_above_train:5" in one.gates for one in small)


def test_one_class_in_a_draw_is_predicted_and_flagged():
    splits = make_splits(counts=(40, 20, 20))
    result = few_shot(splits, shares=[0.001, 0.2])
    for one in result.settings:
        if one.settings["share"] == 0.001:
            assert len(set(one.answer.tolist())) == 1
            if one.settings["classifier"] == "linear":
                assert "one_class_in_train" in one.gates


def test_other_features_have_the_same_draws():
    one, two = make_splits(seed=0), make_splits(seed=0)
    other = {
        name: dataclasses.replace(part, embeddings=part.embeddings[:, :3] * 2)
        for name, part in two.items()
    }
    first, second = few_shot(one), few_shot(other)
    for a, b in zip(first.settings, second.settings, strict=True):
        assert (a.name, a.draw, a.n_train) == (b.name, b.draw, b.n_train)
        absent = [[g for g in s.gates if g.startswith("class_missing")] for s in (a, b)]
        assert absent[0] == absent[1]


@pytest.mark.parametrize(
    "ranked",
    [
        {"classifier": "linear", "share": 0.3, "per_class": None},
        {"classifier": "linear", "share": None, "per_class": None},
        {"classifier": "linear", "share": 0.2, "per_class": 5},
    ],
)
def test_ranking_what_is_not_scored_is_an_error(ranked):
    with pytest.raises(PermafrostError, match="not a setting of this probe"):
        few_shot(make_splits(), ranked=ranked)


@pytest.mark.parametrize("task", TASKS)
def test_curves_reach_the_score_tables(tmp_path, task):
    splits = make_splits(task=task)
    result = few_shot(splits)
    (_, metadata), scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    assert metadata["headline"] == "linear, 20 %"
    metric = "micro_ap" if task == "multilabel" else "accuracy"
    rows = {row["setting"]: row for row in scores.to_pylist() if row["metric"] == metric}
    assert len(rows) == 1 + 2 * 5
    assert rows["knn, 5 %"]["n_draws"] == 3 and rows["knn, 5 %"]["draw_std"] >= 0
    assert rows["knn, 100 %"]["n_draws"] == 1 and rows["knn, 100 %"]["draw_std"] is None
    assert rows[None]["value"] == rows["linear, 20 %"]["value"]
    assert rows[None]["n_train"] == 12
