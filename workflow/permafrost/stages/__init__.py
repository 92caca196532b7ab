"""The command line: one thin module per command, from arguments to output files."""
