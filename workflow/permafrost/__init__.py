"""Permafrost measures how good the features of frozen geospatial backbones are."""

__version__ = "0.1.0"
