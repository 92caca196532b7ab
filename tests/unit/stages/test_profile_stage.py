"""The command that profiles a backbone: what it reads, and what its identity rests on."""

from __future__ import annotations

import json
import shutil

from helpers.backbones import validated
from helpers.stages.profiling import card_in, spec_of, toy
from permafrost.core.tables import read_table
from permafrost.plan.sources import code_hash
from permafrost.stages.cli import main


def test_where_the_data_lie_is_no_part_of_what_was_profiled(tmp_path):
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    toy(folders[0])
    shutil.copy(folders[0] / "toy.py", folders[1])
    card = card_in(tmp_path)
    entry = validated({"kind": "entrypoint", "entrypoint": "{data}/toy.py:build"})
    spec = json.dumps(spec_of(entry, most_seconds=1))
    found = []
    for folder in folders:
        output = folder / "profile.parquet"
        main(
            [
                "profile",
                "--spec",
                spec,
                "--code",
                code_hash("profile", json.loads(spec)),
                "--data",
                str(folder),
                "--card",
                str(card),
                "--output",
                str(output),
                "--device",
                "cpu",
            ]
        )
        found.append(set(read_table(output)[0].column("backbone_fingerprint").to_pylist()))
    assert found[0] == found[1] and len(found[0]) == 1
