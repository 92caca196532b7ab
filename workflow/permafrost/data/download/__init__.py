"""Download the files of a dataset: verified, complete, and resumed after a lost connection. No job imports this."""
