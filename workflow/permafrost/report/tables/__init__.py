"""Leaderboard and overall ranking, as files and as text."""
