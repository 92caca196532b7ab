"""A finished study that gets derived backbones: what runs, what stays, and what tables and page say of them."""

from __future__ import annotations

import shutil

import pyarrow.parquet as pq
import pytest
from helpers.project import TINY
from permafrost.interface.results import Results

DERIVE = {"same": [{"quantise": "float32"}], "pca4": [{"pca": 4}, {"quantise": "int8"}]}
JOINED = {"kind": "derived", "of": ["imagestats", "tiny-network"]}
FORMS = [f"{name}@{form}" for name in TINY["backbones"] for form in DERIVE]
COMPARISONS = "results/comparisons/tiny-landcover/{}.parquet"


def rows_of_roots(path) -> list[dict]:
    """The rows of a table that name backbones of the tiny project alone."""
    names = ("backbone", "backbone_a", "backbone_b")
    return [
        row
        for row in pq.read_table(path).to_pylist()
        if all(row.get(name) in (None, *TINY["backbones"]) for name in names)
    ]


def comparable(row: dict) -> str:
    """A row as text, since values may be no number."""
    return repr(row)


@pytest.mark.slow
def test_derived_backbones_of_a_finished_study(project):
    project.configure(probes={**project.config["probes"], "mlp": {"kind": "mlp", "epochs": 3}})
    project.snakemake()
    standings = pq.read_table(project.path("results/standings.parquet"))
    leaderboard = rows_of_roots(project.path("results/leaderboard.parquet"))
    compared = {
        name: rows_of_roots(project.path(COMPARISONS.format(name))) for name in ("knn", "mlp")
    }

    project.configure(
        backbones=[*TINY["backbones"], "both"],
        extra_backbones={**TINY["extra_backbones"], "both": JOINED},
        derive=DERIVE,
    )
    assert project.pending() == {
        "derive": 5,
        "probe_embeddings": 15,
        "bootstrap": 15,
        "compare": 3,
        "aggregate": 1,
        "report": 1,
    }
    project.snakemake()
    assert project.pending() == {}

    # nothing that was there has changed
    assert pq.read_table(project.path("results/standings.parquet")).equals(standings)
    found = rows_of_roots(project.path("results/leaderboard.parquet"))
    assert list(map(comparable, found)) == list(map(comparable, leaderboard))
    for name, rows in compared.items():
        again = rows_of_roots(project.path(COMPARISONS.format(name)))
        assert list(map(comparable, again)) == list(map(comparable, rows))

    # the identity has its parent's predictions, also of a probe with random numbers
    folder = project.path("results/predictions/tiny-landcover")
    for probe in ("knn", "linear", "mlp"):
        for name in TINY["backbones"]:
            tables = [
                pq.read_table(folder / one / "seed0" / f"{probe}.parquet")
                for one in (name, f"{name}@same")
            ]
            assert tables[0].equals(tables[1]), (probe, name)
    stores = project.path("results/features/tiny-landcover")
    assert not any((stores / f"{name}/train.zarr/embeddings").exists() for name in (*FORMS, "both"))

    # they have scores and no ranks, and stand beside their parents
    derived = [row for row in project.leaderboard() if row["backbone"] in (*FORMS, "both")]
    assert {row["backbone"] for row in derived} == {*FORMS, "both"}
    assert {row["rank"] for row in derived} == {None} == {row["mean_rank"] for row in derived}
    shown = project.permafrost("show", "--probe", "knn")
    ranked, _, aside = shown.partition("derived backbones, not ranked")
    assert "@" not in ranked and "both" not in ranked
    assert all(name in aside for name in (*FORMS, "both"))
    page = project.path("results/report/datasets/tiny-landcover.html").read_text()
    scores = page[page.index('id="scores"') : page.index('id="derived"')]
    assert "@same" not in scores and page.count("tiny-network@pca4") == 3
    assert "Joined backbones against the better of their parts" in project.report_text()
    assert project.path("results/report/figures/derived__tiny-landcover__knn.svg").exists()
    assert "derive" in project.permafrost("plan")
    results = Results(project.path("results"))
    beside = results.derived.set_index(["probe", "backbone", "parent"])
    assert len(beside) == 3 * (4 + 2)
    same = beside.loc["knn", "imagestats@same", "imagestats"]
    assert same["difference"] == 0 and same["verdict"] == "alike"
    assert (
        same["bytes"]
        == same["parent_bytes"]
        > beside.loc["knn", "imagestats@pca4", "imagestats"]["bytes"]
        == 4
    )
    assert "@" not in str(results.plot_ranked("knn").specification)
    assert results.features("tiny-landcover", "tiny-network@pca4").x.shape[1] == 4
    for command in (("verify",), ("stale",)):
        project.permafrost(*command)

    # a parent's deleted stores are made again for another form, and nothing else runs twice
    shutil.rmtree(stores / "tiny-network")
    project.configure(derive={**DERIVE, "sign": [{"quantise": "sign"}]})
    assert project.pending() == {
        "extract": 1,
        "derive": 2,
        "probe_embeddings": 6,
        "bootstrap": 6,
        "compare": 3,
        "aggregate": 1,
        "report": 1,
    }
    project.snakemake("results/leaderboard.csv")
    assert "imagestats@sign" in project.path("results/leaderboard.csv").read_text()

    # where it is asked for, they are ranked as all others
    project.configure(ranking={"derived": True})
    assert set(project.pending()) == {"compare", "aggregate", "report"}
    project.snakemake("results/leaderboard.csv", COMPARISONS.format("knn"))
    assert all(
        row["rank"] for row in project.leaderboard() if row["primary"] and row["class"] is None
    )
    assert pq.read_metadata(project.path(COMPARISONS.format("knn"))).num_rows == 4 * 36
