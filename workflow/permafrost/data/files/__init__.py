"""Image files: finding, decoding, and the location of their pixels."""
