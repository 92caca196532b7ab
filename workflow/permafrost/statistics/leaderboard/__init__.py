"""The leaderboard: scores with their ranks, seeds merged into lines, and published results next to it."""
