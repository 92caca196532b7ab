"""Readers of tables of predictions, one per task."""
