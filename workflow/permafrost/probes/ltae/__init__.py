"""Temporal attention over the features of all dates of a series."""
