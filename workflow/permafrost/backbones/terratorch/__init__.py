"""The models of TerraTorch, which needs a separate environment."""
