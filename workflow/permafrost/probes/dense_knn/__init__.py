"""Nearest neighbours of the patches of maps."""
