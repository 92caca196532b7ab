"""Image stores: preparing, writing, joining, auditing and reading them, and the dataset card."""
