"""What every room stands on: errors, identity, whole outputs, stores and tables."""
