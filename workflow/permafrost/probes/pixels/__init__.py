"""Probes of tasks with a number per pixel; no torch."""
