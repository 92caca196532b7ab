"""Resamples of units, and intervals and p-values from them."""
