"""Random truth and predictions, and metrics worked out the slow way."""
