"""Intervals and paired differences for evaluations of files from outside the pipeline."""
