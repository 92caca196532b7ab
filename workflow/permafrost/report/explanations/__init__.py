"""What the page and the terminal say of costs, measures, gates, and of what is missing."""
