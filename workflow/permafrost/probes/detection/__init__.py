"""Detection of boxes and points by a trained head on frozen maps."""
