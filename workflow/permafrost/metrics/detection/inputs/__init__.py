"""Ground truth and predictions as checked columns."""
