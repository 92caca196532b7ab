"""Write, describe and restore the archive of a run."""
