"""Simulations that prove statistical claims; `python -m benchmarks.simulations` runs them and writes their tables.

A module of this package has

* ``TITLE``: what its table shows, one line;
* ``DOCUMENT``: the page of the documentation that shows the table, relative to the repository;
* ``FULL`` and ``SMALL``: numbers of draws, of the documentation and of the tests (below 10 seconds);
* ``table(draws, seed)``: the table in Markdown.

Modules whose names begin with an underscore are helpers of others.
"""

from __future__ import annotations

import os

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # many small products: threads cost more than they save
