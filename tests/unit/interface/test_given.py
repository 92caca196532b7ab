"""What users hand over to the Python interface: labels of pandas, missing entries, types; and what is printed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import permafrost as pf
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

NAMES = ["forest", "urban", "water"]


@pytest.fixture(scope="module")
def data():
    """60 samples of 3 classes: names, probabilities with ties, scenes and another index."""
    rng = np.random.default_rng(0)
    y = np.array(NAMES)[rng.integers(0, 3, 60)]
    raw = np.round(rng.random((60, 3)) + (y[:, None] == NAMES), 1)
    index = [f"chip {number}" for number in rng.permutation(60)]
    return y, raw / raw.sum(axis=1, keepdims=True), np.arange(60) // 5, index


def plain(found) -> list:
    return pd.DataFrame(found).astype(object).where(found.notna(), None).to_numpy().tolist()


def test_columns_named_by_class_may_come_in_any_order(data):
    y, p, scenes, _ = data
    known = plain(pf.evaluate(y, p, groups=scenes))
    frame = pd.DataFrame(p, columns=NAMES)
    for order in (NAMES, NAMES[::-1], ["urban", "water", "forest"]):
        assert plain(pf.evaluate(y, frame[order], groups=scenes)) == known
        assert plain(pf.evaluate(y, frame[order], groups=scenes, classes=NAMES)) == known
    other = pd.DataFrame(p[:, [1, 2, 0]], columns=["urban", "water", "forest"])
    assert pf.compare(y, {"a": frame, "b": other}).loc[0, "difference"] == 0
    # a class that nobody is of has its column too
    more = frame.assign(ice=0.0)[["ice", *NAMES[::-1]]]
    assert pf.evaluate(y, more, "accuracy").value[0] == known[0][2]
    assert known[0][2] == accuracy_score(y, np.array(NAMES)[p.argmax(axis=1)])


def test_columns_that_are_only_counted_have_no_names(data):
    y, p, *_ = data
    known = plain(pf.evaluate(y, p))
    assert plain(pf.evaluate(y, pd.DataFrame(p))) == known
    ids = np.searchsorted(NAMES, y)
    assert pf.evaluate(ids, pd.DataFrame(p)[[2, 0, 1]], "accuracy").value[0] == known[0][2]
    assert pf.evaluate(ids + 1, pd.DataFrame(p), "accuracy").value[0] == known[0][2]


def test_an_index_gives_the_order_of_every_argument(data):
    y, p, scenes, index = data
    known = plain(pf.evaluate(y, p, groups=scenes))
    order = np.random.default_rng(1).permutation(60)
    target = pd.Series(y, index)
    frame, groups = pd.DataFrame(p, index, NAMES), pd.Series(scenes, index)
    assert plain(pf.evaluate(target, frame.iloc[order], groups=groups.iloc[order[::-1]])) == known
    assert plain(pf.evaluate(target, p, groups=scenes)) == known
    assert plain(pf.evaluate(y, frame, groups=groups)) == known
    answers = pd.Series(np.array(NAMES)[p.argmax(axis=1)], index)
    pairs = {"a": answers, "b": answers.iloc[order]}
    found = pf.compare(target, pairs, groups=groups.iloc[order])
    assert (found.loc[0, "difference"], found.loc[0, "n_units"]) == (0, 12)
    features = pd.DataFrame(np.random.default_rng(2).normal(size=(60, 4)), index)
    straight = pf.measures(features, target, groups=groups, names=["alignment", "rankme"])
    turned = pf.measures(
        features, target.iloc[order], groups=groups.iloc[order], names=["alignment", "rankme"]
    )
    assert plain(straight) == plain(turned)


@pytest.mark.parametrize("kind", [pf.KNN, pf.LinearSweep, pf.Ridge])
def test_estimators_take_rows_by_index(data, kind):
    y, p, scenes, index = data
    if kind is pf.Ridge:
        y = np.searchsorted(NAMES, y) + p[:, 0]
    x, target = pd.DataFrame(p, index), pd.Series(y, index)
    turned, groups = target.iloc[::-1], pd.Series(scenes, index)
    more = {"groups": groups} if kind is pf.LinearSweep else {}
    known = kind().fit(x.to_numpy(), y, **{name: scenes for name in more})
    found = kind().fit(x, turned, **{name: each.iloc[::-1] for name, each in more.items()})
    assert np.array_equal(found.predict(x), known.predict(x.to_numpy()))
    assert found.score(x, turned) == known.score(x.to_numpy(), y)
    if kind is not pf.KNN:
        pair = kind().fit(x, target, validation=(x, turned))
        assert np.array_equal(pair.predict(x), kind().fit(x, y, validation=(p, y)).predict(x))
        with pytest.raises(ValueError, match="inconsistent|numbers of samples"):
            kind().fit(x, target, validation=(x, turned[:-1]))
    with pytest.raises(ValueError, match="different indexes"):
        kind().fit(x, target.reset_index(drop=True))


def test_labels_are_found_by_name():
    rng = np.random.default_rng(0)
    y = pd.DataFrame(rng.integers(0, 2, (80, 3)), columns=["field", "road", "house"])
    p = (0.5 * y + rng.random((80, 3))) / 1.5
    known = pf.evaluate(y.to_numpy(), p.to_numpy(), classes=list(y))
    turned = p[["house", "field", "road"]]
    assert plain(pf.evaluate(y, turned)) == plain(known)
    assert plain(pf.evaluate(y, turned, classes=["field", "road", "house"])) == plain(known)
    single = known[known["metric"] == "average_precision"].set_index("class")["value"]
    assert list(single.index) == ["field", "road", "house"]
    assert roc_auc_score(y, p) > 0.7  # what was fed is no noise
    with pytest.raises(ValueError, match="columns of p are"):
        pf.evaluate(y, p.rename(columns={"house": "barn"}))
    assert pf.compare(y, {"a": turned, "b": p}).loc[0, "difference"] == 0


def test_other_forms_of_the_same_are_taken(data):
    y, p, scenes, _ = data
    found = np.array(NAMES)[p.argmax(axis=1)]
    known = plain(pf.evaluate(y, found, ["accuracy"], groups=scenes))
    forms = [
        (list(y), list(found)),
        (pd.Series(y, dtype="category"), pd.Series(found, dtype=object)),
        (y[:, None], pd.DataFrame({"answer": found})),
        (y.astype(object), np.array(found, object)),
    ]
    for target, answers in forms:
        assert plain(pf.evaluate(target, answers, "accuracy", groups=list(scenes))) == known
    numbers = pd.Series(np.searchsorted(NAMES, y), dtype="Int64")
    assert pf.evaluate(numbers, numbers.astype(float), "accuracy").value[0] == 1.0
    both = pd.DataFrame({"good": y, "fair": found})
    mapping = pf.compare(y, {"good": y, "fair": found}, "accuracy")
    assert plain(pf.compare(y, both, ["accuracy"])) == plain(mapping)
    assert list(pf.measures(p, names="rankme")["measure"]) == ["rankme"]


_Y = ["a", "b"] * 10
_EYE = np.eye(2)[[0, 1] * 10]
_FRAME = pd.DataFrame(_EYE, columns=["a", "b"])
_MISSING = [None, np.nan, pd.NA, pd.NaT]
_NUMBERS = list(np.linspace(0.0, 1.0, 20))


@pytest.mark.parametrize("nothing", _MISSING)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: pf.evaluate(_Y, _Y, groups=x),
        lambda x: pf.evaluate(_Y, _Y, groups=np.array(x, object)),
        lambda x: pf.compare(_Y, {"a": _Y, "b": _Y}, groups=pd.Series(x)),
        lambda x: pf.measures(np.ones((20, 2)), groups=x),
        lambda x: pf.LinearSweep().fit(_EYE, _Y, groups=x),
        lambda x: pf.SGDLinear().fit(_EYE, _Y, groups=pd.Series(x, dtype=object)),
        lambda x: pf.evaluate(x, _Y),
        lambda x: pf.evaluate(_Y, pd.Series(x)),
        lambda x: pf.compare(_Y, {"a": _Y, "b": x}),
        lambda x: pf.measures(np.ones((20, 2)), x),
    ],
)
def test_missing_entries_are_refused_in_every_argument(call, nothing):
    with pytest.raises(ValueError, match="holds NaN or None|NaN"):
        call([nothing, *_Y[1:]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pf.evaluate(_Y, np.ma.masked_array(_NUMBERS, [True] * 20)), "p holds NaN or None"),
        (lambda: pf.evaluate(_NUMBERS, [np.nan, *_NUMBERS[1:]]), "p holds NaN"),
        (lambda: pf.measures([[1.0, np.nan], [2.0, 1.0]]), "features holds NaN"),
        (lambda: pf.evaluate(pd.Series(_Y), pd.Series(_Y, range(5, 25))), "p and y have different"),
        (lambda: pf.evaluate(pd.Series(_Y, [0] * 20), pd.Series(_Y)), "p and y have different"),
        (lambda: pf.evaluate(_Y, _FRAME.rename(columns={"b": "c"})), "columns of p lack the class 'b'"),
        (lambda: pf.evaluate(_Y, _FRAME, classes=["a", "b", "c"]), "columns of p are 'a', 'b', the classes"),
        (lambda: pf.evaluate(_Y, _FRAME.set_axis(["a", "a"], axis=1)), "two columns of one name"),
        (lambda: pf.evaluate(_Y, _FRAME.assign(file="x")), "p holds float and str"),
        (lambda: pf.evaluate(_Y, _EYE, classes=["a", "a"]), "a class twice"),
        (lambda: pf.evaluate([0, 1] * 10, _NUMBERS), "holds 0.0526.*, which is not a class"),
        (lambda: pf.evaluate([0, 1] * 10, _Y), "mix texts and numbers"),
        (lambda: pf.evaluate(["a", 1] * 10, _Y), "y holds int and str"),
        (lambda: pf.evaluate(_NUMBERS, _Y), "p holds no numbers"),
        (lambda: pf.evaluate(_NUMBERS, _EYE), "p has the shape"),
        (lambda: pf.evaluate(pd.to_datetime(["2020-01-01"] * 20), _Y, task="regression"), "datetime"),
        (lambda: pf.evaluate(np.array([_Y, _Y]).T, _EYE), "y holds other labels than 0 and 1"),
        (lambda: pf.evaluate(_EYE + 1, _EYE), "y holds other labels"),
        (lambda: pf.evaluate(_EYE, 2 * _EYE.astype(int)), "p holds other labels"),
        (lambda: pf.evaluate("sea", ["sea"]), "y has the shape \\(\\)"),
        (lambda: pf.evaluate(3, 3), "y has the shape \\(\\)"),
        (lambda: pf.evaluate({"a": 1}, _Y), "y has the shape \\(\\)"),
        (lambda: pf.evaluate(_Y, _Y, groups="scene"), "groups has the shape \\(\\)"),
        (lambda: pf.evaluate(_Y, _Y, groups=_EYE), "groups has the shape \\(20, 2\\)"),
        (lambda: pf.evaluate(_Y, [[1], [1, 2]] * 10), "p holds list"),
        (lambda: pf.compare(_Y, [_Y, _Y]), "type list, without names"),
        (lambda: pf.compare(_Y, _EYE), "type ndarray, without names"),
        (lambda: pf.compare(_Y, pd.DataFrame({"a": _Y})), "1 predictions cannot be compared"),
        (lambda: pf.compare(_Y, _FRAME), "mix texts and numbers"),
        (lambda: pf.compare(_Y, {"a": _Y, "b": _Y}, ["accuracy", "macro_f1"]), "2 metrics"),
        (lambda: pf.compare(_Y, {"a": _Y, "b": _Y[1:]}), "19 predictions for 20 samples"),
        (lambda: pf.evaluate(_Y, _Y, "acuracy"), "did you mean 'accuracy'"),
        (lambda: pf.evaluate(_Y, 1e39 * _EYE), "p holds infinity"),
        (lambda: pf.evaluate(pd.date_range("2020", periods=20), [0, 1] * 10), "y holds the type datetime"),
        (lambda: pf.evaluate(_Y, _EYE, classes="ab"), "give a list of all classes"),
        (lambda: pf.evaluate(_Y, _Y, 5), "5 is not a name"),
        (lambda: pf.measures(_EYE, names=5), "5 is not a name"),
        (lambda: pf.evaluate(_Y, _Y, confidence="95"), "confidence '95' is not a number"),
        (lambda: pf.measures(_EYE, confidence=2), "confidence 2 is not a number between"),
        (lambda: pf.compare(_Y, {"a": _Y, "b": _Y}, resamples=1.5), "resamples is 1.5"),
        (lambda: pf.LinearSweep().fit(_EYE, _Y, validation=(_EYE,)), "validation is not a pair"),
        (lambda: pf.Ridge().fit(_EYE, _NUMBERS, validation=_EYE), "validation is not a pair"),
        (lambda: pf.evaluate(np.array(_NUMBERS) * 1j, _NUMBERS), "holds the type complex"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert type(caught.value).__name__ == "InputError" and "\n" not in str(caught.value)


def test_a_figure_is_printed_with_its_interval_in_eighty_columns(data):
    y, p, scenes, _ = data
    found = pf.evaluate(y, p, groups=scenes // 4)
    row = found.loc[0]
    text = repr(found)
    assert f"{row['value']:.3f} [{row['lower']:.3f}, {row['upper']:.3f}]" in text
    assert "95 % interval" in text and "few_units" in text and "3 groups" in text
    tables = [
        found,
        pf.compare(y, {"good": y, "fair": p, "poor": p[::-1]}),
        pf.measures(p, y),
        pf.compare(y, {"good": y, "fair": p}, groups=["one scene"] * 60),
        pf.evaluate(y, y, groups=["one scene"] * 60),
        pf.evaluate(1e-5 * p[:, 0], 1e-5 * p[:, 1]),
    ]
    for table in tables:
        assert max(map(len, repr(table).splitlines())) <= 80, repr(table)
        assert "lower" in table and "[" in repr(table) and "interval" in table._repr_html_()
    assert "0.000 [" not in repr(tables[-1])
    # what is selected is an ordinary frame
    assert type(found[["metric", "value"]]) is type(found.head()) is pd.DataFrame
    assert len(repr(found.iloc[:0])) > 0
    # what a user adds is printed, and without the ends of the intervals the frame is printed as others are
    found["mine"] = 7
    assert "mine" in repr(found) and "n_test" not in repr(found)
    found.drop(columns="lower", inplace=True)
    assert "upper" in found and "interval" not in repr(found)
