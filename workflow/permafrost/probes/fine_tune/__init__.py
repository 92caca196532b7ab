"""Training a whole backbone with a head on it, from images, beside the same head on the frozen backbone."""
