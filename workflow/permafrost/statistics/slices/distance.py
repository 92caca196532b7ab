"""How far test images are from the images that were trained on."""

from __future__ import annotations

import numpy as np

from permafrost.core.stores import Store
from permafrost.data.labels.splits import distances_km
from permafrost.data.records import Record

#: array of a store with folds (`core.rows_store`, which only jobs that read rows of others depend on)
FOLDS = "folds"
#: column of the distance in kilometres
DISTANCE = "distance_km"


def distances_to_train(test: Store, train: Store) -> np.ndarray:
    """(N,) kilometres from each test sample to the nearest train sample, of folds to that of its own fold.

    NaN where a place is not known.
    """
    found = np.full(len(test), np.nan)
    both = [_records(store) for store in (test, train)]
    inside = [
        store.read(FOLDS).astype(bool) if FOLDS in store else np.ones((len(store), 1), bool)
        for store in (test, train)
    ]
    known = [
        np.array([one.lon is not None and one.lat is not None for one in each]) for each in both
    ]
    for fold in range(inside[0].shape[1]):
        rows, others = (np.flatnonzero(i[:, fold] & k) for i, k in zip(inside, known, strict=True))
        if len(rows) and len(others):
            records = [*(both[1][row] for row in others), *(both[0][row] for row in rows)]
            found[rows] = distances_km(records, np.arange(len(others)), test.path)[len(others) :]
    return found


def _records(store: Store) -> list[Record]:
    samples = store.samples(["sample_id", "lon", "lat"])
    if not {"lon", "lat"} <= {*samples.column_names}:
        return [Record("")] * len(store)
    columns = (samples[name].to_pylist() for name in ("sample_id", "lon", "lat"))
    return [Record(name, lon=lon, lat=lat) for name, lon, lat in zip(*columns, strict=True)]
