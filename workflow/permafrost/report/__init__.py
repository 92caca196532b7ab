"""What is shown and kept: the leaderboard, the figures, the page and the archive."""
