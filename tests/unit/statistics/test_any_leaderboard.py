"""Any leaderboard: what is read of a table, and its standings against plain ranks and those of a run."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import permafrost as pf
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.stages.cli import main
from permafrost.statistics.across_datasets.draws import Scores, draw, drawn_alone, told_apart
from permafrost.statistics.across_datasets.letters import letters_in
from permafrost.statistics.across_datasets.significance import nemenyi
from permafrost.statistics.across_datasets.standings import mean_rank
from permafrost.statistics.leaderboard.given import _blocks
from permafrost.statistics.leaderboard.given_tables import read_given
from scipy.stats import rankdata


def written(tmp_path, text: str, name="board.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def wide(seed=0, backbones=6, datasets=8, spread=0.02) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = (
        0.5 + 0.04 * np.arange(backbones)[:, None] + rng.normal(0, spread, (backbones, datasets))
    )
    values += rng.uniform(-0.1, 0.1, datasets)
    return pd.DataFrame(
        values, [f"net{i}" for i in range(backbones)], [f"set{i}" for i in range(datasets)]
    )


def of(board: pd.DataFrame, statistic: str) -> pd.DataFrame:
    return board[board.statistic == statistic].set_index("backbone")


def test_mean_ranks_are_those_of_scipy_in_every_form(tmp_path):
    frame = wide()
    frame.iloc[2, 3] = frame.iloc[1, 3]  # a tie
    expected = pd.Series(rankdata(-frame.to_numpy(), axis=0).mean(axis=1), frame.index)
    long = frame.reset_index(names="model").melt("model", var_name="task", value_name="score")
    frame.to_csv(tmp_path / "wide.csv")
    long.to_parquet(tmp_path / "long.parquet")
    board = pf.rank(frame)
    found = of(board, "mean_rank")["value"].sort_index()
    pd.testing.assert_series_equal(found, expected, check_names=False)
    mean = of(board, "mean")["value"].sort_index()
    assert mean.tolist() == pytest.approx(frame.mean(axis=1).tolist())
    assert set(board.uncertainty) == {"datasets"} and set(board.n_datasets) == {8}
    errors = pf.rank(
        1 - long.set_index(["model", "task"]).score.unstack(), lower_is_better=[*frame]
    )
    assert of(errors, "mean_rank")["value"].sort_index().tolist() == pytest.approx(
        expected.tolist()
    )
    shuffled = long.rename(columns={"model": "backbone"}).sample(frac=1, random_state=0)
    found = of(pf.rank(shuffled), "mean_rank")["value"].sort_index()
    pd.testing.assert_series_equal(found, expected, check_names=False)
    # the other forms have the same scores
    scores = {
        (one.backbone, one.dataset): one.value for one in read_given(tmp_path / "wide.csv").scores
    }
    assert scores == dict(frame.stack())
    long_scores = read_given(tmp_path / "long.parquet").scores
    assert {(one.backbone, one.dataset): one.value for one in long_scores} == scores
    (tmp_path / "percent.csv").write_text((100 * frame).to_csv())
    percent = read_given(tmp_path / "percent.csv")
    assert [one.value for one in percent.scores] == pytest.approx(list(scores.values()))
    assert percent.said[-1] == "scores are percentages"


def test_intervals_become_independent_errors_of_items():
    """On one dataset the interval of a mean is that of the table; equal backbones with errors share a letter."""
    rows = [
        ("a", "sea", 0.8, 0.76, 0.84),
        ("b", "sea", 0.7, 0.68, 0.72),
        ("c", "sea", 0.69, 0.62, 0.76),
    ]
    columns = ["backbone", "dataset", "value", "lower", "upper"]
    board = pf.rank(pd.DataFrame(rows, columns=columns))
    mean = of(board, "mean")
    for name, _, value, lower, upper in rows:
        assert mean.loc[name, ["value", "lower", "upper"]].tolist() == pytest.approx(
            [value, lower, upper], abs=0.005
        )
    letters = {name: letters_in(one) for name, one in mean["letters"].items()}
    assert letters["b"] & letters["c"] and not letters["a"] & letters["b"]
    assert set(board.uncertainty) == {"items"}
    partly = pd.DataFrame([*rows[:2], ("c", "sea", 0.69, None, None), ("c", "ice", 0.6, None, None),
                           ("a", "ice", 0.6, 0.5, 0.7), ("b", "ice", 0.6, 0.5, 0.7)], columns=columns)  # fmt: skip
    board = pf.rank(partly)
    assert board.attrs["said"][1:] == ["intervals are not used, since 2 of 6 scores have none"]
    assert set(board.uncertainty) == {"datasets"}


@pytest.mark.parametrize(
    ("datasets", "backbones", "error"),
    [(5, 5, None), (5, 12, None), (12, 5, None), (5, 5, 0.001), (5, 12, 0.006)],
)
def test_equal_backbones_are_seldom_told_apart(datasets, backbones, error):
    """Of 150 tables of equal backbones, about 5 % may have a significant pair; without `alone` 8 to 60 % of five
    datasets do, without intervals and with small ones."""
    found = {"mean_rank": 0, "mean": 0}
    uncertainty = "datasets" if error is None else "both"
    for seed in range(150):
        rng = np.random.default_rng(seed)
        values = (
            0.7 + rng.normal(0, 0.03, (datasets, backbones)) + rng.uniform(-0.2, 0.2, (datasets, 1))
        )
        values += rng.normal(0, error or 0, values.shape)
        items = None
        if error is not None:
            items = (
                np.array([_blocks(place, backbones, error) for place in range(backbones)]),
            ) * datasets
        scores = Scores(values[..., None], np.ones(datasets, bool), items)
        drawn = draw(scores, uncertainty, draws=200, seed=seed)
        for name, statistic in (
            ("mean_rank", lambda v: -mean_rank(v)),
            ("mean", lambda v: v.mean(-2)),
        ):
            apart = told_apart(
                statistic(values), statistic(drawn), datasets=datasets, confidence=0.95,
                of_order=name == "mean_rank", alone=drawn_alone(scores, uncertainty),
            )  # fmt: skip
            found[name] += apart.any()
    assert max(found.values()) <= 15  # P(more than 15 of 150 at 5 %) = 0.4 %


def test_letters_of_a_table_without_intervals_need_nemenyis_test():
    """Three backbones whose ranks never change on four datasets: 1, 2 and 3 are not far enough apart by Nemenyi."""
    frame = pd.DataFrame(
        {"a": [0.9, 0.8, 0.9, 0.7], "b": [0.8, 0.7, 0.8, 0.6], "c": [0.1, 0.2, 0.1, 0.3]}
    ).T
    ranks = of(pf.rank(frame), "mean_rank")
    assert nemenyi(frame.T.to_numpy())[0].tolist() == pytest.approx([1, 0.334, 0.013], abs=0.001)
    letters = {name: letters_in(one) for name, one in ranks["letters"].items()}
    assert letters["a"] & letters["b"]


def test_columns_that_are_not_datasets_are_named(tmp_path):
    table = written(
        tmp_path,
        "Model,Rank (Borda),Mean (Task),Number of Parameters,Builder,Sea,Ice,Wood\n"
        'a,1,71,1e9,mit,"81.2 [80.1, 82.3]",70 ± 2,62\nb,2,60,2e8,open,"70.2 [69.1, 71.3]",60 ± 1,–\n',
    )
    given = read_given(table)
    assert given.datasets == ["Sea", "Ice", "Wood"] and len(given.scores) == 5
    assert (given.scores[0].value, given.scores[0].lower) == pytest.approx((0.812, 0.801))
    said = "; ".join(given.said)
    assert (
        "not taken as datasets, by their names: Rank (Borda), Mean (Task), Number of Parameters"
        in said
    )
    assert "have no numbers: Builder" in said and "after ± are not used" in said
    assert len(read_given(table, without=["Wood"]).scores) == 4
    assert read_given(table, without=["Ice"], where={"Model": "a"}).datasets == ["Sea", "Wood"]


@pytest.mark.parametrize(
    "head", ["Rank (Borda),Model", "Type,Model", ",Model", "id,name", "Rank,Net"]
)
def test_backbones_are_named_by_the_column_of_models_or_the_first_with_text(tmp_path, head):
    other = ["CNN", "CNN"] if "Type" in head else ["1", "2"]
    given = read_given(
        written(
            tmp_path, f"{head},Places365,Year,Update\n{other[0]},a,81,3,0.9\n{other[1]},b,70,4,1\n"
        )
    )
    assert [one.backbone for one in given.scores] == [*"abab"]
    assert given.datasets == ["Places365", "Update"]
    # shares are left as they are
    assert [one.value for one in given.scores] == pytest.approx([0.81, 0.7, 0.9, 1])
    assert given.said[-1] == "scores on Places365 are percentages"


def test_directions_rows_and_unused_columns_are_said(tmp_path):
    given = read_given(written(tmp_path, "model,sea,RMSE\na,0.5,3\nb,0.4,2\n"))
    assert given.lower == {"RMSE"} and given.said[-1] == "lower is better: RMSE"
    long = written(tmp_path, "model,task,score,std\na,sea,0.5,1\nb,sea,bad,1\n")
    assert read_given(long, where={"model": "a"}).said[-1] == "columns that are not used: std"
    with pytest.raises(PermafrostError, match="row 3: score is 'bad'"):
        read_given(long, where={"model": "b"})


def test_names_with_control_characters_can_be_drawn(tmp_path):
    table, figure = written(tmp_path, "model,sea\n\x1b[2Ja,0.5\nb,0.6\n"), tmp_path / "ranks.svg"
    assert {one.backbone for one in read_given(table).scores} == {"\\x1b[2Ja", "b"}
    assert main(["rank", str(table), "--figure", str(figure)]) == 0 and figure.stat().st_size


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (pd.DataFrame(), "the table is empty"),
        (pd.DataFrame([[0.1, 0.2]], ["a"], ["sea", "sea"]), "two columns of the data frame"),
        (pd.DataFrame({"backbone": [0.1]}, ["a"]), "two columns of the data frame"),
        (wide().set_index("set0", append=True), "several levels"),
        (pd.DataFrame({"m": ["a"], "sea": pd.array([None], "Int64")}), "no column has scores"),
    ],
)
def test_frames_that_are_no_tables_are_refused(frame, problem):
    with pytest.raises(PermafrostError, match=problem):
        pf.rank(frame)


PUBLISHED = "dataset,method,metric_name,metric_value,ci_lower,ci_upper,name,bands,normalization\n"


def test_configurations_of_published_results_are_backbones_named_by_what_differs(tmp_path):
    lines = []
    for dataset, every in (("m-eurosat", "b01,b02,b03,b04"), ("benv2", "b02,b03,b04,b08,b11")):
        for name, bands in (
            ("clay", "rgb"),
            ("clay", f'"{every}"'),
            ("clay", "all"),
            ("seco", "rgb"),
        ):
            if (dataset, bands) != ("benv2", "all") and not (
                dataset == "m-eurosat" and bands[0] == '"'
            ):
                lines.append(
                    f"{dataset},linear,accuracy,0.{len(lines) + 3},,,{name},{bands},zscore"
                )
    board = pf.rank(written(tmp_path, PUBLISHED + "\n".join(lines)))
    assert {*board.backbone} == {"clay (rgb)", "clay (all)", "seco"}
    assert set(board.n_datasets) == {2} and set(board.probe) == {"linear"}


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("model,sea\na,0.5\nb,good\n", {}, "row 3: sea is 'good', which is not a score"),
        ("model,sea\na,0.5\na,0.6\n", {}, "a has two scores on sea"),
        ("model,sea\na,0.5\n,0.6\n", {}, "row 3: model is empty"),
        ("model,sea\na,0.5\n", {}, "fewer than two backbones"),
        ("model,word\na,b\n", {}, "no column has scores"),
        ("model\n", {}, "the table is empty"),
        ("model,sea\na,0.5\nb\n", {}, "row 3 has 1 cells"),
        ("model,sea,ice\na,0.5,\nb,,0.5\n", {}, "no dataset has scores of all backbones"),
        ("model,task,score\na,sea,0.5\nb,sea,inf\n", {}, "row 3: score is 'inf'"),
        ("model,sea\na,0.5\nb,0.6\n", {"where": {"bands": "rgb"}}, "no column 'bands'"),
        ("model,sea\na,0.5\nb,0.6\n", {"where": {"model": "c"}}, "no row has model = 'c'"),
        ("model,sea\na,0.5\nb,0.6\n", {"without": ["ice"]}, "no dataset 'ice'"),
        ("model,sea\na,0.5\nb,0.6\n", {"lower_is_better": ["ice"]}, "no dataset or metric 'ice'"),
        ("model,sea\na,0.5\nb,0.6\n", {"baseline": "c"}, "no backbone 'c'"),
        ("model,sea\na,0.5\nb,0.6\n", {"missing": "baseline"}, "none is named"),
        ("model,sea\na,0.5\nb,0.6\n", {"missing": "best"}, "no rule for missing scores"),
        ("dataset,a,b\nsea,0.5,0.6\n", {}, "its rows are datasets"),
        ('model,sea\na,"0,5"\nb,"0,6"\n', {}, "row 2: sea is '0,5', which is not a score"),
        ("model,sea\na,1e200\nb,1e300\n", {}, "row 2: sea is '1e200'"),
        ('model,sea\na,"0.5 [0.6, 0.7]"\nb,"0.6 [0.5, 0.7]"\n', {}, "0.5 is not in its interval"),
        ("model,task,metric,score\na,sea,f1,0.5\nb,sea,acc,0.6\n", {}, "scores by f1 and by acc"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(tmp_path, text, options, problem):
    with pytest.raises(PermafrostError, match=problem) as caught:
        pf.rank(written(tmp_path, text), **options)
    assert caught.value.remedy


def test_the_command_says_what_python_gives_and_draws_it(tmp_path, capsys):
    frame = wide(1)
    frame.iloc[0, 0] = np.nan
    frame.to_csv(tmp_path / "board.csv", index_label="model")
    board, out = pf.rank(tmp_path / "board.csv", complete=True), tmp_path / "standings.csv"
    options = ["--complete", "--output", str(out), "--figure", str(tmp_path / "ranks.json")]
    assert main(["rank", str(tmp_path / "board.csv"), *options]) == 0
    said = capsys.readouterr().out
    assert "left out, without a score on every dataset: 1 of 6 backbones" in said
    ranks = of(board, "mean_rank").sort_values("rank")
    assert f"{ranks.index[0]} is first by mean rank" in said
    letters = [letters_in(one) for one in ranks["letters"]]
    apart = sum(not one & other for one, other in itertools.pairwise(letters))
    assert f"Of 4 pairs of neighbours in the ranking, {apart} differ significantly." in said
    assert pd.read_csv(out)["value"].tolist() == pytest.approx(board["value"].tolist())
    figure = json.loads((tmp_path / "ranks.json").read_text())
    assert [row["row"] for row in figure["data"]["values"]] == ranks.index.tolist()
    assert [row["aside"] for row in figure["data"]["values"]] == [
        f"{low:g}" if low == high else f"{low:g}–{high:g}"
        for low, high in zip(ranks["rank_low"], ranks["rank_high"], strict=True)
    ]
    for wrong in ("ranks.gif", "ranks"):
        assert (
            main(
                [
                    "rank",
                    str(tmp_path / "board.csv"),
                    "--figure",
                    str(tmp_path / wrong),
                    "--output",
                    "x.csv",
                ]
            )
            == 1
        )
        assert (
            "no figure is written as" in capsys.readouterr().err
            and not (tmp_path / "x.csv").exists()
        )
    with pytest.raises(PermafrostError, match="no probe 'knn'.*name one of board"):
        pf.rank(tmp_path / "board.csv", probe="knn")
    assert main(["rank", str(tmp_path / "board.csv"), "--where", "bands"]) == 1
    assert "write COLUMN=VALUE" in capsys.readouterr().err
    before = (tmp_path / "board.csv").read_bytes()
    for wrong in (["--output", str(tmp_path / "board.csv")], ["--where", "a=1", "--where", "a=2"]):
        assert main(["rank", str(tmp_path / "board.csv"), *wrong]) == 1
    assert (tmp_path / "board.csv").read_bytes() == before


def test_todays_published_tables_are_ranked(shared_data):
    folder = shared_data / "published"
    board = pf.rank(
        folder / "torchgeo-bench_results.csv",
        where={"method": "linear"},
        complete=True,
        duplicates="last",
    )
    assert set(board.n_datasets) == {11} and board.backbone.nunique() == 54
    frozen = pf.rank(folder / "geobench2", where={"method": "frozen UNet"})
    assert of(frozen, "mean_rank").sort_values("rank").index[0] == "dinov3_vitl16"
