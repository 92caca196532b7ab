"""Frozen backbones: building them, what they want to be fed, and what their outputs mean."""
