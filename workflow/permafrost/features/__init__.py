"""Running a backbone over image stores, and the feature stores that result."""
