"""Getting the files of a dataset: whole, checked, resumed where a connection broke off. No job imports this."""
