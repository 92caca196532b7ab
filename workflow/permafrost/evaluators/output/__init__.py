"""What the evaluators print and write."""
