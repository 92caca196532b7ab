"""Resamples of units, and the intervals and p-values that follow from them."""
