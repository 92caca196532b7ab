"""Image files: where they are, how they are decoded, where their pixels are on the ground."""
