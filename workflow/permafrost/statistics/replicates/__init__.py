"""Every metric of a task on all resamples at once, from counts per unit."""
