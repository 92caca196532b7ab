"""Probes: features in, predictions out."""
