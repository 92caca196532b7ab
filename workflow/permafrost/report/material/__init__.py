"""What figures are drawn from: predictions, pictures and counts of one dataset."""
