"""Shared by the probes of embeddings: features in, tables of predictions out."""
