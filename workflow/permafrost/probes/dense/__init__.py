"""Shared by probes of maps: splits, batches, training of heads; rows, pictures and rasters of predictions."""
