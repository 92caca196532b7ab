"""Data for the figures of one dataset: predictions, pictures and counts."""
