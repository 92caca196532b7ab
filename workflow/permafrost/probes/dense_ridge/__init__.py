"""Ridge regression of numbers per pixel from the patches of maps; no torch."""
