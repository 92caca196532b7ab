"""A first entry for somebody's own files: what they hold is looked at, what it means is asked. No job imports this."""
