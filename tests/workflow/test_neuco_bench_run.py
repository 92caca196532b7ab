"""Features of a run as files of NeuCo-Bench, and one of these files as a backbone of the same run."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.specification import SPLITS
from permafrost.interface.results import Results


@pytest.mark.slow
def test_a_written_file_is_a_backbone_with_the_same_features_and_predictions(project):
    said = project.permafrost(
        *("export", "--format", "neuco-bench", "--ids", "stem", "--output", "data/embeddings")
    )
    assert "2 files for NeuCo-Bench in data/embeddings" in said
    table = {"by": "stem", "id": "id", "embedding": "*"}
    again = {"kind": "embeddings", "path": "{data}/embeddings/tiny-network.csv", "table": table}
    extra = {**project.config["extra_backbones"], "again": again}
    project.configure(backbones=["imagestats", "tiny-network", "again"], extra_backbones=extra)
    pending = project.pending()
    assert pending["extract"] == 1 and "prepare" not in pending
    project.snakemake()
    results = Results(project.path("results"))
    for split in SPLITS:
        one, other = (
            results.features("tiny-landcover", name, split) for name in ("tiny-network", "again")
        )
        assert np.array_equal(one.x, other.x) and len(one.x)
    tables = [
        results.predictions("tiny-landcover", name, "knn") for name in ("tiny-network", "again")
    ]
    assert tables[0].equals(tables[1])
    # the file is part of the backbone's identity
    assert project.pending() == {}
    file = project.path("data/embeddings/tiny-network.csv")
    file.write_text(file.read_text().replace("\n", "\r\n"))
    assert project.pending()["extract"] == 1
