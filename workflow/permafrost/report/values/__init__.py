"""Rows of scores: selections of them, seeds as one line, and how numbers are written."""
