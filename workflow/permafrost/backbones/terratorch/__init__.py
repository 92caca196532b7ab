"""The models of TerraTorch, which lives in an environment of its own."""
