"""What the probes of embeddings share: features in, tables of predictions out."""
