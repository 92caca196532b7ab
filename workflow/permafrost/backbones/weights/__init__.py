"""Weights: read files without running code, find or download published ones, convert pickles."""
