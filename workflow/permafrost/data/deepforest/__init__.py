"""Objects in DeepForest's tables: a line per box, polygon or point, with the name of its image."""
