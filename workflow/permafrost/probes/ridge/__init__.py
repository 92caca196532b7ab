"""Ridge regression of numbers on embeddings."""
