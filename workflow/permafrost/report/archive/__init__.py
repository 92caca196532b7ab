"""The archive of a run: written, described, and restored."""
