"""Weights: reading files without running code, finding and downloading published ones, converting pickles."""
