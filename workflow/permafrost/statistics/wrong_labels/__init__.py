"""Suspected wrong labels of a test set, and how difficult its images are, from the answers of several backbones."""
