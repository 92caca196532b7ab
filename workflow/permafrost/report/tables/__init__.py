"""The leaderboard and its summary, as files and as text."""
