"""Metrics: they turn predictions into scores. Training and intervals are in other packages."""
