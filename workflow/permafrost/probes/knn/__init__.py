"""Nearest neighbours of embeddings."""
