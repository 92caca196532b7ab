"""Predictions in, numbers out: what is measured, without how it was predicted or how certain it is."""
