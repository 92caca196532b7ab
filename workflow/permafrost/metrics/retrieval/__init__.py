"""Metrics of rankings of a gallery, one query at a time; numpy only."""
