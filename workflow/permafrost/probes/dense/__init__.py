"""What probes of maps share: splits, batches, training of heads, and rows, pictures and rasters of answers."""
