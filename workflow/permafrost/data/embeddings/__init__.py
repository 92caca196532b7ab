"""Embeddings computed elsewhere, as rasters or tables, and their assignment to images."""
