"""Derived datasets: the images of others, divided anew."""
