"""Costs beside the scores: in leaderboard, standings and report, and ranked nowhere."""

from __future__ import annotations

import copy
import math

import pyarrow as pa
import pytest
from helpers.results.charts import names_of, rows_of, size_of, texts_of, views_of
from helpers.results.pages import build_report
from helpers.results.tables import (
    format_leaderboard,
    make_card,
    make_plan,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
    write_card,
)
from permafrost.core.identity import canonical_json
from permafrost.report.explanations.costs import brief_cost, cost_lines, machines, remarks
from permafrost.report.figures.costs import draw_costs
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard, write_leaderboard
from permafrost.statistics.leaderboard.rows import distinct, overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

CARD = make_card("demo", classes=3, bands=3, counts=(90, 20, 30))
# backbone -> accuracy, parameters, FLOPs, milliseconds, megabytes
KNOWN = {
    "statistics": (0.5, 0, math.nan, 1.5, 10),
    "small": (0.7, 2.2e6, 6e8, 8.0, 250),
    "waste": (0.6, 9e6, 9e8, 30.0, 400),
    "large": (0.8, 25e6, 8e9, 40.0, 300),
}
HARDWARE = {"device": "cpu", "processor": "Some CPU", "cores": 8, "cores_usable": 4, "threads": 4,
            "system": "Linux", "python": "3.12", "torch": "2.9"}  # fmt: skip


def cost_rows(backbone: str, *, hardware=HARDWARE, flag=None, **changes) -> list[dict]:
    names = ("parameters", "flops", "latency_ms", "peak_memory_mb")
    values = dict(zip(names, KNOWN[backbone][1:], strict=True)) | {"energy_j": math.nan} | changes
    rows = []
    for name, value in values.items():
        (row, *_) = make_score_rows(dataset="demo", backbone=backbone)
        several = name == "latency_ms"
        notes = {
            "unit": "",
            "batch_size": 64,
            "precision": "fp32",
            "compile": False,
            "hardware": hardware,
            "native": [64, 64],
        }
        if math.isnan(value):
            notes["undefined"] = f"{name} is not reported"
        if several and flag:
            notes["flag"] = flag
        if name == "flops":
            notes["uncounted"] = ["relu", "mean"]
        ends = (0.9 * value, 1.2 * value) if several else (math.nan, math.nan)
        rows.append(
            {
                **row,
                **dict.fromkeys(
                    (
                        "confidence",
                        "resamples",
                        "n_undefined",
                        "bootstrap_seed",
                        "n_test",
                        "n_train",
                        "n_val",
                        "higher_is_better",
                    )
                ),
                "probe": "profile",
                "kind": "profile",
                "metric": name,
                "value": value,
                "lower": ends[0],
                "upper": ends[1],
                "method": "quartiles" if several else None,
                "primary": False,
                "unit": "repeat" if several else None,
                "n_units": 100 if several else None,
                "settings": canonical_json(notes),
            }
        )
    return rows


def tables(**changes) -> tuple[list[pa.Table], list[pa.Table]]:
    """Tables of scores (two probes) and of profiles."""
    scores = [
        score_table(
            make_score_rows(dataset="demo", backbone=name, probe=probe, value=known[0] + plus)
        )
        for name, known in KNOWN.items()
        for probe, plus in (("linear", 0), ("knn", -0.1))
    ]
    return scores, [score_table(cost_rows(name, **changes)) for name in KNOWN]


def board(**changes) -> list[dict]:
    scores, profiles = tables(**changes)
    return build_leaderboard(scores + profiles).to_pylist()


def test_costs_change_no_rank_no_standing_and_no_printed_line():
    scores, profiles = tables()
    without, both = build_leaderboard(scores), build_leaderboard(scores + profiles)
    rows = both.to_pylist()
    own = [row for row in rows if row["kind"] != "profile"]
    assert pa.Table.from_pylist(own, schema=both.schema).equals(without)
    costs = [row for row in rows if row["kind"] == "profile"]
    assert len(costs) == 5 * len(KNOWN)
    assert all(row["rank"] is None and row["mean_rank"] is None for row in costs)
    ranking = Ranking(groups={"all": distinct(both.to_pylist(), "dataset")}, draws=20)
    standings = build_standings(scores, ranking)
    assert standings.num_rows and standings.equals(build_standings(scores + profiles, ranking))
    assert format_leaderboard(both) == format_leaderboard(without)


def test_backbones_are_ordered_by_their_best_score():
    lines = cost_lines(board())
    assert [line["backbone"] for line in lines] == ["large", "small", "waste", "statistics"]
    assert lines[1]["costs"]["flops"]["value"] == 6e8 and lines[1]["best"]["value"] == 0.7


def test_what_is_unknown_or_doubtful_is_said_once():
    said = remarks(cost_lines(board(flag="something else kept the machine busy")))
    assert "FLOPs of statistics: unknown, flops is not reported." in said
    assert "energy (J) of all backbones: unknown, energy_j is not reported." in said
    assert "latency (ms) of all backbones: something else kept the machine busy." in said
    assert len(said) == 3


def test_the_machine_is_named_and_several_are_warned_of():
    (one,) = machines(cost_lines(board()))
    assert one == (
        "Measured on Some CPU, 4 threads on 4 usable of 8 cores; batches of 64, fp32, torch 2.9."
    )
    scores, profiles = tables()
    gpu = {**copy.deepcopy(HARDWARE), "device": "cuda", "gpu": "Some GPU", "threads": 1}
    profiles[0] = score_table(cost_rows("statistics", hardware=gpu))
    said = machines(cost_lines(build_leaderboard(scores + profiles).to_pylist()))
    assert len(said) == 3 and "do not compare" in said[-1]
    assert any(
        "Some GPU (GPU) with Some CPU, 1 thread on" in s and "(statistics)" in s for s in said
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (999.4, "999"), (999.96, "1 k"), (2223872, "2.22 M"),
     (3.63e9, "3.63 G"), (5e15, "5000 T"), (float("nan"), "–"), (None, "–")],
)  # fmt: skip
def test_costs_are_written_in_three_digits(value, text):
    assert brief_cost(value) == text


# --- figure and page ----------------------------------------------------------------------------


def figure(rows=None, costs=("parameters", "flops", "latency_ms", "peak_memory_mb")):
    rows = board() if rows is None else rows
    return draw_costs(cost_lines(rows), merge_seeds(overall(rows)), costs, title="demo")


def fronts(figure) -> list[int]:
    """The backbones on the front of each panel."""
    return [sum(row["front"] for row in rows_of(figure, place)) for place in range(8)]


def numbered(figure, place: int) -> set[str]:
    return {row["number"] for row in rows_of(figure, place)} - {""}


def test_each_panel_has_its_front_and_its_points_have_numbers():
    drawn = figure()
    assert len(views_of(drawn)) == 2 * 4
    assert fronts(drawn)[:4] == [3, 2, 3, 3]
    said = " ".join(drawn["title"]["subtitle"])
    assert said.endswith("1: large; 2: small; 3: waste; 4: statistics")
    assert numbered(drawn, 0) == {*"1234"} and numbered(drawn, 1) == {*"123"}
    assert "unknown: FLOPs of statistics" in said
    assert texts_of(drawn).count("2") == 8


def test_a_front_is_a_line_that_goes_on_to_the_right():
    points = views_of(figure())[1]["layer"][0]["data"]["values"]
    assert [one["value"] for one in points] == [0.6, 0.7, 0.7] or len(points) == 3
    assert points[-1]["value"] == max(one["value"] for one in points)


def test_a_cost_of_nothing_stands_left_of_all_others_and_is_called_so():
    drawn = figure()
    rows = rows_of(drawn, 4)
    (free,) = (row for row in rows if row["cost"] == 0)
    assert free["place"] == min(row["place"] for row in rows) and free["place"] > 0
    gap = views_of(drawn)[4]["layer"][0]["encoding"]["x"]["datum"]
    assert free["place"] < gap < min(row["place"] for row in rows if row is not free)
    assert names_of(drawn, ["0"]) == ["0"] * 2


def test_of_many_backbones_only_those_on_a_front_have_numbers():
    rows = board()
    kept = [row for row in rows if row["backbone"] == "small"]
    many = [
        {**row, "backbone": f"backbone {i}", "value": row["value"] * worse}
        for i in range(40)
        for row in kept
        for worse in [1 + i / 50 if (row["kind"] == "profile") or i < 2 else 1 / (1 + i)]
    ]
    drawn = figure(many)
    assert " ".join(drawn["title"]["subtitle"]).endswith("1: backbone 1; 2: backbone 0")
    assert all(numbered(drawn, place) == {"1", "2"} for place in range(8))


@pytest.mark.parametrize("count", [1, 40])
def test_one_backbone_or_many_can_be_drawn(count):
    rows = board()
    kept = [row for row in rows if row["backbone"] == "small"]
    many = [
        {**row, "backbone": f"backbone {i}", "value": row["value"] * (1 + i / 50)}
        for i in range(count)
        for row in kept
    ]
    drawn = figure(many)
    assert fronts(drawn) == [count] * 8 and size_of(drawn)[0] < 900


def report(folder, with_costs: bool) -> str:
    scores, profiles = tables(flag="something else kept the machine busy")
    gathered = scores + (profiles if with_costs else [])
    write_leaderboard(gathered, folder / "l.parquet", folder / "l.csv", {"fingerprint": "l"})
    predictions = {
        ("demo", name, 0, probe): make_predictions(
            folder / f"{name}/{probe}.parquet", CARD, backbone=name, probe=probe
        )["path"]
        for name in KNOWN
        for probe in ("knn", "linear")
    }
    build_report(
        plan=make_plan(["demo"], list(KNOWN)),
        leaderboard=folder / "l.parquet",
        cards={"demo": write_card(folder / "card.json", CARD)},
        predictions=predictions,
        images={},
        comparisons={},
        output_dir=folder / "report",
    )
    return report_text(folder / "report")


def test_the_page_shows_costs_beside_the_score(tmp_path):
    page = report(tmp_path, with_costs=True)
    names = {path.name for path in (tmp_path / "report/figures").iterdir()}
    assert "costs__demo.svg" in names
    for words in (
        "<h2>Cost</h2>",
        "25 M",
        "8 G",
        "[36, 48]",
        "Some CPU",
        "FLOPs leave out: mean, relu",
        "unknown, flops is not reported",
        "Pareto front",
        'class="doubt"',
    ):
        assert words in page, words
    leaderboard = page[page.index('id="explorer"') : page.index('id="datasets"')]
    assert "flops" not in leaderboard.lower() and "profile" not in leaderboard


def test_without_a_profile_the_page_says_nothing_of_it(tmp_path):
    page = report(tmp_path, with_costs=False)
    assert "<h2>Cost</h2>" not in page and "Costs</strong>" not in page
    assert not list((tmp_path / "report/figures").glob("costs__*"))
