"""Leaderboard and standings, as files and as text."""
