"""Check every byte of a results folder against what was recorded when it was written."""
