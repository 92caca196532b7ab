"""The answer over datasets and two backbones beside each other, as text."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from helpers.results.tables import make_comparison_table, make_score_rows, score_table
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import write_table
from permafrost.report.explanations.leaderboard_state import same_words
from permafrost.report.notation import chance
from permafrost.report.tables import blocks
from permafrost.report.tables.answer import answer, of_standings, same_said, verdict
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.compared import difference_block, finds, letters_of
from permafrost.report.tables.shown import Shown
from permafrost.report.tables.terminal import leaderboard_blocks
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard


def standing(backbone, rank, letters="a", *, statistic="mean_rank", **more) -> dict:
    row = {
        "group": "all",
        "probe": "knn",
        "backbone": backbone,
        "statistic": statistic,
        "rank": rank,
    }
    row |= {"value": float(rank), "lower": 1.0, "upper": 3.0, "rank_low": 1, "rank_high": 3}
    row |= {"letters": letters, "uncertainty": "both", "n_datasets": 5, "left_out": "", "note": ""}
    return {**row, "confidence": 0.95, **more}


def says(*rows) -> str:
    return verdict(of_standings(list(rows)))


def test_the_verdict_says_who_is_first_and_whether_that_is_certain():
    assert (
        says(standing("x", 1), standing("y", 2, "b"))
        == "x is first by mean rank, and significantly better than the other."
    )
    assert (
        says(standing("y", 2), standing("x", 1))
        == "x is first by mean rank, but y does not differ significantly from it."
    )
    alone = {"n_datasets": 1}
    assert says(standing("x", 1, **alone), standing("y", 2, "b", **alone)) == (
        "x is best, and significantly better than the other."
    )
    ranked = standing("x", 1, "a"), standing("y", 2, "ab"), standing("z", 3, "b")
    likely = standing("x", 1, statistic="probability_best", value=0.931)
    assert says(*ranked, likely) == (
        "x is first by mean rank (chance of being best 93 %), but y does not differ significantly from it."
    )
    lost = standing("x", 1, statistic="expected_loss", value=0.0042)
    other = standing("y", 2, statistic="probability_best", value=0.95)
    assert says(*ranked, likely, other, lost) == (
        "x is first by mean rank (chance of being best 93 %, expected loss against the best 0.004;"
        " y has the largest chance, 95 %), but y does not differ significantly from it."
    )
    assert says(standing("x", 1.5), standing("y", 1.5), standing("z", 3, "b")) == (
        "x and y are first by mean rank, and significantly better than the other."
    )
    # the letter after z is another one than a
    assert says(standing("x", 1, "ab"), standing("y", 2, "cd'"), standing("z", 3, "a'b'")) == (
        "x is first by mean rank, and significantly better than all 2 others."
    )
    many = [standing(f"b{number}", number) for number in range(1, 7)]
    assert says(*many) == (
        "b1 is first by mean rank, but none of the 5 others differs significantly from it."
    )
    many[-1]["letters"] = "b"
    assert (
        says(*many)
        == "b1 is first by mean rank, but 4 of 5 others do not differ significantly from it."
    )
    unknown = {"uncertainty": "none", "letters": None, "note": "one unit"}
    assert says(standing("x", 1, **unknown), standing("y", 2, **unknown)) == (
        "x is first by mean rank. Whether this is due to chance is unknown: one unit."
    )
    nobody = {"rank": None, "note": "no dataset has scores of all backbones", "uncertainty": "none"}
    assert (
        says({**standing("x", 1), **nobody})
        == "No backbone is ranked: no dataset has scores of all backbones."
    )


def test_a_chance_is_never_certain():
    shares = (0, 0.004, 0.005, 0.5, 0.994, 0.995, 0.9951, 0.996, 1)
    assert [chance(share) for share in shares] == [
        "< 1 %", "< 1 %", "1 %", "50 %", "99 %", "> 99 %", "> 99 %", "> 99 %", "> 99 %",
    ]  # fmt: skip


def test_the_answer_ranks_backbones():
    rows = [
        standing("worse", 2, "b", rank_low=2, rank_high=2),
        standing("better", 1, left_out="d9"),
    ]
    rows += [standing("better", 1, statistic="mean", value=0.912, lower=0.9, upper=0.95)]
    rows += [standing("worse", 2, statistic="mean", value=0.512, lower=0.5, upper=0.55)]
    rows += [
        standing(name, 1, statistic="probability_best", value=v)
        for name, v in (("better", 0.97), ("worse", 0.03))
    ]
    rows += [
        standing(name, 1, statistic="expected_loss", value=v)
        for name, v in (("better", 0.0002), ("worse", 0.4))
    ]
    text = answer(rows, group="all", probe="knn").plain().splitlines()
    assert text[0] == "all · knn · 5 datasets"
    assert (
        text[1]
        == "better is first by mean rank (chance of being best 97 %, expected loss against the best < 0.001),"
        " and significantly better than the other."
    )
    assert " ".join(text[2].split()) == (
        "rank backbone mean rank interval mean interval best loss ranks letters"
    )
    assert " ".join(text[3].split()) == (
        "1 better 1.00 [1.00, 3.00] 0.912 [0.900, 0.950] 97 % < 0.001 1–3 a"
    )
    assert " ".join(text[4].split()) == (
        "2 worse 2.00 [1.00, 3.00] 0.512 [0.500, 0.550] 3 % 0.400 2 b"
    )
    assert "d9" in text[5] and "95 % intervals over other datasets" in text[6]
    assert (
        "and 1 more: permafrost show --probe knn"
        in answer(rows, group="all", probe="knn", most=1).plain()
    )
    assert answer(rows, group="mine", probe="knn") is None


def test_the_answer_says_what_tests_say_and_what_would_tell_two_apart():
    rows = [standing("a", 1.0), standing("b", 2.0)]
    tests = {"group": "all", "probe": "knn", "friedman_p": 0.0312, "first": "a", "second": "b"}
    tests |= {"practical": [0.1, 0.3, 0.6], "more_datasets": 4, "times_items": 2.5}
    foot = answer(rows, group="all", probe="knn", tests=[tests]).foot
    assert "p = 0.031 (Friedman, F)" in foot
    assert "a against b on a new dataset: better 60 %, practically equal 30 %, worse 10 %" in foot
    assert "4 more datasets or 2.5 times the test items would detect" in foot
    enough = {
        **tests,
        "friedman_p": None,
        "more_datasets": 0,
        "times_items": None,
        "practical": None,
    }
    foot = answer(rows, group="all", probe="knn", tests=[enough]).foot
    assert not any(said in foot for said in ("Friedman", "would detect", "new dataset"))
    assert (
        "Friedman"
        not in answer(rows, group="all", probe="knn", tests=[{**tests, "probe": "x"}]).foot
    )


def test_letters_of_one_dataset_need_a_test():
    def pair(a, b, difference, p):
        return {
            "backbone_a": a,
            "backbone_b": b,
            "difference": difference,
            "p_adjusted": p,
            "confidence": 0.95,
        }

    rows = [pair("a", "b", 0.3, 0.01), pair("a", "c", 0.3, 0.01), pair("b", "c", 0.1, 0.4)]
    assert letters_of(rows, ["a", "b", "c"]) == {"a": "a", "b": "b", "c": "b"}
    assert letters_of([pair("a", "b", 0.3, float("nan"))], ["a", "b"]) == {}
    assert letters_of(rows[:1], ["a", "b", "c"]) == {} == letters_of([], ["a"])


def test_what_letters_leave_open_is_said():
    rows = [{"p_adjusted": 0.2, "detectable": each} for each in (0.02, 0.03, None)]
    assert finds(rows).endswith(
        "differences below about 0.030 are found with a chance of less than 80 %"
    )
    assert "no difference, however large" in finds(rows[2:])
    assert finds([{"p_adjusted": None, "detectable": None}]) == "" == finds([])


def test_a_difference_is_shown_in_the_order_that_was_asked_for():
    row = {"dataset": "d", "probe": "knn", "metric": "rmse", "n_runs": 1, "higher_is_better": False}
    row |= {"backbone_a": "a", "backbone_b": "b", "difference": -0.2, "lower": -0.3, "upper": -0.1}
    row |= {"p_value": 0.001, "p_adjusted": 0.004, "detectable": 0.15, "confidence": 0.95}
    shown = difference_block([row], "b", "a").lines[1]
    # b has the larger error
    assert shown[:5] == ["d", "knn", "RMSE", "+0.200", "[+0.100, +0.300]"]
    assert shown[5:] == ["0.001", "0.004", "0.150", "a"]
    assert difference_block([row], "a", "b").lines[1][3:5] == ["−0.200", "[−0.300, −0.100]"]
    assert (
        difference_block([{**row, "p_adjusted": 0.2}], "a", "b").lines[1][-1] == "not significant"
    )
    untested = {**row, "p_adjusted": float("nan"), "detectable": None}
    assert difference_block([untested], "a", "b").lines[1][-2:] == ["", "not tested"]
    assert difference_block([{**row, "n_runs": 3}], "a", "b").lines[0][3] == "runs"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A leaderboard of three datasets with what lies beside it."""
    folder = tmp_path_factory.mktemp("shown")
    backbones = {"strong": 0.9, "middle": 0.6, "weak": 0.4}
    tables = [
        score_table(make_score_rows(dataset=dataset, backbone=name, probe="knn", value=value))
        for dataset in ("d1", "d2", "d3")
        for name, value in backbones.items()
    ]
    about = {"fingerprint": "f", "stage": "aggregate"}
    board = build_leaderboard(tables)
    ranking = Ranking(groups={"all": ["d1", "d2", "d3"], "mine": ["d1"]}, draws=100)
    from permafrost.core.identity import canonical_json
    from permafrost.core.tables import KEY

    known = [table.replace_schema_metadata({KEY: canonical_json({})}) for table in tables]
    write_table(folder / "standings.parquet", build_standings(known, ranking), about)
    (folder / "comparisons/d1").mkdir(parents=True)
    write_table(
        folder / "comparisons/d1/knn.parquet",
        make_comparison_table("d1", "knn", sorted(backbones)),
        about,
    )
    return Shown.of(board, folder, {"fingerprint": "f"})


def heads(shown) -> list[str]:
    return [block.head.splitlines()[0] for block in shown]


def test_the_answer_comes_before_the_datasets(results):
    shown = heads(results.blocks())
    assert shown[0].startswith("Of 3 backbones, strong has the best mean rank over 3 datasets")
    assert shown[1] == "all · knn · 3 datasets"
    assert shown[2] == "Other groups of datasets, for --group: 'mine'"
    assert [head.split(" · ")[0] for head in shown[3:6]] == ["d1", "d2", "d3"]
    # a comparison exists of one dataset only
    assert "differences below about 0.040 are found" in results.blocks()[3].foot
    assert ["letters" in block.lines[0] for block in results.blocks()[3:6]] == [True, False, False]


def test_what_is_shown_can_be_chosen(results):
    assert heads(results.blocks(group="mine")) == ["mine · knn · 1 dataset"]
    assert [head.split(" · ")[0] for head in heads(results.blocks(dataset="d2"))][0] == "d2"
    assert "weak less strong" in heads(results.blocks(compare=["weak", "strong"]))[0]
    with pytest.raises(
        PermafrostError, match="these results have no group 'min', did you mean 'mine'"
    ):
        results.blocks(group="min")
    with pytest.raises(PermafrostError, match="no backbone 'x'"):
        results.blocks(compare=["x", "weak"])
    with pytest.raises(PermafrostError, match="compared on no dataset"):
        results.blocks(compare=["weak", "strong"], dataset="d2")


def test_standings_of_another_leaderboard_are_refused(results, tmp_path):
    table = pa.table({"group": ["all"]})
    write_table(
        tmp_path / "standings.parquet", table, {"fingerprint": "other", "stage": "aggregate"}
    )
    with pytest.raises(PermafrostError, match="standings"):
        Shown.of(results.leaderboard, tmp_path, {"fingerprint": "f"})


def test_a_terminal_gets_a_table_that_fits_and_no_markup(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    name = "[red]name[/red]"
    blocks.print_blocks(
        [Block("head", [["rank", "backbone"], ["1", name]], frozenset({"rank"}), "foot")]
    )
    shown = stream.getvalue()
    assert name in shown and "\x1b[1m" in shown and "foot" in shown
    assert max(map(len, shown.splitlines())) < 120
    letters = [["name", "letters"], ["one", "ab"], ["two", "b"], ["three", "c"]]
    monkeypatch.setattr("sys.stdout", bold := Terminal())
    blocks.print_blocks([Block("head", letters)])
    for name, expected in (("one", True), ("two", True), ("three", False)):
        (line,) = [line for line in bold.getvalue().splitlines() if name in line]
        assert ("\x1b[1m" in line) == expected
    monkeypatch.setattr("sys.stdout", plain := io.StringIO())
    blocks.print_blocks([Block("head", [["rank", "backbone"], ["1", name]])])
    assert plain.getvalue() == f"head\n  rank  backbone\n  1     {name}\n"


def exactly(*ranks: float | None, datasets="d1;d2", **more) -> list[dict]:
    shown = [
        standing(name, rank, statistic="exact_mean_rank", datasets=datasets, **more)
        for name, rank in zip("ab", [one or 0 for one in ranks], strict=False)
    ]
    return [row | ({} if ranks[0] else {"rank": None, "value": None}) for row in shown]


def test_the_ranking_of_exact_cells_is_printed_with_whether_the_order_changes():
    every = [standing("a", 1), standing("b", 2, "b"), standing("c", 3, "b")]

    def head(*exact: dict) -> str:
        return answer([*every, *exact], group="all", probe="knn").head

    assert "exact" not in head()
    same, changed = head(*exactly(1, 2)), head(*exactly(2, 1))
    assert "exact cells alone (datasets: d1, d2; 2 of 3 backbones), the order is the same" in same
    assert "Mean ranks: a 1.00, b 2.00." in same
    assert "the order changes: filled bands decide it. Mean ranks: b 1.00, a 2.00." in changed
    assert "No dataset fits all of them exactly" in head(*exactly(None, None))


def test_copies_and_adapted_cells_are_told_beside_their_scores():
    tables = [
        score_table(make_score_rows(dataset="d1", backbone=name, probe="knn", value=value))
        for name, value in (("a", 0.9), ("b", 0.9), ("c", 0.5))
    ]
    about = {"bands_real": 3, "bands_wanted": 13, "dataset": "d1"}
    cells = [
        {**about, "backbone": name, "fit": fit, "input_id": made}
        for name, fit, made in (("a", "exact", "x"), ("b", "exact", "x"), ("c", "neutral", "y"))
    ]
    board = build_leaderboard(tables, cells)
    (block,) = leaderboard_blocks(board)
    assert [line[-1] for line in block.lines[1:]] == ["", "same as a", "neutral, 3 of 13 bands"]
    ranks = {row["backbone"]: row["rank"] for row in board.to_pylist() if row["primary"]}
    assert ranks == {"a": 1, "b": 1, "c": 2}
    untold = build_leaderboard(tables).to_pylist()
    assert {row["backbone"]: row["rank"] for row in untold if row["primary"]}["c"] == 3
    row = {"same_as": "b=a;d=c"}
    (said,) = same_said(row)
    assert said.endswith("counted once: b is the same as a, d is the same as c.")
    assert same_words({("d1", "b"): "a"}, "backbone", "b").endswith("it is the same as a on d1.")
    assert same_words({("d1", "b"): "a"}, "dataset", "d1").endswith("b is the same as a.")
    assert not same_words({("d1", "b"): "a"}, "dataset", "d2")


def test_a_leaderboard_without_standings_says_what_was_left_out(tmp_path):
    rows = make_score_rows(dataset="d1", backbone="a", probe="knn", value=0.5)
    left_out = [{"dataset": "d1", "backbone": "z", "probe": None, "reason": "no band 'nir'"}]
    about = {"fingerprint": "f", "left_out": left_out}
    shown = Shown.of(build_leaderboard([score_table(rows)]), tmp_path, about)
    assert "left out: no band 'nir'" in "\n".join(block.plain() for block in shown.blocks())


def test_plain_values_are_those_of_the_tables_and_can_be_chosen(results):
    every = results.values()
    assert every["study"]["sentence"] == results.blocks()[0].head
    assert {(row["dataset"], row["probe"]) for row in every["scores"]} == {
        (row["dataset"], row["probe"]) for row in results.rows
    }
    assert len(every["standings"]) == len(results.standings)
    json.dumps(every, allow_nan=False)
    assert results.values(group="all")["study"] is results.values(probe="knn")["study"] is None
    some = results.values(dataset="d1", compare=["weak", "strong"])
    assert some["study"] is None
    assert {row["dataset"] for row in some["scores"]} == {"d1"}
    assert [{row["backbone_a"], row["backbone_b"]} for row in some["differences"]] == [
        {"weak", "strong"}
    ]
    with pytest.raises(PermafrostError, match="no backbone 'x'"):
        results.values(compare=["x", "weak"])
