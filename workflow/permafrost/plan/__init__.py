"""From configuration to jobs: what is to be run, and the identity of every result."""
