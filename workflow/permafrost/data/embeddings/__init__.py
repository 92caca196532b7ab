"""Embeddings that others computed, as rasters or tables, and which of them belong to an image."""
