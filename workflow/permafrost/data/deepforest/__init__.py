"""Tables of objects in DeepForest's format: one row per box, polygon or point, with its image's name."""
