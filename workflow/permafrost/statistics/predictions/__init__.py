"""Tables of predictions read as what statistics ask of them, a reader per task."""
