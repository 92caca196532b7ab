"""Image stores: preparing, writing, joining, auditing and reading them, and the card of a dataset."""
