"""Outputs of a backbone: one vector per image, and feature maps of its layers."""
