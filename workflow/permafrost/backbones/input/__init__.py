"""What a backbone is fed: its contract met with a dataset's bands, units and dates."""
