"""Presentation of results: leaderboard, figures, page and archive."""
