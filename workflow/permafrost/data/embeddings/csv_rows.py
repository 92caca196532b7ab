"""Tables of embeddings in CSV, one row per line. Only the places of the lines are in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from permafrost.core.errors import PermafrostError

#: ending of the files
ENDING = ".csv"
# bytes of the longest line: some millions of numbers
_LONGEST = 1 << 26
_BLOCK = 1 << 20


class CsvRows:
    """A CSV with a header, separated by commas (UTF-8).

    Attributes
    ----------
    schema : names of the columns, all as text.

    Raises
    ------
    ValueError : no header, two columns of one name, or an endless line; other damage raises errors
        of various types.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._longest = file, 0
        with open(file, "rb", buffering=_BLOCK) as stream:
            self._head = self._line(stream)
            starts, start = [], stream.tell()
            while line := self._line(stream):
                if line.strip():
                    starts.append(start)
                start += len(line)
        self._starts = np.array(starts, np.int64)
        names = next(csv.reader([self._head.decode("utf-8-sig")], strict=True), [])
        if not names:
            raise ValueError("it has no header")
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        self.schema = pa.schema([(name, pa.string()) for name in names])

    def keys(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Some columns of all rows, read block by block.

        Parameters
        ----------
        types : column -> its type. A text is never missing: an empty cell is an empty text.
        """
        with pa_csv.open_csv(self._file, **self._options(types)) as reader:
            found = reader.read_all().select(list(types))
        if len(found) != len(self._starts):
            raise ValueError("cells have line ends, or lines end in more than one way")
        return found

    def read(self, rows: Sequence[int], columns: list[str]) -> np.ndarray:
        """(n, K) float32: these columns of these rows.

        Raises
        ------
        PermafrostError : a cell has no finite number.
        """
        with open(self._file, "rb") as stream:
            lines = []
            for start in self._starts[np.asarray(rows, int)]:
                stream.seek(start)
                lines.append(self._line(stream).rstrip(b"\r\n"))
        text = b"\n".join([self._head.rstrip(b"\r\n"), *lines, b""])
        options = self._options(dict.fromkeys(columns, pa.float32()))
        table = pa_csv.read_csv(io.BytesIO(text), **options)
        found = np.empty((len(lines), len(columns)), np.float32)
        for place, name in enumerate(columns):
            # a missing number becomes NaN
            found[:, place] = table[name].to_numpy()
        bad = np.argwhere(~np.isfinite(found))
        if len(bad):
            row, place = bad[0]
            raise PermafrostError(
                f"{len(bad)} numbers of the embeddings are missing or not finite, first in row"
                f" {rows[row] + 1} below the header, column {columns[place]!r}",
                where=self._file,
                remedy="correct the file, or leave out its row; some readers (NeuCo-Bench) count NaN as 0",
            )
        return found

    def _line(self, stream) -> bytes:
        line = stream.readline(_LONGEST + 1)
        if len(line) > _LONGEST:
            raise ValueError(f"a line has more than {_LONGEST:,} bytes")
        self._longest = max(self._longest, len(line))
        return line

    def _options(self, types: Mapping[str, pa.DataType]) -> dict:
        # a block holds whole lines; one thread, so that a job has the threads that it asked for
        block = max(_BLOCK, 2 * self._longest)
        return {
            "read_options": pa_csv.ReadOptions(use_threads=False, block_size=block),
            "convert_options": pa_csv.ConvertOptions(
                column_types=types, include_columns=list(types)
            ),
        }
