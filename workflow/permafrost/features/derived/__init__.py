"""Features of derived backbones: read through the stores of others, by steps that were learned once."""
