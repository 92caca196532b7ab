"""Evaluation of files that the pipeline did not make: detections, crowns, panoptic maps, rasters."""
