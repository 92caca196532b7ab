"""OlmoEarth: its bands and its models."""
