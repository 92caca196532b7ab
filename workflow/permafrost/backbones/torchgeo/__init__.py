"""The image models of torchgeo."""
