"""Segmentation on frozen maps: trained heads and nearest patches, test predictions out."""
