"""A whole run with embeddings that some images lack: no backbone sees these images."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from permafrost.core.specification import SPLITS
from permafrost.core.stores import Store


def _named(project, backbone: str, split: str) -> list[str]:
    store = Store(project.path(f"results/features/tiny-landcover/{backbone}/{split}.zarr"))
    return store.samples()["sample_id"].to_pylist()


@pytest.mark.slow
def test_all_backbones_are_compared_on_the_images_that_have_an_embedding(project):
    names = {split: _named(project, "imagestats", split) for split in SPLITS}
    gone = [names["train"][4], names["test"][0], names["test"][7]]
    left = sorted({name for one in names.values() for name in one} - set(gone))
    values = np.random.default_rng(0).normal(size=(len(left), 4)).tolist()
    project.path("data").mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": left, "e": values}), project.path("data/rows.parquet"))
    rows = {
        "kind": "embeddings",
        "path": "{data}/rows.parquet",
        "table": {"by": "id", "id": "id", "embedding": "e"},
    }
    project.configure(
        backbones=["imagestats", "rows"],
        extra_backbones={"rows": rows},
        probes={"knn": {"kind": "knn"}},
    )
    done = project.snakemake("features", check=False)
    assert done.returncode != 0 and "3 of 120 images have no embedding" in done.stdout + done.stderr
    rows["unmatched"] = "drop"
    project.configure(extra_backbones={"rows": rows})
    project.snakemake()
    for split in SPLITS:
        expected = [name for name in names[split] if name not in gone]
        assert _named(project, "imagestats", split) == _named(project, "rows", split) == expected
    page = project.report_text()
    assert "left out for all backbones, without an embedding" in page
    assert "1 of train, 2 of test (rows)" in page
    assert project.pending() == {}
