"""A commons of results: submissions that a program accepts by computing every score again, and their site."""
