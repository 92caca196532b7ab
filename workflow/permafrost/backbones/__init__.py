"""Frozen backbones: building them, preparing their input, and reading their output."""
