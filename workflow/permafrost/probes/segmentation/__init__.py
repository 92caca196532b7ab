"""Segmentation on frozen maps: trained heads, test predictions out."""
