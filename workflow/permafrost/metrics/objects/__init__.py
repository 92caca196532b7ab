"""Metrics of objects: matching of detections and truths, for points, boxes and polygons."""
