"""Stored features as CSV for NeuCo-Bench: ids, all digits, dates, derived backbones, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.specification import SPLITS
from permafrost.core.stores import write_store
from permafrost.data.embeddings.tables import TableEmbeddings, TableOptions
from permafrost.plan.recorded import encode_plan
from permafrost.report.tables import neuco_bench
from permafrost.report.tables.neuco_bench import Written, write_embeddings
from permafrost.stages import cli

COUNTS = dict(zip(SPLITS, (30, 0, 12), strict=True))


class Made:
    """A folder of results with feature stores, and the plan that lists them."""

    def __init__(self, folder):
        self.folder, self.outputs = folder, []

    def add(
        self,
        dataset,
        backbone,
        values,
        *,
        dates=None,
        name="{split}/{row}.tif",
        array=None,
        folds_of=None,
    ):
        """Stores of one backbone: `values` are (all samples, …), `dates` the kind of their dates."""
        start = 0
        for split, count in COUNTS.items():
            rows = values[start : start + count]
            start += count
            path = self.folder / "features" / dataset / backbone / f"{split}.zarr"
            ids = [name.format(split=split, row=row) for row in range(count)]
            columns = {"sample_id": pa.array(ids, pa.string())}
            with write_store(path, fingerprint=f"of-{backbone}") as writer:
                if dates is not None:
                    lists = [["2020-01-01"] * (1 + row % rows.shape[1]) for row in range(count)]
                    if dates == "pair":
                        lists = [["2020-01-01"] * 2] * count
                    columns["dates"] = pa.array(lists, pa.list_(pa.string()))
                    writer.attributes["dates"] = {"kind": dates, "column": "dates"}
                made = writer.array(array or "embeddings", rows.shape, rows.dtype, rows_per_chunk=8)
                made[:] = rows
                writer.samples(pa.table(columns))
                writer.attributes.update({"split": split, "task": "classification"})
                if folds_of is not None:
                    for what, kind in (("parent", np.int16), ("row", np.int64)):
                        numbers = writer.array(what, (count,), kind, rows_per_chunk=8)
                        numbers[:] = np.zeros(count, kind)
                    writer.array("folds", (count, 2), np.uint8, rows_per_chunk=8)[:] = 1
                    writer.attributes["rows"] = {
                        "of": [[folds_of, split, "of-net"]],
                        "arrays": {},
                    }
            self.outputs.append(
                {
                    "stage": "extract",
                    "path": f"results/features/{dataset}/{backbone}/{split}.zarr",
                    "fingerprint": f"of-{backbone}",
                    "dataset": dataset,
                    "backbone": backbone,
                    "split": split,
                }
            )

    @property
    def rows(self) -> list[dict]:
        return [
            {**row, "path": row["path"].replace("results", str(self.folder), 1)}
            for row in self.outputs
        ]

    def record(self):
        """Record the plan, as a run does."""
        content = {"plan": "0" * 32, "results": "results"}
        about = fingerprint(content)
        (self.folder / "plans").mkdir(parents=True)
        data = encode_plan(about, {**content, "outputs": self.outputs})
        (self.folder / "plans" / f"{'0' * 32}.json").write_bytes(data)
        (self.folder / "plans" / "current").write_text("0" * 32)


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "results")


def random_floats(count: int, seed: int = 0) -> np.ndarray:
    """Finite numbers in single precision with random bits, and extremes."""
    bits = np.random.default_rng(seed).integers(0, 2**32, 2 * count, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)][:count]
    extremes = [0.0, -0.0, 1e-45, 1.1754942e-38, 3.4028235e38, 1.0, -2.0, 16777217.0, 0.1, 1 / 3]
    values[: len(extremes)] = np.array(extremes, np.float32)
    return values


def test_numbers_are_the_same_however_they_are_read():
    values = random_floats(200_000)
    (line,) = neuco_bench._texts(values[None])
    texts = line.split(",")
    assert np.array(texts, dtype=np.float64).astype(np.float32).tobytes() == values.tobytes()
    assert pa.array(texts).cast(pa.float32()).to_numpy().tobytes() == values.tobytes()

    def digits(text: str) -> str:
        return text.lower().partition("e")[0].replace(".", "").lstrip("-0").rstrip("0")

    # as few digits as tell a number from all others
    for text, value in zip(texts[:3000], values[:3000], strict=True):
        shortest = np.format_float_scientific(value, unique=True, trim="-")
        assert digits(text) == digits(shortest), (text, shortest)


def test_the_file_is_shaped_as_theirs_and_pandas_reads_the_same_numbers(made, tmp_path):
    values = random_floats(42 * 1024).reshape(42, 1024)
    made.add("d", "net", values)
    assert write_embeddings(made.rows, tmp_path) == [Written("net", 42, 1024)]
    path = tmp_path / "net.csv"
    head, *lines = path.read_text().splitlines()
    assert head == ",".join(["id", *map(str, range(1024))]) and len(lines) == 42
    frame = pd.read_csv(path)
    ids = [f"{split}/{row}.tif" for split, count in COUNTS.items() for row in range(count)]
    assert frame["id"].tolist() == ids
    found = frame.drop(columns="id").to_numpy(np.float64).astype(np.float32)
    assert np.array_equal(found, values)


def test_a_written_file_is_a_backbone_again(made, tmp_path):
    values = random_floats(42 * 9, seed=1).reshape(42, 9)
    made.add("d", "a net", values)
    write_embeddings(made.rows, tmp_path, stems=False)
    (path,) = tmp_path.glob("a-net-*.csv")
    options = TableOptions(by="id", id="id", embedding="*")
    assert TableEmbeddings(str(path), options, "x").read(range(42)).tobytes() == values.tobytes()


@pytest.mark.parametrize("together", [1, 20, 10**6])
def test_blocks_of_any_size_give_the_same_bytes(made, tmp_path, monkeypatch, together):
    made.add("d", "net", random_floats(42 * 6).reshape(42, 6))
    write_embeddings(made.rows, tmp_path)
    expected = (tmp_path / "net.csv").read_bytes()
    monkeypatch.setattr(neuco_bench, "_TOGETHER", together)
    monkeypatch.setattr("permafrost.probes.embeddings.features.BLOCK_BYTES", 100)
    write_embeddings(made.rows, tmp_path)
    assert (tmp_path / "net.csv").read_bytes() == expected


def test_dates_are_reduced_as_probes_do_by_default(made, tmp_path):
    series = np.random.default_rng(0).normal(size=(42, 3, 4)).astype(np.float32)
    pairs = np.random.default_rng(1).normal(size=(42, 2, 4)).astype(np.float32)
    made.add("d", "series", series, dates="series")
    made.add("d", "pair", pairs, dates="pair")
    found = {one.backbone: one.width for one in write_embeddings(made.rows, tmp_path)}
    assert found == {"series": 4, "pair": 12}
    counts = [1 + row % 3 for count in COUNTS.values() for row in range(count)]
    means = [one[:count].mean(axis=0) for one, count in zip(series, counts, strict=True)]
    read = pd.read_csv(tmp_path / "series.csv").drop(columns="id").to_numpy()
    np.testing.assert_allclose(read, means, rtol=1e-6, atol=1e-7)
    before, after = pairs[:, 0], pairs[:, 1]
    joined = np.concatenate([before, after, np.abs(after - before)], axis=1)
    read = pd.read_csv(tmp_path / "pair.csv").drop(columns="id").to_numpy()
    np.testing.assert_allclose(read, joined, rtol=1e-6)


def test_ids_are_quoted_where_a_csv_needs_it(made, tmp_path):
    made.add("d", "net", np.ones((42, 2), np.float32), name='{split}, "{row}"')
    write_embeddings(made.rows, tmp_path)
    assert pd.read_csv(tmp_path / "net.csv")["id"][0] == 'train, "0"'


def test_stems_or_whole_names(made, tmp_path):
    made.add("d", "net", np.ones((42, 2), np.float32), name="part-0/{split}-{row}.zarr.zip")
    write_embeddings(made.rows, tmp_path, stems=True)
    assert pd.read_csv(tmp_path / "net.csv")["id"].tolist()[:2] == ["train-0", "train-1"]
    other = Made(tmp_path / "other")
    other.add("d", "net", np.ones((42, 2), np.float32))
    write_embeddings(other.rows, tmp_path)
    problem = r"'train/0\.tif' and 'test/0\.tif' are both called '0'.*--ids name"
    with pytest.raises(PermafrostError, match=problem):
        write_embeddings(other.rows, tmp_path, stems=True)


def test_what_cannot_be_written_is_refused(made, tmp_path):
    ones = np.ones((42, 2), np.float32)
    made.add("d", "a", ones)
    made.add("d", "b", ones)
    assert [one.backbone for one in write_embeddings(made.rows, tmp_path)] == ["a", "b"]
    chosen = write_embeddings(made.rows, tmp_path, backbones=["b", "b"])
    assert [one.backbone for one in chosen] == ["b"]
    made.add("e", "a", ones)
    with pytest.raises(PermafrostError, match="the results have d, e.*--dataset"):
        write_embeddings(made.rows, tmp_path)
    with pytest.raises(PermafrostError, match="no dataset 'f'"):
        write_embeddings(made.rows, tmp_path, dataset="f")
    with pytest.raises(PermafrostError, match="e has no features of a backbone 'b'"):
        write_embeddings(made.rows, tmp_path, dataset="e", backbones=["b"])
    made.add("maps", "a", np.ones((42, 2), np.float32), array="maps")
    with pytest.raises(PermafrostError, match="a has maps and no embeddings"):
        write_embeddings(made.rows, tmp_path, dataset="maps")
    bad = ones.copy()
    bad[35, 1] = np.nan
    made.add("nan", "a", bad)
    with pytest.raises(PermafrostError, match=r"NaN or infinity \(first: row 5\)"):
        write_embeddings(made.rows, tmp_path, dataset="nan")
    with pytest.raises(PermafrostError, match="the results have none"):
        write_embeddings([], tmp_path)


def test_a_dataset_with_folds_names_the_one_that_it_is_derived_from(made, tmp_path):
    made.add("d", "net", np.ones((42, 2), np.float32))
    made.add("d-folds", "net", np.ones((42, 2), np.float32), folds_of="d")
    with pytest.raises(PermafrostError) as caught:
        write_embeddings(made.rows, tmp_path, dataset="d-folds")
    assert "the images of d-folds are in several folds" in str(caught.value)
    assert "derived from: --dataset d" in str(caught.value)


def said_by(capsys, *arguments) -> tuple[int, str]:
    status = cli.main(list(map(str, arguments)))
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_the_command_writes_a_folder_whole_or_not_at_all(made, tmp_path, capsys):
    made.add("d", "a", np.ones((42, 2), np.float32))
    made.add("d", "b", np.full((42, 3), np.nan, np.float32))
    made.record()
    export = ("export", made.folder, "--format", "neuco-bench")
    out = tmp_path / "out"
    status, said = said_by(capsys, *export, "--output", out)
    assert status == 1 and "NaN or infinity" in said
    assert sorted(one.name for one in tmp_path.iterdir()) == ["results"]
    status, said = said_by(capsys, *export, "--output", out, "--backbone", "a")
    assert status == 0 and "a: 42 samples of 2 numbers" in said
    assert [one.name for one in out.iterdir()] == ["a.csv"]
    # a leaderboard need not be there yet
    leaderboard = made.folder / "leaderboard.parquet"
    status, said = said_by(
        capsys, "export", leaderboard, *export[2:], "--output", out, "--backbone", "a"
    )
    assert status == 0
    for more, problem in (
        (("--backbone", "a"), "files are in a folder"),
        (("--output", out, "--probe", "knn"), "features have no probe and no group"),
        (("--output", out, "--group", "all"), "features have no probe and no group"),
        (("--output", out, "--bibtex", tmp_path / "b"), "--bibtex does not exist for neuco-bench"),
        (("--output", out, "--mark-tied"), "--mark-tied does not exist for neuco-bench"),
        (("--output", out, "--no-intervals"), "--no-intervals does not exist for neuco-bench"),
    ):
        status, said = said_by(capsys, *export, *more)
        assert status == 1 and problem in said
    for more in (("--backbone", "a"), ("--ids", "stem"), ("--hub", "a/b"), ("--first-party",)):
        status, said = said_by(capsys, "export", made.folder, "--format", "csv", *more)
        assert status == 1 and f"{more[0]} does not exist for csv" in said
