"""Galileo: its bands and its model."""
