"""Intervals and paired differences for evaluations of given files."""
