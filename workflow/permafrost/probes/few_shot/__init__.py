"""Probes on small draws of the training images."""
