"""Scores on parts of a test set: which part is worse than the rest, and how far parts differ."""
