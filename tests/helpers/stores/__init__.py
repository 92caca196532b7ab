"""Stores of images, maps and targets, as the stages leave them."""
