"""Segmentation by trained heads on frozen maps."""
