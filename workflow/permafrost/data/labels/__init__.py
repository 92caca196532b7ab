"""Labels (classes, numbers, masks and objects) and the splits."""
