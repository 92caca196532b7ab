"""Input of a backbone: matching its requirements with a dataset's bands, units and dates."""
