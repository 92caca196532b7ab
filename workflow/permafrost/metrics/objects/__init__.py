"""Metrics of objects: which detections find which truths, and what follows for points and shapes."""
