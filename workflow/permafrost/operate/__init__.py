"""Work with a plan and a run: list entries, estimate, follow progress, handle failures."""
