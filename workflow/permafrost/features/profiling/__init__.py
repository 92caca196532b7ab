"""Costs of a backbone: size, FLOPs, and time, memory and energy on this machine."""
