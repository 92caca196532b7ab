"""Texts of the page and the terminal on costs, feature metrics, warnings and missing results."""
