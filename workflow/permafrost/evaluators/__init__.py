"""Evaluation of files from outside the pipeline: detections, crowns, panoptic maps, rasters."""
