"""Printed text and written files of the evaluators."""
