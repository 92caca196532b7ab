"""The command line: one thin module per rule, arguments in, a file out."""
