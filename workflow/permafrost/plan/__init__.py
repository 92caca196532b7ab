"""From configuration to jobs: what is run, and the fingerprint of every result."""
