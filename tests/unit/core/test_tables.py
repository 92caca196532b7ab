from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from permafrost.core import parquet_files, tables
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_metadata, read_table, write_table

ROWS = pa.table({"sample_id": [f"s{i}" for i in range(500)], "value": [i / 7 for i in range(500)]})
METADATA = {"fingerprint": "plan-a", "settings": {"best_c": 0.1}, "gates": []}


@pytest.fixture(params=["read at once", "read in parts"])
def path(request, tmp_path, monkeypatch):
    if request.param == "read in parts":
        monkeypatch.setattr(tables, "_CHUNK", 1000)
    write_table(tmp_path / "scores.parquet", ROWS, METADATA)
    return tmp_path / "scores.parquet"


def test_rows_and_metadata_are_read_back(path):
    table, metadata = read_table(path, expect="plan-a")
    assert table.replace_schema_metadata(None).equals(ROWS)
    assert {**metadata, "versions": None} == {**METADATA, "versions": None}
    assert metadata["versions"]["pyarrow"]
    assert read_metadata(path, expect="plan-a") == metadata


def test_a_table_is_opened_once(path, monkeypatch):
    opened, plain = [], pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda name: opened.append(name) or plain(name))
    monkeypatch.setattr("builtins.open", None)
    for read in (read_table, read_metadata):
        read(path, expect="plan-a")
    assert opened == [str(path)] * 2


def test_a_table_of_a_stranger_may_not_take_far_more_memory_than_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_ANY", 50_000)
    monkeypatch.setattr(parquet_files, "_TIMES", 20)
    path = tmp_path / "scores.parquet"
    write_table(path, pa.table({"value": [0] * 20_000, "name": ["x"] * 20_000}), METADATA)
    with pytest.raises(PermafrostError, match=r"scores.parquet.* would take more than 0 MB"):
        read_table(path)
    # one of the plan is that of a run, which may have many equal cells
    assert len(read_table(path, expect="plan-a")[0]) == 20_000
    assert len(read_table(path, columns=["name"])[0]) == 20_000


def test_chosen_columns_are_read_alone(path):
    assert read_table(path, columns=["value"])[0].column_names == ["value"]


def test_a_column_that_the_table_lacks_is_named(path):
    with pytest.raises(PermafrostError, match="no column lower, upper"):
        read_table(path, columns=["value", "upper", "lower"])


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path):
    write_table(tmp_path / "seed=0" / "scores.parquet", ROWS, METADATA)
    table, _ = read_table(tmp_path / "seed=0" / "scores.parquet")
    assert table.column_names == ["sample_id", "value"]


def test_the_same_rows_give_the_same_bytes(path, tmp_path):
    write_table(tmp_path / "again.parquet", ROWS, dict(reversed(METADATA.items())))
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_a_table_without_rows_is_a_table(tmp_path):
    write_table(tmp_path / "empty.parquet", ROWS.slice(0, 0), METADATA)
    assert read_table(tmp_path / "empty.parquet")[0].num_rows == 0


def test_metadata_of_the_schema_is_kept_beside_ours(tmp_path):
    write_table(tmp_path / "t.parquet", ROWS.replace_schema_metadata({"unit": "m"}), METADATA)
    table, metadata = read_table(tmp_path / "t.parquet")
    assert table.schema.metadata[b"unit"] == b"m"
    assert {**metadata, "versions": None} == {**METADATA, "versions": None}
    assert metadata["versions"]["pyarrow"]


def test_a_table_cannot_be_written_without_a_fingerprint(tmp_path):
    with pytest.raises(TypeError, match="fingerprint"):
        write_table(tmp_path / "t.parquet", ROWS, {"gates": []})
    assert os.listdir(tmp_path) == []


def test_metadata_that_is_no_number_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(PermafrostError, match="nan"):
        write_table(tmp_path / "t.parquet", ROWS, {**METADATA, "loss": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_table_of_another_plan_is_refused(path):
    for read in (read_table, read_metadata):
        with pytest.raises(PermafrostError, match="made from another plan") as caught:
            read(path, expect="plan-b")
        assert caught.value.where == str(path)
        assert "permafrost stale --delete" in caught.value.remedy


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(PermafrostError, match="does not exist") as caught:
        read_table(tmp_path / "scores.parquet")
    assert caught.value.where == str(tmp_path / "scores.parquet")


def test_a_foreign_parquet_file_is_refused(tmp_path):
    pq.write_table(ROWS, tmp_path / "foreign.parquet")
    with pytest.raises(PermafrostError, match="not a table of this pipeline"):
        read_table(tmp_path / "foreign.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"sample_id,value\ns0,1\n" * 10])
def test_a_file_that_is_no_parquet_is_refused(tmp_path, content):
    (tmp_path / "scores.parquet").write_bytes(content)
    with pytest.raises(PermafrostError, match="damaged or not a parquet file"):
        read_table(tmp_path / "scores.parquet")


@pytest.mark.parametrize("length", [0.2, 0.5, 0.99])
def test_a_truncated_table_is_refused(path, length):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * length)])
    with pytest.raises(PermafrostError, match="damaged"):
        read_table(path)


def test_a_flipped_byte_among_the_rows_is_never_read_as_a_number(path):
    content = path.read_bytes()
    data = pq.ParquetFile(path).metadata.row_group(0).column(1)
    start = data.dictionary_page_offset or data.data_page_offset
    for position in range(start, start + data.total_compressed_size, 97):
        damaged = bytearray(content)
        damaged[position] ^= 0x04
        path.write_bytes(damaged)
        with pytest.raises(PermafrostError, match="damaged"):
            read_table(path)


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        OverflowError("too large"),
        KeyError("x"),
    ],
)
def test_any_error_of_the_parser_is_a_damaged_table(path, monkeypatch, error):
    def damaged(*_, **__):
        raise error

    monkeypatch.setattr(tables.pq, "ParquetFile", damaged)
    for read in (read_table, read_metadata, lambda p: list(tables.iter_column(p, "x", 1))):
        with pytest.raises(PermafrostError, match="damaged or not a parquet file"):
            read(path)


def test_a_name_of_a_column_that_is_no_text_is_refused(path):
    """pyarrow decodes names when the schema is asked for."""
    content = path.read_bytes()
    for name in (b"value", b"name"):
        if name in content:
            path.write_bytes(content.replace(name, b"\xff" * len(name)))
            with pytest.raises(PermafrostError, match="damaged"):
                read_table(path)


def test_damaged_metadata_is_refused(tmp_path):
    table = ROWS.replace_schema_metadata({b"permafrost": b'{"gates"'})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(PermafrostError, match="damaged"):
        read_metadata(tmp_path / "t.parquet")


def edited(path, how: str) -> None:
    """The table with one number changed, its schema's metadata kept, as a person would do it."""
    table = pq.read_table(path, partitioning=None)
    if how == "value":
        table = table.set_column(1, "value", pa.array([9.0, *table["value"].to_pylist()[1:]]))
    elif how == "names":
        table = table.rename_columns(["value", "sample_id"])
        table = table.replace_schema_metadata(pq.read_schema(path).metadata)
    elif how == "rows":
        table = table.slice(1)
    else:
        table = table.replace_schema_metadata(
            {**table.schema.metadata, b"permafrost": table.schema.metadata[b"permafrost"] + b" "}
        )
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


@pytest.mark.parametrize("how", ["value", "names", "rows", "metadata"])
def test_a_table_that_was_edited_by_hand_is_refused(path, how):
    edited(path, how)
    for read in (read_table, read_metadata):
        with pytest.raises(PermafrostError, match="altered since it was written") as caught:
            read(path, expect="plan-a")
        assert caught.value.where == str(path)


def test_an_edited_table_does_not_pass_with_the_digest_of_the_old_one(path):
    digest = pq.read_metadata(path).metadata[b"permafrost.sha256"]
    edited(path, "value")
    content = path.read_bytes()
    assert content.count(b"permafrost.sha256\x18\x40" + b"0" * 64) == 1
    path.write_bytes(content.replace(b"\x18\x40" + b"0" * 64, b"\x18\x40" + digest))
    with pytest.raises(PermafrostError, match="altered since it was written"):
        read_table(path)


def test_other_programs_read_a_sealed_table(path):
    assert pq.read_table(path).replace_schema_metadata(None).equals(ROWS)


def test_every_flipped_byte_of_a_table_is_noticed(path):
    content = path.read_bytes()
    for position in range(4, len(content), 41):
        damaged = bytearray(content)
        damaged[position] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(PermafrostError, match="damaged|not a table of this pipeline"):
            read_table(path)
